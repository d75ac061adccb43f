// The states of a pipeline: a word, and a shape beside it, so that no colour is needed to tell them apart.
import { h } from "./dom.js";

const SHAPES = { stuck: "■", failing: "✕", unknown: "?", "catching up": "▲", paused: "‖", current: "●" };
export const STATES = Object.keys(SHAPES);

export const badge = (state) =>
  h("span", { class: `state ${state.replace(" ", "-")}` }, h("span", { "aria-hidden": "true" }, SHAPES[state]), state);
