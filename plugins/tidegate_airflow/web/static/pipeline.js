// One pipeline: what is wrong and what to do, then everything that is known about it.
import { dagPath, link, pause, startNow, taskPath } from "./airflow.js";
import { causesTable, runsTable } from "./airflow_tables.js";
import { chart } from "./chart.js";
import { commands, whatToDo } from "./what_to_do.js";
import { commandsIn, h, quiet, say, section, show, table, trouble, typed } from "./dom.js";
import { explainButton } from "./explain.js";
import { ago, asOf, bytes, due, isUnread, lag, moment, number, plural, span } from "./format.js";
import { backfillButton, remedies } from "./action_buttons.js";
import { pausedLine, whilePaused } from "./paused.js";
import { recordsButton } from "./records.js";
import { replayButton } from "./replay.js";
import { seePage } from "./runbook.js";
import { badge, showState } from "./state.js";

const MAX_PARTITIONS = 200; // rows: they are drawn anew every few seconds, and thousands would stop the browser
const RESUME = "resume it first"; // by the button beside
const key = (row) => `${row.topic} ${row.partition}`;
const known = (part, shown) => (part?.error ? trouble(part.error) : part && shown(part));

/** The answer without the parts that could not be read for the reason that the banner has already. */
const withoutTwins = (answer) => Object.fromEntries(Object.entries(answer).map(([name, part]) => [name, part?.error && name !== "pipeline" && part.error === answer.pipeline.error ? null : part]));

export function pipeline(name) {
  const title = h("h1", {}, name);
  const state = h("span", {});
  show(document.getElementById("head"), h("nav", { "aria-label": "Where you are" }, h("a", { href: "./" }, "Pipelines"), " / "), title, state);
  let plotted = "";
  let charts = [];
  return {
    every: true,
    asks: () => `pipelines/${encodeURIComponent(name)}`,
    show: (read, again) => {
      const answer = withoutTwins({ ...read, pipeline: showState(read.pipeline) });
      const row = answer.pipeline;
      document.title = `${name}: ${row.state}`;
      show(state, badge(row.state), row.paused && row.state !== "paused" ? h("span", { class: "quiet" }, " paused") : null);
      const newest = JSON.stringify(answer.past?.batches?.[0] ?? answer.past?.error ?? null);
      if (newest !== plotted) { plotted = newest; charts = plots(answer.past); }
      const act = remedies(answer.airflow?.dags?.actions, answer.may.actions, again);
      show(document.getElementById("main"), banner(answer), whatToDo(name, row, answer, act), warnings(answer.warnings), facts(answer), actions(answer, again), partitions(answer), tables(answer), charts,
        known(answer.airflow, errors), backfills(answer.backfills), waiting(answer.storage), batches(answer.past), storage(answer), known(answer.airflow, runs),
        history(answer.actions), commands(name, row, answer.offsets, act));
    },
  };
}

function banner({ pipeline: row }) {
  if (row.looking && ["looking", "paused"].includes(row.state)) return quiet("Brokers and catalog are asked for the first time.");
  if (!["stuck", "failing", "unknown"].includes(row.state)) return row.error ? trouble(row.error, " ", seePage(row.runbook)) : row.runbook ? h("p", {}, row.fact, " ", seePage(row.runbook)) : null;
  return h("div", { class: `banner ${row.state}`, role: "alert" }, h("strong", {}, `${row.state}: `), h("span", { class: "message" }, row.fact), " ", seePage(row.runbook));
}

const warnings = (found) => (Array.isArray(found) && found.length ? h("ul", { class: "warnings" }, found.map((one) => h("li", { class: "trouble" }, commandsIn(one.replace(/^pipeline=\S+ /, ""))))) : null);

// what the last flush cost: its stage job beside its merges, where the history knows both
const cost = (flush) => (flush.stage_seconds == null ? `in ${span(flush.seconds)}` : `staged in ${span(flush.stage_seconds)}, merged in ${span(flush.seconds)}`);

function facts({ pipeline: row, airflow, group_retention: expiry }) {
  const flush = row.last_flush;
  const list = [
    ...(row.staging ? [["Staged", isUnread(row) ? "–" : [`${plural(row.staging.lag, "offset", "offsets")} behind the log`, h("div", { class: "quiet" }, span(row.staging.lag_seconds))]]] : []),
    [row.staging ? "Merged" : "Lag", ["lag" in row && !isUnread(row) ? plural(row.lag, "offset", "offsets") : "–", row.staging ? " behind the log" : null, asOf(row.read_at)]],
    ["Behind", "lag" in row && !isUnread(row) ? [span(row.lag_seconds), h("div", { class: "quiet" }, row.lag ? "age of the oldest record that waits" : "nothing waits")] : "–"],
    ["Complete to", [moment(row.freshness), h("div", { class: "quiet" }, row.freshness ? [ago(row.freshness), row.lag ? ": records up to this time are in the tables" : ": nothing newer in the partition that has been quiet longest"] : row.state === "stuck" ? "unknown" : "unknown until each partition has had a record")]],
    ["Last flush", flush ? [ago(flush.published_at), h("div", { class: "quiet" }, `batch ${number(flush.batch)} ${cost(flush)}: ${number(flush.inserted)} inserted, ${number(flush.updated)} updated, ${number(flush.deleted)} deleted${flush.bytes_written == null ? "" : `, ${bytes(flush.bytes_written)} written`}`)] : "none yet"],
    ["Dead letters", row.dead_letters ? h("a", { class: "warn", "data-key": "letters", href: `pipelines/${encodeURIComponent(row.pipeline)}/dead-letters` }, plural(row.dead_letters, "waits", "wait")) : number(row.dead_letters)],
    ["Next run", row.dag_id ? [row.paused ? "paused" : row.last_run?.state === "running" ? "running" : due(row.next_run), h("div", {}, link(dagPath(row.dag_id), row.fleet ? `Open the DAG of the fleet ${row.fleet}` : "Open DAG"))] : "no DAG"],
    ["Heartbeat", [ago(airflow?.last_heartbeat), airflow?.offsets_expire ? h("div", { class: "quiet" }, "committed offsets expire ", ago(airflow.offsets_expire), expiry?.assumed ? " (if brokers keep them for seven days: they do not say)" : null) : null]],
  ];
  return [row.description ? h("p", {}, row.description) : null, h("dl", { class: "facts" }, list.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))))];
}

function actions({ pipeline: row, airflow, may }, again) {
  const dags = airflow?.dags ?? {};
  if (!row.dag_id) return quiet("This pipeline has no DAG yet: its file is wrong, or Airflow has not read it. Nothing can be started.");
  if (!Object.values(may).some(Boolean)) return quiet("Your role in Airflow may look, but start nothing.");
  const start = (kind, what, label) => may[kind] && dags[kind] && h("button", { type: "button", "data-key": kind, ...whilePaused(dags[kind], RESUME),
    click: async () => {
      try {
        say(...await startNow(dags[kind].dag_id, what, row.fleet && kind === "flush" ? row.pipeline : null));
      } catch (problem) { say(`Not started: ${problem.message}`); }
      again();
    } }, label);
  const starts = dags.stage ? [start("stage", "Staging", "Stage now"), start("flush", "Merge", "Merge now")] : [start("flush", "Flush", "Flush now")];
  const pauses = pauseButtons(row.fleet, dags, may, again);
  const started = (row.dead_letters ? ["backfill", "replay", "actions"] : ["backfill", "actions"]).filter((kind) => may[kind]);
  return [h("div", { class: "actions" }, starts, pauses, row.dead_letters ? replayButton(row.pipeline, row.dead_letters, dags.replay, may.replay, again) : null,
    backfillButton(dags.backfill, may.backfill, again)),
  ["flush", "stage"].map((kind) => may[kind] && pausedLine(dags[kind], RESUME)), started.map((kind) => pausedLine(dags[kind]))];
}

/** One button for both clocks, as what is staged would pile up otherwise. In a fleet one for each: its merges are those of all members. */
function pauseButtons(fleet, { flush, stage }, may, again) {
  if (!fleet) return may.pause && (!stage || may.pause_stage) ? pauseButton([flush, stage].filter(Boolean), "", again) : null;
  return [may.pause && pauseButton([flush], stage ? ` the merges of the fleet ${fleet}` : ` the fleet ${fleet}`, again),
    stage && may.pause_stage && pauseButton([stage], " staging", again)];
}

function pauseButton(dags, what, again) {
  const paused = dags.some((dag) => dag.paused);
  const [word, done] = paused ? ["Resume", "Resumed: a run that was under way goes on, and new ones start."] : ["Pause", "Paused: tasks that are under way end, the rest of their run waits for Resume, and no other run starts."];
  return h("button", { type: "button", "data-key": `pause-${dags[0].dag_id}`, click: async () => {
    try {
      for (const dag of dags) await pause(dag.dag_id, !paused);
      say(done);
    } catch (problem) { say(`Not done: ${problem.message}`); }
    again();
  } }, word + what);
}

function history(found) {
  if (found?.error) return section("What people did", trouble(found.error));
  if (!found?.length) return null;
  const columns = [
    { title: "When", cell: (one) => ago(one.at) },
    { title: "Who", cell: (one) => one.by || "–" },
    { title: "What", head: true, cell: (one) => one.action },
    { title: "Table", cell: (one) => one.table },
    { title: "Changed", cell: (one) => h("span", { class: "message" }, one.details) },
  ];
  return section("What people did", table("What people did", columns, found));
}

function partitions({ pipeline: row, offsets, past, airflow, may }) {
  if (!row.partitions) return null;
  const more = new Map((Array.isArray(offsets) ? offsets : []).map((one) => [key(one), one]));
  const moved = new Map((past?.advances ?? []).map((one) => [key(one), one.at]));
  const columns = [
    { title: "Topic", head: true, cell: (one) => one.topic },
    { title: "Partition", number: true, cell: (one) => [one.partition, " ", recordsButton(row.pipeline, one, airflow?.dags?.actions, may.actions)] },
    { title: "Begin", hint: "First offset that the log still holds", number: true, cell: (one) => number(more.get(key(one))?.begin) },
    ...(row.staging ? [{ title: "Staged", hint: "Next offset: all before it are staged, or in the tables", number: true, cell: (one) => number(one.staging?.staged) }] : []),
    { title: row.staging ? "Merged" : "Published", hint: "Next offset: all before it are in the tables", number: true, cell: (one) => number(one.published) },
    { title: "Committed", hint: "What the consumer group reports", number: true, cell: (one) => number(more.get(key(one))?.committed) },
    { title: "End", number: true, cell: (one) => number(one.end) },
    { title: "Lag", number: true, cell: (one) => h("span", { class: one.lag ? "behind" : null }, number(one.lag)) },
    { title: "Behind", number: true, cell: (one) => span(one.lag_seconds) },
    { title: "Last advance", number: true, cell: (one) => ago(moved.get(key(one))) },
    { title: "Offset expires", hint: "So long after the last heartbeat as the brokers keep them (offsets.retention.minutes); seven days where they do not say", number: true, cell: (one) => ((more.get(key(one))?.committed ?? null) === null ? "–" : moment(airflow?.offsets_expire)) },
  ];
  const all = row.partitions.length;
  const shown = all > MAX_PARTITIONS ? [...row.partitions].sort((one, other) => other.lag - one.lag).slice(0, MAX_PARTITIONS) : row.partitions;
  return section("Partitions", offsets?.error ? trouble(offsets.error) : null, table("Partitions", columns, shown),
    shown.length < all ? quiet(typed(`${number(shown.length)} of ${number(all)} partitions, those farthest behind first. bin/tidegate status ${row.pipeline} shows all of them.`)) : null);
}

// what the last verification has found, in a line
function verified(found) {
  if (!found) return null;
  const wrong = found.missing + found.surplus + found.different;
  const counts = `${number(found.missing)} missing, ${number(found.surplus)} too many, ${number(found.different)} different, ${number(found.unknowable)} unknown`;
  const what = wrong ? [h("strong", {}, counts), " ", seePage("rows-differ")] : [`equal to the log; ${plural(found.unknowable, "key", "keys")} unknown`];
  return h("div", { class: wrong ? "reason" : "quiet" }, "Verified ", moment(found.at), ": ", ...what);
}

const approved = (found) => (found ? h("div", { class: "quiet" }, `Batch ${number(found.batch)} is approved by ${found.by}, and waits for the next flush`) : null);

function tables({ pipeline: row, airflow, may }) {
  if (!row.tables) return null;
  const columns = [
    { title: "Table", head: true, cell: (one) => [airflow?.assets?.[one.table] ? link(`assets/${airflow.assets[one.table]}`, one.table) : one.table, one.problem && one.problem !== row.reason ? h("div", { class: "reason" }, one.problem, " ", seePage(one.runbook)) : null, approved(one.approved), verified(one.verified), explainButton(row.pipeline, one.table, airflow?.dags?.actions, may.actions)] },
    { title: "Batch", number: true, cell: (one) => number(one.batch) },
    ...(row.staging ? [
      { title: "Staging lag", hint: "Offsets that are not staged", number: true, cell: (one) => (isUnread(one) ? "–" : number(one.staging?.lag)) },
      { title: "Staging behind", hint: "Age of the oldest record that is not staged", number: true, cell: (one) => (isUnread(one) ? "–" : span(one.staging?.lag_seconds)) },
    ] : []),
    { title: row.staging ? "Merge lag" : "Lag", number: true, cell: (one) => lag(one) },
    { title: row.staging ? "Merge behind" : "Behind", number: true, cell: (one) => (isUnread(one) ? "–" : span(one.lag_seconds)) },
    { title: "Complete to", number: true, cell: (one) => moment(one.valid_through) },
    { title: "Open batches", number: true, cell: (one) => `${number(one.open_batches)} of ${number(one.max_pending)}` },
  ];
  return section("Tables", table("Tables", columns, row.tables));
}

function plots(past) {
  const rows = (past?.batches ?? []).filter((one) => !one.backfill).reverse();
  if (rows.length < 2) return [];
  const times = rows.map((one) => Date.parse(one.published_at) / 1000);
  const behind = rows.map((one) => (one.valid_through ? Math.max(0, (Date.parse(one.published_at) - Date.parse(one.valid_through)) / 1000) : null));
  const changed = (what) => rows.map((one) => one[what]);
  return [section("Over time", h("div", { class: "charts" },
    chart("Seconds behind when published", times, [{ label: "behind", values: behind, color: "--accent" }], "seconds"),
    chart("Rows changed per batch", times, [{ label: "inserted", values: changed("inserted"), color: "--good" }, { label: "updated", values: changed("updated"), color: "--accent" }, { label: "deleted", values: changed("deleted"), color: "--bad" }], "rows")))];
}

function errors({ causes }) {
  return causes?.length ? section("Last errors", causesTable(causes)) : null;
}

function backfills(found) {
  if (found?.error) return section("Open backfills", trouble(found.error));
  if (!found?.length) return null;
  return section("Open backfills", found.map((one) => h("div", {}, h("code", {}, one.backfill), one.tables.map((table) => {
    const applied = one.applied[table]?.length ?? 0;
    return h("label", { class: "progress" }, `${table}: ${number(applied)} of ${number(one.slices)} `, h("progress", { max: one.slices, value: applied }));
  }))));
}

function waiting(found) {
  const open = Array.isArray(found) ? found.flatMap((one) => one.staged) : [];
  if (!open.length) return null;
  const columns = [
    { title: "Batch", head: true, number: true, cell: (one) => number(one.batch) },
    { title: "Table", cell: (one) => one.table },
    { title: "Records", number: true, cell: (one) => number(one.records) },
    { title: "Rows to merge", number: true, cell: (one) => number(one.rows) },
    { title: "Dead letters", number: true, cell: (one) => number(one.dead_lettered) },
    { title: "Attempt", cell: (one) => h("code", {}, one.attempt) },
  ];
  return section("Staged and not published", table("Staged and not published", columns, open));
}

function batches(past) {
  if (!past) return null;
  if (past.error) return section("Batches", trouble(past.error));
  if (!past.batches.length) return section("Batches", quiet("None yet."));
  const columns = [
    { title: "Batch", head: true, number: true, cell: (one) => [number(one.batch), one.backfill ? h("div", { class: "quiet" }, `backfill ${one.backfill}`) : null] },
    { title: "Published", cell: (one) => moment(one.published_at) },
    { title: "Table", cell: (one) => one.table },
    ...["Read", "Staged", "Superseded", "Filtered", "Dead lettered", "Gaps", "Inserted", "Updated", "Deleted"].map((title) => ({ title, number: true, cell: (one) => number(one[title.toLowerCase().replace(" ", "_")]) })),
    { title: "Unknown fields", hint: "Records with fields that no column holds", number: true, cell: (one) => (one.unknown_fields ? h("abbr", { title: one.unknown_fields.message }, number(one.unknown_fields.records)) : "–") },
    { title: "Bytes written", hint: "Size of the data and delete files that the batch added", number: true, cell: (one) => bytes(one.bytes_written) },
    { title: "Staged in", number: true, cell: (one) => (one.stage_seconds === null ? "–" : span(one.stage_seconds)) },
    { title: "Merged in", number: true, cell: (one) => span(one.seconds) },
  ];
  const [first, rest] = [past.batches.slice(0, 10), past.batches.slice(10)];
  return section("Batches", table("Newest batches", columns, first),
    rest.length ? h("details", { "data-key": "more-batches" }, h("summary", {}, `${number(rest.length)} more`), table("More batches", columns, rest)) : null);
}

function maintained(one, done) {
  if (!done) return one.maintained ? "yes" : "not yet";
  const changed = (what, title) => (done.before[what] === done.after[what] ? null : `${title} ${number(done.before[what])} → ${number(done.after[what])}`);
  const changes = [changed("data_files", "files"), changed("delete_files", "delete files"), changed("snapshots", "snapshots"), done.orphans_removed ? `${plural(done.orphans_removed, "orphan", "orphans")} removed` : null].filter(Boolean);
  return [link(taskPath(done), ago(done.at)), h("div", { class: "quiet" }, changes.join(", ") || "nothing to do")];
}

function storage({ storage: found, airflow }) {
  const done = new Map((airflow?.maintenance ?? []).map((one) => [one.table, one]));
  if (found?.error) return section("Storage", trouble(found.error));
  const columns = [
    { title: "Table", head: true, cell: (one) => [one.table, one.error ? h("div", { class: "reason" }, one.error) : null] },
    { title: "Kind", cell: (one) => one.kind },
    { title: "Size", number: true, cell: (one) => bytes(one.bytes) },
    { title: "Files", number: true, cell: (one) => number(one.files) },
    { title: "Small", hint: "Files below three quarters of the target size", number: true, cell: (one) => number(one.small_files) },
    { title: "Delete files", number: true, cell: (one) => number(one.delete_files) },
    { title: "Rows in files", number: true, cell: (one) => number(one.rows) },
    { title: "Snapshots", number: true, cell: (one) => number(one.snapshots) },
    { title: "Maintained", hint: "The last run of its maintenance, and what that changed", cell: (one) => maintained(one, done.get(one.table)) },
  ];
  return found?.length ? section("Storage", table("Storage", columns, found)) : null;
}

function runs({ runs: found }) {
  return found?.length ? section("Runs", runsTable(found, true)) : null;
}
