// The states of a pipeline: a word, and a shape beside it, so that no colour is needed to tell them apart.
import { h } from "./dom.js";

const SHAPES = { stuck: "■", failing: "✕", unknown: "?", looking: "…", "catching up": "▲", paused: "‖", current: "●" };
export const STATES = Object.keys(SHAPES);

/** A row with the state that is shown of it: while a first look is under way, nothing is known and nothing is wrong. */
export const showState = (row) => (row.looking && row.state === "unknown" ? { ...row, state: "looking" } : row);

export const badge = (state) =>
  h("span", { class: `state ${state.replace(" ", "-")}` }, h("span", { "aria-hidden": "true" }, SHAPES[state]), state);
