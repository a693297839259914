// Elements and tables, made of data. Nothing that the service says is ever read as HTML.

export const at = (id) => document.getElementById(id);

export function element(name, content, className) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content instanceof Node) made.append(content);
  else if (content !== undefined && content !== null) made.textContent = String(content);
  return made;
}

export function show(place, ...content) {
  place.replaceChildren(...content.filter(Boolean));
}

// columns: [title, value of a row, class]
export function table(caption, columns, rows, none) {
  if (!rows.length) return element("p", none, "none");
  const made = element("table");
  made.setAttribute("aria-label", caption);
  const head = element("tr");
  for (const [title, , className] of columns) {
    const cell = element("th", title, className === "number" ? className : undefined);
    cell.scope = "col";
    head.append(cell);
  }
  made.append(element("thead", head));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    for (const [, value, className] of columns) line.append(element("td", value(row), className));
    body.append(line);
  }
  made.append(body);
  const scroll = element("div", made, "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  return scroll;
}

export const count = (number) => (number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en"));

export function rate(number) {
  if (number === null || number === undefined) return "–";
  return number < 10 ? number.toFixed(1) : count(number);
}

export function milliseconds(number) {
  if (number === null || number === undefined) return "–";
  return number < 1000 ? `${number.toFixed(number < 10 ? 1 : 0)} ms` : `${(number / 1000).toFixed(1)} s`;
}

export function clock(time) {
  if (!time) return "–";
  return new Date(time).toLocaleTimeString("en-GB");
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}
