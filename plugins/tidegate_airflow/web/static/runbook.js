// A page of the runbook: its Markdown as elements. Text is set as text, and links lead to other pages of it alone.
import { h, show } from "./dom.js";

/** A link to what the runbook says; nothing where no page is named. */
export const seePage = (name, text = "Runbook") => (name ? h("a", { class: "see", href: `runbook/${name}`, "data-key": `runbook-${name}` }, text) : null);

export function runbook(name) {
  show(document.getElementById("head"), h("nav", { "aria-label": "Where you are" }, h("a", { href: "./" }, "Pipelines"), " / ", h("a", { href: "runbook/README" }, "runbook"), " / "));
  return {
    every: false,
    asks: () => `runbook/${encodeURIComponent(name)}`,
    show: (answer) => {
      const [title, ...blocks] = answer.text.trim().split(/\n{2,}/);
      document.title = title.replace(/^# /, "");
      document.querySelector("#head h1")?.remove();
      document.getElementById("head").append(h("h1", {}, document.title));
      show(document.getElementById("main"), h("article", { class: "text" }, blocks.map(block)));
    },
  };
}

const ITEM = /^(-|\d+\.) /;

// a paragraph, or a list that may begin right behind one
function block(text) {
  const lines = text.split("\n");
  if (text.startsWith("## ")) return h("h2", {}, text.slice(3));
  if (lines[0].startsWith("| ")) return table(lines);
  const start = lines.findIndex((line) => ITEM.test(line));
  if (start < 0) return h("p", {}, words(lines.join(" ")));
  const items = [];
  for (const line of lines.slice(start)) {
    if (ITEM.test(line)) items.push(line.replace(ITEM, ""));
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  const list = h(/^\d/.test(lines[start]) ? "ol" : "ul", {}, items.map((item) => h("li", {}, words(item))));
  return start ? [h("p", {}, words(lines.slice(0, start).join(" "))), list] : list;
}

function table(lines) {
  const cells = (line) => line.slice(1, -1).split("|").map((cell) => cell.trim());
  const [head, , ...rows] = lines.map(cells);
  return h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Ways out" }, h("table", {}, h("caption", { class: "hidden" }, "Ways out"),
    h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { "data-title": head[at] }, words(cell))))))));
}

// `code`, **strong**, *emphasis* and [links](other-page.md); of a page that only the manual has, its file is named
function words(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/).map((part) => {
    if (part.startsWith("`")) return h("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return h("strong", {}, part.slice(2, -2));
    if (part.startsWith("*")) return h("em", {}, part.slice(1, -1));
    const [, shown, address] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part) ?? [];
    return shown ? reference(shown, address) : part;
  });
}

function reference(shown, address) {
  const page = /^([a-z-]+|README)\.md(#.*)?$/.exec(address)?.[1];
  if (page) return h("a", { href: `runbook/${page}` }, shown);
  if (/^https?:/.test(address)) return h("a", { href: address, target: "_blank", rel: "noopener" }, shown);
  return [shown, h("span", { class: "quiet" }, ` (docs/${address.replace(/^\.\.\//, "").replace(/#.*/, "")})`)];
}
