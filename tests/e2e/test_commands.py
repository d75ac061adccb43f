"""The remedies on a pipeline's page, in a browser without Airflow: all of them are about this pipeline."""

from typing import Any

import pytest
from playwright.sync_api import Page

BAD = "pipeline={0}: stage failed: look at it with: tidegate record {0} --at {1}; or: tidegate skip {0} --at {1}"
MINE, OTHERS = BAD.format("orders", "orders:0:7"), BAD.format("users", "users:1:3")


def list_skips(page: Page, reason: str, message: str) -> Any:
    """The commands and buttons that skip a record, on the page of `orders`."""
    row = {"state": "failing", "reason": reason, "tables": [], "partitions": []}
    script = """async ([row, errors]) => {
      const { whatToDo } = await import('/what_to_do.js');
      const asked = [];
      const act = (label, title, words) => { asked.push(words.at ?? null); return null; };
      const shown = whatToDo("orders", row, { airflow: { errors } }, act);
      const texts = [...(shown?.querySelectorAll("code") ?? [])].map((one) => one.textContent);
      return [texts.filter((text) => text.includes(" skip ")), asked.filter(Boolean)];
    }"""
    return page.evaluate(script, [row, [{"message": message}]])


@pytest.mark.repeats("test_own_record_is_offered_where_the_message_names_another_one_first")
def test_record_that_stops_another_pipeline_of_the_fleet_is_not_offered_here(page: Page) -> None:
    assert list_skips(page, "brokers do not answer", f"offsets are kept, but\n{OTHERS}") == [[], []]


def test_own_record_is_offered_where_the_message_names_another_one_first(page: Page) -> None:
    skips = list_skips(page, "stage failed", f"offsets are kept, but\n{OTHERS}\n{MINE}")
    assert skips == [["bin/tidegate skip orders --at orders:0:7"], ["orders:0:7"]]


@pytest.mark.repeats(
    "test_way_out_of_lost_records_is_that_of_the_message[--to remaining-remaining]",
    '--to \'{"t": {"0": 7}}\'-\'{"t": {"0": 7}}\'',
    "--to earliest-earliest",
)
@pytest.mark.parametrize(
    ("options", "target"),
    [
        ("""--to '{"t": {"0": 7}}'""", """'{"t": {"0": 7}}'"""),
        ("--to remaining", "remaining"),
        ("--to earliest", "earliest"),
    ],
)
def test_way_out_of_lost_records_is_that_of_the_message(page: Page, options: str, target: str) -> None:
    """Another target than the message has would read again, or skip, what is not lost."""
    problem = f"topic=t partition=0 position=3: the log starts at offset=7, e.g. with: tidegate rebase orders {options}"
    row = {"state": "stuck", "reason": problem, "tables": [{"table": "a", "problem": problem}], "partitions": []}
    script = """async (row) => {
      const { whatToDo } = await import('/what_to_do.js');
      const buttons = [];
      const act = (label, title, words, fields) => { buttons.push(fields?.[0]?.value); return null; };
      const shown = whatToDo("orders", row, {}, act);
      return [shown.querySelector("ol code").textContent, buttons[0]];
    }"""
    assert page.evaluate(script, row) == [f"bin/tidegate rebase orders --to {target}", target.strip("'")]
