// What helps a pipeline that stands still: a run of its DAG of actions shows what would be done, another one does just that.
import { finished, link, result, runPath, trigger } from "./airflow.js";
import { commandsIn, h } from "./dom.js";
import { plural } from "./format.js";
import { whilePaused } from "./paused.js";

// What a run of the DAG of actions is given, and where its answers are.
const ACTION = {
  task: "act",
  ask: (words, shown) => (shown ? { ...words, ...shown.pins, preview: false, previewed: shown.digest } : { ...words, preview: true }),
  preview: (run) => result(run, "act", "preview"),
  done: (run) => result(run, "act").then((found) => `Done: ${found.done}`, (problem) => (problem.status === 404 ? "There was nothing to do any more." : "The run has succeeded.")),
};

// The same of the DAG of backfills, whose dry run is its preview.
const BACKFILL = {
  task: "plan",
  ask: ({ ranges, ...words }, shown) => ({ ...words, ...(ranges ? { ranges: JSON.parse(ranges) } : {}), dry_run: !shown }),
  preview: async (run) => {
    const tables = await result(run, "plan", "tables").catch((problem) => { if (problem.status === 404) return []; throw problem; });
    const lines = tables.map((one) => `${one.table}: applies ${plural(one.records, "offset", "offsets")} in ${plural(one.batches, "batch", "batches")}, ${JSON.stringify(one.ranges)}\n  reads ${plural(one.later, "later offset", "later offsets")} too: rows of keys that changed later stay`);
    return { text: lines.join("\n") || "No offset is in this range.", digest: tables.length ? "dry run" : null };
  },
  done: async () => "Done: the range was applied",
};

/**
 * What makes buttons for one pipeline's actions: `button(label, title, asked, fields)`. `asked` are parameters of the DAG;
 * `fields` are the parameters that a person fills in: {name, label, value, hint, needed}. Null where the role, or the DAG, permits none.
 */
export function remedies(dag, may, again) {
  if (!dag || !may) return () => null;
  return (label, title, asked, fields = []) => button(dag, ACTION, { label, title, asked, fields }, again);
}

/** The lines of a preview that changes nothing, by the parameters of the DAG; null if it failed, which `tell` has said. */
export async function ask(dag, words, doing, tell) {
  const { run, state } = await follow(dag, ACTION.ask(words, null), doing, tell);
  const found = state === "success" ? await ACTION.preview(run).catch(() => null) : null;
  if (!found) tell(...await failure(run, ACTION.task));
  return found?.text.split("\n") ?? null;
}

/** The button of a backfill; null as above. */
export function backfillButton(dag, may, again) {
  const fields = [
    { name: "ranges", label: "Ranges", hint: 'half-open offsets like {"topic": {"0": [100, 900]}}; or leave it empty, and give From and To' },
    { name: "from", label: "From", hint: "records with this time or a later one, e.g. 2026-01-01T00:00:00Z" },
    { name: "to", label: "To", hint: "records before this time, and never beyond what is flushed" },
  ];
  return dag && may ? button(dag, BACKFILL, { label: "Backfill", title: "A part of the log is applied again, never over what is newer.", asked: {}, fields }, again, null) : null;
}

function button(dag, job, what, again, size = "small") {
  return h("button", { type: "button", class: size, "data-key": `act-${what.label}-${what.asked.at ?? what.asked.table ?? what.asked.offsets ?? ""}`, title: what.title, ...whilePaused(dag),
    click: () => open(dag.dag_id, job, what, again) }, `${what.label} …`);
}

function open(dag, job, { label, title, asked, fields }, again) {
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
    const { run, state } = await follow(dag, job.ask(words(), null), "Looking what it would do", tell);
    const found = state === "success" ? await job.preview(run).catch(() => null) : null;
    if (!found) return tell(...await failure(run, job.task));
    tell(h("pre", { tabindex: "0", "aria-label": "Preview" }, commandsIn(found.text)), found.digest ? h("p", { class: "quiet" }, "Nothing was changed so far.") : h("p", { class: "quiet" }, "There is nothing to do."));
    if (!found.digest) return go.remove();
    shown = found;
    go.textContent = label;
  }

  async function perform() {
    const { run, state } = await follow(dag, job.ask(words(), shown), "At work", tell);
    if (state !== "success") return tell(...await failure(run, job.task));
    tell(h("p", {}, h("strong", {}, await job.done(run)), " ", where(run)));
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

async function failure(run, task) {
  const reason = await result(run, task, "error").catch(() => null);
  return [h("p", { class: "trouble" }, "Not done: ", h("span", { class: "message" }, reason?.message ?? "the log says why")), h("p", {}, where(run))];
}

const where = (run) => link(runPath({ dag_id: run.dag_id, run_id: run.dag_run_id }), "the run");
