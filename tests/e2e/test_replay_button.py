"""The buttons that replay dead letters, in a browser without Airflow: none starts a run that nothing would begin."""

from typing import Any

import pytest
from playwright.sync_api import Page

PAUSED = "The DAG tidegate_orders_replay is paused: unpause it first"


@pytest.fixture(scope="module", autouse=True)
def _root_of_airflow(page: Page) -> None:
    """The address of Airflow, which the page's head has."""
    page.evaluate('document.head.innerHTML = \'<meta name="airflow-root" content="/">\'')


def read_buttons(page: Page, *, paused: bool, waiting: int = 2) -> Any:
    """Of the button for all and of that for one: whether it is disabled, and its hint."""
    script = """async ([dag, waiting]) => {
      const { replayButton, replayOneButton } = await import('/replay.js');
      const one = { table: 'lake.shop.orders', offsets: ['orders:0:7'] };
      const none = () => {};
      const shown = [replayButton('orders', waiting, dag, true, none), replayOneButton('orders', one, dag, none)];
      return shown.map((button) => [button.disabled, button.title]);
    }"""
    return page.evaluate(script, [{"dag_id": "tidegate_orders_replay", "paused": paused}, waiting])


def test_paused_dag_of_replays_disables_its_buttons_and_says_why(page: Page) -> None:
    """A run would be queued until somebody unpauses the DAG, and the page would wait for it."""
    assert read_buttons(page, paused=True) == [[True, PAUSED], [True, PAUSED]]
    assert read_buttons(page, paused=False) == [[False, ""], [False, ""]]


@pytest.mark.repeats("test_paused_dag_of_replays_disables_its_buttons_and_says_why")
def test_nothing_that_waits_disables_the_button_for_all(page: Page) -> None:
    assert read_buttons(page, paused=False, waiting=0)[0] == [True, ""]


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_dags.py::test_dead_letters_can_be_replayed_by_a_dag_unless_records_name_the_tables"
)
def test_pipeline_of_tables_that_records_name_has_a_command_instead(page: Page) -> None:
    script = "import('/replay.js').then((one) => one.replayButton('orders', 2, undefined, true, () => {}).textContent)"
    assert "bin/tidegate rebase orders --to" in page.evaluate(script)


@pytest.mark.repeats("unit/tidegate_airflow/web/test_app.py::test_page_names_the_command_as_it_can_be_typed")
def test_command_is_named_as_it_can_be_typed_where_the_package_is_installed(page: Page) -> None:
    """An installed package has no `bin/`: its command is on the path."""
    script = """async () => {
      const { command } = await import('/dom.js');
      const meta = document.createElement("meta");
      meta.name = "tidegate-command";
      meta.content = "tidegate";
      document.head.append(meta);
      const code = command("bin/tidegate status orders", "").querySelector("code").textContent;
      meta.remove();
      return [code, command("bin/tidegate status orders", "").querySelector("code").textContent];
    }"""
    assert page.evaluate(script) == ["tidegate status orders", "bin/tidegate status orders"]
