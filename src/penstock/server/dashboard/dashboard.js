// The page: figures every second, tables every few, all from what the service answers.

import { Problem, ask, keepKey } from "./service.js";
import { at, bytes, clock, count, element, milliseconds, rate, show, table } from "./elements.js";
import { showNetwork } from "./network.js";
import { Plot } from "./plots.js";
import { askWhy, beginTrying } from "./trying.js";

const EVERY = 1000; // milliseconds between two looks at the figures
const TABLES = 3; // looks between two looks at the tables
const PAGE = 25; // subscriptions on a page

const BIN = 2; // seconds that a point of the plots stands for
const SPAN = 300; // seconds that the plots show
const PHASES = { running: "good", starting: "warn", restarting: "warn", failed: "bad", stopped: "bad" };

let rates;
let latency;
let looks = 0;
let after = []; // ids at which the pages of subscriptions before this one began

const sum = (kinds, name) => Object.values(kinds).reduce((all, one) => all + (one[name] ?? 0), 0);

// Points of so many seconds each, the newest last: what was counted in them, a second.
function history(batches) {
  const now = Math.floor(Date.now() / 1000 / BIN) * BIN;
  const points = [];
  for (let at = now - SPAN; at < now; at += BIN) points.push({ at, published: 0, notifications: 0, p50: null, p99: null });
  for (const batch of batches) {
    const place = Math.floor((new Date(batch.started) / 1000 - (now - SPAN)) / BIN);
    const point = points[place];
    if (!point) continue;
    point.published += (batch.published ?? 0) / BIN;
    point.notifications += (batch.notifications ?? 0) / BIN;
    if (batch.published) {
      point.p50 = Math.max(point.p50 ?? 0, batch.latency_ms?.p50 ?? 0);
      point.p99 = Math.max(point.p99 ?? 0, batch.latency_ms?.p99 ?? 0);
    }
  }
  return points;
}

function recent(points, name) {
  const last = points.slice(-5);
  return last.reduce((all, one) => all + one[name], 0) / last.length;
}

function tiles(status, points) {
  const last = points.findLast((one) => one.p50 !== null) || {};
  const { totals } = status.matching;
  const figures = [
    ["published a second", rate(recent(points, "published"))],
    ["notifications a second", rate(recent(points, "notifications"))],
    ["latency, half are faster", milliseconds(last.p50)],
    ["latency, 1 in 100 is slower", milliseconds(last.p99)],
    ["subscriptions", count(status.subscriptions.live)],
    ["waiting to be matched", bytes(status.inbox.waiting_bytes)],
    ["published since the start", count(sum(totals, "published"))],
    ["dead letters", count(sum(totals, "dead_letters"))],
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
  const { phase, side, reason } = status.matching;
  at("state").textContent = phase;
  at("state").className = `pill ${PHASES[phase] || "warn"}`;
  const by = side === "live" ? "by the live matcher" : "on Spark";
  at("about").textContent = `matched ${by}, position ${count(status.inbox.last)}${reason ? `: ${reason}` : ""}`;
}

function plots(points) {
  const columns = (names) => [points.map((one) => one.at), ...names.map((name) => points.map((one) => one[name]))];
  rates.set(columns(["published", "notifications"]));
  latency.set(columns(["p50", "p99"]));
}

function matching(status) {
  const { totals, latest, phase, reason, restarts } = status.matching;
  const kinds = Object.keys(totals).map((kind) => ({ kind, ...totals[kind], last: latest[kind] || {} }));
  const rows = table(
    "Matching by kind",
    [
      ["kind", (one) => one.kind],
      ["micro-batches", (one) => count(one.batches), "number"],
      ["published", (one) => count(one.published), "number"],
      ["notifications", (one) => count(one.notifications), "number"],
      ["dead letters", (one) => count(one.dead_letters), "number"],
      ["snapshot", (one) => count(one.last.snapshot), "number"],
      ["set aside", (one) => count(one.last.refused), "number"],
      ["p50", (one) => milliseconds(one.last.latency_ms?.p50), "number"],
      ["p99", (one) => milliseconds(one.last.latency_ms?.p99), "number"],
    ],
    kinds,
    "Nothing has been matched yet.",
  );
  const again = restarts ? element("p", `started again ${count(restarts)} times`, "warn") : null;
  const why = reason ? element("p", reason, PHASES[phase]) : null;
  const aside = Object.values(latest).flatMap((one) => one.refusals || []);
  show(at("matching-table"), why, again, rows, ...aside.map((line) => element("p", `set aside: ${line}`, "warn")));
}

function feeds(status) {
  const { tail, rows, notifications, stored } = status.feeds;
  const { sent, ...modes } = status.readers;
  const readers = Object.entries(modes).filter(([, many]) => many).map(([mode, many]) => `${count(many)} by ${mode}`);
  const facts = [
    ["notifications that are kept", count(notifications)],
    ["in rows", count(rows)],
    ["on disk", bytes(stored)],
    ["next offset", String(tail).padStart(16, "0")],
    ["sent to readers", count(sent)],
    ["readers connected", readers.join(", ") || "none"],
  ];
  show(at("feeds-table"), table("Feeds", [["what", (one) => one[0]], ["how many", (one) => one[1], "number"]], facts, ""));
}

function whyButton(position) {
  const button = element("button", position, "link");
  button.type = "button";
  button.title = "explain this event";
  button.addEventListener("click", () => askWhy(position));
  return button;
}

async function notifications() {
  const found = await ask("v1/notifications/recent?limit=15");
  const told = ({ told: { event, message, document } }) => JSON.stringify(event ?? message ?? document);
  show(
    at("notifications-table"),
    table(
      "Newest notifications",
      [["offset", (one) => one.offset, "number"], ["kind", (one) => one.kind], ["told", told, "text"]],
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
      [["position", (one) => whyButton(one.position)], ["log", (one) => one.log], ["record", (one) => JSON.stringify(one.record), "text"]],
      found.events,
      "Nothing has been published yet.",
    ),
  );
}

async function deadLetters() {
  const found = await ask("v1/dead-letters?limit=15");
  show(
    at("dead-letters-table"),
    table("Dead letters", [["reason", (one) => one.reason, "text"], ["record", (one) => one.raw, "text"]], found.dead_letters, "None: everything could be read."),
  );
}

async function subscriptions() {
  const asked = new URLSearchParams({ limit: PAGE, figures: true });
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
        ["notifications in the last minute", (one) => count(one.notified), "number"],
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
    place.textContent = "The service doesn't answer. The figures are the last that it gave.";
    at("state").textContent = "not reached";
    at("state").className = "pill bad";
  }
}

async function look() {
  if (document.hidden) return;
  try {
    const status = await ask("v1/status");
    const points = history(status.batches);
    header(status);
    tiles(status, points);
    plots(points);
    matching(status);
    feeds(status);
    if (looks % TABLES === 0) await Promise.all([notifications(), events(), deadLetters(), subscriptions(), showNetwork()]);
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
