"""A page in a real browser, as tests of every page of calmix need it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


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

    def errors(self) -> list[dict[str, Any]]:
        """What the page has complained about since it was opened or last asked."""
        return [line for line in self.browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    @contextmanager
    def seen(self, *, width: int, theme: str) -> Iterator[None]:
        """In a window of this width, by a reader of light or dark pages."""
        emulate = self.browser.execute_cdp_cmd
        window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        emulate("Emulation.setDeviceMetricsOverride", window)
        emulate(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        try:
            yield
        finally:
            emulate("Emulation.clearDeviceMetricsOverride", {})
            emulate("Emulation.setEmulatedMedia", {"features": []})

    def barriers(self) -> list[list[Any]]:
        """What axe-core calls serious or critical: rule, weight and where."""
        places = [os.environ.get("AXE_CORE", ""), f"{sys.prefix}/axe/node_modules/axe-core/axe.min.js"]
        axe = next((Path(place) for place in places if place and Path(place).is_file()), None)
        if axe is None:
            pytest.skip("axe-core is not installed: npm install --prefix .venv/axe axe-core")
        if not self.script("return Boolean(window.axe)"):
            self.script(axe.read_text(encoding="utf-8"))
        found = self.browser.execute_async_script(
            """const done = arguments[0], only = { resultTypes: ["violations"] };
            const short = (one) => [one.id, one.impact, one.nodes[0].target.join(" ")];
            axe.run({ exclude: [['.point']] }, only).then((found) => done(found.violations.map(short)))"""
        )
        return [one for one in found if one[1] in ("serious", "critical")]
