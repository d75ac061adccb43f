// In a narrow window a row shows what is most wanted, and a button unfolds the rest; which rows are unfolded outlasts a reading.
import { h } from "./dom.js";

const unfolded = new Set();

/** The class of a row that is unfolded; null of another. */
export const foldClass = (key) => (unfolded.has(key) ? "open" : null);

export const unfoldButton = (key) =>
  h("button", { type: "button", class: "small unfold", "data-key": `u-${key}`, "aria-expanded": String(unfolded.has(key)), click: (event) => unfold(key, event.currentTarget) }, word(key));

const word = (key) => (unfolded.has(key) ? "Less" : "More");

function unfold(key, button) {
  if (!unfolded.delete(key)) unfolded.add(key);
  button.closest("tr").classList.toggle("open", unfolded.has(key));
  button.setAttribute("aria-expanded", String(unfolded.has(key)));
  button.textContent = word(key);
}
