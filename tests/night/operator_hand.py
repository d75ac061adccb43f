"""The operator at the browser: from the page of all pipelines to a way out, each click counted."""

import re
from dataclasses import dataclass

from e2e.browser import find_frame, keep
from playwright.sync_api import Locator, Page, expect

FRAME = "/plugin/tidegate"
WINDOW = {"width": 1440, "height": 900}


@dataclass(frozen=True)
class Sight:
    """Where a remedy stands: so many clicks from the page of all pipelines, its top so many pixels down the window."""

    clicks: int
    pixels: int
    is_whole: bool  # seen without scrolling


class OperatorHand:
    """`clicks` counts from the overview to the button or the command; what follows is the dialog's own question."""

    def __init__(self, window: Page, url: str) -> None:
        self._window, self._url, self.clicks = window, url, 0
        window.set_viewport_size(WINDOW)  # a common one; Airflow's own frame takes a part of it
        expect.set_options(timeout=60_000)

    def open_pipeline(self, name: str) -> None:
        """The overview, and from there the line's link."""
        self.clicks = 0
        self._window.goto(self._url + FRAME)
        page = find_frame(self._window)
        self._click(page.get_by_role("link", name=name, exact=True))
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()

    def find_remedy(self, name: str, words: str) -> Sight:
        """Look for these words, or the button of this name, in what the line's page says to do."""
        self.open_pipeline(name)
        card = find_frame(self._window).get_by_role("region", name="What to do")
        found = card.get_by_text(re.compile(words)).first
        expect(found).to_be_visible()
        keep(self._window, f"{name}-remedy")
        box = found.bounding_box()
        assert box is not None
        top, bottom = box["y"], box["y"] + box["height"]
        self.leave()
        return Sight(self.clicks, round(top), is_whole=top >= 0 and bottom <= WINDOW["height"])

    def press(self, name: str, button: str, **fields: str) -> str:
        """Do what the pipeline's button offers, after its preview; what the preview said."""
        self.open_pipeline(name)
        page = find_frame(self._window)
        self._click(page.get_by_role("button", name=button).first)
        keep(self._window, f"{name}-preview")
        dialog = page.get_by_role("dialog")
        for label, value in fields.items():
            dialog.get_by_label(label).fill(value)
        if dialog.get_by_role("textbox").count():  # one that asks for nothing begins with its preview
            dialog.get_by_role("button", name="Preview").click()
        preview = dialog.get_by_label("Preview")
        expect(preview).to_be_visible()
        text = preview.inner_text()
        dialog.get_by_role("button", name=button).click()
        expect(dialog).to_contain_text("Done: ")
        self.leave()
        return text

    def start_flush(self, name: str) -> int:
        """*Flush now*; the clicks to it."""
        self.open_pipeline(name)
        page = find_frame(self._window)
        self._click(page.get_by_role("button", name="Flush now"))
        expect(page.get_by_text(re.compile("Flush (started|queued)|is (being )?tried"))).to_be_visible()
        self.leave()
        return self.clicks

    def copy_command(self, name: str, beginning: str) -> str:
        """The command of the pipeline's page that begins so, as its *Copy* gives it."""
        self.open_pipeline(name)
        button = find_frame(self._window).get_by_role("button", name=f"Copy: {beginning}").first
        command = (button.get_attribute("aria-label") or "").removeprefix("Copy: ")
        self._click(button)
        keep(self._window, f"{name}-command")
        self.leave()
        return command

    def leave(self) -> None:
        """A window that is open reads the page's numbers again and again."""
        self._window.goto("about:blank")

    def _click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1
