// Two plots of the last minutes, which follow the width and the colours of the page.

import { at } from "./elements.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const time = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

function options(width, series, unit) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  return {
    width,
    height: 190,
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((t) => (t % 60 ? time(t).slice(5) : time(t).slice(0, 5))) },
      { ...axis, size: 64, values: (_, ticks) => ticks.map((t) => t.toLocaleString("en")) },
    ],
    series: [
      { label: "at", value: (_, t) => (t === null ? "–" : time(t)) },
      ...series.map(([label, variable]) => ({
        label,
        stroke: colour(variable),
        width: 2,
        spanGaps: true, // Spark tells something every few seconds, which would be dots
        points: { show: false },
        value: (_, v) => (v === null || v === undefined ? "–" : v.toLocaleString("en", { maximumFractionDigits: 1 }) + unit),
      })),
    ],
  };
}

export class Plot {
  constructor(id, series, unit) {
    this.place = at(id);
    this.series = series;
    this.unit = unit;
    this.data = [[], ...series.map(() => [])];
    this.draw();
    new ResizeObserver(() => this.plot.setSize({ width: this.place.clientWidth, height: 190 })).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  draw() {
    this.place.replaceChildren();
    this.plot = new uPlot(options(this.place.clientWidth || 400, this.series, this.unit), this.data, this.place);
  }

  set(columns) {
    this.data = columns;
    this.plot.setData(columns);
  }
}
