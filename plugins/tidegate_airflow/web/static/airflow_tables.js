// What Airflow knows of runs and failures, as tables for pipelines and publications.
import { link, runPath, taskPath } from "./airflow.js";
import { commandsIn, h, table } from "./dom.js";
import { ago, span } from "./format.js";
import { seePage } from "./runbook.js";

const MAX_LINKS = 4;

/** A row for each cause, with its times as links to the tasks that failed for it; the newest first. */
export function causesTable(causes) {
  const columns = [
    { title: "What happened", head: true, cell: (one) => [h("strong", { class: "message" }, one.fact || `${one.error ?? "failed"}: see the log of the task`), one.advice ? h("div", { class: "quiet message" }, commandsIn(one.advice)) : null, h("div", {}, seePage(one.runbook))] },
    { title: "State", cell: (one) => (one.is_over ? h("span", { class: "quiet" }, "over") : h("span", { class: "behind" }, one.tasks[0].state === "up_for_retry" ? "is tried again" : "lasts")) },
    { title: "When", cell: (one) => [...one.tasks.slice(0, MAX_LINKS).map((task) => h("div", { class: "line" }, link(taskPath(task), ago(task.at), ` ${name(task)}`))), one.tasks.length > MAX_LINKS ? h("div", { class: "quiet" }, `and ${one.tasks.length - MAX_LINKS} before`) : null] },
  ];
  return table("Last errors", columns, causes);
}

const name = (task) => `${task.task_id}${task.map_index >= 0 ? `[${task.map_index}]` : ""}`;

export function runsTable(runs, areSeveral) {
  const columns = [
    { title: "Started", head: true, cell: (one) => link(runPath(one), one.started ? ago(one.started) : "not yet") },
    ...(areSeveral ? [{ title: "DAG", cell: (one) => one.dag_id }] : []),
    { title: "State", cell: (one) => one.state },
    { title: "Took", number: true, cell: (one) => (one.ended && one.started ? span((Date.parse(one.ended) - Date.parse(one.started)) / 1000) : "–") },
  ];
  return table("Runs", columns, runs);
}
