// Two small charts over the batches of a pipeline; the same numbers stand in the table below them.
import { h } from "./dom.js";
import { compact, span } from "./format.js";

const HEIGHT = 150;
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
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => clock(tick, times)) }, { ...axis, size: 62, values: (_, ticks) => ticks.map(words) }],
      series: [{ label: "published", value: (_, value) => (value === null ? "–" : clock(value, times)) }, ...series.map((one) => ({
        label: one.label, stroke: color(one.color), width: 1.5, points: { size: 4, fill: color(one.color) },
        value: (_, value) => (value === null ? "–" : words(value)),
      }))],
    };
    new uPlot(options, [times, ...series.map((one) => one.values)], place);
  };
  drawn.push([place, draw]);
  requestAnimationFrame(draw);
  return figure;
}

// hours where all lies within a day or so, else days
function clock(seconds, times) {
  const days = times.at(-1) - times[0] > 36 * 3600;
  const parts = days ? { month: "2-digit", day: "2-digit", hour: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
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
