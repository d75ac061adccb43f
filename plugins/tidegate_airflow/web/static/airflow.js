// The way out to Airflow: its pages, opened around this frame, and its own API for everything that changes something.
import { h } from "./dom.js";

const root = document.querySelector('meta[name="airflow-root"]').content;
const framed = window.parent !== window;

/** A link to a page of Airflow. */
export function link(path, ...text) {
  const anchor = h("a", { href: root + path, "data-key": path }, ...text);
  if (framed) {
    const go = (event) => {
      if (event.button > 1) return;
      event.preventDefault();
      outside(anchor.href, event.ctrlKey || event.metaKey || event.button === 1);
    };
    anchor.addEventListener("click", go);
    anchor.addEventListener("auxclick", go);
  }
  return anchor;
}

// the frame may not navigate what is around it, but a link that lies there may
function outside(address, newTab) {
  const anchor = window.parent.document.createElement("a");
  anchor.href = address;
  if (newTab) { anchor.target = "_blank"; anchor.rel = "noopener"; }
  window.parent.document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

// Airflow's address of this page: it follows what loads anew in the frame, and is told here of what changes without that
const SHOWN_AT = `${root}plugin/tidegate`;
const follows = () => framed && `${window.parent.location.pathname}/`.startsWith(`${SHOWN_AT}/`);

/** What is shown has changed without loading anew: the address says it, also around the frame, so that it can be sent. */
export function keepAddress(query) {
  const address = location.pathname + query;
  history.replaceState(null, "", address);
  if (follows()) window.parent.history.replaceState(window.parent.history.state, "", SHOWN_AT + address);
}

/** In the tab of a DAG, whose address is that of one pipeline, every other page opens where it has an address of its own. */
export function leaveTab() {
  if (!framed) return;
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || event.defaultPrevented || event.button || follows()) return;
    if (!anchor.href.startsWith(document.baseURI)) return;
    event.preventDefault();
    const { pathname, search } = new URL(anchor.href);
    outside(SHOWN_AT + pathname + search, event.ctrlKey || event.metaKey);
  });
}

export const path = (...parts) => parts.map(encodeURIComponent).join("/");
export const runPath = (run) => `dags/${path(run.dag_id)}/runs/${path(run.run_id)}`;
export const dagPath = (dag) => `dags/${path(dag)}`;
export const taskPath = (task) =>
  `${runPath(task)}/tasks/${path(task.task_id)}${task.map_index >= 0 ? `/mapped/${task.map_index}` : ""}`;

/** Read from the page's own endpoints. */
export async function read(what) {
  const answer = await fetch(`api/${what}`, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (answer.status === 401) throw new NotLoggedIn();
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.detail ?? `HTTP ${answer.status}`);
  return body;
}

export class NotLoggedIn extends Error {
  constructor() {
    super("You are not logged in to Airflow, or no longer.");
  }
  get way() {
    return link("", "Log in");
  }
}

async function call(method, where, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json", "X-Requested-With": "tidegate" };
  const answer = await fetch(`${root}api/v2/${where}`, { method, headers, credentials: "same-origin", body: body && JSON.stringify(body) });
  const content = await answer.json().catch(() => ({}));
  if (answer.status === 403) throw Object.assign(new Error("Your role in Airflow does not permit this."), { status: 403 });
  if (!answer.ok) throw Object.assign(new Error(typeof content.detail === "string" ? content.detail : `HTTP ${answer.status}`), { status: answer.status });
  return content;
}

const NOTE = "Asked for on Tidegate's page";

/** Start a run of a DAG; Airflow checks the user's role and writes it into its audit log. */
export const trigger = (dag, conf = {}) =>
  call("POST", `dags/${path(dag)}/dagRuns`, { logical_date: null, conf, note: NOTE });

const TAIL = ["commit_offsets", "clean_up", "heartbeat"]; // tasks behind those that take records in

/**
 * Let a DAG that has one run at a time begin at once, and say what was done: tasks that wait to be tried again are tried now,
 * for a second run would wait behind them; else a run is asked for, and begins at once unless another one is under way.
 * Who may start a run and do no more asks for a run. Of a fleet's DAG only the tasks of `pipeline` are tried, and it alone is flushed.
 */
export async function startNow(dag, what, pipeline = null) {
  const found = (await unlessForbidden(call("GET", `dags/${path(dag)}/dagRuns/~/taskInstances?state=up_for_retry&limit=100`)))?.task_instances ?? [];
  const waiting = found.filter((task) => !pipeline || task.map_index < 0 || task.rendered_map_index === pipeline);
  const retried = waiting.length ? await retryNow(dag, waiting.filter((task) => task.dag_run_id === waiting[0].dag_run_id)) : null;
  if (retried && waiting.some((task) => !TAIL.includes(task.task_id))) return retried;
  const busy = (await unlessForbidden(call("GET", `dags/${path(dag)}/dagRuns?state=running&limit=1`)))?.dag_runs ?? [];
  const run = await trigger(dag, pipeline ? { pipelines: [pipeline] } : {});
  const shown = link(runPath({ dag_id: dag, run_id: run.dag_run_id }), "the run");
  const outcome = busy.length && !pipeline // runs of a fleet overlap
    ? [`${what} queued: `, shown, " begins when ", link(runPath({ dag_id: dag, run_id: busy[0].dag_run_id }), "the one under way"), " ends"]
    : [`${what} started: `, shown];
  return retried ? [...retried, "; ", ...outcome] : outcome;
}

async function retryNow(dag, waiting) {
  const run = waiting[0].dag_run_id;
  const tasks = waiting.map((task) => (task.map_index >= 0 ? [task.task_id, task.map_index] : task.task_id));
  const asked = { dag_run_id: run, task_ids: tasks, dry_run: false, only_failed: false, prevent_running_task: true, note: NOTE };
  const names = [...new Set(waiting.map((task) => task.task_id))].join(", ");
  const where = link(runPath({ dag_id: dag, run_id: run }), "the run under way");
  try {
    if ((await unlessForbidden(call("POST", `dags/${path(dag)}/clearTaskInstances`, asked))) === null) return null;
  } catch (problem) {
    if (problem.status === 409) return [`${names} is being tried at this moment, in `, where];
    throw problem;
  }
  return [`${names} waited to be tried again, and is tried now, in `, where];
}

/** The answer, null where the user's role does not permit the question. */
async function unlessForbidden(answer) {
  try {
    return await answer;
  } catch (problem) {
    if (problem.status === 403) return null;
    throw problem;
  }
}

/** Wait until a run has finished; `report` is called with each state. The run goes on while the server does not answer. */
export async function finished(run, report) {
  for (;;) {
    const { state } = await call("GET", `dags/${path(run.dag_id)}/dagRuns/${path(run.dag_run_id)}`).catch((problem) => {
      if (problem.status < 500) throw problem;
      return { state: `Airflow does not answer (${problem.message})` };
    });
    report(state);
    if (state === "success" || state === "failed") return state;
    await new Promise((next) => setTimeout(next, 1500));
  }
}

/** Pause a DAG, or let it run again. */
export const pause = (dag, paused) => call("PATCH", `dags/${path(dag)}?update_mask=is_paused`, { is_paused: paused });

/** What a task of a run returned, or left as the result of another name. */
export async function result(run, task, key = "return_value") {
  const where = `dags/${path(run.dag_id)}/dagRuns/${path(run.dag_run_id)}/taskInstances/${path(task)}/xcomEntries/${path(key)}`;
  return (await call("GET", `${where}?deserialize=true`)).value;
}
