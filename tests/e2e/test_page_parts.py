"""One pipeline's page, drawn from an answer, in a browser without Airflow: what comes first, and what is told once."""

import re
from typing import Any

import pytest
from e2e.browser import keep
from playwright.sync_api import Page, Route, expect
from tidegate.monitoring.health import split_reason

NOW = "2026-01-01T12:00:00Z"
HEAD = '<meta name="airflow-root" content="/"><link rel="stylesheet" href="/page.css">'
BODY = '<header id="head"></header><main id="main"></main><p id="said"></p>'
DAGS = {kind: {"dag_id": f"tidegate_users_{kind}", "paused": False} for kind in ("flush", "actions", "backfill")}
MAY = {"flush": True, "actions": True, "backfill": True, "replay": True, "pause": True}
ROW = {
    "pipeline": "users", "description": "", "state": "failing", "reason": "", "fact": "", "advice": "",
    "runbook": None, "error": None, "needs_person": False, "lag": 1, "lag_seconds": 61.0, "freshness": None,
    "staging": None, "tables": [], "partitions": [], "last_flush": None, "dead_letters": 0, "paused": False,
    "next_run": None, "last_run": None, "dag_id": "tidegate_users", "read_at": None, "fleet": None,
}  # fmt: skip
BAD = {
    "state": "failing",
    "reason": "stage failed: pipeline=users table=lake.app.Users batch=3: 1 record cannot be decoded; the first: …; "
    "look at it with: tidegate record users --at app.users:1:40; or set exactly this record aside with: "
    "tidegate skip users --at app.users:1:40",
    "fact": "the value does not fit value.schema, fields: score · app.users, partition 1, offset 40",
    "runbook": "bad-record",
}
FACT = 'field score is "many", not INT · app.users, partition 1, offset 40'
ROLLED_BACK = (
    "table=lake.app.Users was rolled back: it is gone; undo that with: tidegate undo-rollback users --table "
    "lake.app.Users; or read its records again with: tidegate answer-rollback users --table lake.app.Users --rewind; "
    "or go on after them with: tidegate answer-rollback users --table lake.app.Users --keep"
)
FILE = "/in/users.yaml:3: colour=red: unknown key; allowed: source\n/in/users.yaml:5: tables: missing; add it"


@pytest.fixture(autouse=True)
def _empty_page(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("([head, body]) => { document.head.innerHTML = head; document.body.innerHTML = body; }", [HEAD, BODY])
    page.wait_for_function("document.styleSheets.length > 0")


def draw(page: Page, row: dict[str, Any], airflow: dict[str, Any] | None = None, **parts: Any) -> None:
    """Draw the page of a pipeline; `parts` replace those of an answer that has nothing to tell."""
    answer = {
        "now": NOW, "pipeline": {**ROW, **row}, "offsets": [], "group_retention": None, "warnings": [],
        "past": {"batches": [], "advances": []}, "storage": [], "actions": [], "backfills": [], "bad_record": None,
        "airflow": {"dags": DAGS, "runs": [], "errors": [], "causes": [], "maintenance": [], **(airflow or {})},
        "may": MAY, **parts,
    }  # fmt: skip
    script = """async (answer) => {
      const [{ pipeline }, { setNow }] = await Promise.all([import('/pipeline.js'), import('/format.js')]);
      setNow(answer.now);
      pipeline('users').show(answer, () => {});
    }"""
    page.evaluate(script, answer)


def test_card_below_the_banner_has_the_value_and_then_the_button_without_scrolling(page: Page) -> None:
    runs = [{"dag_id": "tidegate_users", "run_id": f"r{n}", "state": "failed", "started": NOW} for n in range(20)]
    draw(page, BAD, {"runs": runs}, bad_record={"fact": FACT})
    alert, card = page.get_by_role("alert"), page.get_by_role("region", name="What to do")
    expect(alert).to_contain_text(
        "failing: the value does not fit value.schema, fields: score · app.users, partition 1"
    )
    expect(alert).not_to_contain_text("pipeline=users")
    expect(card.locator("p").first).to_have_text(FACT)
    button = card.get_by_role("button", name="Skip this record")
    expect(button).to_be_enabled()
    keep(page, "card-bad-record")
    for part in (card.locator("p").first, button):
        box = part.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 400, "no scrolling"
    order = page.locator("main > *").evaluate_all("all => all.map((one) => one.className || one.tagName)")
    assert order[:2] == ["banner failing", "card"]
    first = card.get_by_role("listitem").first
    assert first.evaluate("(one) => one.firstElementChild.tagName") == "BUTTON", "the button stands before its command"
    expect(first).to_contain_text("bin/tidegate skip users --at app.users:1:40")


def test_card_offers_those_ways_that_the_message_names(page: Page) -> None:
    table = {"table": "lake.app.Users", "problem": ROLLED_BACK, "needs_person": True, "open_batches": 0}
    fact, _, advice = ROLLED_BACK.partition("; ")
    row = {"state": "stuck", "reason": ROLLED_BACK, "fact": fact, "advice": advice, "runbook": "rolled-back"}
    draw(page, {**row, "tables": [table]})
    buttons = page.get_by_role("region", name="What to do").get_by_role("button").filter(has_text="…")
    expect(buttons).to_have_text(["Undo the rollback …", "Read again …", "Leave out …"])
    keep(page, "card-rolled-back")
    untagged = ROLLED_BACK.replace("undo that with: tidegate undo-rollback users --table lake.app.Users; or ", "")
    draw(page, {**row, "tables": [{**table, "problem": untagged}]})
    expect(buttons).to_have_text(["Read again …", "Leave out …"])


@pytest.mark.repeats("test_full_queue_has_the_failure_that_filled_it_in_the_card")
def test_other_failures_have_their_advice_in_the_card(page: Page) -> None:
    advice = "correct the audit in the pipeline file; see it with: tidegate status users"
    draw(page, {"fact": "audit name does not hold", "advice": advice, "runbook": "audit"})
    items = page.get_by_role("region", name="What to do").get_by_role("listitem")
    expect(items).to_have_text(["correct the audit in the pipeline file", "see it with: bin/tidegate status users"])


def test_full_queue_has_the_failure_that_filled_it_in_the_card(page: Page) -> None:
    """Not one that is over, and not what the banner says already; what happened is no step."""
    full = "its queue is full: open_batches=10 max_pending=10"
    task = {
        "dag_id": "tidegate_users",
        "run_id": "r1",
        "task_id": "merge",
        "map_index": -1,
        "at": NOW,
        "state": "failed",
    }
    cause = {"error": "AuditFailed", "runbook": "audit", "tasks": [task]}
    causes = [
        {**cause, "fact": "brokers=b:9092 took no connection", "advice": "start them", "is_over": True},
        {**cause, "fact": "audit no_negative does not hold: rows=3", "advice": "correct the audit", "is_over": False},
    ]
    advice = "nothing was merged; fix what its merge says"
    draw(page, {"state": "stuck", "fact": full, "advice": advice, "runbook": "table-stopped"}, {"causes": causes})
    card = page.get_by_role("region", name="What to do")
    expect(card.locator("p").first).to_have_text("audit no_negative does not hold: rows=3")
    expect(card).not_to_contain_text("brokers=b:9092")
    expect(card.get_by_role("listitem")).to_have_text(["fix what its merge says"])
    expect(card.locator("p").last).to_have_text("Nothing was merged.")
    expect(page.get_by_role("alert").get_by_role("link")).to_have_text("Runbook")


@pytest.mark.repeats("test_full_queue_has_the_failure_that_filled_it_in_the_card")
def test_message_without_a_step_leads_to_the_runbook_in_the_card(page: Page) -> None:
    draw(page, {"fact": "BigQuery refused it: quota", "advice": "", "runbook": "failed-task"})
    card = page.get_by_role("region", name="What to do")
    expect(card.get_by_role("link", name="failed task")).to_have_attribute("href", "runbook/failed-task")


PUBLICATION = {
    "publication": "out", "description": "", "state": "stuck", "error": None, "needs_person": False, "read_at": None,
    "table": "lake.app.users", "topics": ["out"], "delivery": "at_least_once", "snapshots_behind": 1, "rows_behind": 1,
    "behind_seconds": 61.0, "published_snapshot_id": None, "published_at_ms": None, "last_run": None, "paused": False,
    "next_run": None, "last_dag_run": None, "dag_id": "tidegate_publish_out", "runbook": "publication-refused",
}  # fmt: skip


def draw_publication(page: Page, row: dict[str, Any], *, may: bool = True) -> None:
    """Draw the page of a publication."""
    answer = {"now": NOW, "publication": {**PUBLICATION, **row}, "snapshots": [], "may": {"publish": may}}
    answer["airflow"] = {"runs": [], "errors": [], "causes": [], "assets": {}}
    script = """async (answer) => {
      const [{ publication }, { setNow }] = await Promise.all([import('/publication.js'), import('/format.js')]);
      setNow(answer.now);
      publication('out').show(answer, () => {});
    }"""
    page.evaluate(script, answer)


def test_card_of_a_publication_has_its_steps_and_the_banner_the_fact_alone(page: Page) -> None:
    reason = "publication=out topic=out: cleanup.policy=delete would let it go; set it to compact, or allow it"
    fact, advice = split_reason(reason)
    draw_publication(page, {"reason": reason, "fact": fact, "advice": advice})
    banner, card = page.get_by_role("alert"), page.get_by_role("region", name="What to do")
    expect(banner).to_contain_text("stuck: topic=out: cleanup.policy=delete would let it go")
    expect(banner).not_to_contain_text("set it to compact")
    expect(card.get_by_role("listitem")).to_have_text(["set it to compact, or allow it"])
    keep(page, "card-publication")
    draw_publication(page, {"state": "current", "reason": "nothing waits", "fact": "nothing waits", "advice": ""})
    expect(card).to_have_count(0)


@pytest.mark.repeats("test_numbers_say_what_they_count")
def test_publication_that_is_not_behind_says_that_nothing_waits(page: Page) -> None:
    behind = {"snapshots_behind": 0, "rows_behind": 0, "behind_seconds": 0.0, "state": "current", "fact": ""}
    draw_publication(page, behind)
    facts = page.locator("dl.facts")
    expect(facts).to_contain_text("0 snapshots")
    expect(facts).to_contain_text("nothing waits")
    expect(facts).not_to_contain_text("the oldest")
    draw_publication(page, {"fact": ""})
    expect(facts).to_contain_text("at most 1 changed row, the oldest for 1 min 1 s")


@pytest.mark.repeats("test_text_of_a_wrong_file_is_shown_once_with_its_lines_and_no_move_beside_it")
def test_publication_whose_file_is_wrong_says_so_to_whoever_may_start_everything(page: Page) -> None:
    text = "/in/publications/out.yaml:3: colour=red: unknown key; allowed: table"
    row = {"reason": text, "fact": text, "advice": "", "needs_person": True, "runbook": "pipeline-file", "dag_id": None}
    draw_publication(page, row, may=False)
    expect(page.get_by_role("region", name="What to do")).to_contain_text("Correct /in/publications/out.yaml")
    expect(page.get_by_text("This publication has no DAG yet")).to_be_visible()
    expect(page.get_by_text("Your role in Airflow")).to_have_count(0)
    draw_publication(page, {"state": "current", "reason": "", "fact": "", "advice": ""}, may=False)
    expect(page.get_by_text("Your role in Airflow may look, but start nothing")).to_be_visible()


def test_publications_of_a_narrow_list_unfold_and_a_filter_that_fits_none_says_so(page: Page) -> None:
    script = """async ([rows, words]) => document.getElementById('main').replaceChildren(
      (await import('/publication.js')).publications(rows, words))"""
    rows = [{**PUBLICATION, "reason": "x; y", "fact": "x", "advice": "y"}]
    page.evaluate(script, [rows, "lake.APP"])
    page.set_viewport_size({"width": 400, "height": 900})
    titles = "all => all.filter((one) => one.offsetParent).map((one) => one.dataset.title)"
    cells = page.locator("tbody tr").first.locator("th, td")
    wanted = ["State", "Publication", "Snapshots behind", "Behind"]
    assert cells.evaluate_all(titles) == wanted
    page.get_by_role("button", name="More").click()
    assert len(cells.evaluate_all(titles)) == 9
    page.evaluate(script, [rows, ""])
    assert len(cells.evaluate_all(titles)) == 9, "it stays open when the list is drawn again"
    page.get_by_role("button", name="Less").click()
    assert cells.evaluate_all(titles) == wanted
    page.evaluate(script, [rows, "nowhere"])
    expect(page.get_by_text("No publication matches the filter.")).to_be_visible()


@pytest.mark.repeats("test_card_of_a_publication_has_its_steps_and_the_banner_the_fact_alone")
def test_pipeline_that_is_well_has_no_card(page: Page) -> None:
    draw(page, {"state": "current", "reason": "nothing waits", "fact": "nothing waits", "lag": 0})
    expect(page.get_by_role("heading", name="What to do")).to_have_count(0)


def test_text_of_a_wrong_file_is_shown_once_with_its_lines_and_no_move_beside_it(page: Page) -> None:
    row = {"state": "stuck", "reason": FILE, "fact": FILE, "runbook": "pipeline-file", "error": FILE}
    row |= {"needs_person": True, "dag_id": None, "tables": None, "partitions": None}
    gone = {"error": FILE}
    parts = dict.fromkeys(("offsets", "group_retention", "warnings", "past", "storage", "actions", "backfills"), gone)
    draw(page, row, {"dags": {}}, may=dict.fromkeys(MAY, False), **parts)
    expect(page.get_by_role("alert").locator(".message")).to_have_text(FILE, use_inner_text=True)
    main = page.locator("main").inner_text()
    assert main.count("colour=red") == 1
    assert "rebase" not in main
    expect(page.get_by_role("region", name="What to do")).to_contain_text("bin/tidegate validate")
    expect(page.get_by_text("has no DAG yet")).to_be_visible()
    expect(page.get_by_text("Your role in Airflow")).to_have_count(0)
    keep(page, "card-wrong-file")


def test_last_errors_are_shown_by_cause_with_their_times_as_links(page: Page) -> None:
    tasks = [
        {"dag_id": "tidegate_users", "run_id": f"r{n}", "task_id": "stage", "map_index": n - 1, "state": "failed",
         "at": f"2026-01-01T11:5{n}:00Z"} for n in range(6)
    ]  # fmt: skip
    lasting = {"error": "BadRecord", "fact": "score is bad", "advice": "skip it", "runbook": "bad-record"}
    over = {"error": "RetryLater", "fact": "", "advice": "", "runbook": None}
    causes = [{**lasting, "is_over": False, "tasks": tasks}, {**over, "is_over": True, "tasks": tasks[:1]}]
    draw(page, {}, {"causes": causes})
    rows = page.get_by_role("table", name="Last errors").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("score is bad")
    expect(rows.nth(0)).to_contain_text("lasts")
    expect(rows.nth(0)).to_contain_text("and 2 before")
    links = rows.nth(0).locator("td a")
    expect(links).to_have_text(["10 min ago stage", "9 min ago stage[0]", "8 min ago stage[1]", "7 min ago stage[2]"])
    assert links.nth(1).get_attribute("href") == "/dags/tidegate_users/runs/r1/tasks/stage/mapped/0"
    expect(rows.nth(1)).to_contain_text("RetryLater: see the log of the task")
    expect(rows.nth(1)).to_contain_text("over")


def test_warning_has_no_name_that_the_page_has_and_a_command_that_can_be_typed(page: Page) -> None:
    text = (
        "pipeline=users table=lake.app.Users: dead letters=1 are gone; bring them in with: tidegate dead-letters users"
    )
    draw(page, {"state": "current"}, warnings=[text])
    expect(page.locator(".warnings li")).to_have_text(
        "table=lake.app.Users: dead letters=1 are gone; bring them in with: bin/tidegate dead-letters users"
    )


def test_way_out_of_an_error_can_be_typed_and_its_times_stand_in_a_line_each(page: Page) -> None:
    task = {"dag_id": "d", "run_id": "r", "task_id": "commit_offsets", "map_index": -1, "state": "failed"}
    task |= {"at": "2026-01-01T11:27:30Z"}
    advice = "look at it with: tidegate record users --at app.users:1:40; or set it aside with: tidegate skip users"
    cause = {"error": "BadRecord", "fact": "score is bad " * 30, "advice": advice, "runbook": None, "is_over": False}
    draw(page, {}, {"causes": [{**cause, "tasks": [task]}]})
    row = page.get_by_role("table", name="Last errors").locator("tbody tr")
    expect(row).to_contain_text(
        "look at it with: bin/tidegate record users --at app.users:1:40; or set it aside with: bin/tidegate skip users"
    )
    link = row.get_by_role("link", name="32 min ago commit_offsets")
    box = link.bounding_box()
    assert box is not None
    assert box["height"] < 20


def test_state_that_needs_nobody_has_its_reason_and_its_page_of_the_runbook(page: Page) -> None:
    waits = "5 records wait, the oldest for 1 h 2 min"
    for state, runbook in (("paused", "paused"), ("catching up", "behind")):
        draw(page, {"state": state, "reason": waits, "fact": waits, "runbook": runbook})
        line = page.locator("main").get_by_text(waits)
        expect(line).to_be_visible()
        expect(line.get_by_role("link", name="Runbook")).to_have_attribute("href", f"runbook/{runbook}")
        expect(page.get_by_role("alert")).to_have_count(0)
    draw(page, {"state": "current", "reason": "nothing waits", "fact": "nothing waits", "lag": 0})
    expect(page.get_by_role("link", name="Runbook")).to_have_count(0)


def list_pipelines(page: Page, *rows: dict[str, Any]) -> None:
    """Draw the list of all pipelines."""
    script = """async (answer) => {
      const [{ overview }, { setNow }] = await Promise.all([import('/overview.js'), import('/format.js')]);
      setNow(answer.now);
      overview().show(answer, () => {});
    }"""
    page.evaluate(script, {"now": NOW, "pipelines": [{**ROW, **row} for row in rows], "publications": []})


def test_paused_pipeline_shows_why_it_could_not_be_resumed(page: Page) -> None:
    """Only *paused* stood there while its broker refused every connection."""
    fact = "Kafka address=b:1 took no connection for 30 s"
    refused = {
        "state": "paused",
        "paused": True,
        "description": "Users",
        "error": f"{fact}; check that the server runs",
    }
    unreadable = {"pipeline": "orders", "state": "paused", "fact": "no catalog", "tables": [{"problem": "no catalog"}]}
    calm = {"pipeline": "calm", "state": "paused", "fact": "nothing waits", "description": "Calm"}
    list_pipelines(page, {**refused, "fact": fact, "runbook": "server-down"}, unreadable, calm)
    reasons = page.locator("tbody th div").filter(has_not=page.get_by_role("button"))
    expect(reasons).to_have_text(["Calm", "no catalog", fact])
    draw(page, {**refused, "fact": fact, "runbook": "server-down"})
    line = page.locator("main").get_by_text(fact)
    expect(line).to_contain_text("check that the server runs")
    expect(line.get_by_role("link", name="Runbook")).to_have_attribute("href", "runbook/server-down")


def test_button_of_a_paused_dag_says_why_it_is_off_to_keyboards_and_fingers_too(page: Page) -> None:
    """The reason was a title alone, which is shown to a mouse only."""
    dags = {kind: {**dag, "paused": kind != "flush"} for kind, dag in DAGS.items()}
    part = {"topic": "t", "partition": 0, "published": 0, "end": 1, "lag": 1, "lag_seconds": 1.0, "staging": None}
    draw(page, {"state": "current", "partitions": [part]}, {"dags": dags})
    backfill = page.get_by_role("button", name="Backfill")
    expect(backfill).to_be_disabled()
    expect(backfill).to_have_accessible_description(re.compile("tidegate_users_backfill is paused: unpause it first"))
    for kind in ("backfill", "actions"):
        line = page.locator("main p").get_by_text(f"The DAG tidegate_users_{kind} is paused: unpause it first.")
        expect(line).to_have_count(1)
        expect(line.get_by_role("link")).to_have_attribute("href", f"/dags/tidegate_users_{kind}")
    draw(page, {"state": "paused", "paused": True}, {"dags": {"flush": {**DAGS["flush"], "paused": True}}})
    expect(page.get_by_text("The DAG tidegate_users_flush is paused: resume it first.")).to_be_visible()
    draw(page, {"state": "current"}, {"dags": dags}, may={"flush": True})
    expect(page.get_by_text("is paused")).to_have_count(0)
    draw(page, {"state": "current"}, may={"backfill": True})
    expect(page.get_by_role("button", name="Flush now")).to_have_count(0)
    draw_publication(page, {"paused": True, "state": "paused", "fact": ""})
    expect(page.get_by_role("button", name="Publish now")).to_have_accessible_description(
        re.compile("is paused: unpause")
    )


def test_topic_that_is_not_there_has_no_lag_and_large_numbers_have_one_form(page: Page) -> None:
    problem = "topic=users does not exist on brokers=b:1"
    table = {
        "table": "lake.app.Users",
        "lag": 0,
        "lag_known": False,
        "lag_seconds": None,
        "problem": problem,
        "open_batches": 0,
        "max_pending": 1000,
    }
    gone = {"state": "stuck", "fact": problem, "lag": 0, "lag_known": False, "lag_seconds": None, "tables": [table]}
    table_of_many = {
        **table,
        "lag": 3468,
        "lag_known": True,
        "lag_seconds": 61.0,
        "problem": None,
        "open_batches": 1000,
    }
    flush = {"batch": 1234, "published_at": NOW, "seconds": 0.0, "stage_seconds": None, "inserted": 1, "updated": 0}
    many = {"state": "current", "lag": 3468, "tables": [table_of_many]}
    many["last_flush"] = {**flush, "deleted": 0, "bytes_written": None}
    list_pipelines(page, gone, {**many, "pipeline": "many"})
    cells = [page.locator("tbody tr").nth(row).locator("td").all_inner_texts()[1:3] for row in (0, 1)]
    assert cells == [["\N{EN DASH}", "\N{EN DASH}"], ["3,468", "1 min 1 s"]]
    draw(page, gone)
    expect(page.locator("dl.facts")).not_to_contain_text("0 offsets")
    expect(page.locator("dl.facts")).not_to_contain_text("nothing waits")
    shown = page.get_by_role("table", name="Tables").locator("tbody td")
    expect(shown).to_have_text(["\N{EN DASH}"] * 4 + ["0 of 1,000"])
    draw(page, many)
    expect(shown).to_have_text(["\N{EN DASH}", "3,468", "1 min 1 s", "\N{EN DASH}", "1,000 of 1,000"])
    expect(page.locator("dl.facts")).to_contain_text("batch 1,234 in 0 s: 1 inserted")


def test_first_look_that_is_under_way_is_no_alarm(page: Page) -> None:
    error = "not read yet: no answer for 2 s"
    row = {"pipeline": "users", "description": "Users", "state": "unknown", "error": error, "fact": error}
    looking = {name: value for name, value in ROW.items() if name not in ("lag", "lag_seconds", "tables")} | row
    list_pipelines(page, looking | {"looking": True}, looking | {"pipeline": "slow", "looking": False})
    expect(page.locator("tbody .state")).to_have_text(["?unknown", "…looking"])
    expect(page.locator("tbody .reason")).to_have_text([error])
    draw(page, looking | {"looking": True})
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("region", name="What to do")).to_have_count(0)
    expect(page.get_by_text("Brokers and catalog are asked for the first time.")).to_be_visible()
    expect(page.locator(".trouble")).to_have_count(0)
    keep(page, "looking")
    paused = looking | {"pipeline": "off", "state": "paused", "paused": True, "looking": True}
    list_pipelines(page, paused, looking | {"looking": True})
    expect(page.locator("tbody .state")).to_have_text(["…looking", "‖paused"])
    expect(page.locator("tbody .reason")).to_have_count(0)
    draw(page, paused)
    expect(page.get_by_text("Brokers and catalog are asked for the first time.")).to_be_visible()
    expect(page.locator(".trouble")).to_have_count(0)
    draw_publication(page, {"publication": "off", "state": "paused", "error": error, "fact": error, "looking": True})
    expect(page.get_by_text("Brokers and catalog are asked for the first time.")).to_be_visible()
    expect(page.locator(".trouble")).to_have_count(0)
    draw(page, looking | {"looking": False})
    expect(page.get_by_role("alert")).to_contain_text(error)


def test_batches_are_seen_whole_in_airflows_frame(page: Page) -> None:
    page.set_viewport_size({"width": 1372, "height": 900})  # 1440 without Airflow's navigation
    batch = {
        "batch": 104,
        "table": "lake.shop.customers",
        "published_at": NOW,
        "valid_through": NOW,
        "unknown_fields": None,
        "backfill": "b555f7cd0d 1/1",
    }
    counts = ("read", "staged", "superseded", "filtered", "dead_lettered", "gaps", "inserted", "updated", "deleted")
    batch |= {"seconds": 12.0, "stage_seconds": 21.0, "bytes_written": 1_500_000} | dict.fromkeys(counts, 123_456)
    draw(page, {"state": "current"}, past={"batches": [batch], "advances": []})
    frame = page.get_by_role("region", name="Newest batches")
    assert frame.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    titles = frame.locator("tbody tr > *").evaluate_all("all => all.map((one) => one.dataset.title)")
    assert [title for title in titles if not title[0].isupper()] == [], "a narrow window shows them as they are"
    assert frame.locator("tbody tr > *").nth(titles.index("Unknown fields")).inner_text() == "\N{EN DASH}"


def test_offsets_of_the_backfill_that_is_offered_are_in_the_log_and_in_the_table(page: Page) -> None:
    parts = [{**PARTS[0], "published": 0}, PARTS[1]]
    offsets = [{"topic": "app.users", "partition": p, "begin": b, "committed": None} for p, b in ((0, 0), (1, 7))]
    draw(page, {"state": "current", "partitions": parts}, offsets=offsets)
    commands = page.get_by_role("region", name="Commands")
    expect(commands).to_contain_text("""bin/tidegate backfill users --range '{"app.users":{"1":[7,40]}}' --dry-run""")
    draw(page, {"state": "current", "partitions": parts[:1]}, offsets=offsets)
    expect(commands).not_to_contain_text("backfill")


def test_dead_letter_names_its_place_as_commands_take_it(page: Page) -> None:
    letter = {"table": "lake.app.Users", "topic": "app.users", "partition": 1, "offset": 40, "written_at": NOW}
    letter |= {
        "timestamp": NOW,
        "batch": 3,
        "stage": "value",
        "message": "bad",
        "key": "k",
        "value": "v",
        "headers": [],
    }
    answer = {"waiting": 1, "replayed": 0, "table": "lake.app.dead", "page": 1, "pages": 1, "dead_letters": [letter]}
    page.route("**/api/**", lambda route: route.fulfill(json={"now": NOW, "airflow": {"dags": {}}, "may": {}}))
    page.evaluate("async (answer) => (await import('/letters.js')).letters('users').show(answer, () => {})", answer)
    row = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    expect(row.get_by_role("cell", name="app.users:1:40", exact=True)).to_be_visible()
    page.unroute("**/api/**")


@pytest.mark.repeats("test_last_errors_are_shown_by_cause_with_their_times_as_links")
def test_runs_are_named_by_their_times(page: Page) -> None:
    run = {"dag_id": "tidegate_users", "run_id": "scheduled__x", "state": "success", "started": "2026-01-01T11:00:00Z"}
    draw(page, {}, {"runs": [{**run, "ended": "2026-01-01T11:00:07Z"}]})
    row = page.get_by_role("table", name="Runs").locator("tbody tr")
    expect(row.get_by_role("link")).to_have_text("1 h ago")
    expect(row).not_to_contain_text("scheduled__x")


def test_numbers_say_what_they_count(page: Page) -> None:
    draw(page, {"state": "current", "dead_letters": 1, "lag": 1, "freshness": "2026-01-01T11:00:00Z"})
    facts = page.locator("dl.facts")
    expect(facts.get_by_role("link", name="1 waits")).to_be_visible()
    expect(facts).to_contain_text("1 offset")
    expect(facts).to_contain_text("age of the oldest record that waits")
    expect(facts).to_contain_text("records up to this time are in the tables")
    draw(page, {"state": "current", "dead_letters": 2, "lag": 0, "lag_seconds": 0.0})
    expect(facts.get_by_role("link", name="2 wait")).to_be_visible()
    expect(facts).to_contain_text("nothing waits")
    expect(facts).to_contain_text("unknown until each partition has had a record")


def test_two_ticks_of_an_axis_have_two_labels_and_the_legend_has_the_newest_numbers(page: Page) -> None:
    page.add_script_tag(url="/vendor/uplot-1.6.32.min.js")
    page.add_style_tag(url="/vendor/uplot-1.6.32.min.css")
    batches = [
        {"batch": n, "table": "t", "published_at": f"2026-01-01T11:00:{n:02}Z", "valid_through": "2026-01-01T10:59:59Z",
         "read": 1, "inserted": n % 2, "updated": 0, "deleted": 0, "seconds": 1.0, "stage_seconds": None}
        for n in range(9, 0, -1)
    ]  # fmt: skip
    draw(page, {"state": "current"}, past={"batches": batches, "advances": []})
    expect(page.locator("figure canvas")).to_have_count(2)
    for legend in page.locator(".u-legend").all():
        expect(legend).not_to_contain_text("--")
        label, value = (legend.locator(f"tr:last-child {cell}").bounding_box() for cell in ("th", "td"))
        assert label is not None
        assert value is not None
        assert value["x"] - label["x"] < 100, "a number stands beside what it counts"
    expect(page.locator(".u-legend").first).to_contain_text("10 s")
    keep(page, "charts")
    distinct = "import('/chart.js').then((one) => one.distinct(['1 s', '1 s', '2 s', '1 s']))"
    assert page.evaluate(distinct) == ["1 s", "", "2 s", "1 s"]


def test_lists_and_links_of_the_runbook_are_lists_and_links(page: Page) -> None:
    items = "**Do** one of:\n- a [page](bad-record.md)\n  that goes on\n- b"
    text = f"# Title\n\n{items}\n\n1. first\n2. [more](../operations.md#x)"
    script = """async (text) => (await import('/runbook.js')).runbook('x').show({ text })"""
    page.evaluate(script, text)
    expect(page.locator("article ul li")).to_have_text(["a page that goes on", "b"])
    expect(page.locator("article ol li")).to_have_text(["first", "more (docs/operations.md)"])
    expect(page.get_by_role("link", name="page", exact=True)).to_have_attribute("href", "runbook/bad-record")


def test_last_verification_of_a_table_stands_below_its_name(page: Page) -> None:
    counts = {"at": "2026-01-01T11:00:00Z", "position": {}, "sample_per_million": 1_000_000, "equal": 39}
    counts |= {"missing": 1, "surplus": 2, "different": 6, "unknowable": 1}
    wrong = {"table": "lake.app.Users", "open_batches": 0, "verified": counts}
    right = {**wrong, "table": "lake.app.Others", "verified": {**counts, "missing": 0, "surplus": 0, "different": 0}}
    draw(page, {"state": "current", "tables": [wrong, right, {**wrong, "table": "lake.app.New", "verified": None}]})
    cells = page.get_by_role("rowheader").filter(has_text="lake.app.")
    expect(cells.nth(0)).to_contain_text("1 missing, 2 too many, 6 different, 1 unknown")
    expect(cells.nth(0).get_by_role("link")).to_have_attribute("href", re.compile("rows-differ"))
    expect(cells.nth(1)).to_contain_text("equal to the log; 1 key unknown")
    expect(cells.nth(2)).to_have_text("lake.app.NewExplain a row …")
    keep(page, "verified-tables")


PLACE = {"topic": "app.users", "partition": 1, "timestamp": NOW}
RECORDS = [
    {**PLACE, "offset": 39, "key": '{"id": 1}', "value": '{"id": 1, "score": 7}'},
    {**PLACE, "offset": 40, "key": '{"id": 2}', "value": '{"id": 2, "score": "many"}'},
    {**PLACE, "offset": 41, "key": None, "key_hex": "00ff", "value": None},
]
FATES = (
    "app.users:1:39 lake.app.Users row\napp.users:1:39 lake.app.low filtered\n"
    "app.users:1:40 lake.app.Users bad: the value does not fit value.schema, fields: score\n"
    "app.users:1:41 lake.app.Users delete"
)


def test_records_of_a_partition_stand_beside_what_becomes_of_them(page: Page) -> None:
    """Raw ones come from the log, their fates from a run that changes nothing, each once somebody asks."""
    asked: list[tuple[str, Any]] = []

    def answer(route: Route) -> None:
        url = route.request.url
        asked.append((url.partition("page.test")[2], route.request.post_data_json))
        if "/records?" in url:
            route.fulfill(json={"now": NOW, "begin": 22, "end": 42, "records": RECORDS})
        elif "/xcomEntries/preview" in url:
            route.fulfill(json={"value": {"text": FATES, "digest": None, "pins": {}}})
        else:
            route.fulfill(json={"dag_id": "tidegate_users_actions", "dag_run_id": "r1", "state": "success"})

    page.route("**/api/**", answer)
    part = {"topic": "app.users", "partition": 1, "published": 39, "end": 42, "lag": 3, "lag_seconds": 5.0}
    row = {"state": "current", "reason": "", "fact": "", "partitions": [{**part, "partition": 0}, part]}
    draw(page, row)
    assert asked == []
    page.get_by_role("button", name="Records of app.users, partition 1").click()
    dialog = page.get_by_role("dialog")
    rows = dialog.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("hex 00ff")
    expect(rows.nth(1)).to_contain_text('"score": "many"')
    expect(rows.nth(1)).to_contain_text("not asked")
    dialog.get_by_role("button", name="What becomes of them").click()
    expect(rows.nth(1)).to_contain_text("bad: the value does not fit value.schema, fields: score")
    expect(rows.nth(2)).to_contain_text("filtered")
    expect(rows.first).to_contain_text("delete")
    assert asked[0] == ("/api/pipelines/users/records?around=app.users%3A1", None)
    assert asked[1][1]["conf"] == {"action": "look", "around": "app.users:1:32", "preview": True}
    keep(page, "records")
    page.set_viewport_size({"width": 400, "height": 900})
    keep(page, "records-narrow")
    dialog.get_by_role("button", name="Older").click()
    expect(rows.first).to_contain_text("not asked")
    assert asked[-1][0] == "/api/pipelines/users/records?around=app.users%3A1%3A12"
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.unroute("**/api/**")


@pytest.mark.repeats("e2e/test_page_of_many.py::test_viewer_is_offered_nothing_to_start")
def test_records_are_offered_to_nobody_who_may_start_no_action(page: Page) -> None:
    part = {"topic": "app.users", "partition": 0, "published": 39, "end": 42, "lag": 3, "lag_seconds": 5.0}
    draw(page, {"state": "current", "partitions": [part]}, may={**MAY, "actions": False})
    expect(page.get_by_role("button", name="Records of app.users, partition 0")).to_have_count(0)


ANSWER = """lake.app.Users: a row of key={"Id": 2}
  record: the record app.users:1:40 of 2026-01-01T00:00:00Z wrote it, in batch=7 snapshot=5
  app.users:1:39 2026-01-01T00:00:00Z row superseded
    2026-01-01T00:00:01Z batch=6 attempt=a1 snapshot=4
  app.users:1:40 2026-01-01T00:00:00Z row wrote the row"""


def test_row_is_explained_by_a_run_and_its_records_are_read_from_the_log(page: Page) -> None:
    asked: list[tuple[str, Any]] = []

    def answer(route: Route) -> None:
        url = route.request.url
        asked.append((url.partition("page.test")[2], route.request.post_data_json))
        if "/records?" in url:
            route.fulfill(json={"now": NOW, "begin": 30, "end": 42, "records": RECORDS})
        elif "/xcomEntries/preview" in url:
            route.fulfill(json={"value": {"text": ANSWER, "digest": None, "pins": {}}})
        else:
            route.fulfill(json={"dag_id": "tidegate_users_actions", "dag_run_id": "r1", "state": "success"})

    page.route("**/api/**", answer)
    draw(page, {"state": "current", "tables": [TABLE]})
    page.get_by_role("button", name="Explain a row of lake.app.Users").click()
    dialog = page.get_by_role("dialog", name="Explain a row")
    dialog.get_by_role("button", name="Explain").click()
    assert asked == [], "no key was given"
    dialog.get_by_label("Key").fill(' {"Id": 2} ')
    dialog.get_by_role("button", name="Explain").click()
    lines = dialog.get_by_label("Explanation").get_by_role("listitem")
    expect(lines).to_have_count(5)
    expect(lines.nth(1)).to_have_text(ANSWER.splitlines()[1], use_inner_text=True)
    page.set_viewport_size({"width": 400, "height": 900})
    assert [lines.nth(n).evaluate("(one) => getComputedStyle(one).paddingLeft") for n in (0, 1, 3)] == [
        "0px",
        "16px",
        "32px",
    ]
    page.set_viewport_size({"width": 1440, "height": 900})
    words = {"action": "explain", "key": '{"Id": 2}', "table": "lake.app.Users", "preview": True}
    assert asked[0][1]["conf"] == words
    keep(page, "explain")
    expect(dialog.get_by_role("button", name="Record app.users")).to_have_count(2)
    dialog.get_by_role("button", name="Record app.users:1:40").click()
    expect(page.get_by_role("dialog", name="Records of app.users, partition 1")).to_contain_text('"score": "many"')
    assert asked[-1][0] == "/api/pipelines/users/records?around=app.users%3A1%3A40"
    page.get_by_role("dialog", name="Records of app.users").get_by_role("button", name="Close").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.unroute("**/api/**")


@pytest.mark.repeats("e2e/test_page_of_many.py::test_viewer_is_offered_nothing_to_start")
def test_explanations_are_offered_to_nobody_who_may_start_no_action(page: Page) -> None:
    draw(page, {"state": "current", "tables": [TABLE]}, may={**MAY, "actions": False})
    expect(page.get_by_role("button", name="Explain a row")).to_have_count(0)


PARTS = [
    {"topic": "app.users", "partition": p, "published": 40, "end": 60, "lag": 20, "lag_seconds": 61.0} for p in (0, 1)
]
TABLE = {
    "table": "lake.app.Users", "problem": None, "needs_person": False, "runbook": None, "batch": 7, "lag": 20,
    "lag_seconds": 61.0, "valid_through": NOW, "open_batches": 1, "max_pending": 10, "verified": None,
}  # fmt: skip
AGAIN = (
    "table=lake.app.Users: topic=app.users was deleted and created again: topic_id=b recorded=a; its offsets mean "
    "other records now; move the position, e.g. with: tidegate rebase users --to earliest"
)
DOWN = (
    "Kafka connection=kafka_default address=b:9092 took no connection: Connection refused; check that the server runs"
)
AUDIT = (
    "merge failed: pipeline=users table=lake.app.Users batch=8: audit=low does not hold; correct the audit or the data"
)
HELD = (
    "pipeline=users table=lake.app.Users batch=8: held for approval: deletes_over=25%, inserted=0 updated=0 "
    "deleted=90; read branch=b, then publish it with: tidegate approve users --table lake.app.Users; or keep it back "
    "with: tidegate reject users --table lake.app.Users"
)
FULL = "table=lake.app.Users: its queue is full: open_batches=10 max_pending=10; fix what its merge says"
STATES = {  # by what is wrong: state, reason, what the remedy begins with
    "bad-record": ("failing", BAD["reason"], "Skip this record …"),
    "rolled-back": ("stuck", ROLLED_BACK, "Undo the rollback …"),
    "held": ("stuck", HELD, "Approve …"),
    "topic-again": ("stuck", AGAIN, "Move the position …"),
    "wrong-file": ("stuck", FILE, "Correct /in/users.yaml; this page reads it again by itself."),
    "queue-full": ("stuck", FULL, "fix what its merge says"),
    "brokers-down": ("unknown", DOWN, "check that the server runs"),
    "audit": ("failing", AUDIT, "correct the audit or the data"),
}


def test_command_of_a_narrow_window_breaks_between_its_words_and_lies_over_nothing(page: Page) -> None:
    """In the middle of a line its box cut the button above, and `--table` was broken behind its first dash."""
    page.set_viewport_size({"width": 400, "height": 900})
    table = {**TABLE, "problem": ROLLED_BACK, "needs_person": True}
    draw(page, {"state": "stuck", "reason": ROLLED_BACK, "fact": "gone", "advice": "x", "tables": [table]})
    item = page.get_by_role("region", name="What to do").get_by_role("listitem").nth(1)
    code = item.locator("code")
    expect(code).to_have_text("bin/tidegate answer-rollback users --table lake.app.Users --rewind")
    expect(code.locator("span")).to_have_count(6)
    lines = "all => all.map((one) => one.getClientRects().length)"
    assert set(code.locator("span").evaluate_all(lines)) == {1}, "each word lies in one line"
    above, below = item.get_by_role("button").first.bounding_box(), code.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]


@pytest.mark.repeats(
    "test_remedy_is_seen_without_scrolling_in_every_state_that_needs_a_person[bad-record-400]",
    "bad-record-1440",
    "rolled-back-1440",
    "rolled-back-400",
    "topic-again-1440",
    "topic-again-400",
    "wrong-file-1440",
    "wrong-file-400",
    "queue-full-1440",
    "queue-full-400",
    "brokers-down-1440",
    "brokers-down-400",
    "audit-1440",
    "audit-400",
)
@pytest.mark.parametrize("width", [1440, 400])
@pytest.mark.parametrize("name", STATES)
def test_remedy_is_seen_without_scrolling_in_every_state_that_needs_a_person(page: Page, name: str, width: int) -> None:
    """Below twenty runs it once lay 3,100 pixels down, and 10,366 in a narrow window."""
    state, reason, remedy = STATES[name]
    fact, advice = split_reason(reason)
    is_file = name == "wrong-file"
    table = {**TABLE, "problem": reason if name in {"rolled-back", "held", "topic-again"} else None}
    row = {"state": state, "reason": reason, "fact": fact, "advice": advice, "partitions": PARTS, "tables": [table]}
    row |= {"runbook": "pipeline-file", "needs_person": True, "error": reason} if is_file else {"runbook": name}
    runs = [{"dag_id": "tidegate_users", "run_id": f"r{n}", "state": "failed", "started": NOW} for n in range(20)]
    page.set_viewport_size({"width": width, "height": 900})
    for theme in ("light", "dark"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        draw(
            page,
            row,
            {"runs": runs, "errors": [{"message": reason}]},
            bad_record={"fact": FACT} if name == "bad-record" else None,
        )
        keep(page, f"state-{name}-{width}-{theme}")
    box = page.get_by_role("region", name="What to do").get_by_text(remedy).first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 400
    assert page.evaluate("document.documentElement.scrollWidth") == width


AHEAD = {"lag": 2, "lag_seconds": 3.0}
TWO_CLOCKS = {
    "state": "current", "lag": 20, "staging": AHEAD,
    "tables": [{**TABLE, "staging": AHEAD, "max_pending": 1000}],
    "partitions": [{**PARTS[1], "topic": "App.Users", "staging": {**AHEAD, "staged": 58}}],
    "last_flush": {"batch": 7, "published_at": NOW, "stage_seconds": 21.0, "seconds": 12.0, "inserted": 1, "updated": 0,
                   "deleted": 0, "bytes_written": None},
}  # fmt: skip


def test_pipeline_with_two_clocks_shows_each_apart_starts_each_and_resumes_both(page: Page) -> None:
    for flush, stage, word in ((False, False, "Pause"), (False, True, "Resume"), (True, True, "Resume")):
        paused = {"flush": flush, "stage": stage}
        dags = {kind: {"dag_id": f"tidegate_Users_{kind}", "paused": on} for kind, on in paused.items()}
        draw(page, TWO_CLOCKS, {"dags": dags}, may={**MAY, "stage": True, "pause_stage": True})
        expect(page.get_by_role("button", name=word, exact=True)).to_be_enabled()
        for name, is_paused in (("Stage now", stage), ("Merge now", flush)):
            expect(page.get_by_role("button", name=name)).to_be_enabled(enabled=not is_paused)
    facts = page.locator("dl.facts > div")
    expect(facts.nth(0)).to_have_text("Staged2 offsets behind the log3 s")
    expect(facts.nth(1)).to_have_text("Merged20 offsets behind the log")
    expect(facts.nth(2)).to_contain_text("1 min 1 s")
    expect(facts.filter(has_text="Last flush")).to_contain_text("batch 7 staged in 21 s, merged in 12 s: 1 inserted")
    for name, cells in (
        ("Tables", {"Staging lag": "2", "Staging behind": "3 s", "Merge lag": "20", "Merge behind": "1 min 1 s"}),
        ("Partitions", {"Staged": "58", "Merged": "40", "End": "60", "Lag": "20"}),
    ):
        shown = page.get_by_role("table", name=name).locator("tbody tr > *")
        titles = shown.evaluate_all("all => all.map((one) => one.dataset.title)")
        assert {title: shown.nth(titles.index(title)).inner_text() for title in cells} == cells
    keep(page, "two-clocks")

    started: list[str] = []
    asked: list[Any] = []

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            started.append(route.request.url.partition("/api/v2/")[2])
            asked.append((route.request.post_data_json or {})["conf"])
        route.fulfill(json={"task_instances": [], "dag_runs": [], "dag_run_id": "r1"})

    page.route("**/api/v2/**", answer)
    draw(
        page,
        {**TWO_CLOCKS, "fleet": "harbour"},
        {"dags": {**DAGS, "stage": {"dag_id": "tidegate_Users_stage", "paused": False}}},
        may={"stage": True},
    )
    expect(page.get_by_role("button", name="Merge now")).to_have_count(0)
    page.get_by_role("button", name="Stage now").click()
    expect(page.locator("#said")).to_have_text("Staging started: the run")
    assert (started, asked) == (["dags/tidegate_Users_stage/dagRuns"], [{}]), "only its fleet asks for which pipelines"
    page.unroute("**/api/v2/**")
    draw(page, {"state": "current"})
    expect(page.get_by_role("button", name="Flush now")).to_be_enabled()
    expect(page.get_by_role("button", name="Stage now")).to_have_count(0)
    expect(facts.filter(has_text="Staged")).to_have_count(0)


def test_each_clock_of_a_fleet_s_member_has_a_button_that_says_what_it_pauses(page: Page) -> None:
    """The merges are those of all members, its staging is its own."""
    paused: list[tuple[str, Any]] = []

    def answer(route: Route) -> None:
        paused.append((route.request.url.partition("/dags/")[2], route.request.post_data_json))
        route.fulfill(json={})

    page.route("**/api/v2/**", answer)
    dags = {"flush": {"dag_id": "tidegate_fleet_harbour", "paused": False},
            "stage": {"dag_id": "tidegate_Users_stage", "paused": True}}  # fmt: skip
    member, buttons = {**TWO_CLOCKS, "fleet": "harbour"}, page.get_by_role("button", name=re.compile("^(Pause|Resume)"))
    draw(page, member, {"dags": dags}, may={**MAY, "pause_stage": True})
    expect(buttons).to_have_text(["Pause the merges of the fleet harbour", "Resume staging"])
    for button, (dag, is_paused) in enumerate((("tidegate_fleet_harbour", True), ("tidegate_Users_stage", False))):
        buttons.nth(button).click()
        expect(page.locator("#said")).to_contain_text("Paused" if is_paused else "Resumed")
        assert paused.pop() == (f"{dag}?update_mask=is_paused", {"is_paused": is_paused})
        assert not paused, "no other DAG"
    draw(page, member, {"dags": dags}, may={"pause_stage": True})  # a right on the fleet is one on all of its members
    expect(buttons).to_have_text(["Resume staging"])
    draw(page, {"fleet": "harbour"}, {"dags": {"flush": dags["flush"]}})
    expect(buttons).to_have_text(["Pause the fleet harbour"])
    page.unroute("**/api/v2/**")


def test_button_waits_for_its_run_while_airflow_does_not_answer(page: Page) -> None:
    """The run goes on, so `Not done` would be wrong: a person would start it again."""
    answers: list[Any] = [None, 503, {"state": "running"}, {"state": "success"}]

    def answer(route: Route) -> None:
        given = answers.pop(0)
        if given is None:
            route.abort()
        elif isinstance(given, int):
            route.fulfill(status=given, body="<html>")
        else:
            route.fulfill(json=given)

    page.route("**/api/v2/**", answer)
    script = """async () => {
      const { finished } = await import('/airflow.js');
      const states = [];
      const run = { dag_id: 'tidegate_users_actions', dag_run_id: 'r' };
      const end = await finished(run, (state) => states.push(state)).catch((problem) => problem.message);
      return [end, ...states];
    }"""
    silent = ["Airflow does not answer (Failed to fetch)", "Airflow does not answer (HTTP 503)"]
    assert page.evaluate(script) == ["success", *silent, "running", "success"]
    answers.append(404)
    assert page.evaluate(script) == ["HTTP 404"], "somebody has removed the run"
