// All pipelines in one table, the worst first.
import { keepAddress, link, runPath } from "./airflow.js";
import { command, h, quiet, section, show, table } from "./dom.js";
import { ago, asOf, bytes, compact, due, isUnread, lag, number, plural, span } from "./format.js";
import { publications } from "./publication.js";
import { badge, showState, STATES } from "./state.js";
import { foldClass, unfoldButton } from "./unfold.js";

const rank = (row) => STATES.indexOf(row.state);
const age = (text) => (text ? -Date.parse(text) : Number.POSITIVE_INFINITY);
const statesWithReason = new Set(["stuck", "failing", "unknown"]);
// what is paused cannot be resumed while nobody answers, or a table cannot be read
const isExplained = (row) => statesWithReason.has(row.state) || (row.state === "paused" && ((row.error && !row.looking) || row.tables?.some((one) => one.problem)));

const name = (row) => [
  h("a", { href: `pipelines/${encodeURIComponent(row.pipeline)}`, "data-key": `p-${row.pipeline}` }, row.pipeline),
  isExplained(row) ? h("div", { class: "reason" }, row.fact) : h("div", { class: "quiet" }, row.description),
  unfoldButton(`p-${row.pipeline}`),
];

const rows = (flush) => {
  if (!flush) return "–";
  const parts = [["+", flush.inserted, "inserted"], ["~", flush.updated, "updated"], ["−", flush.deleted, "deleted"]];
  return h("span", { class: "changes" }, parts.map(([sign, count, word]) =>
    h("span", { class: count ? word : "quiet", title: `${number(count)} ${word}` }, h("span", { "aria-hidden": "true" }, sign), compact(count), h("span", { class: "hidden" }, ` ${word} `))));
};

const COLUMNS = [
  { key: "state", title: "State", cell: (row) => [badge(row.state), row.paused && row.state !== "paused" ? h("div", { class: "quiet" }, "paused") : null, asOf(row.read_at)], sort: rank },
  { key: "pipeline", title: "Pipeline", head: true, cell: name, sort: (row) => row.pipeline },
  { key: "lag", title: "Lag", hint: "Offsets that wait", number: true, cell: (row) => lag(row), sort: (row) => -(row.lag ?? -1) },
  { key: "behind", title: "Behind", hint: "Age of the oldest record that is not published", number: true, cell: (row) => ("lag" in row && !isUnread(row) ? span(row.lag_seconds) : "–"), sort: (row) => -(row.lag_seconds ?? -1) },
  { key: "fresh", minor: true, title: "Complete to", hint: "Record time up to which every table is complete", number: true, cell: (row) => ago(row.freshness), sort: (row) => age(row.freshness) * -1 },
  { key: "flush", minor: true, title: "Last flush", number: true, cell: (row) => ago(row.last_flush?.published_at), sort: (row) => age(row.last_flush?.published_at) },
  { key: "took", minor: true, title: "Took", number: true, cell: (row) => (row.last_flush ? span(row.last_flush.seconds) : "–"), sort: (row) => -(row.last_flush?.seconds ?? -1) },
  { key: "rows", minor: true, title: "Rows", number: true, cell: (row) => rows(row.last_flush), sort: (row) => -((row.last_flush?.inserted ?? -1) + (row.last_flush?.updated ?? 0) + (row.last_flush?.deleted ?? 0)) },
  { key: "written", minor: true, title: "Written", hint: "Size of the files that the last flush added", number: true, cell: (row) => bytes(row.last_flush?.bytes_written), sort: (row) => -(row.last_flush?.bytes_written ?? -1) },
  { key: "letters", minor: true, title: "Dead letters", number: true, cell: (row) => (row.dead_letters ? h("a", { href: `pipelines/${encodeURIComponent(row.pipeline)}/dead-letters`, class: "warn", "data-key": `d-${row.pipeline}` }, number(row.dead_letters)) : number(row.dead_letters)), sort: (row) => -(row.dead_letters ?? -1) },
  { key: "next", minor: true, title: "Next run", number: true, cell: (row) => (row.last_run?.state === "running" ? "running" : row.paused === null ? "no DAG" : due(row.next_run)), sort: (row) => (row.next_run ? Date.parse(row.next_run) : Number.POSITIVE_INFINITY) },
  { key: "run", minor: true, title: "Last run", cell: (row) => (row.last_run ? link(runPath(row.last_run), row.last_run.state) : "–"), sort: (row) => row.last_run?.state ?? "" },
];

export function overview() {
  const asked = new URLSearchParams(location.search);
  const chosen = { text: asked.get("q") ?? "", state: asked.get("state") ?? "", tag: asked.get("tag") ?? "", key: asked.get("sort") ?? "state", down: asked.has("down") };
  let found = [];
  let published = [];
  const list = h("div", { id: "list" });
  const states = h("div", { class: "filters", role: "group", "aria-label": "Show only" });
  const tags = h("div", { class: "filters", role: "group", "aria-label": "Show only the tag" });
  const search = h("input", { type: "search", id: "search", placeholder: "Filter by name, table, tag, fleet or reason", "aria-label": "Filter pipelines", value: chosen.text,
    input: () => { chosen.text = search.value; again(); } });
  show(document.getElementById("head"), h("h1", {}, "Pipelines"), states, tags, search);

  const by = (key) => { chosen.down = chosen.key === key ? !chosen.down : false; chosen.key = key; again(); };
  const only = (state) => { chosen.state = chosen.state === state ? "" : state; again(); };

  const clear = () => { Object.assign(chosen, { text: "", state: "", tag: "" }); search.value = ""; again(); };

  const tagged = (tag) => { chosen.tag = chosen.tag === tag ? "" : tag; again(); };

  function again() {
    keep(chosen);
    const counts = STATES.map((state) => [state, found.filter((row) => row.state === state).length]).filter(([, count]) => count);
    show(states, counts.map(([state, count]) =>
      h("button", { type: "button", "aria-pressed": String(chosen.state === state), "data-key": `only-${state}`, click: () => only(state) }, badge(state), ` ${number(count)}`)));
    show(tags, countTags(found, chosen.tag).map(([tag, count]) =>
      h("button", { type: "button", "aria-pressed": String(chosen.tag === tag), "data-key": `tag-${tag}`, click: () => tagged(tag) }, `${tag} ${number(count)}`)));
    const shown = found.filter((row) => matches(row, chosen)).sort(order(chosen)).map((row) => ({ ...row, rowClass: foldClass(`p-${row.pipeline}`) }));
    const matching = shown.length ? table("Pipelines", COLUMNS, shown, { ...chosen, by }) : noMatch(clear);
    show(list, found.length ? [matching, footer(shown.length, found.length)] : nothing(), publications(published, chosen.text));
  }
  return {
    every: true,
    asks: () => "pipelines",
    show: (answer) => {
      found = answer.pipelines.map(showState);
      published = answer.publications?.map(showState);
      if (!list.isConnected) show(document.getElementById("main"), list);
      document.getElementById("problem")?.remove();
      again();
    },
  };
}

const nothing = () => section("No pipeline yet", h("ul", {}, command("bin/tidegate init --topic TOPIC --to lake.namespace.table", "proposes a file from a sample of the topic; its DAG and its line here appear by themselves")),
  quiet("You see the pipelines whose DAG you may see."));
const noMatch = (clear) => h("p", { id: "no-match" }, "No pipeline matches the filter. ", h("button", { type: "button", "data-key": "clear", click: clear }, "Show all"));
const footer = (shown, all) => h("p", { class: "quiet" }, shown === all ? plural(all, "pipeline", "pipelines") : `${number(shown)} of ${plural(all, "pipeline", "pipelines")}`);

/** Every tag with how many pipelines have it; the chosen one too when none has it any more, so that it can be taken off. */
function countTags(rows, chosen) {
  const counts = new Map(chosen ? [[chosen, 0]] : []);
  for (const tag of rows.flatMap((row) => row.tags ?? [])) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
}

function matches(row, chosen) {
  if (chosen.state && row.state !== chosen.state) return false;
  if (chosen.tag && row.tags && !row.tags.includes(chosen.tag)) return false; // a file that cannot be read has no tags: never hidden
  const text = [row.pipeline, row.fleet, row.description, row.reason, ...(row.tags ?? []), ...(row.tables ?? []).map((one) => one.table)].join(" ").toLowerCase();
  return chosen.text.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function order({ key, down }) {
  const column = COLUMNS.find((one) => one.key === key) ?? COLUMNS[0];
  return (one, other) => {
    const [a, b] = [column.sort(one), column.sort(other)];
    const way = a < b ? -1 : a > b ? 1 : one.pipeline < other.pipeline ? -1 : 1;
    return down ? -way : way;
  };
}

// the address says what is shown, so that it can be sent to somebody
function keep({ text, state, tag, key, down }) {
  const wanted = new URLSearchParams();
  if (text) wanted.set("q", text);
  if (state) wanted.set("state", state);
  if (tag) wanted.set("tag", tag);
  if (key !== "state") wanted.set("sort", key);
  if (down) wanted.set("down", "");
  const query = wanted.toString();
  keepAddress(query ? `?${query}` : "");
}
