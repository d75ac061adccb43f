// The way back: publications in the overview, and one publication with its place in the table's snapshots.
import { dagPath, link, runPath, startNow } from "./airflow.js";
import { causesTable, runsTable } from "./airflow_tables.js";
import { command, h, quiet, say, section, show, table, trouble } from "./dom.js";
import { ago, asOf, due, moment, number, plural, span } from "./format.js";
import { pausedLine, whilePaused } from "./paused.js";
import { seePage } from "./runbook.js";
import { badge, showState } from "./state.js";
import { foldClass, unfoldButton } from "./unfold.js";
import { whatToDoForPublication } from "./what_to_do.js";

const statesWithReason = new Set(["stuck", "failing", "unknown"]);
const isExplained = (row) => statesWithReason.has(row.state) || (row.state === "paused" && row.error && !row.looking);
const time = (ms) => (ms ? new Date(ms).toISOString() : null);
const changes = (run) => `${number(run.inserted)} inserted, ${number(run.updated)} updated, ${number(run.deleted)} deleted`;
const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const name = (row) => [
  h("a", { href: `publications/${encodeURIComponent(row.publication)}`, "data-key": `o-${row.publication}` }, row.publication),
  isExplained(row) ? h("div", { class: "reason" }, row.fact) : h("div", { class: "quiet" }, row.description),
  unfoldButton(`o-${row.publication}`),
];

const COLUMNS = [
  { title: "State", cell: (row) => [badge(row.state), row.paused && row.state !== "paused" ? h("div", { class: "quiet" }, "paused") : null, asOf(row.read_at)] },
  { title: "Publication", head: true, cell: name },
  { title: "From", minor: true, cell: (row) => row.table ?? "–" },
  { title: "To", minor: true, cell: (row) => (row.topics ?? []).join(", ") || "–" },
  { title: "Snapshots behind", hint: "Snapshots that changed rows and are not published", number: true, cell: (row) => number(row.snapshots_behind) },
  { title: "Rows behind", minor: true, hint: "At most how many changed rows wait", number: true, cell: (row) => number(row.rows_behind) },
  { title: "Behind", hint: "Age of the oldest snapshot that waits", number: true, cell: (row) => ("behind_seconds" in row ? span(row.behind_seconds) : "–") },
  { title: "Published", minor: true, number: true, cell: (row) => ago(time(row.published_at_ms)) },
  { title: "Last run", minor: true, cell: (row) => (row.last_dag_run ? link(runPath(row.last_dag_run), row.last_dag_run.state) : "–") },
];

/** The overview's part on publications, those that fit the words; nothing where there are none. */
export function publications(rows, words) {
  if (!rows?.length) return null;
  const fits = (row) => words.toLowerCase().split(/\s+/).every((word) => [row.publication, row.description, row.reason, row.table, ...(row.topics ?? [])].join(" ").toLowerCase().includes(word));
  const shown = rows.filter(fits).map((row) => ({ ...row, rowClass: foldClass(`o-${row.publication}`) }));
  return section("Publications", shown.length ? table("Publications", COLUMNS, shown) : quiet("No publication matches the filter."));
}

export function publication(me) {
  const state = h("span", {});
  show(document.getElementById("head"), h("nav", { "aria-label": "Where you are" }, h("a", { href: "./" }, "Pipelines"), " / publications / "), h("h1", {}, me), state);
  return {
    every: true,
    asks: () => `publications/${encodeURIComponent(me)}`,
    show: (answer, again) => {
      const row = showState(answer.publication);
      document.title = `${me}: ${row.state}`;
      show(state, badge(row.state));
      show(document.getElementById("main"), banner(row), whatToDoForPublication(me, row), facts(row, answer.airflow), actions(answer, again), errors(answer.airflow.causes), snapshots(answer), runs(answer.airflow.runs), commands(quoted(me)));
    },
  };
}

function banner(row) {
  if (row.looking && ["looking", "paused"].includes(row.state)) return quiet("Brokers and catalog are asked for the first time.");
  if (!statesWithReason.has(row.state)) return row.error ? trouble(row.error, " ", seePage(row.runbook)) : null;
  return h("div", { class: `banner ${row.state}`, role: "alert" }, h("strong", {}, `${row.state}: `), h("span", { class: "message" }, row.fact), " ", seePage(row.runbook));
}

function facts(row, airflow) {
  const last = row.last_run;
  const asset = airflow.assets?.[row.table];
  const list = [
    ["Table", asset ? link(`assets/${asset}`, row.table) : row.table ?? "–"],
    ["Topics", (row.topics ?? []).join(", ") || "–"],
    ["Delivery", row.delivery ?? "–"],
    ["Behind", [plural(row.snapshots_behind, "snapshot", "snapshots"), h("div", { class: "quiet" }, row.snapshots_behind === 0 ? "nothing waits" : `at most ${plural(row.rows_behind, "changed row", "changed rows")}, the oldest for ${span(row.behind_seconds)}`)]],
    ["Published snapshot", [h("code", {}, row.published_snapshot_id ?? "none"), row.published_snapshot_id ? h("div", { class: "quiet" }, ago(time(row.published_at_ms))) : null]],
    ["Last progress", last ? [ago(time(last.at_ms)), h("div", { class: "quiet" }, `compared with ${last.compared_with}: ${changes(last)}`)] : "none yet"],
    ["Next run", row.dag_id ? [row.paused ? "paused" : row.last_dag_run?.state === "running" ? "running" : row.next_run ? due(row.next_run) : "when the table changes", h("div", {}, link(dagPath(row.dag_id), "Open DAG"))] : "no DAG"],
    ["Last look", row.last_dag_run ? [ago(row.last_dag_run.ended ?? row.last_dag_run.started), h("div", { class: "quiet" }, row.last_dag_run.state)] : "none yet"],
  ];
  return [row.description ? h("p", {}, row.description) : null, h("dl", { class: "facts" }, list.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))))];
}

function actions({ publication: row, may }, again) {
  if (!row.dag_id) return quiet("This publication has no DAG yet: its file is wrong, or Airflow has not read it. Nothing can be started.");
  if (!may.publish) return quiet("Your role in Airflow may look, but start nothing.");
  const start = async () => {
    try {
      say(...await startNow(row.dag_id, "Publishing"));
    } catch (problem) { say(`Not started: ${problem.message}`); }
    again();
  };
  return h("div", { class: "actions" },
    h("button", { type: "button", "data-key": "publish", ...whilePaused(row), click: start }, "Publish now"),
    link(dagPath(row.dag_id), "Resynchronise: by Trigger, in Airflow"), pausedLine(row));
}

const errors = (causes) => (causes?.length ? section("Last errors", causesTable(causes)) : null);

function snapshots({ publication: row, snapshots: found }) {
  if (found?.error) return section("Snapshots", trouble(found.error));
  if (!found?.length) return section("Snapshots", quiet("The table has none yet."));
  const place = found.findIndex((one) => one.snapshot_id === row.published_snapshot_id);
  const columns = [
    { title: "Snapshot", head: true, cell: (one) => h("code", {}, one.snapshot_id) },
    { title: "Made", cell: (one) => moment(time(one.at_ms)) },
    { title: "Operation", cell: (one) => one.operation },
    { title: "Rows changed", hint: "At most", number: true, cell: (one) => number(one.rows) },
    { title: "Topic", cell: (one) => { const at = found.indexOf(one); return place < 0 ? "–" : at === place ? h("strong", {}, "published up to here") : at > place ? "published" : one.rows ? "waits" : "no rows"; } },
  ];
  return section("Snapshots", table("The table's newest snapshots", columns, found),
    place < 0 && row.published_snapshot_id ? quiet("The published snapshot is older, or the table was rolled back to before it.") : null);
}

const runs = (found) => (found?.length ? section("Runs", runsTable(found, false)) : null);

const commands = (me) => section("Commands", h("ul", {},
  command(`bin/tidegate publish ${me} --dry-run`, "from which snapshot to which; changes nothing"),
  command(`bin/tidegate publish ${me}`, "one run"),
  command(`bin/tidegate publish ${me} --resynchronise`, "compare the whole table with what the topic holds, and fix the topic")));
