// A subscription that is tried while it is typed, and an event that is explained.

import { ask } from "./service.js";
import { at, count, element, show, table } from "./elements.js";

const PAUSE = 300; // milliseconds without a key before what was typed is checked
let pending;
let asked;

function wrong(error) {
  const { position, expected, found, hint } = error.details || {};
  const text = at("try-text").value;
  const lines = [element("p", error.message, "bad")];
  if (position && position.start !== undefined) {
    const start = text.lastIndexOf("\n", position.start - 1) + 1;
    const end = text.indexOf("\n", position.start);
    const line = text.slice(start, end < 0 ? undefined : end);
    const length = Math.max(1, (position.end ?? position.start + 1) - position.start);
    lines.push(element("pre", `${line}\n${" ".repeat(position.start - start)}${"^".repeat(length)}`));
  }
  const more = [expected && `expected: ${expected}`, found && `found: ${found}`, hint].filter(Boolean);
  if (more.length) lines.push(element("p", more.join(" · ")));
  return lines;
}

async function check() {
  const text = at("try-text").value.trim();
  at("try-subscribe").disabled = true;
  asked?.abort();
  if (!text) return show(at("try-answer"));
  asked = new AbortController();
  try {
    const found = await ask("v1/check", { subscription: text }, { signal: asked.signal });
    at("try-subscribe").disabled = false;
    const tried = found.tried === undefined ? "" : `, tried on ${count(found.tried)} events of the last minute`;
    const many = found.matched === undefined ? "" : `, ${count(found.matched)} match`;
    show(
      at("try-answer"),
      element("p", `a ${found.kind}${tried}${many}`, "good"),
      ...(found.warnings || []).map((warning) => element("p", warning, "warn")),
      (found.matches || []).length
        ? table("Events that match", [["position", (e) => e.position, "number"], ["event", (e) => JSON.stringify(e.record), "text"]], found.matches.slice(0, 5), "")
        : null,
    );
  } catch (error) {
    if (error.name !== "AbortError") show(at("try-answer"), ...wrong(error));
  }
}

async function subscribe(event) {
  event.preventDefault();
  const subscriber = at("try-subscriber").value.trim() || "dashboard";
  try {
    const made = await ask("v1/subscriptions", { subscriber, subscription: at("try-text").value });
    const curl = `curl -N -H "Authorization: Bearer ${made.ticket}" "${new URL(made.feed, location.href)}?offset=${made.offset}&live=sse"`;
    show(at("try-answer"), element("p", `Subscription ${made.id} of ${subscriber}. Its ticket is shown this once; with it the feed is read:`, "good"), element("pre", curl));
    at("why-subscription").value = made.id;
  } catch (error) {
    show(at("try-answer"), ...wrong(error));
  }
}

async function explain(event) {
  event.preventDefault();
  const place = at("why-answer");
  const body = {};
  try {
    if (at("why-event").value.trim()) body.event = JSON.parse(at("why-event").value);
    else body.position = Number(at("why-position").value);
  } catch (error) {
    return show(place, element("p", `The event is no JSON: ${error.message}`, "bad"));
  }
  try {
    const found = await ask(`v1/subscriptions/${encodeURIComponent(at("why-subscription").value.trim())}/explain`, body);
    const marks = { true: "✓ holds", false: "✗ fails", null: "? is unknown" };
    const seen = (values) => Object.entries(values).map(([name, value]) => `${name} is ${JSON.stringify(value)}`).join(", ");
    show(
      place,
      element("p", found.matched ? "It matches." : found.lease_ended ? "Its lease has ended." : "It doesn't match.", found.matched ? "good" : "bad"),
      element("pre", found.filter),
      table("Conditions", [["condition", (one) => one.predicate, "text"], ["", (one) => marks[one.truth]], ["in the event", (one) => seen(one.values), "text"]], found.predicates, ""),
    );
  } catch (error) {
    show(place, element("p", error.message, "bad"));
  }
}

export function beginTrying() {
  at("try-text").addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(check, PAUSE);
  });
  at("try-form").addEventListener("submit", subscribe);
  at("why-form").addEventListener("submit", explain);
}

export function askWhy(position) {
  at("why-position").value = position;
  at("why-event").value = "";
  at(at("why-subscription").value ? "why-position" : "why-subscription").focus();
}
