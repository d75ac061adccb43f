"""A person at a browser: Chromium through Playwright, logged in to Airflow."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from playwright.sync_api import Browser, FrameLocator, Page, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 120_000
STATIC = Path(__file__).parents[2] / "plugins" / "tidegate_airflow" / "web" / "static"
STATIC_HOME = "http://page.test"
MISSING = "a browser: install chromium (Debian: apt-get install chromium), or name one in TIDEGATE_CHROMIUM"


def find_chromium() -> str | None:
    """The browser to drive: `TIDEGATE_CHROMIUM`, or an installed one; None where only Playwright may have one."""
    given = os.environ.get("TIDEGATE_CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


def is_there() -> bool:
    """Whether a test finds a browser: an installed one, or the one that Playwright fetched."""
    if find_chromium() is not None:
        return True
    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


@contextmanager
def run_browser() -> Iterator[Browser]:
    """A running browser."""
    assert is_there(), MISSING
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield running
        finally:
            running.close()


def fetch() -> None:
    """Let Playwright fetch its browser; whether it worked is for the caller to see."""
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False)


@contextmanager
def log_in(running: Browser, url: str, user: str, password: str, theme: str = "light") -> Iterator[Page]:
    """A window for one user of Airflow, who has logged in."""
    token = requests.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=60)
    window = running.new_context(
        viewport={"width": 1440, "height": 1000}, color_scheme="dark" if theme == "dark" else "light"
    )
    window.set_default_timeout(PATIENCE_MS)
    window.add_cookies([{"name": "_token", "value": token.json()["access_token"], "url": url}])
    window.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    try:
        yield window.new_page()
    finally:
        window.close()


@contextmanager
def open_static_page(running: Browser) -> Iterator[Page]:
    """A page with the product's files, without Airflow; it sends no request to a server."""

    def answer(route: Route) -> None:
        file = STATIC / route.request.url.removeprefix(f"{STATIC_HOME}/")
        if file.is_file():
            route.fulfill(path=file)
        else:
            route.fulfill(body="<!doctype html><p>", content_type="text/html")

    opened = running.new_page()
    opened.route("**/*", answer)
    opened.goto(f"{STATIC_HOME}/")
    try:
        yield opened
    finally:
        opened.close()


def find_frame(page: Page) -> FrameLocator:
    """Tidegate's page inside Airflow's frame."""
    return page.frame_locator("iframe[title=Tidegate]")


def keep(page: Page, name: str, *, full_page: bool = False) -> None:
    """A picture of the window, or of all that it scrolls over, where `TIDEGATE_PICTURES` names a folder for them.

    ``page-stuck.png`` is the manual's, in ``docs/images``.
    """
    if folder := os.environ.get("TIDEGATE_PICTURES"):
        page.wait_for_load_state("load")  # never idle: the page reads again every few seconds
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=full_page)
