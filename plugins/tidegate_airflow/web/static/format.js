// Numbers and times as people read them. Ages are counted from the server's clock.
let serverTime = Date.now();
let readHere = Date.now();

/** Set the server's clock from an answer. */
export function setNow(text) {
  serverTime = Date.parse(text);
  readHere = Date.now();
}

const now = () => serverTime + (Date.now() - readHere);
const whole = new Intl.NumberFormat("en");
const rough = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1234567 → 1,234,567; unknown is a dash. */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
/** 1 → 1 record, 2 → 2 records; unknown is a dash. */
export const plural = (value, one, several) => `${number(value)} ${value === 1 ? one : several}`;
/** 1234567 → 1.2M */
export const compact = (value) => (value === null || value === undefined ? "–" : rough.format(value));

/** Whether no partition of a table or pipeline could be read, as its topic is not there: nobody knows what waits. */
export const isUnread = (row) => row.lag_known === false;

/** The offsets that wait; unknown is a dash. */
export const lag = (row) => (isUnread(row) ? "–" : number(row.lag));

/** 4000 → 1 h 6 min: the two largest units, or one that says enough. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 1) return seconds === 0 ? "0 s" : "< 1 s";
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${unit}`);
    else if (parts.length) break;
    if (parts.length === 2 || (parts.length === 1 && count > 9)) break;
  }
  return parts.join(" ");
}

/** How long ago, or in how long; with the moment itself as its title. */
export function ago(text) {
  if (!text) return "–";
  const seconds = (now() - Date.parse(text)) / 1000;
  const words = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  const time = document.createElement("time");
  time.dateTime = text;
  time.title = new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) + ` (${text})`;
  time.textContent = words;
  return time;
}

const OLD_SECONDS = 15;

/** Of numbers that were read a while ago: when; nothing while they are new. `readAt` counts seconds since the epoch. */
export function asOf(readAt) {
  if (!readAt || now() / 1000 - readAt < OLD_SECONDS) return null;
  const line = document.createElement("div");
  line.className = "quiet";
  line.append("as of ", ago(new Date(readAt * 1000).toISOString()));
  return line;
}

/** When something is to come: in how long, or that its time has come. */
export const due = (text) => (text && Date.parse(text) <= now() ? "due" : ago(text));

/** The moment in the reader's own time zone. */
export function moment(text) {
  if (!text) return "–";
  const time = document.createElement("time");
  time.dateTime = text;
  time.title = text;
  time.textContent = new Date(text).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  return time;
}

/** 1500000 → 1.4 MiB; unknown is a dash. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${size < 10 && unit !== "B" ? size.toFixed(1) : Math.round(size)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}
