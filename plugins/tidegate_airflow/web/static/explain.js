// Why a table has the row of a key, or has none: asked of a run that changes nothing; the records themselves are read from the log.
import { ask } from "./action_buttons.js";
import { h, quiet } from "./dom.js";
import { whilePaused } from "./paused.js";
import { openRecords } from "./records.js";

const PLACE = /^ {2}(\S+):(\d+):(\d+) /; // of a record's line

/** The button of a table; null where the role may start no action. */
export function explainButton(name, table, dag, may) {
  if (!dag || !may) return null;
  return h("div", {}, h("button", { type: "button", class: "small", "data-key": `explain-${table}`, "aria-label": `Explain a row of ${table}`, ...whilePaused(dag),
    click: () => open(name, table, dag) }, "Explain a row …"));
}

function open(name, table, dag) {
  const key = h("input", { name: "key", required: true, autocomplete: "off" });
  const answer = h("div", {});
  const report = h("div", { class: "report", role: "status", "aria-live": "polite" });
  const go = h("button", { type: "submit", class: "primary" }, "Explain");
  const form = h("form", {}, h("h2", { id: "explain-title" }, `Explain a row of ${table}`),
    quiet("The log is read for the records of this key; nothing is changed. Airflow keeps the key and the answer; values of rows and records are in neither."),
    h("label", { class: "field" }, "Key", key, h("span", { class: "quiet" }, 'a JSON object with the key\'s columns, like {"id": 7, "part": "a"}; of one column the value will do')),
    answer, report, h("div", { class: "actions" }, h("button", { type: "button", click: () => dialog.close() }, "Close"), go));
  const dialog = h("dialog", { class: "wide explain", "aria-labelledby": "explain-title" }, form);

  async function explain() {
    for (const one of [go, key]) one.disabled = true;
    answer.replaceChildren();
    try {
      const lines = await ask(dag.dag_id, { action: "explain", key: key.value.trim(), table }, "Reading the log", (...what) => report.replaceChildren(...what));
      if (lines) {
        answer.replaceChildren(h("ul", { class: "answer", "aria-label": "Explanation" }, lines.map((line) => h("li", { class: `deep-${/^ */.exec(line)[0].length / 2}` }, line.trimStart(), records(line)))));
        report.replaceChildren();
      }
    } catch (problem) {
      report.replaceChildren(h("p", { class: "trouble" }, `Not done: ${problem.message}`));
    }
    for (const one of [go, key]) one.disabled = false;
  }

  /** The button that shows the record of a line among its neighbours, with key and value. */
  function records(line) {
    const [, topic, partition, offset] = PLACE.exec(line) ?? [];
    return topic && h("button", { type: "button", class: "small", "aria-label": `Record ${topic}:${partition}:${offset}`, click: () => openRecords(name, topic, partition, dag, Number(offset)) }, "Show …");
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); explain(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
