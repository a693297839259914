// The network of brokers as a picture of its tree, and a table of its links.

import { ask } from "./service.js";
import { at, bytes, count, element, show, table } from "./elements.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDE = 190; // of a broker's place
const HIGH = 120; // of a level
const BOX = { width: 150, height: 52 };
const MARGIN = 16;
const THICKEST = 7; // of a link's line

function drawn(name, attributes, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Brokers by name: those that answered, and those that others only speak of.
function gather(statuses) {
  const brokers = new Map();
  for (const status of statuses) brokers.set(status.name, { name: status.name, status, parent: status.broker.parent, children: [] });
  for (const status of statuses) {
    const spoken = [...status.broker.lost, ...status.broker.neighbours.flatMap((one) => [one.name, ...one.reach])];
    for (const name of spoken) if (!brokers.has(name)) brokers.set(name, { name, parent: null, children: [] });
  }
  for (const status of statuses) {
    for (const link of status.broker.neighbours) {
      const other = brokers.get(link.name);
      if (!link.is_parent && !other.status) other.parent = status.name;
    }
  }
  for (const broker of brokers.values()) {
    const parent = brokers.get(broker.parent);
    if (parent && parent !== broker) parent.children.push(broker);
    else broker.parent = null;
  }
  return [...brokers.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

// Each broker's column and level: leaves side by side, parents over the middle of their children.
function lay(roots) {
  let next = 0;
  const place = (broker, level) => {
    broker.level = level;
    for (const child of broker.children) place(child, level + 1);
    const [first, last] = [broker.children[0], broker.children.at(-1)];
    broker.column = first ? (first.column + last.column) / 2 : next++;
  };
  for (const root of roots) place(root, 0);
  return next;
}

const middle = (broker) => [MARGIN + broker.column * WIDE + WIDE / 2, MARGIN + broker.level * HIGH + BOX.height / 2];

// What a broker says of its link to another.
const linkOf = (broker, name) => broker.status?.broker.neighbours.find((one) => one.name === name);

function line(broker, parent) {
  const up = linkOf(broker, parent.name);
  const down = linkOf(parent, broker.name);
  const events = (up?.events_in ?? down?.events_out ?? 0) + (up?.events_out ?? down?.events_in ?? 0);
  const [x1, y1] = middle(parent);
  const [x2, y2] = middle(broker);
  const isUp = (up ?? down)?.is_up;
  const width = Math.min(THICKEST, 1.5 + Math.log10(1 + events));
  const group = drawn("g", {});
  group.append(drawn("line", { x1, y1, x2, y2, "stroke-width": width, class: isUp ? "link" : "link down" }));
  const told = `${count(down?.subscriptions_out ?? up?.subscriptions_in)} ↓ ${count(up?.subscriptions_out ?? down?.subscriptions_in)} ↑`;
  const words = drawn("text", { x: (x1 + x2) / 2 + 8, y: (y1 + y2) / 2 + 4, class: "told" }, told);
  words.append(drawn("title", {}, "subscriptions that are told over this link, down and up the tree"));
  group.append(words);
  return group;
}

function box(broker, own) {
  const [x, y] = middle(broker);
  const kind = !broker.status ? "broker away" : broker.name === own ? "broker own" : "broker";
  const group = drawn("g", { class: kind, transform: `translate(${x - BOX.width / 2} ${y - BOX.height / 2})` });
  group.append(drawn("rect", { ...BOX, rx: 8 }));
  group.append(drawn("text", { x: BOX.width / 2, y: 21, class: "name" }, broker.name));
  const clients = broker.status?.clients;
  const said = clients ? `${count(clients.subscriptions)} subs · ${count(clients.advertisements)} adverts` : "doesn't answer";
  group.append(drawn("text", { x: BOX.width / 2, y: 40, class: "said" }, said));
  return group;
}

function picture(brokers, own) {
  const roots = brokers.filter((one) => !one.parent);
  const columns = lay(roots);
  const levels = 1 + Math.max(...brokers.map((one) => one.level));
  const width = 2 * MARGIN + columns * WIDE;
  const height = 2 * MARGIN + (levels - 1) * HIGH + BOX.height;
  const made = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "network" });
  made.append(drawn("title", {}, `${brokers.length} brokers: ${brokers.map((one) => one.name).join(", ")}`));
  const byName = new Map(brokers.map((one) => [one.name, one]));
  for (const broker of brokers) if (broker.parent) made.append(line(broker, byName.get(broker.parent)));
  for (const broker of brokers) made.append(box(broker, own));
  const scroll = element("div", made, "scroll picture");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "The tree of brokers");
  return scroll;
}

function links(statuses) {
  const rows = statuses.flatMap((status) =>
    status.broker.neighbours.map((link) => ({ from: status.name, ...link, bytes: status.links[link.name]?.bytes_out })),
  );
  return table(
    "Links of the network",
    [
      ["broker", (one) => one.from],
      ["neighbour", (one) => `${one.name}${one.is_parent ? " (parent)" : ""}${one.is_up ? "" : ", down"}`],
      ["brokers behind it", (one) => count(one.reach.length), "number"],
      ["subscriptions from it", (one) => count(one.subscriptions_in), "number"],
      ["told to it", (one) => count(one.subscriptions_out), "number"],
      ["covered", (one) => count(one.covered), "number"],
      ["mergers", (one) => count(one.mergers), "number"],
      ["advertisements from it", (one) => count(one.advertisements_in), "number"],
      ["events from it", (one) => count(one.events_in), "number"],
      ["in vain", (one) => count(one.in_vain), "number"],
      ["events to it", (one) => count(one.events_out), "number"],
      ["payload hits", (one) => count(one.payload_hits), "number"],
      ["sent", (one) => bytes(one.bytes), "number"],
    ],
    rows,
    "No broker has a neighbour.",
  );
}

// Fill the section, if the service has a network; it stays hidden if it hasn't.
export async function showNetwork() {
  const { client, brokers: statuses } = await ask("v1/network");
  at("network").hidden = !client;
  at("network-link").hidden = !client;
  if (!client) return;
  const said = client.problem
    ? element("p", client.problem, "warn")
    : element("p", `This service is ${client.name} at ${client.broker}: ${count(client.sent)} events sent, ${count(client.arrived)} arrived, ${count(client.waiting)} wait to be sent.`);
  const refused = client.refusals.map((one) => element("p", `not told to the network: ${one}`, "warn"));
  if (!statuses.length) {
    show(at("network-tree"), said, ...refused, element("p", "The broker doesn't answer.", "none"));
    return;
  }
  const lost = [...new Set(statuses.flatMap((one) => one.broker.lost))];
  const missing = lost.length ? element("p", `lost: ${lost.join(", ")}`, "bad") : null;
  show(at("network-tree"), said, ...refused, missing, picture(gather(statuses), client.broker), links(statuses));
}
