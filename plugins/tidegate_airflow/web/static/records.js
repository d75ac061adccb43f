// The last records of a partition, as they lie in the log, beside what the pipeline makes of them.
import { read } from "./airflow.js";
import { ask } from "./action_buttons.js";
import { h, quiet, table } from "./dom.js";
import { moment, number } from "./format.js";
import { indentJson } from "./json_text.js";
import { pausedLine, whilePaused } from "./paused.js";

const STEP = 10; // offsets of a view before the place that it is asked for

/** The button of a partition; null where the role may start no action. */
export function recordsButton(name, { topic, partition }, dag, may) {
  if (!dag || !may) return null;
  return h("button", { type: "button", class: "small", "data-key": `records-${topic}-${partition}`, "aria-label": `Records of ${topic}, partition ${partition}`, click: () => openRecords(name, topic, partition, dag) }, "Records …");
}

/** The dialog; it begins with the records around an offset, or with the last ones. */
export function openRecords(name, topic, partition, dag, offset = null) {
  const last = `${topic}:${partition}`;
  let around = offset === null ? last : `${last}:${offset}`;
  let records = [];
  let begin = 0; // the offsets that are shown: behind a gap none may have a record
  let end = 0;
  const place = h("div", {});
  const report = h("div", { class: "report", role: "status", "aria-live": "polite" });
  const button = (text, click) => h("button", { type: "button", click }, text);
  const go = (where) => async () => { around = where(); await show(); };
  const older = button("Older", go(() => `${last}:${Math.max(0, begin - STEP)}`));
  const newer = button("Newer", go(() => `${last}:${end + STEP}`));
  const newest = button("Newest", go(() => last));
  const decode = h("button", { type: "button", class: "primary", ...whilePaused(dag), click: () => judge() }, "What becomes of them");
  const dialog = h("dialog", { class: "wide records", "aria-labelledby": "records-title" }, h("h2", { id: "records-title" }, `Records of ${topic}, partition ${partition}`),
    quiet("At most 20 at once, as they lie in the log. What becomes of them is asked of the decoder; nothing is changed."),
    place, report, pausedLine(dag), h("div", { class: "actions" }, button("Close", () => dialog.close()), older, newer, newest, decode));

  async function show() {
    for (const one of [older, newer, newest, decode]) one.disabled = true;
    report.replaceChildren();
    try {
      ({ records, begin, end } = await read(`pipelines/${encodeURIComponent(name)}/records?around=${encodeURIComponent(around)}`));
      draw(new Map());
    } catch (problem) {
      report.replaceChildren(h("p", { class: "trouble" }, problem.message));
    }
    newest.disabled = false;
    for (const one of [older, newer]) one.disabled = false;
    decode.disabled = dag.paused || !records.length;
  }

  function draw(fates) {
    const shown = records.map((record) => ({ ...record, fates: fates.get(`${topic}:${partition}:${record.offset}`) ?? [] })).reverse();
    place.replaceChildren(shown.length ? table("Records", COLUMNS, shown) : quiet(`No record lies in [${number(begin)}, ${number(end)}).`));
  }

  async function judge() {
    decode.disabled = true;
    try {
      const lines = await ask(dag.dag_id, { action: "look", around: `${last}:${begin + STEP}` }, "Decoding", (...what) => report.replaceChildren(...what));
      if (lines) {
        draw(sortLines(lines));
        report.replaceChildren();
      }
    } catch (problem) {
      report.replaceChildren(h("p", { class: "trouble" }, `Not done: ${problem.message}`));
    }
    decode.disabled = false;
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  show();
}

/** `topic:partition:offset table fate` → by place, what stands behind it. */
function sortLines(lines) {
  const fates = new Map();
  for (const line of lines) {
    const [, place, fate] = /^(\S+:\d+:\d+) (.*)$/.exec(line) ?? [];
    if (place) fates.set(place, [...(fates.get(place) ?? []), fate]);
  }
  return fates;
}

function layOut(text) {
  try {
    return indentJson(text);
  } catch {
    return text;
  }
}

const part = (record, name) => {
  if (record[name] === null && `${name}_hex` in record) return h("code", { class: "message" }, `hex ${record[`${name}_hex`]}`);
  return record[name] === null ? h("span", { class: "quiet" }, "none") : h("pre", {}, layOut(record[name]));
};

const fate = (text) => {
  const [, name, words] = /^(\S+) (.*)$/.exec(text) ?? [null, "", text];
  return h("div", { class: words.startsWith("bad") ? "reason" : null }, h("strong", {}, words), h("div", { class: "quiet" }, name));
};

const COLUMNS = [
  { title: "Offset", head: true, number: true, cell: (one) => number(one.offset) },
  { title: "Time", cell: (one) => moment(one.timestamp) },
  { title: "Key", cell: (one) => part(one, "key") },
  { title: "Value", cell: (one) => part(one, "value") },
  { title: "Becomes", cell: (one) => (one.fates.length ? one.fates.map(fate) : h("span", { class: "quiet" }, "not asked")) },
];
