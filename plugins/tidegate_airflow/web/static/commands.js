// What can be done about a pipeline from a shell, ready to be copied. Each shows first what it would do, and asks.
import { command, h, section } from "./dom.js";

const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function commands(name, row, errors) {
  const me = quoted(name);
  const [topic] = row.partitions ?? [];
  const range = topic ? JSON.stringify({ [topic.topic]: { [topic.partition]: [0, topic.published] } }) : '{"topic": {"0": [0, 100]}}';
  const problem = (row.tables ?? []).find((one) => one.problem);
  return section("Commands",
    aboutRecord(row, errors),
    problem && /rolled back/.test(problem.problem) ? afterRollback(me, problem.table) : null,
    problem && /log|offset|cluster|topic/.test(problem.problem) && !/rolled back/.test(problem.problem) ? afterLoss(me) : null,
    h("h3", {}, "Look"),
    h("ul", {}, command(`bin/tidegate status ${me}`, "position, lag and last batches"),
      command(`bin/tidegate plan ${me}`, "what the next batch would be; changes nothing")),
    h("h3", {}, "Move"),
    h("ul", {}, command(`bin/tidegate rebase ${me} --to earliest`, "shows what it skips or reads again, and asks; or: latest, group, a time, offsets"),
      command(`bin/tidegate backfill ${me} --range ${quoted(range)} --dry-run`, "what a backfill of these offsets would apply; changes nothing")));
}

// A message about a bad record names it in two commands; shown as long as that is what stops the pipeline.
function aboutRecord(row, errors) {
  const last = ["stuck", "failing"].includes(row.state) ? errors?.[0]?.message : null;
  const texts = [row.reason, last, ...(row.tables ?? []).map((one) => one.problem)];
  const found = (word) => [...(texts.join("\n").matchAll(new RegExp(`tidegate (${word} \\S+ --at [^\\s;,]+)`, "g")))].map((match) => match[1])[0];
  const [look, skip] = [found("record"), found("skip")];
  return look && [h("h3", {}, "A record cannot be decoded: look at it, then choose"), h("ol", {},
    command(`bin/tidegate ${look}`, "its bytes, and each field with the expected type and what was found; changes nothing"),
    skip ? command(`bin/tidegate ${skip}`, "set exactly this record aside as a dead letter; shows it first, and asks") : null,
    h("li", {}, "Or correct the schema in the pipeline file, or the producer; the batch is read again."))];
}

function afterRollback(me, tableName) {
  const table = `${me} --table ${quoted(tableName)}`;
  return [h("h3", {}, "The table was rolled back: choose one"), h("ol", {},
    command(`bin/tidegate undo-rollback ${table}`, "it was a mistake: shows which snapshots and rows come back, and asks"),
    command(`bin/tidegate answer-rollback ${table} --rewind`, "its records shall be read again; shows which, and asks"),
    command(`bin/tidegate answer-rollback ${table} --keep`, "they shall stay away: go on after the recorded position; asks"))];
}

function afterLoss(me) {
  return [h("h3", {}, "The log is not what was read: choose one"), h("ol", {},
    h("li", {}, "The wrong brokers: correct the connection, and the next run goes on."),
    command(`bin/tidegate rebase ${me} --to earliest`, "go on from the oldest record that is left; it shows what is lost, and asks"))];
}
