// What can be done about a pipeline from a shell, ready to be copied. Each shows first what it would do, and asks.
import { command, h, section } from "./dom.js";

const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function commands(name, row) {
  const me = quoted(name);
  const [topic] = row.partitions ?? [];
  const range = topic ? JSON.stringify({ [topic.topic]: { [topic.partition]: [0, topic.published] } }) : '{"topic": {"0": [0, 100]}}';
  const problem = (row.tables ?? []).find((one) => one.problem);
  return section("Commands",
    problem && /rolled back/.test(problem.problem) ? afterRollback(name, problem.table) : null,
    problem && /log|offset|cluster|topic/.test(problem.problem) && !/rolled back/.test(problem.problem) ? afterLoss(me) : null,
    h("h3", {}, "Look"),
    h("ul", {}, command(`bin/tidegate status ${me}`, "position, lag and last batches"),
      command(`bin/tidegate plan ${me}`, "what the next batch would be; changes nothing")),
    h("h3", {}, "Move"),
    h("ul", {}, command(`bin/tidegate rebase ${me} --to earliest`, "shows what it skips or reads again, and asks; or: latest, group, a time, offsets"),
      command(`bin/tidegate backfill ${me} --range ${quoted(range)} --dry-run`, "what a backfill of these offsets would apply; changes nothing")));
}

function afterRollback(name, tableName) {
  const [catalog, ...rest] = tableName.split(".");
  const undo = `CALL ${catalog}.system.set_current_snapshot(table => '${rest.join(".")}', ref => 'tidegate_${name}')`;
  return [h("h3", {}, "The table was rolled back: choose one"), h("ol", {},
    command(undo, "it was a mistake: undo it in Spark SQL; nothing else is needed"),
    command("on_rollback: rewind", `the records shall be read again: put this into include/pipelines/${name}.yaml until the next flush is through`),
    command("on_rollback: keep", "they shall stay away: the same, and the pipeline goes on after the recorded position"))];
}

function afterLoss(me) {
  return [h("h3", {}, "The log is not what was read: choose one"), h("ol", {},
    h("li", {}, "The wrong brokers: correct the connection, and the next run goes on."),
    command(`bin/tidegate rebase ${me} --to earliest`, "go on from the oldest record that is left; it shows what is lost, and asks"))];
}
