// The dead letters of one pipeline, page by page, as people can read them.
import { keepAddress, read } from "./airflow.js";
import { h, quiet, show, table } from "./dom.js";
import { ago, moment, number, plural } from "./format.js";
import { indentJson } from "./json_text.js";
import { pausedLine } from "./paused.js";
import { remedies } from "./action_buttons.js";
import { replayButton, replayOneButton } from "./replay.js";

const NEAR = 40;

export function letters(name) {
  const at = () => Math.max(1, Number(new URLSearchParams(location.search).get("page")) || 1);
  const home = `pipelines/${encodeURIComponent(name)}`;
  show(document.getElementById("head"),
    h("nav", { "aria-label": "Where you are" }, h("a", { href: "./" }, "Pipelines"), " / ", h("a", { href: home }, name), " / "),
    h("h1", {}, "Dead letters"));
  let rights = null;
  return {
    every: false,
    asks: () => `pipelines/${encodeURIComponent(name)}/dead-letters?page=${at()}`,
    show: async (answer, again) => {
      rights ??= await read(`pipelines/${encodeURIComponent(name)}`).catch(() => ({ may: {}, airflow: {} }));
      const dags = rights.airflow.dags ?? {};
      const dag = dags.replay;
      const act = remedies(dags.actions, rights.may.actions, again);
      const discard = (asked, fields = []) => act("Discard", "They wait no longer and are never replayed. Their rows stay in the table, with who discarded them and why.", { action: "discard", ...asked }, [...fields, BECAUSE]);
      const ways = (row) => {
        const one = { table: row.table, offsets: [`${row.topic}:${row.partition}:${row.offset}`] };
        return [dag && rights.may.replay ? replayOneButton(name, one, dag, again) : null, " ", discard(one)];
      };
      show(document.getElementById("main"), lead(answer),
        answer.waiting ? h("div", { class: "actions" }, replayButton(name, answer.waiting, dag, rights.may.replay, again), discard({}, CHOICE)) : null,
        answer.waiting ? [rights.may.replay && pausedLine(dag), rights.may.actions && pausedLine(dags.actions)] : null,
        answer.dead_letters.length ? [list(answer, rights.may.replay || rights.may.actions ? ways : null), pager(answer, again)] : quiet("No record waits here."));
    },
  };
}

const lead = (answer) => h("p", {}, `${plural(answer.waiting, "waits", "wait")}, ${plural(answer.replayed, "was", "were")} replayed. They are in the table `, h("code", {}, answer.table), ".");

const BECAUSE = { name: "because", label: "Because", needed: true, hint: "Why they will never be needed; kept with each of them" };
const CHOICE = [
  { name: "reason", label: "Reason contains", hint: "Empty: all that wait" },
  { name: "topic", label: "Topic", hint: "Empty: of all topics" },
  { name: "since", label: "Since", hint: "Set aside at this time or later, e.g. 2026-01-01T00:00:00Z" },
];

const COLUMNS = [
  { title: "Set aside", cell: (row) => ago(row.written_at) },
  { title: "Table", cell: (row) => row.table },
  { title: "Place in the log", cell: (row) => `${row.topic}:${row.partition}:${row.offset}` },
  { title: "Record time", cell: (row) => moment(row.timestamp) },
  { title: "Batch", number: true, cell: (row) => number(row.batch) },
  { title: "What is wrong", cell: (row) => [h("strong", {}, `${row.stage}: `), h("span", { class: "message" }, row.message), content(row)] },
];

const list = (answer, ways) => table("Dead letters", ways ? [...COLUMNS, { title: "Do", cell: ways }] : COLUMNS, answer.dead_letters);

const content = (row) => h("details", { "data-key": `${row.table} ${row.topic} ${row.partition} ${row.offset}` }, h("summary", {}, "Key, value, headers"),
  h("dl", { class: "record" }, part("key", row), part("value", row),
    row.headers.length ? [h("dt", {}, "headers"), h("dd", {}, row.headers.map((one) => h("div", {}, h("code", {}, `${one.key}: ${one.value ?? one.value_base64 ?? "null"}`))))] : null));

function part(name, row) {
  const [how, text] = readable(row[name], row[`${name}_base64`]);
  return [h("dt", {}, name, " ", h("span", { class: "quiet" }, how)), h("dd", {}, h("pre", {}, text))];
}

// JSON as JSON, text as text, Avro's frame by its schema id, anything else as hexadecimal
function readable(text, encoded) {
  if (encoded) {
    const bytes = Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));
    const framed = bytes.length > 5 && bytes[0] === 0;
    const id = framed ? new DataView(bytes.buffer).getUint32(1) : null;
    return [framed ? `${number(bytes.length)} bytes, framed with schema id ${id}` : `${number(bytes.length)} bytes`, hex(bytes)];
  }
  if (text === null || text === undefined) return ["null", "null"];
  try {
    return ["JSON", indentJson(text)];
  } catch (problem) {
    const at = Number(/position (\d+)/.exec(problem.message)?.[1] ?? Number.NaN);
    const near = Number.isNaN(at) || !/^\s*[[{]/.test(text) ? "" : `, not JSON near: ${text.slice(Math.max(0, at - NEAR), at + NEAR)}`;
    return [`text${near}`, text];
  }
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, 4096); at += 16) {
    const part = [...bytes.slice(at, at + 16)];
    const codes = part.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes}  ${part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n");
}

function pager(answer, again) {
  if (answer.pages < 2) return null;
  const to = (page) => {
    keepAddress(`?page=${page}`);
    again().then(() => document.getElementById("main").focus());
  };
  const turn = (text, page, possible) => h("button", { type: "button", "data-key": text, disabled: !possible, click: () => to(page) }, text);
  return h("nav", { class: "actions", "aria-label": "Pages" }, turn("Newer", answer.page - 1, answer.page > 1),
    h("span", {}, `page ${number(answer.page)} of ${number(answer.pages)}`), turn("Older", answer.page + 1, answer.page < answer.pages));
}
