// Replaying dead letters: a run of the pipeline's own DAG, so that Airflow decides who may, and remembers who did.
import { finished, link, result, runPath, trigger } from "./airflow.js";
import { ask, h, say, typed } from "./dom.js";
import { number, plural } from "./format.js";
import { whilePaused } from "./paused.js";

const TEXT = "Every record that waits is decoded again with the schema that the pipeline file has now. " +
  "What can be read comes into its table, never over a newer row; the rest stays here. It may be repeated.";

/** The button, or a line that says why there is none; `dag` is the DAG of replays, if there is one. */
export function replayButton(name, waiting, dag, may, after) {
  if (!dag) return h("span", { class: "quiet" }, "Dead letters of tables that records name are not replayed. Read them again with: ", h("code", {}, typed(`bin/tidegate rebase ${name} --to TIME`)));
  if (!may) return h("span", { class: "quiet" }, "Your role in Airflow may look, but not replay.");
  const button = h("button", { type: "button", class: "primary", "data-key": "replay", disabled: !waiting, ...whilePaused(dag), click: () => replay(name, waiting, dag.dag_id, button, after) }, "Replay all …");
  return button;
}

/** The button of one dead letter: `chosen` are parameters of the DAG. */
export function replayOneButton(name, chosen, dag, after) {
  const button = h("button", { type: "button", class: "small", "data-key": `replay-${chosen.table}-${chosen.offsets}`, ...whilePaused(dag), click: () => replay(name, 1, dag.dag_id, button, after, chosen) }, "Replay …");
  return button;
}

async function replay(name, waiting, dag, button, after, chosen = {}) {
  if (!(await ask(`Replay ${waiting === 1 ? "the dead letter" : plural(waiting, "dead letter", "dead letters")} of ${name}?`, TEXT, "Replay"))) return;
  button.disabled = true;
  try {
    const run = await trigger(dag, chosen);
    const where = link(runPath({ dag_id: run.dag_id, run_id: run.dag_run_id }), "the run");
    const state = await finished(run, (now) => say(`Replay: ${now} … `, where));
    if (state === "success") say(`Replay finished: ${await result(run, "replay").then(describeReplay, (problem) => problem.message)} `, where);
    else say("The replay failed; its log says why: ", where);
  } catch (problem) {
    say(`Not replayed: ${problem.message}`);
  }
  button.disabled = false;
  after();
}

function describeReplay(tables) {
  const sum = (what) => (tables ?? []).reduce((total, one) => total + one[what], 0);
  return `${number(sum("replayed"))} of ${number(sum("tried"))} came in, ${number(sum("still_bad"))} cannot be read.`;
}
