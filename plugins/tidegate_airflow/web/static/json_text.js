// JSON as people read it. A browser's own numbers have 53 bits, and of a name that stands twice it keeps one: the text itself is laid out.
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const OPENING = ["{", "["];

/** The text with a line for each value, and each value as it is written; SyntaxError where it is no JSON. */
export function indentJson(text) {
  JSON.parse(text);
  let laid = "";
  let depth = 0;
  let last = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const token of text.match(TOKEN) ?? []) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (closes ? !OPENING.includes(last) : OPENING.includes(last) || last === ",") laid += line();
    laid += token === ":" ? ": " : token;
    if (OPENING.includes(token)) depth += 1;
    last = token;
  }
  return laid;
}
