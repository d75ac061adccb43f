// What can be done about a pipeline, with a button or from a shell. Each shows first what it would do, and asks.
import { command, commandsIn, h, section } from "./dom.js";
import { seePage } from "./runbook.js";

const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const STATES = ["stuck", "failing", "unknown"];

/** What happened to a pipeline that stands still, and what resolves it: the first thing that is read. Null where nobody has to act. */
export function whatToDo(name, row, { bad_record: bad, airflow }, act) {
  if (!STATES.includes(row.state)) return null;
  const me = quoted(name);
  const troubled = (row.tables ?? []).filter((one) => one.problem);
  const problem = troubled.find((one) => one.problem === row.reason) ?? troubled[0];
  const says = (words) => problem?.problem.includes(words);
  const ways = [aboutFile(name, row)
    ?? aboutRecord(name, row, airflow?.errors, act)
    ?? (says("held for approval") ? whileHeld(me, problem, act) : null)
    ?? (says("-rollback ") ? afterRollback(me, problem, says, act) : null)
    ?? (says("tidegate rebase") ? afterLoss(me, problem, row.tables.length > 1, act) : null)
    ?? [lastFailure(row, airflow?.causes), adviceAlone(row.advice)]].flat(2).filter(Boolean);
  return card(row, bad?.fact ? h("p", {}, h("strong", {}, bad.fact)) : null, ways);
}

/** The same of a publication. */
export function whatToDoForPublication(name, row) {
  return STATES.includes(row.state) ? card(row, null, [aboutFile(name, row, "publications") ?? adviceAlone(row.advice)].flat().filter(Boolean)) : null;
}

// A message of another product's may name no step: the runbook has some for each.
const card = (row, fact, ways) => h("section", { class: "card", "aria-labelledby": "what-to-do" }, h("h2", { id: "what-to-do" }, "What to do"), fact,
  ways.length ? ways : row.runbook ? h("p", {}, "Read in the runbook how such a failure is found and mended: ", seePage(row.runbook, row.runbook.replaceAll("-", " "))) : null);

const isFileWrong = (row) => row.runbook === "pipeline-file" && Boolean(row.needs_person);

const EFFECT = /^(nothing (was|is) |the batch stays )/; // what is known to have happened, beside what to do

function adviceAlone(advice) {
  const clauses = advice ? advice.split(/; |\n/) : [];
  const steps = clauses.filter((one) => !EFFECT.test(one));
  const effects = clauses.filter((one) => EFFECT.test(one)).join("; ");
  return clauses.length ? [h("ul", {}, steps.map((one) => h("li", {}, commandsIn(one)))), effects ? h("p", { class: "quiet" }, `${effects[0].toUpperCase()}${effects.slice(1)}.`) : null] : null;
}

/** What a queue is full of: the failure that lasts, where the state has a reason of its own. */
function lastFailure(row, causes) {
  const cause = row.state === "stuck" ? (causes ?? []).find((one) => !one.is_over && one.fact && one.fact !== row.fact) : null;
  return cause ? [h("p", {}, h("strong", {}, cause.fact)), cause.advice ? h("p", {}, commandsIn(cause.advice)) : null] : null;
}

// Nothing else helps: no run begins before the file is right.
const findFile = (name, row, folder) => /^(\S+\.ya?ml)(:\d+)?: /.exec(row.fact)?.[1] ?? `include/${folder}/${name}.yaml`;
const aboutFile = (name, row, folder = "pipelines") => (isFileWrong(row) ? h("ul", {}, h("li", {}, `Correct ${findFile(name, row, folder)}; this page reads it again by itself.`),
  command("bin/tidegate validate", "every problem of every file, each with its line")) : null);

/** `offsets` have the begin of each partition's log. */
export function commands(name, row, offsets, act) {
  if (isFileWrong(row)) return null;
  const me = quoted(name);
  const range = findRange(row.partitions ?? [], Array.isArray(offsets) ? offsets : []);
  return section("Commands",
    h("h3", {}, "Look"),
    h("ul", {}, command(`bin/tidegate status ${me}`, "position, lag and last batches"),
      command(`bin/tidegate plan ${me}`, "what the next batch would be; changes nothing")),
    h("h3", {}, "Move"),
    h("ul", {}, rebase(me, "shows what it skips or reads again, and asks; or: latest, group, a time, offsets", act),
      range ? command(`bin/tidegate backfill ${me} --range ${quoted(JSON.stringify(range))} --dry-run`, "what a backfill of these offsets would apply; changes nothing") : null));
}

// All that the log still has of the first partition of which the table has something.
function findRange(partitions, offsets) {
  const begins = new Map(offsets.map((one) => [`${one.topic} ${one.partition}`, one.begin]));
  const beginOf = (one) => begins.get(`${one.topic} ${one.partition}`) ?? 0;
  const found = partitions.find((one) => one.published > beginOf(one));
  return found ? { [found.topic]: { [found.partition]: [beginOf(found), found.published] } } : null;
}

function rebase(me, description, act, target = "earliest", table = null) {
  const to = { name: "to", label: "To", value: target, needed: true, hint: 'earliest, latest, group, remaining (partitions that lost records go to what is left), a time like 2026-01-01T00:00:00Z, or offsets like {"topic": {"0": 42}}; partitions that are not named stay, or begin where their topic was created again' };
  const [named, fixed] = table ? [`${me} --table ${quoted(table)}`, { action: "rebase", table }] : [me, { action: "rebase" }];
  return command(`bin/tidegate rebase ${named} --to ${quoted(target)}`, description, act("Move the position", "Records between the old and the new position are skipped, or read again.", fixed, [to]));
}

// A message about a bad record names it in two commands; shown as long as that is what stops the pipeline. What failed in a
// fleet may name other pipelines' records, too.
function aboutRecord(name, row, errors, act) {
  const last = ["stuck", "failing"].includes(row.state) ? errors?.[0]?.message : null;
  const texts = [row.reason, last, ...(row.tables ?? []).map((one) => one.problem)];
  const me = name.replace(/\W/g, "\\$&");
  const found = (word) => new RegExp(`tidegate (${word} ${me} --at ([^\\s;,]+))`).exec(texts.join("\n"));
  const [look, skip] = [found("record"), found("skip")];
  if (!look) return null;
  return h("ol", {},
    skip ? command(`bin/tidegate ${skip[1]}`, "set exactly this record aside as a dead letter; shows it first, and asks",
      act("Skip this record", "It is shown with each field as the decoder reads it. The next batch sets exactly this record aside as a dead letter.", { action: "skip", at: skip[2] })) : null,
    command(`bin/tidegate ${look[1]}`, "its bytes, and each field with the expected type and what was found; changes nothing"),
    command("errors: {tolerance: all}", `below source: in include/pipelines/${name}.yaml sets every bad record aside from now on, up to errors.max_per_batch`),
    h("li", {}, "Or correct format or schema in the pipeline file, or the producer; the batch is read again."));
}

// The message names those of the ways that there are: without a tag nothing can be undone.
function afterRollback(me, problem, says, act) {
  const table = `${me} --table ${quoted(problem.table)}`;
  const button = (label, title, action) => act(label, title, { action, table: problem.table });
  return h("ol", {},
    says("undo-rollback") && command(`bin/tidegate undo-rollback ${table}`, "it was a mistake: shows which snapshots and rows come back, and asks", button("Undo the rollback", "What was rolled back becomes current again; nothing is read a second time.", "undo-rollback")),
    says("--rewind") && command(`bin/tidegate answer-rollback ${table} --rewind`, "its records shall be read again; shows which, and asks", button("Read again", "The records that the rollback took away are read again.", "rewind")),
    says("--keep") && command(`bin/tidegate answer-rollback ${table} --keep`, "they shall stay out of the table: go on after the recorded position; asks", button("Leave out", "The records that the rollback took away stay out of the table.", "keep")),
    says("tidegate rebase") && rebase(me, "move the position of this table; shows what that skips or reads again, and asks", act, findTarget(problem), problem.table));
}

// Nothing is published by a decision: the next flush makes the diff again, and compares it with the one that was shown.
function whileHeld(me, problem, act) {
  const table = `${me} --table ${quoted(problem.table)}`;
  return h("ol", {},
    command(`bin/tidegate approve ${table}`, "the next flush publishes exactly this diff; shows it first, and asks", act("Approve", "The next flush publishes the batch, if its diff is still the one that is shown.", { action: "approve", table: problem.table })),
    command(`bin/tidegate reject ${table}`, "it stays staged, and nothing of the table is published; --skip leaves its records out", act("Reject", "The batch stays staged, and nothing of the table is published.", { action: "reject", table: problem.table })));
}

function afterWhat(problem) {
  if (/created again/.test(problem)) return "read the new topic from its begin; shows how many records these are, and asks";
  if (/the log was cut/.test(problem)) return "read the records after the cut; shows them first, and asks";
  if (/is not read any more/.test(problem)) return "leave that topic, and all others where they are; shows it first, and asks";
  return "go on from the oldest record that is left; it shows what is lost, and asks";
}

// The message names the offsets that read on from a cut, or from a loss.
function findTarget(problem) {
  const [, offsets, word] = / --to (?:'([^']+)'|(\w+))/.exec(problem.problem) ?? [];
  return offsets ?? word;
}

// Of several tables only this one moves.
function afterLoss(me, problem, isOneOfSeveral, act) {
  return h("ol", {},
    rebase(me, afterWhat(problem.problem), act, findTarget(problem), isOneOfSeveral ? problem.table : null),
    h("li", {}, "Or these are the wrong brokers: correct the connection, and the next run goes on."));
}
