"""The operator's page as a person uses it, in a browser inside the real Airflow. The tests are one story, in order."""

import json
import re
from collections.abc import Iterator

import pytest
from e2e.airflow_client import wait_until
from e2e.browser import find_frame, keep, log_in
from e2e.conftest import PASSWORDS, PIPELINES, Scene
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.real
FRAME = "/plugin/tidegate"
LETTERS = f"{FRAME}/tidegate/pipelines/letters"
RUN = "fetch('/api/v2/dags/tidegate_letters/dagRuns', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
RUN += "body: JSON.stringify({logical_date: null})}).then((answer) => answer.status)"


@pytest.fixture
def admin(chromium: Browser, scene: Scene) -> Iterator[Page]:
    with log_in(chromium, scene.stack.airflow_url, "admin", PASSWORDS["admin"]) as page:
        yield page


@pytest.fixture(scope="module")
def flushed(scene: Scene) -> None:
    """Two records are in the table, one is too large for its column, and one is no number."""
    good = {1: '{"id": 1, "amount": 10}', 2: '{"id": 2, "amount": 20}'}
    scene.produce_text("letters", {**good, 3: '{"id": 3, "amount": 5000000000}', 4: '{"id": 4, "amount": "many"}'})
    run = scene.find_first_run("tidegate_letters")
    assert scene.airflow.await_run("tidegate_letters", run, patience=600) == "success"


def read_amounts(scene: Scene) -> dict[int, int]:
    return {row["id"]: row["amount"] for row in scene.table("e2e.letters").scan().to_arrow().to_pylist()}


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_overview_says_how_every_pipeline_is_and_leads_to_it(admin: Page, scene: Scene) -> None:
    admin.goto(scene.stack.airflow_url + FRAME)
    page = find_frame(admin)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="letters", exact=True))
    expect(row.get_by_text("current")).to_be_visible()
    expect(row.get_by_role("link", name="2", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="colour")).to_contain_text("stuck")  # the file that is wrong
    keep(admin, "overview")
    page.get_by_role("button", name="Pipeline").click()
    expect(page.get_by_role("columnheader", name="Pipeline")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("searchbox").fill("letters")
    expect(page.get_by_text(f"1 of {len(PIPELINES)} pipelines")).to_be_visible()
    sent = f"{scene.stack.airflow_url}{FRAME}/tidegate/?q=letters&sort=pipeline"  # what is chosen can be sent, too
    expect(admin).to_have_url(sent)
    admin.goto(sent)
    expect(page.get_by_text(f"1 of {len(PIPELINES)} pipelines")).to_be_visible()
    page.get_by_role("link", name="letters", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="Partitions")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="letters").first).to_be_visible()
    expect(admin).to_have_url(scene.stack.airflow_url + LETTERS)  # an address that can be sent to somebody
    keep(admin, "pipeline")
    page.get_by_role("link", name="lake.e2e.letters").click()
    admin.wait_for_url("**/assets/**")  # out of the frame, into Airflow


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_tab_on_a_dag_shows_its_pipeline_in_the_theme_of_airflow(chromium: Browser, scene: Scene) -> None:
    with log_in(chromium, scene.stack.airflow_url, "admin", PASSWORDS["admin"], "dark") as window:
        window.goto(f"{scene.stack.airflow_url}/dags/tidegate_letters_backfill")
        window.locator("a[href*='/plugin/tidegate-dag']").first.click()  # the navigation has a link of that name, too
        expect(find_frame(window).get_by_role("heading", name="letters", exact=True)).to_be_visible()
        expect(find_frame(window).locator("html")).to_have_attribute("data-theme", "dark")
        keep(window, "tab-dark")
        find_frame(window).get_by_role("link", name="2 wait").click()
        expect(window).to_have_url(scene.stack.airflow_url + LETTERS + "/dead-letters")
        expect(find_frame(window).get_by_role("heading", name="Dead letters")).to_be_visible()


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_viewer_sees_everything_and_can_start_nothing(chromium: Browser, scene: Scene) -> None:
    with log_in(chromium, scene.stack.airflow_url, "viewer", PASSWORDS["viewer"]) as window:
        window.goto(scene.stack.airflow_url + LETTERS)
        page = find_frame(window)
        expect(page.get_by_text("may look, but start nothing")).to_be_visible()
        expect(page.get_by_role("button", name="Flush now")).to_have_count(0)
        page.get_by_role("link", name="2 wait").click()
        expect(page.get_by_text("may look, but not replay")).to_be_visible()
        expect(page.get_by_role("button", name="Replay")).to_have_count(0)
        assert window.evaluate(RUN) == 403


@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_dead_letters_come_in_by_a_click_once_the_schema_is_corrected(admin: Page, scene: Scene) -> None:
    file = scene.folder / "include" / "pipelines" / "letters.yaml"
    file.write_text(file.read_text().replace("amount INT", "amount BIGINT"))
    admin.goto(scene.stack.airflow_url + LETTERS + "/dead-letters")
    page = find_frame(admin)
    page.get_by_text("Key, value, headers").first.click()
    expect(page.get_by_text('"amount"').first).to_be_visible()
    keep(admin, "dead-letters")
    page.get_by_role("button", name="Replay all").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).to_contain_text("1 of 2 came in, 1 cannot be read", timeout=300_000)
    expect(page.get_by_text("1 waits, 1 was replayed")).to_be_visible()
    assert read_amounts(scene) == {1: 10, 2: 20, 3: 5_000_000_000}
    events = scene.airflow.get("eventLogs", dag_id="tidegate_letters_replay", limit=50)["event_logs"]
    assert any(event["event"] == "trigger_dag_run" and event["owner"] == "admin" for event in events)


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_form_of_a_backfill_refuses_what_is_wrong_and_takes_what_is_right(admin: Page, scene: Scene) -> None:
    dag = "tidegate_letters_backfill"
    admin.goto(f"{scene.stack.airflow_url}/dags/{dag}")
    admin.get_by_role("button", name="Trigger").first.click()
    form = admin.get_by_test_id("trigger-dag-submit")
    _type_offsets(admin, '{"letters": ')
    expect(form).to_be_disabled()
    _type_offsets(admin, '{"letters": {"zero": [0, 1]}}')
    expect(form).to_be_enabled()
    with admin.expect_response(lambda answer: answer.url.endswith("/dagRuns")) as refused:
        form.click()
    assert refused.value.status == 400
    expect(form).to_be_visible()
    keep(admin, "backfill-refused")
    assert scene.airflow.list_runs(dag) == []
    _type_offsets(admin, '{"letters": {"0": [0, 1]}}')
    admin.locator("label:has(input[name=element_dry_run])").click()
    expect(form).to_be_enabled()
    form.click()
    wait_until(lambda: bool(scene.airflow.list_runs(dag)), "the run that the form asked for")
    assert scene.airflow.await_run(dag, scene.airflow.list_runs(dag)[0]["dag_run_id"]) == "success"


@pytest.mark.repeats("e2e/test_airflow.py::test_a_backfill_from_the_form_shows_first_and_then_restores_what_is_missing")
@pytest.mark.usefixtures("flushed")
def test_backfill_on_the_page_shows_what_it_applies_and_then_applies_it(admin: Page, scene: Scene) -> None:
    dag = "tidegate_letters_backfill"
    scene.airflow.unpause(dag)
    before = {run["dag_run_id"] for run in scene.airflow.list_runs(dag)}
    admin.goto(f"{scene.stack.airflow_url}/tidegate/pipelines/letters")
    admin.get_by_role("button", name="Backfill …").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Ranges").fill('{"letters": {"0": [0, 99]}}')
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("Not done: ")
    expect(dialog).to_contain_text("name a range that ends at")
    dialog.get_by_label("Ranges").fill('{"letters": {"0": [0, 1]}}')
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_label("Preview")).to_contain_text("lake.e2e.letters: applies 1 offset in 1 batch")
    keep(admin, "backfill-preview")
    dialog.get_by_role("button", name="Backfill").click()
    expect(dialog).to_contain_text("Done: the range was applied")
    runs = [run for run in scene.airflow.list_runs(dag) if run["dag_run_id"] not in before]
    assert sorted((run["conf"]["dry_run"], run["state"]) for run in runs) == [
        (False, "success"), (True, "failed"), (True, "success"),
    ]  # fmt: skip


def _type_offsets(window: Page, text: str) -> None:
    """Type into the editor, which closes brackets by itself: delete what it adds."""
    window.locator("[role=dialog] .monaco-editor").first.click()
    window.keyboard.press("Control+A")
    window.keyboard.insert_text(text)
    window.keyboard.press("Control+Shift+End")
    window.keyboard.press("Delete")


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
def test_publication_stands_below_the_pipelines_and_has_a_page_of_its_own(admin: Page, scene: Scene) -> None:
    admin.goto(scene.stack.airflow_url + FRAME)
    page = find_frame(admin)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="solo_out", exact=True))
    expect(row.get_by_text("lake.e2e.solo")).to_be_visible()
    row.get_by_role("link", name="solo_out", exact=True).click()
    expect(page.get_by_role("heading", name="Snapshots")).to_be_visible()
    expect(page.get_by_role("button", name="Publish now")).to_be_visible()
    keep(admin, "publication")


# one story in a browser; what the others see is asked of the page's answers in unit tests
@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
@pytest.mark.usefixtures("flushed")
def test_stuck_pipeline_says_why_and_which_ways_lead_out(admin: Page, scene: Scene) -> None:
    table = scene.table("e2e.letters")
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    admin.goto(scene.stack.airflow_url + FRAME)
    page = find_frame(admin)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="letters", exact=True))
    expect(row).to_contain_text("stuck")
    expect(row).to_contain_text("was rolled back")
    keep(admin, "stuck-overview")
    row.get_by_role("link", name="letters", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("was rolled back")
    keep_whole(admin, scene)
    undo = "bin/tidegate undo-rollback letters --table lake.e2e.letters"
    expect(page.get_by_text(undo)).to_be_visible()
    page.get_by_role("button", name=f"Copy: {undo}").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    keep(admin, "stuck")
    page.get_by_role("listitem").filter(has_text=undo).get_by_role("button", name="Undo the rollback").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Preview")).to_contain_text("comes back: snapshot=")
    assert len(scene.table("e2e.letters").scan().to_arrow()) == 0
    keep(admin, "undo-preview")
    dialog.get_by_role("button", name="Undo the rollback").click()
    expect(dialog).to_contain_text("Done: the rollback was undone")
    assert read_amounts(scene) == {1: 10, 2: 20}  # what a flush published last; the replay behind it is no batch
    dialog.get_by_role("button", name="Close").click()
    action_row = page.get_by_role("table", name="What people did").get_by_role("row").filter(has_text="undo-rollback")
    expect(action_row).to_contain_text("admin")


@pytest.mark.repeats("integration/test_approve.py::test_flood_of_deletes_waits_until_it_is_approved[plain]")
@pytest.mark.usefixtures("flushed")
def test_flood_of_deletes_is_held_rejected_and_then_approved_by_clicks(admin: Page, scene: Scene) -> None:
    file = scene.folder / "include" / "pipelines" / "letters.yaml"
    table = "  - name: lake.e2e.letters\n"
    file.write_text(file.read_text().replace(table, table + "    approve: {deletes_over: 10%}\n"))
    there = read_amounts(scene)
    scene.produce_text("letters", dict.fromkeys(there))
    admin.goto(f"{scene.stack.airflow_url}/tidegate/pipelines/letters")
    admin.get_by_role("button", name="Flush now").click()
    card = admin.get_by_role("region", name="What to do")
    expect(card).to_contain_text("bin/tidegate approve letters --table lake.e2e.letters", timeout=300_000)
    keep(admin, "held")
    for label, effect in (
        ("Reject", "the batch stays staged, and nothing of the table is published"),
        ("Approve", "the next flush publishes the batch, if its diff is still this one"),
    ):
        card.get_by_role("button", name=f"{label} …").click()
        dialog = admin.get_by_role("dialog")
        expect(dialog.get_by_label("Preview")).to_contain_text("held by deletes_over=10%")
        expect(dialog.get_by_label("Preview")).to_contain_text(f"deleted={len(there)} ")
        keep(admin, f"{label.lower()}-preview")
        dialog.get_by_role("button", name=label).click()
        expect(dialog).to_contain_text(f"Done: {effect}")
        dialog.get_by_role("button", name="Close").click()
        assert read_amounts(scene) == there
    admin.get_by_role("button", name="Flush now").click()
    wait_until(lambda: read_amounts(scene) == {}, "the flush that publishes what was approved")
    actions = admin.get_by_role("table", name="What people did")
    for verdict in ("reject", "approve"):
        expect(actions.get_by_role("row").filter(has_text=verdict)).to_contain_text("admin")


def keep_whole(admin: Page, scene: Scene) -> None:
    """The same page outside of Airflow's frame, where all of it is to be seen."""
    window = admin.context.new_page()
    window.goto(f"{scene.stack.airflow_url}/tidegate/pipelines/letters")
    expect(window.get_by_role("alert")).to_contain_text("was rolled back")
    expect(window.get_by_role("button", name="Undo the rollback")).to_be_enabled()
    keep(window, "page-stuck", full_page=True)
    window.close()


@pytest.fixture(scope="module")
def waiting_run(scene: Scene) -> str:
    """A run that cannot reach its brokers: it fails for the first times before anybody looks."""
    scene.produce("relayed", {1: "a", 2: "b"})
    scene.relay.close()
    return scene.find_first_run("tidegate_relayed")


def test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others(
    chromium: Browser, admin: Page, scene: Scene
) -> None:
    good = {key: json.dumps({"id": key, "score": key}) for key in range(1, 9)}
    scene.produce_text("poisoned", {**good, 9: '{"id": 9, "score": 1.5}'})
    run = scene.find_first_run("tidegate_poisoned")
    assert scene.airflow.await_run("tidegate_poisoned", run, patience=600) == "failed"
    address = f"{scene.stack.airflow_url}/tidegate/pipelines/poisoned"  # Airflow's frame costs seconds
    with log_in(chromium, scene.stack.airflow_url, "viewer", PASSWORDS["viewer"]) as window:
        window.goto(address)
        card = window.get_by_role("region", name="What to do")
        expect(card.get_by_text("bin/tidegate skip poisoned --at poisoned:")).to_be_visible()
        expect(window.get_by_role("button", name="Skip this record")).to_have_count(0)
        expect(window.get_by_role("button", name="Pause")).to_have_count(0)
        expect(window.get_by_role("button", name="Records of")).to_have_count(0)

    page = admin
    page.goto(address)
    look_at_records(page)
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Skip this record").click()
    expect(dialog.get_by_label("Preview")).to_contain_text("score: expected INT (refused")
    expect(dialog.get_by_label("Preview")).to_contain_text("sets this record aside as a dead letter, and no other")
    keep(admin, "skip-preview")
    dialog.get_by_role("button", name="Skip this record").click()
    expect(dialog).to_contain_text("Done: the next batch sets it aside")
    keep(admin, "skip-done")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Flush now").click()
    wait_until(lambda: len(scene.table("e2e.poisoned").scan().to_arrow()) == len(good), "the flush behind it")
    rows = scene.table("e2e.poisoned").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["score"]) for row in rows) == [(key, key) for key in good]
    action_row = page.get_by_role("table", name="What people did").get_by_role("row").filter(has_text="skip")
    expect(action_row).to_contain_text("admin")
    expect(page.get_by_role("link", name="1 wait")).to_be_visible()
    expect(page.get_by_role("button", name="Replay all")).to_be_enabled()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert scene.airflow.get("dags/tidegate_poisoned")["is_paused"]

    page.get_by_role("link", name="1 wait").click()
    page.get_by_role("row").filter(has_text="poisoned").get_by_role("button", name="Discard").click()
    dialog.get_by_label("Because").fill("a test")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_label("Preview")).to_contain_text("1 dead letter would be discarded and never replayed")
    dialog.get_by_role("button", name="Discard").click()
    expect(dialog).to_contain_text("Done: they were discarded")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("No record waits here.")).to_be_visible()


def look_at_records(page: Page) -> None:
    """The bad record among its neighbours, beside what becomes of each."""
    place = re.search(r"poisoned:(\d+):\d+", page.get_by_role("region", name="What to do").inner_text())
    assert place is not None
    page.get_by_role("button", name=f"Records of poisoned, partition {place[1]}").click()
    dialog = page.get_by_role("dialog")
    bad_row = dialog.get_by_role("row").filter(has_text="1.5")
    expect(bad_row).to_contain_text("not asked")
    dialog.get_by_role("button", name="What becomes of them").click()
    expect(bad_row).to_contain_text("bad: ")
    keep(page, "records")
    dialog.get_by_role("button", name="Close").click()


@pytest.mark.repeats("test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others")
def test_flush_now_tries_at_once_what_waits_for_its_next_try(admin: Page, scene: Scene, waiting_run: str) -> None:
    """Another run would wait until the one under way has ended, and that one waits for minutes in the end."""
    dag, page = "tidegate_relayed", admin
    page.goto(f"{scene.stack.airflow_url}/tidegate/pipelines/relayed")
    expect(page.get_by_role("button", name="Flush now")).to_be_enabled()
    # from its second failure on it waits for longer than a browser takes
    wait_until(lambda: is_waiting_again(scene, dag, waiting_run), "a task that waits for its third try")
    scene.relay.open()
    page.get_by_role("button", name="Flush now").click()
    expect(page.get_by_text("plan waited to be tried again, and is tried now, in the run under way")).to_be_visible()
    keep(admin, "tried-now")
    assert scene.airflow.await_run(dag, waiting_run) == "success"
    assert [run["dag_run_id"] for run in scene.airflow.list_runs(dag)] == [waiting_run]
    assert scene.read_rows("e2e.relayed") == {1: "a", 2: "b"}
    events = scene.airflow.get("eventLogs", dag_id=dag, limit=50)["event_logs"]
    assert any(event["event"] == "post_clear_task_instances" and event["owner"] == "admin" for event in events)


def is_waiting_again(scene: Scene, dag: str, run: str) -> bool:
    """From one answer: between two, a task that waits for its second try may begin it."""
    (plan,) = (task for task in scene.airflow.tasks(dag, run) if task["task_id"] == "plan")
    return plan["state"] == "up_for_retry" and plan["try_number"] > 1


@pytest.mark.repeats(
    "unit/tidegate_airflow/operators/test_action.py::test_preview_shows_and_changes_nothing_and_what_it_showed_is_done_by_who_asked"
)
def test_form_of_the_actions_begins_with_a_preview_and_refuses_what_does_not_fit(admin: Page, scene: Scene) -> None:
    dag = "tidegate_poisoned_actions"
    admin.goto(f"{scene.stack.airflow_url}/dags/{dag}")
    admin.get_by_role("button", name="Trigger").first.click()
    expect(admin.get_by_test_id("trigger-dag-submit")).to_be_visible()
    expect(admin.locator("input[name=element_preview]")).to_be_checked()
    keep(admin, "actions-form")
    assert scene.airflow.post_run(dag, action="explode").status_code == 400
    assert scene.airflow.post_run(dag, at="nowhere").status_code == 400
    preview_run = scene.airflow.trigger(dag, action="rebase", to="earliest")
    assert scene.airflow.await_run(dag, preview_run) == "success"
    preview = scene.airflow.result(dag, preview_run, "act", key="preview")
    assert "reads again" in preview["text"]
    stood = scene.table("e2e.poisoned").properties["tidegate.poisoned.position"]
    words = {"action": "rebase", "preview": False, "previewed": preview["digest"], **preview["pins"]}
    run = scene.airflow.trigger(dag, **words)
    assert scene.airflow.await_run(dag, run) == "success"
    assert scene.airflow.result(dag, run, "act") == {
        "action": "rebase",
        "done": "the position was moved",
        "by": "admin",
    }
    assert scene.table("e2e.poisoned").properties["tidegate.poisoned.position"] != stood
