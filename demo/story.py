"""The steps of the demo: create topics, send changes, flush, pause, compare the tables, and go on until Ctrl-C."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from demo import product
from demo.airflow_api import AirflowApi
from demo.generator import Generator, create_topics
from demo.product import PIPELINES, Progress
from demo.shop import Shop
from demo.tables import IcebergTables, Tables
from demo.verdict import Verdict, compare_table
from demo.view import View
from local.errors import StackError
from local.layout import RunDir
from local.stack import Stack

POLL_SECONDS = 3.0
STUCK_SECONDS = 300.0
CUSTOMERS, ORDERS = 400, 800
FLOODED_PIPELINE = "shop_customers"
FLOODED_SHARE = 0.9  # of the customers
RULE_SHARE = 0.5  # what its `approve` lets through
APPROVAL_SECONDS = 60.0  # in which a person may approve on the page


@dataclass
class Story:
    """A running demo: its stack, its shop, and what has been flushed so far."""

    stack: Stack
    tables: Tables
    generator: Generator
    airflow: AirflowApi
    view: View
    seen: dict[str, set[int]] = field(default_factory=lambda: {pipeline: set() for pipeline in PIPELINES})
    progress: list[Progress] = field(default_factory=list)

    def has_flushed(self, at_least: int) -> bool:
        """Whether every pipeline has published that many batches."""
        return all(len(batches) >= at_least for batches in self.seen.values())

    def poll(self) -> bool:
        """Read the progress and show it; True when a batch was published since the last call."""
        if self.generator.failure:
            raise StackError(f"the generator cannot produce: {self.generator.failure}")
        before = sum(map(len, self.seen.values()))
        self.progress = product.read_progress(self.stack.build_environment()) or self.progress
        for pipeline in self.progress:
            self.seen[pipeline.pipeline].update(batch["batch"] for batch in pipeline.batches)
        self.view.show(
            self.generator.produced, {name: len(batches) for name, batches in self.seen.items()}, self.progress
        )
        return sum(map(len, self.seen.values())) > before


def begin_story(stack: Stack, tables: Tables, rate: float, burst: int, view: View) -> Story:
    """Create the topics, send the snapshot, and switch the flush DAGs on."""
    create_topics(stack.kafka_admin)
    generator = Generator(stack.kafka_admin, Shop(seed=int(time.time())), rate, burst)
    generator.send_snapshot(CUSTOMERS, ORDERS)
    view.say(f"snapshot produced: {generator.produced} events; waiting for the flush DAGs")
    airflow = AirflowApi(stack.airflow_url, Path(stack.variables["AIRFLOW_HOME"]))
    for pipeline in PIPELINES:
        for dag in product.list_dag_ids(pipeline):
            airflow.switch_on(dag)
    view.airflow_url = stack.airflow_url
    view.say(f"flush DAGs are on; watch them at {stack.airflow_url} (no log-in needed)")
    view.say(f"the pipelines' page: {airflow.page_url}/; its commands need: source {RunDir(stack.run_dir).env_file}")
    generator.begin()
    return Story(stack, tables, generator, airflow, view)


def flush_until(story: Story, flushes: int) -> None:
    """Return when every pipeline has published so many batches; StackError when nothing moves for five minutes."""
    progress_seconds = time.monotonic()
    while not story.has_flushed(flushes):
        if story.poll():
            progress_seconds = time.monotonic()
        _check_moving(story, progress_seconds)
        time.sleep(POLL_SECONDS)


def settle_story(story: Story) -> None:
    """Pause the generator and return when everything is published and committed, on every partition."""
    story.generator.pause()
    story.view.say("generator paused: waiting until lag is 0 and every offset is committed")
    progress_seconds = time.monotonic()
    while True:
        if story.poll():
            progress_seconds = time.monotonic()
        if len(story.progress) == len(PIPELINES) and all(pipeline.settled for pipeline in story.progress):
            return
        _check_moving(story, progress_seconds)
        time.sleep(POLL_SECONDS)


def hold_flood(story: Story, *, waits_for_person: bool) -> bool:
    """Let the source lose most customers, and publish that only after an approval.

    True if that is so: no more of them went before than the rule lets through, and the rest was approved.

    The generator must be paused. `waits_for_person`: somebody may approve it on the page; after a while it is approved
    from here.
    """
    if not isinstance(story.tables, IcebergTables):  # BigQuery has no branches, on which a batch could wait
        return True
    table = product.format_destination(FLOODED_PIPELINE)
    before = len(story.tables.read_rows(table))
    lost = story.generator.send_flood(PIPELINES[FLOODED_PIPELINE], FLOODED_SHARE)
    story.view.say(f"the source lost {lost} of {before} customers, as if somebody had truncated it")
    fewest = before * (1 - RULE_SHARE)
    held = _await_hold(story, table, fewest)
    story.view.close()
    kept = len(story.tables.read_rows(table))
    if held is None:
        story.view.say(f"{table} has {kept} rows: that was published without an approval, though its rule holds it")
        return False
    story.view.say(f"held: {held}")
    page = f"{story.airflow.page_url}/pipelines/{FLOODED_PIPELINE}"
    story.view.say(f"{table} still has {kept} rows; a person approves that at {page}, or from a shell")
    deadline = time.monotonic() + (APPROVAL_SECONDS if waits_for_person else 0)
    while time.monotonic() < deadline and _find_held(story):
        time.sleep(POLL_SECONDS)
        story.poll()
    if _find_held(story):
        is_approved, text = product.approve_table(FLOODED_PIPELINE, story.stack.build_environment())
        story.view.say(f"tidegate approve {FLOODED_PIPELINE}: {text}")
        if not is_approved:
            return False
    return kept >= fewest  # a flush may have taken the first deletes alone


def _await_hold(story: Story, table: str, fewest: float) -> str | None:
    """Return why the flood waits; None if the table has lost so much that nothing did: fewer rows than `fewest`."""
    progress_seconds = time.monotonic()
    while not (held := _find_held(story)):
        if len(story.tables.read_rows(table)) < fewest:
            return None
        story.poll()
        _check_moving(story, progress_seconds)
        time.sleep(POLL_SECONDS)
    return held


def _find_held(story: Story) -> str | None:
    return next((member.held for member in story.progress if member.pipeline == FLOODED_PIPELINE), None)


def judge_tables(story: Story) -> bool:
    """Compare every table with the shop, then with the log; True when all are equal and nothing is left behind."""
    story.view.close()
    verdicts: list[Verdict] = []
    for pipeline, table in PIPELINES.items():
        rows = story.tables.read_rows(product.format_destination(pipeline))
        verdicts.append(compare_table(table, story.generator.shop.get_rows(table), rows))
    leftovers = _find_leftovers(story)
    story.view.show_verdict(verdicts, leftovers)
    equal_to_log = True
    if isinstance(story.tables, IcebergTables):  # tables in BigQuery cannot be verified
        for pipeline in PIPELINES:
            equal, text = product.verify_table(pipeline, story.stack.build_environment())
            story.view.say(f"tidegate verify {pipeline}: {text}")
            equal_to_log = equal_to_log and equal
    return all(verdict.ok for verdict in verdicts) and not leftovers and equal_to_log


def show_until_stopped(story: Story) -> None:
    """Let changes flow again and show them until Ctrl-C."""
    story.view.say("going on; Ctrl-C stops everything")
    story.generator.resume()
    while True:
        story.poll()
        time.sleep(POLL_SECONDS)


def _find_leftovers(story: Story) -> list[str]:
    """What intermediate tables hold once their last clean-up has had a minute to run."""
    deadline = time.monotonic() + 60
    while True:
        texts = [story.tables.describe_leftovers(product.format_intermediate(pipeline)) for pipeline in PIPELINES]
        leftovers = [text for text in texts if text]
        if not leftovers or time.monotonic() > deadline:
            return leftovers
        time.sleep(2)


def _check_moving(story: Story, progress_seconds: float) -> None:
    if time.monotonic() - progress_seconds < STUCK_SECONDS:
        return
    story.view.close()
    for dag in (dag for pipeline in PIPELINES for dag in product.list_dag_ids(pipeline)):
        story.view.say(f"{dag}: {story.airflow.describe_runs(dag)}")
        for failure in story.airflow.list_failures(dag):
            story.view.say(f"    {failure}")
    for member in story.progress:
        story.view.say(f"{member.pipeline}: lag={member.lag} settled={member.settled} error={member.error}")
    raise StackError(
        f"no new flush for {STUCK_SECONDS:.0f} s: either a task above has failed, or this machine is too busy for the "
        "demo; run it again when other work has ended"
    )
