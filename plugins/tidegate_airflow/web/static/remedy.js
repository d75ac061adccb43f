// What helps a pipeline that stands still: a run of its DAG of actions shows what would be done, another one does just that.
import { finished, link, result, runPath, trigger } from "./airflow.js";
import { h } from "./dom.js";

const TASK = "act";

/**
 * What makes buttons for one pipeline's actions: `button(label, title, asked, fields)`. `asked` are parameters of the DAG;
 * `fields` are the parameters that a person fills in: {name, label, value, hint, needed}. Null where the role, or the DAG, permits none.
 */
export function remedies(dag, may, again) {
  if (!dag || !may) return () => null;
  return (label, title, asked, fields = []) =>
    h("button", { type: "button", class: "small", "data-key": `act-${label}-${asked.at ?? asked.table ?? asked.offsets ?? ""}`, disabled: dag.paused, title: dag.paused ? `The DAG ${dag.dag_id} is paused: unpause it first` : title,
      click: () => open(dag.dag_id, { label, title, asked, fields }, again) }, `${label} …`);
}

function open(dag, { label, title, asked, fields }, again) {
  const inputs = fields.map((one) => [one, h("input", { name: one.name, value: one.value ?? "", required: one.needed, autocomplete: "off" })]);
  const report = h("div", { class: "report", role: "status", "aria-live": "polite" });
  const close = h("button", { type: "button", click: () => dialog.close() }, "Close");
  const go = h("button", { type: "submit", class: "primary" }, "Preview");
  const form = h("form", {}, h("h2", { id: "act-title" }, label), h("p", {}, title),
    inputs.map(([one, input]) => h("label", { class: "field" }, one.label, input, one.hint ? h("span", { class: "quiet" }, one.hint) : null)),
    report, h("div", { class: "actions" }, close, go));
  const dialog = h("dialog", { class: "wide", "aria-labelledby": "act-title" }, form);
  let shown = null;

  const words = () => ({ ...asked, ...Object.fromEntries(inputs.filter(([, input]) => input.value.trim()).map(([one, input]) => [one.name, input.value.trim()])) });
  const tell = (...what) => report.replaceChildren(...what);
  const busy = (is) => { go.disabled = is; for (const [, input] of inputs) input.disabled = is || shown !== null; };

  async function preview() {
    const { run, state } = await follow(dag, { ...words(), preview: true }, "Looking what it would do", tell);
    const found = await result(run, TASK, "preview").catch(() => null);
    if (state !== "success" || !found) return tell(...await failure(run));
    tell(h("pre", { tabindex: "0", "aria-label": "Preview" }, found.text), found.digest ? h("p", { class: "quiet" }, "Nothing was changed so far.") : h("p", { class: "quiet" }, "There is nothing to do."));
    if (!found.digest) return go.remove();
    shown = found;
    go.textContent = label;
  }

  async function perform() {
    const { run, state } = await follow(dag, { ...words(), ...shown.pins, preview: false, previewed: shown.digest }, "At work", tell);
    if (state !== "success") return tell(...await failure(run));
    const done = await result(run, TASK).catch(() => null);
    tell(h("p", {}, h("strong", {}, done ? `Done: ${done.done}` : "There was nothing to do any more."), " ", where(run)));
    go.remove();
    again();
  }

  async function step() {
    busy(true);
    try {
      await (shown ? perform() : preview());
    } catch (problem) {
      tell(h("p", { class: "trouble" }, `Not done: ${problem.message}`));
    }
    busy(false);
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); step(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  if (!fields.length) step();
}

async function follow(dag, words, doing, tell) {
  const run = await trigger(dag, words);
  const state = await finished(run, (now) => tell(h("p", { class: "quiet" }, `${doing}: ${now} … `, where(run))));
  return { run, state };
}

async function failure(run) {
  const reason = await result(run, TASK, "error").catch(() => null);
  return [h("p", { class: "trouble" }, "Not done: ", h("span", { class: "message" }, reason?.message ?? "the log says why")), h("p", {}, where(run))];
}

const where = (run) => link(runPath({ dag_id: run.dag_id, run_id: run.dag_run_id }), "the run");
