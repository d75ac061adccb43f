"""The page with 200 pipelines, in a browser: Airflow's auth manager is real, brokers and tables are in memory.

So many real ones would take hours to fill; what the page reads of real ones is tested beside this.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from airflow_users import make_token, run_auth_manager
from e2e.browser import keep
from fakes import World, build_pipeline, build_table
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from tidegate.errors import RetryLater
from tidegate.flush.flush import flush
from tidegate.model.resource_names import name_control_table
from tidegate_airflow.web.pipeline_contexts import PipelineContext

MANY = 200
MANY_BATCHES, HOUR_MS = 24, 3_600_000
NAMES = [f"shop_{number:03}" for number in range(MANY)]
ROLLED_BACK, DEAD, BEHIND, WIDE = NAMES[17], NAMES[42], NAMES[99], NAMES[120]
PARTITIONS = 600  # of the wide one's topic; records wait in every seventh of the last hundred
TENS = ("even", "odd")  # a tag by the second digit of a pipeline's number
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


class Look:
    """The memory broker as onlookers share it; a dead one answers nothing."""

    def __init__(self, broker: Any, *, dead: bool = False) -> None:
        self._broker, self._dead = broker, dead

    def forget(self) -> None:
        pass

    def learn(self, places: Any) -> None:
        list(places)

    def read_log(self, *arguments: Any) -> Any:
        if self._dead:
            raise RetryLater("brokers=kafka-2:7070 gave no answer within 30 s")
        return self._broker.read_log(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


def flush_often(world: World, session: Any) -> None:
    """Batches of several sizes, so that there is something to plot."""
    (topic,) = session.pipeline.source.topics
    for number in range(MANY_BATCHES):
        world.clock.tick(30_000)
        for key in range(3 + 5 * number % 11):
            values = {"id": f"{key}", "name": f"{number}"}
            world.broker.produce(topic, {"id": values["id"]}, values, partition=key % 2, timestamp=world.clock.ms)
        world.clock.tick(1_000 * (1 + number % 4))
        flush(session)


class Many:
    """The pipelines, as the page finds them."""

    def __init__(self) -> None:
        world = World()
        world.clock.ms = int(time.time() * 1000) - HOUR_MS  # ages on the page are those of a morning, not of decades
        self._sources = {name: self._build_source(world, name) for name in NAMES}

    def _build_source(self, world: World, name: str) -> PipelineContext:
        world.broker.create(name, PARTITIONS if name == WIDE else 2)
        for partition in (0, 1):
            world.broker.produce(name, {"id": str(partition)}, {"id": "a", "name": "x"}, partition=partition)
        table = f"lake.shop.{name}"
        words = {"name": name, "description": f"Number {name[5:]}", "tags": ("shop", TENS[int(name[5:]) // 10 % 2])}
        session = world.open_session(build_pipeline(build_table(table, topics=(name,)), **words))
        flush(session)
        if name == BEHIND:
            flush_often(world, session)
            for row in world.destination.control[name_control_table(session.pipeline)]:
                row["bytes_written"] = 1_500_000
        if name == ROLLED_BACK:
            world.destination.rollback(table, world.destination.tables[table].ancestors()[-1].id)
        if name == BEHIND:
            world.broker.produce(name, {"id": "b"}, {"id": "b", "name": "x"}, timestamp=world.clock.ms)
        for partition in range(PARTITIONS - 100, PARTITIONS, 7) if name == WIDE else ():
            for _ in range(partition % 3 + 1):
                world.broker.produce(name, {"id": "b"}, {"id": "b", "name": "x"}, partition=partition)
        broker = Look(world.broker, dead=name == DEAD)
        return PipelineContext(
            (name == DEAD,), replace(session, broker=broker, now_ms=lambda: world.clock.ms + 600_000)
        )

    def list_names(self) -> list[str]:
        return NAMES

    def get_context(self, name: str) -> PipelineContext:
        return self._sources[name]

    def find_place(self, name: str) -> tuple[str, ...]:
        """The dead one's brokers are others."""
        return (str(name == DEAD),)

    def get_fleet(self, name: str) -> str | None:
        return None

    def report_failure(self, name: str) -> None:
        """Nothing of it is to be opened anew."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """Where the page answers, and the auth manager that decides."""
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), *(f"tidegate_{name}" for name in NAMES)) as manager:
        from fastapi import FastAPI
        from tidegate_airflow.web import app
        from tidegate_airflow.web.overview_cache import OverviewCache
        from tidegate_airflow.web.pipelines import PipelinesView

        many: Any = Many()
        desk, page, outer = PipelinesView(many, OverviewCache(many)), app.build_application(), FastAPI()
        page.dependency_overrides[app.get_pipelines_view] = lambda: desk
        outer.mount("/tidegate", page)
        server = uvicorn.Server(uvicorn.Config(outer, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.05)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}", manager
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture
def opened(chromium: Browser, address: tuple[str, Any]) -> Iterator[Callable[..., Page]]:
    """Opens the page. At the end it has logged no error, and has sent requests to its own server only."""
    url, manager = address
    windows, complaints = [], []

    def open_page(path: str = "", theme: Any = "light", role: str = "admin") -> Page:
        window = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme=theme)
        windows.append(window)
        window.add_cookies([{"name": "_token", "value": make_token(manager, role), "url": url}])
        page = window.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(url) else complaints.append(request.url))
        page.goto(f"{url}/tidegate/{path}")
        return page

    yield open_page
    for window in windows:
        window.close()
    assert complaints == []


def list_names(page: Page) -> list[str]:
    return page.locator("tbody th a").all_inner_texts()


def test_two_hundred_are_shown_the_worst_first_with_one_request_for_each_reading(opened: Callable[..., Page]) -> None:
    page = opened()
    expect(page.get_by_text(f"{MANY} pipelines")).to_be_visible()
    expect(page.locator("tbody tr").nth(2)).to_contain_text("catching up")
    assert list_names(page)[:3] == [ROLLED_BACK, DEAD, BEHIND]
    expect(page.locator("tbody tr").nth(0)).to_contain_text(f"table=lake.shop.{ROLLED_BACK} was rolled back")
    expect(page.locator("tbody tr").nth(1)).to_contain_text("brokers=kafka-2:7070 gave no answer within 30 s")
    count = page.evaluate("performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/')).length")
    assert count <= int(page.evaluate("document.body.dataset.read")) + 1
    keep(page, "page-overview")


@pytest.mark.repeats(
    "unit/tidegate_airflow/web/test_app.py::test_list_of_all_pipelines_carries_the_worst_partitions_of_each_and_its_own_page_carries_all"
)
def test_of_many_partitions_those_that_are_farthest_behind_are_shown(opened: Callable[..., Page]) -> None:
    page = opened(f"pipelines/{WIDE}")
    expect(page.get_by_text(f"200 of {PARTITIONS} partitions, those farthest behind first")).to_be_visible()
    rows = page.get_by_role("region", name="Partitions").locator("tbody tr")
    assert rows.count() == 200
    cells = [rows.nth(number).locator("td").all_inner_texts() for number in range(16)]
    lags = [int(words[5]) for words in cells]
    assert lags[:15] == sorted((p % 3 + 1 for p in range(PARTITIONS - 100, PARTITIONS, 7)), reverse=True)
    assert lags[15] == 0


def test_keyboard_alone_sorts_filters_and_opens_and_the_focus_stays(opened: Callable[..., Page]) -> None:
    page = opened()
    page.get_by_role("button", name="Pipeline").press("Enter")
    expect(page.get_by_role("columnheader", name="Pipeline")).to_have_attribute("aria-sort", "ascending")
    assert list_names(page)[0] == NAMES[0]
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Pipeline")).to_have_attribute("aria-sort", "descending")
    assert list_names(page)[0] == NAMES[-1]
    page.get_by_role("searchbox").fill("number 09")
    expect(page.get_by_text(f"12 of {MANY} pipelines")).to_be_visible()
    assert "q=number" in page.url
    page.reload()
    expect(page.get_by_text(f"12 of {MANY} pipelines")).to_be_visible()
    only = page.get_by_role("button", name="catching up")
    only.press("Space")
    expect(only).to_have_attribute("aria-pressed", "true")
    assert list_names(page) == [BEHIND]
    page.get_by_role("link", name=BEHIND).press("Enter")
    expect(page.get_by_role("heading", name="Partitions")).to_be_visible()


@pytest.mark.repeats("test_keyboard_alone_sorts_filters_and_opens_and_the_focus_stays")
def test_filter_that_matches_nothing_says_so_and_is_taken_off_by_a_click(opened: Callable[..., Page]) -> None:
    page = opened("?state=stuck&tag=even&q=nowhere")
    expect(page.get_by_text("No pipeline matches the filter.")).to_be_visible()
    expect(page.get_by_text(f"0 of {MANY} pipelines")).to_be_visible()
    assert page.locator("table").count() == 0
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_text(f"{MANY} pipelines", exact=True)).to_be_visible()
    assert (len(list_names(page)), page.get_by_role("searchbox").input_value()) == (MANY, "")
    assert "?" not in page.url


def test_narrow_list_shows_what_is_most_wanted_and_unfolds_the_rest(opened: Callable[..., Page]) -> None:
    page = opened()
    expect(page.get_by_text(f"{MANY} pipelines")).to_be_visible()
    expect(page.get_by_role("button", name="More")).to_have_count(0)
    page.set_viewport_size({"width": 400, "height": 900})
    row = page.locator("tbody tr").nth(2)
    titles = "all => all.filter((one) => one.offsetParent).map((one) => one.dataset.title)"
    wanted = ["State", "Pipeline", "Lag", "Behind"]
    assert row.locator("th, td").evaluate_all(titles) == wanted
    keep(page, "narrow-overview")
    row.get_by_role("button", name="More").click()
    expect(row.get_by_role("button", name="Less")).to_have_attribute("aria-expanded", "true")
    assert len(row.locator("th, td").evaluate_all(titles)) == 12
    expect(page.locator("body")).not_to_have_attribute("data-read", page.evaluate("document.body.dataset.read"))
    assert len(row.locator("th, td").evaluate_all(titles)) == 12, "it stays open when the numbers are read again"
    row.get_by_role("button", name="Less").click()
    assert row.locator("th, td").evaluate_all(titles) == wanted


@pytest.mark.repeats("test_keyboard_alone_sorts_filters_and_opens_and_the_focus_stays")
def test_tag_is_a_filter_beside_the_others_and_stands_in_the_address(opened: Callable[..., Page]) -> None:
    page = opened()
    tags = page.get_by_role("group", name="Show only the tag").get_by_role("button")
    expect(tags).to_have_text(["even 100", "odd 100", f"shop {MANY}"])
    tags.get_by_text("odd").press("Enter")
    expect(page.get_by_text(f"100 of {MANY} pipelines")).to_be_visible()
    expect(tags.nth(1)).to_be_focused()
    assert set(list_names(page)) == {name for name in NAMES if int(name[5:]) // 10 % 2}
    page.get_by_role("searchbox").fill("number 09")
    expect(page.get_by_text(f"10 of {MANY} pipelines")).to_be_visible()
    assert "tag=odd" in page.url
    page.reload()
    expect(page.get_by_text(f"10 of {MANY} pipelines")).to_be_visible()
    expect(tags.nth(1)).to_have_attribute("aria-pressed", "true")
    assert set(list_names(page)) == {f"shop_09{digit}" for digit in range(10)}
    tags.nth(1).click()
    expect(page.get_by_text(f"12 of {MANY} pipelines")).to_be_visible()
    assert "tag=" not in page.url


@pytest.mark.repeats("test_keyboard_alone_sorts_filters_and_opens_and_the_focus_stays")
def test_bytes_written_are_shown_where_they_are_known_and_a_dash_where_not(opened: Callable[..., Page]) -> None:
    page = opened()
    page.get_by_role("button", name="Written").click()
    expect(page.get_by_role("columnheader", name="Written")).to_have_attribute("aria-sort", "ascending")
    at = [text.startswith("Written") for text in page.locator("thead th").all_text_contents()].index(True)
    assert list_names(page)[0] == BEHIND
    cells = [page.locator("tbody tr").nth(row).locator("th, td").nth(at).inner_text() for row in (0, 1)]
    assert cells == ["1.4 MiB", "\u2013"]
    page.get_by_role("link", name=BEHIND).click()
    batch = page.get_by_role("table", name="Newest batches").get_by_role("row").nth(1)
    expect(batch).to_contain_text("1.4 MiB")


@pytest.mark.repeats("test_text_stands_out_from_its_ground_and_all_that_is_told_has_a_name[dark]", "light")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground_and_all_that_is_told_has_a_name(
    opened: Callable[..., Page], theme: str
) -> None:
    for path in ("", f"pipelines/{ROLLED_BACK}", f"pipelines/{BEHIND}/dead-letters"):
        page = opened(path, theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        expect(page.locator("main")).not_to_contain_text("Reading")
        assert page.evaluate(CONTRAST) == []
        assert page.locator("table:not(:has(caption))").count() == 0
        assert page.locator("h1").count() == 1


@pytest.mark.repeats(
    "e2e/test_page_parts.py::test_two_ticks_of_an_axis_have_two_labels_and_the_legend_has_the_newest_numbers"
)
def test_batches_are_plotted(opened: Callable[..., Page]) -> None:
    page = opened(f"pipelines/{BEHIND}", "dark")
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()
    expect(page.locator("figure canvas")).to_have_count(2)
    keep(page, "page-pipeline")


def test_viewer_is_offered_nothing_to_start(opened: Callable[..., Page]) -> None:
    page = opened(f"pipelines/{BEHIND}", role="viewer")
    expect(page.get_by_text("may look, but start nothing")).to_be_visible()
    assert page.get_by_role("button", name="Flush now").count() == 0
    expect(page.get_by_role("row").filter(has_text=BEHIND).first).to_be_visible()


def test_narrow_window_scrolls_nothing_sideways_and_no_date_is_broken(opened: Callable[..., Page]) -> None:
    for path in ("", f"pipelines/{ROLLED_BACK}", f"pipelines/{BEHIND}", f"pipelines/{BEHIND}/dead-letters"):
        page = opened(path)
        expect(page.locator("main")).not_to_contain_text("Reading")
        for width in (1440, 1280, 760, 380):
            page.set_viewport_size({"width": width, "height": 900})
            require_room(page, is_scrolled=width > 760 and not (width == 1280 and not path))
            keep(page, f"width-{width}-{path.replace('/', '-') or 'overview'}")
    assert page.get_by_role("heading", name="Dead letters").count() == 1


def require_room(page: Page, *, is_scrolled: bool) -> None:
    """No fact is cut off and no date is broken; nothing is wider than its frame, unless that may be scrolled."""
    cut = "[...document.querySelectorAll('.facts > div')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
    require_none(page, cut, "one.textContent")
    wide = "[...document.querySelectorAll('html, .frame')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
    if not is_scrolled:
        require_none(page, wide, "`${one.ariaLabel} ${one.scrollWidth}`")
    broken = "[...document.querySelectorAll('time')].filter((one) => one.getClientRects().length > 1)"
    require_none(page, broken, "one.textContent")


def require_none(page: Page, found: str, description: str) -> None:
    """That nothing is found, once charts have followed the window: a browser tells them of its width when it can."""
    with suppress(PlaywrightTimeoutError):
        page.wait_for_function(f"!{found}.length")
    assert page.evaluate(f"{found}.map((one) => {description})") == []


@pytest.mark.repeats("e2e/test_page_parts.py::test_lists_and_links_of_the_runbook_are_lists_and_links")
def test_reason_leads_to_its_page_of_the_runbook(opened: Callable[..., Page]) -> None:
    page = opened(f"pipelines/{ROLLED_BACK}", role="viewer")
    page.get_by_role("alert").get_by_role("link", name="Runbook").click()
    expect(page.get_by_role("heading", name="The table was rolled back")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="--rewind")).to_contain_text("Read again")
    keep(page, "runbook")
    page.get_by_role("link", name="runbook", exact=True).click()
    page.get_by_role("link", name="A record cannot be decoded").click()
    expect(page.get_by_role("row").filter(has_text="Skip this record")).to_be_visible()
    assert page.evaluate(CONTRAST) == []
