"""A page in a real browser, as tests of every page of calmix need it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class OpenedPage:
    """A page whose script has said that it is ready."""

    def __init__(self, browser: Any, file: Path):
        self.browser = browser
        browser.get_log("browser")
        browser.get(file.as_uri())
        self.wait(lambda: self.script("return document.documentElement.dataset.ready"))

    def wait(self, condition: Callable[[], Any], limit: float = 60) -> Any:
        end = time.perf_counter() + limit
        while not (found := condition()):
            assert time.perf_counter() < end, "the page did not answer"
            time.sleep(0.02)
        return found

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.execute_script(text, *arguments)

    def text(self, element: str) -> str:
        return self.script("return document.getElementById(arguments[0]).textContent", element)

    def downloaded(self, name: str, start: Callable[[], Any]) -> Path:
        """The file `name` that `start()` makes the page save."""
        file = self.browser.downloads / name
        file.unlink(missing_ok=True)
        start()
        # Chromium reserves the name with an empty file and moves the whole one there.
        self.wait(lambda: file.is_file() and file.stat().st_size > 0)
        return file
