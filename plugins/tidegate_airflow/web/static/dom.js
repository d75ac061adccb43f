// Elements, tables and buttons: text is always set as text, never as markup.

/** An element; attributes that are null or false are left out, functions become listeners. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what `place` shows, and keep the focus where it was: elements are known by their `data-key`. */
export function show(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const open = new Set([...place.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key));
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const one of place.querySelectorAll("details[data-key]")) if (open.has(one.dataset.key)) one.open = true;
  if (key) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** A table in a frame that scrolls sideways by itself; in a narrow window each row stands as a list of its cells. Columns: {title, cell(row), number, minor, sort(row), key}; minor ones are folded there. */
export function table(caption, columns, rows, sorted = null) {
  const head = columns.map((column) => headCell(column, sorted));
  const body = rows.map((row) =>
    h("tr", { class: row.rowClass ?? null }, columns.map((column) => {
      const cell = column.cell(row);
      return h(column.head ? "th" : "td", { class: classes(column), scope: column.head ? "row" : null, "data-title": column.title }, cell);
    })));
  return h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

const classes = (column) => [column.number && "number", column.minor && "minor"].filter(Boolean).join(" ") || null;

function headCell(column, sorted) {
  const attributes = { scope: "col", class: classes(column), title: column.hint ?? null };
  if (!sorted || !column.sort) return h("th", attributes, column.title);
  const way = sorted.key === column.key ? (sorted.down ? "descending" : "ascending") : "none";
  const mark = { ascending: "▲", descending: "▼", none: "" }[way];
  const button = h("button", { type: "button", class: "sort", "data-key": `sort-${column.key}`, click: () => sorted.by(column.key) },
    column.title, h("span", { "aria-hidden": "true" }, mark));
  return h("th", { ...attributes, "aria-sort": way }, button);
}

/** A heading with what belongs under it. */
export function section(title, ...children) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** One line of help where there is nothing, or where something did not answer. */
export const quiet = (text) => h("p", { class: "quiet" }, text);
export const trouble = (...what) => h("p", { class: "trouble" }, h("span", { "aria-hidden": "true" }, "! "), what);

/** Tell whoever listens; screen readers say it. */
export function say(...what) {
  const place = document.getElementById("said");
  place.replaceChildren(...what);
}

/** Our command as it can be typed: a checkout has it in `bin/`, an installed package on the path. */
export function typed(text) {
  return text.replaceAll("bin/tidegate", document.querySelector('meta[name="tidegate-command"]')?.content ?? "bin/tidegate");
}

/** A message with its commands as they can be typed. */
export const commandsIn = (text) => typed(text.replaceAll(/(with: |run: |by: |`)tidegate /g, "$1bin/tidegate "));

/** A command with a button that copies it, and one that does the same from here where there is one. */
export function command(words, description, act = null) {
  const text = typed(words);
  const button = h("button", { type: "button", class: "small", "aria-label": `Copy: ${text}`, click: () => copy(text, button) }, "Copy");
  return h("li", { class: "command" }, act, h("code", {}, breakable(text)), button, h("span", { class: "quiet" }, description));
}

// a line breaks between its words: a browser breaks `--table` behind its first dash, too
const breakable = (text) => text.split(/( )/).map((part) => (part.trim() ? h("span", {}, part) : part));

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

/** Ask before something is done; resolves to whether the answer was yes. */
export function ask(title, text, yes) {
  return new Promise((answer) => {
    const dialog = h("dialog", { "aria-labelledby": "ask-title" },
      h("form", { method: "dialog" }, h("h2", { id: "ask-title" }, title), h("p", {}, text),
        h("div", { class: "actions" },
          h("button", { value: "no" }, "Cancel"), h("button", { value: "yes", class: "primary" }, yes))));
    dialog.addEventListener("close", () => { dialog.remove(); answer(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
