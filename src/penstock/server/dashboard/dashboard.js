// The page: figures every second, tables every few, all from what the service answers.

import { Problem, ask, keepKey } from "./service.js";
import { at, bytes, clock, count, element, milliseconds, rate, show, table } from "./elements.js";
import { Plot } from "./plots.js";
import { askWhy, beginTrying } from "./trying.js";

const EVERY = 1000; // milliseconds between two looks at the figures
const TABLES = 3; // looks between two looks at the tables
const PAGE = 25; // subscriptions on a page

const STATES = { running: "good", starting: "warn", restarting: "warn", stopping: "warn", failed: "bad" };

let rates;
let latency;
let looks = 0;
let after = []; // ids at which the pages of subscriptions before this one began

function tiles(status) {
  const figures = [
    ["events a second", rate(status.rates.published)],
    ["notifications a second", rate(status.rates.notifications)],
    ["latency, half are faster", milliseconds(status.latency_ms.p50)],
    ["latency, 1 in 100 is slower", milliseconds(status.latency_ms.p99)],
    ["subscriptions", count(status.subscriptions.count)],
    ["waiting to be matched", count(status.inbox.waiting)],
    ["readers connected", count(status.feeds.readers)],
    ["dead letters", count(status.totals.dead_letters)],
  ];
  show(
    at("tiles"),
    ...figures.map(([name, value]) => {
      const tile = element("dl", undefined, "tile");
      tile.append(element("dt", name), element("dd", value));
      return tile;
    }),
  );
}

function header(status) {
  const { state } = status.matching;
  at("state").textContent = state;
  at("state").className = `pill ${STATES[state] || "warn"}`;
  const hours = (Date.now() - new Date(status.started)) / 3.6e6;
  const up = hours < 1 ? `${Math.round(hours * 60)} minutes` : `${hours.toFixed(1)} hours`;
  at("about").textContent = `version ${status.version}, matching: ${status.match}, up for ${up}`;
}

function plots(status) {
  const columns = (names) => [status.history.map((one) => one.at), ...names.map((name) => status.history.map((one) => one[name]))];
  rates.set(columns(["published", "notifications"]));
  latency.set(columns(["p50", "p99"]));
}

function matching(status) {
  const kinds = Object.entries(status.matching.kinds || {}).map(([kind, one]) => ({ kind, ...one }));
  const rows = table(
    "Matching by kind",
    [
      ["kind", (one) => one.kind],
      ["micro-batch", (one) => count(one.batch), "number"],
      ["published", (one) => count(one.published), "number"],
      ["notifications", (one) => count(one.notifications), "number"],
      ["dead letters", (one) => count(one.dead_letters), "number"],
      ["snapshot", (one) => count(one.snapshot), "number"],
      ["p50", (one) => milliseconds(one.latency_ms?.p50), "number"],
      ["p99", (one) => milliseconds(one.latency_ms?.p99), "number"],
    ],
    kinds,
    "Nothing has been matched yet.",
  );
  const detail = status.matching.detail ? element("p", status.matching.detail, STATES[status.matching.state]) : null;
  const restarts = status.matching.restarts ? element("p", `started again ${count(status.matching.restarts)} times`, "warn") : null;
  const aside = (status.matching.refused || []).map((line) => element("p", `set aside: ${line}`, "warn"));
  show(at("matching-table"), detail, restarts, rows, ...aside);
}

function feeds(status) {
  const { tail, rows, bytes: size, oldest, readers, slowest } = status.feeds;
  const about = `${count(rows)} rows, ${bytes(size)}, the oldest of ${clock(oldest)}; the next offset is ${tail}; ${count(readers)} readers`;
  const lag = table(
    "Readers that are behind",
    [["subscription", (one) => one.subscription, "number"], ["behind", (one) => count(one.behind), "number"]],
    slowest || [],
    "Every connected reader has all that it is sent.",
  );
  show(at("feeds-table"), element("p", about), lag);
}

function whyButton(position) {
  const button = element("button", position);
  button.type = "button";
  button.title = "explain this event";
  button.addEventListener("click", () => askWhy(position));
  return button;
}

async function notifications() {
  const found = await ask("v1/notifications/recent?limit=15");
  const told = (one) => JSON.stringify(one.event ?? one.message ?? one.document);
  show(
    at("notifications-table"),
    table(
      "Newest notifications",
      [["subscription", (one) => one.subscriptions ?? one.subscription, "number"], ["kind", (one) => one.kind], ["told", told, "text"]],
      found.notifications,
      "Nobody has been notified yet: publish an event, or try a subscription.",
    ),
  );
}

async function events() {
  const found = await ask("v1/events/recent?limit=15");
  show(
    at("events-table"),
    table(
      "Newest events",
      [["position", (one) => whyButton(one.position)], ["event", (one) => JSON.stringify(one.event), "text"]],
      found.events,
      "Nothing has been published yet.",
    ),
  );
}

async function deadLetters() {
  const found = await ask("v1/dead-letters?limit=15");
  show(
    at("dead-letters-table"),
    table("Dead letters", [["reason", (one) => one.reason, "text"], ["record", (one) => one.record, "text"]], found.dead_letters, "None: everything could be read."),
  );
}

async function subscriptions() {
  const asked = new URLSearchParams({ limit: PAGE });
  const search = at("subscriptions-search").value.trim();
  const kind = at("subscriptions-kind").value;
  if (search) asked.set("search", search);
  if (kind) asked.set("kind", kind);
  if (after.length) asked.set("after", after.at(-1));
  const found = await ask(`v1/subscriptions?${asked}`);
  show(
    at("subscriptions-table"),
    table(
      "Subscriptions",
      [
        ["id", (one) => one.id, "number"],
        ["subscriber", (one) => one.subscriber],
        ["kind", (one) => one.kind],
        ["subscription", (one) => one.subscription, "text"],
        ["matches a second", (one) => rate(one.matches_per_second), "number"],
        ["cost", (one) => count(one.cost), "number"],
        ["until", (one) => (one.expires ? one.expires.slice(0, 16).replace("T", " ") : "for ever")],
      ],
      found.subscriptions,
      search || kind ? "None like that." : "None yet: try one above.",
    ),
  );
  at("subscriptions-back").disabled = !after.length;
  at("subscriptions-on").disabled = !found.next;
  at("subscriptions-on").dataset.next = found.next ?? "";
}

function trouble(error) {
  const place = at("trouble");
  place.hidden = !error;
  if (!error) return;
  if (error instanceof Problem && (error.status === 401 || error.status === 403)) {
    at("key-form").hidden = false;
    place.textContent = "This service has keys: give one with the scope admin to see its figures.";
  } else if (error instanceof Problem) place.textContent = error.message;
  else {
    place.textContent = "The service doesn't answer. The figures below are the last that it gave.";
    at("state").textContent = "not reached";
    at("state").className = "pill bad";
  }
}

async function look() {
  if (document.hidden) return;
  try {
    const status = await ask("v1/status");
    header(status);
    tiles(status);
    plots(status);
    matching(status);
    feeds(status);
    if (looks % TABLES === 0) await Promise.all([notifications(), events(), deadLetters(), subscriptions()]);
    looks += 1;
    trouble();
  } catch (error) {
    trouble(error);
  }
}

function again() {
  after = [];
  subscriptions().catch(trouble);
}

function begin() {
  rates = new Plot("plot-rates", [["events", "--accent"], ["notifications", "--second"]], "");
  latency = new Plot("plot-latency", [["half are faster", "--accent"], ["1 in 100 is slower", "--second"]], " ms");
  beginTrying();
  at("subscriptions-search").addEventListener("input", again);
  at("subscriptions-kind").addEventListener("change", again);
  at("subscriptions-form").addEventListener("submit", (event) => event.preventDefault());
  at("subscriptions-back").addEventListener("click", () => { after.pop(); subscriptions().catch(trouble); });
  at("subscriptions-on").addEventListener("click", (event) => { after.push(event.target.dataset.next); subscriptions().catch(trouble); });
  at("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    keepKey(at("key").value);
    at("key-form").hidden = true;
    look();
  });
  const rounds = async () => { await look(); setTimeout(rounds, EVERY); };
  rounds();
}

begin();
