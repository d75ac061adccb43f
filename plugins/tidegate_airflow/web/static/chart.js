// Two small charts over the batches of a pipeline; the same numbers stand in the table below them.
import { h } from "./dom.js";
import { compact, span } from "./format.js";

const HEIGHT = 150;
// between ticks, so that no two have the same label
const STEPS = {
  seconds: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000],
  rows: Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(),
};
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = [];

/** A figure with lines over time. `series`: {label, values, color: css variable}. `times` in seconds, ascending. */
export function chart(title, times, series, unit) {
  const place = h("div", { class: "chart", role: "img", "aria-label": `${title}: ${summary(series, unit)}` });
  const figure = h("figure", {}, h("figcaption", {}, title), place);
  const words = unit === "seconds" ? span : compact;
  const draw = () => {
    place.replaceChildren();
    if (!place.clientWidth) return;
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options = {
      width: place.clientWidth, height: HEIGHT, cursor: { drag: { x: false, y: false } }, legend: { live: true },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [{ ...axis, space: 80, values: (_, ticks) => distinct(ticks.map((tick) => clock(tick, times))) }, { ...axis, size: 62, incrs: STEPS[unit], values: (_, ticks) => distinct(ticks.map(words)) }],
      series: [{ label: "published", value: (_, value) => (value === null ? "none" : clock(value, times)) }, ...series.map((one) => ({
        label: one.label, stroke: color(one.color), width: 1.5, points: { size: 4, fill: color(one.color) },
        value: (_, value) => (value === null ? "unknown" : words(value)),
      }))],
      hooks: { setCursor: [showNewest] },
    };
    showNewest(new uPlot(options, [times, ...series.map((one) => one.values)], place));
  };
  drawn.push([place, draw]);
  requestAnimationFrame(draw);
  return figure;
}

// Where the pointer is on no batch, the legend has the newest one's numbers.
function showNewest(plot) {
  if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

/** The labels, empty where one is that of the tick before. */
export const distinct = (labels) => labels.map((label, at) => (label === labels[at - 1] ? "" : label));

// seconds where all lies within minutes, days where it lies within more than one
function clock(seconds, times) {
  const range = times.at(-1) - times[0];
  const parts = range > 20 * 3600 ? { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", ...(range < 600 ? { second: "2-digit" } : {}) };
  return new Date(seconds * 1000).toLocaleString("sv-SE", parts);
}

function summary(series, unit) {
  const words = unit === "seconds" ? span : compact;
  return series.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    return known.length ? `${label} last ${words(known.at(-1))}, at most ${words(Math.max(...known))}` : `${label} unknown`;
  }).join("; ");
}

function again() {
  for (let at = drawn.length - 1; at >= 0; at -= 1) {
    if (drawn[at][0].isConnected) drawn[at][1]();
    else drawn.splice(at, 1);
  }
}
window.addEventListener("themechange", again);
let width = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; again(); } });
