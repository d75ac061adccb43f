// Which of the pages this address is, and reading it again while somebody looks.
import { leaveTab, NotLoggedIn, read } from "./airflow.js";
import { h, show, trouble } from "./dom.js";
import { setNow } from "./format.js";
import { letters } from "./letters.js";
import { overview } from "./overview.js";
import { pipeline } from "./pipeline.js";
import { publication } from "./publication.js";
import { runbook } from "./runbook.js";

const EVERY = 5000;
const main = document.getElementById("main");
const place = decodeURIComponent(location.pathname.slice(new URL(document.baseURI).pathname.length));
const [kind, name, part] = place.split("/");
let page = { nothing: true };
if (place === "") page = overview();
else if (kind === "pipelines" && part === "dead-letters") page = letters(name);
else if (kind === "pipelines") page = pipeline(name);
else if (kind === "publications") page = publication(name);
else if (kind === "runbook") page = runbook(name);

async function again() {
  let pause = EVERY;
  try {
    const answer = await read(page.asks());
    setNow(answer.now);
    page.show(answer, again);
    main.removeAttribute("data-old");
    document.body.dataset.read = String(Number(document.body.dataset.read ?? 0) + 1);
  } catch (problem) {
    showProblem(problem);
    pause *= 3;
  }
  return pause;
}

function showProblem(problem) {
  const line = trouble(problem.message);
  line.id = "problem";
  if (problem instanceof NotLoggedIn) line.append(" ", problem.way);
  document.getElementById("problem")?.remove();
  if (main.querySelector("table, dl")) main.prepend(line);
  else show(main, line);
  main.setAttribute("data-old", "");
}

async function watch() {
  const pause = document.hidden ? EVERY : await again();
  setTimeout(watch, pause);
}

leaveTab();
if (page.nothing) {
  show(main, h("p", { class: "quiet" }, "This DAG belongs to no pipeline of Tidegate. "), h("a", { href: "./" }, "All pipelines"));
} else {
  if (page.every) watch();
  else again();
}
