// What buttons say whose DAG is paused: a run would be queued until somebody unpauses it, and the page would wait for it.
import { dagPath, link } from "./airflow.js";
import { h } from "./dom.js";

const idOf = (dag) => `paused-${dag.dag_id}`;
const reasonOf = (dag, remedy) => `The DAG ${dag.dag_id} is paused: ${remedy}`;

/** The attributes of a button that starts a run of this DAG; none while it may. */
export const whilePaused = (dag, remedy = "unpause it first") => (dag?.paused ? { disabled: true, title: reasonOf(dag, remedy), "aria-describedby": idOf(dag) } : {});

/** The same as text, once for all buttons of a DAG: a title is reached by no keyboard and no finger. */
export const pausedLine = (dag, remedy = "unpause it first") => (dag?.paused ? h("p", { class: "quiet", id: idOf(dag) }, `${reasonOf(dag, remedy)}. `, link(dagPath(dag.dag_id), "Open DAG")) : null);
