"""docs/pictures/page.webp, of the page of a simulated rig: `python -m tests.pages.picture`."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Final

from rigops.report.html.doctor import doctor_page
from tests.pages.browser import chromium
from tests.unit import recorded
from tests.unit.doctor.examining import spec
from tests.unit.report.html import rigs

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs/pictures/page.webp"
RIG: Final = "threadripper-3x3090"
WIDTH = 960
FOLD = "document.querySelectorAll('details').forEach((one) => { one.open = false; })"
DECLARED: Final = {"psus": [1600], "circuits": "120V/15A", "gpu_power_limit": 285}


def draw() -> bytes:
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder) / "profile") as tab:
        page = Path(folder) / "page.html"
        page.write_text(doctor_page([rigs.examined_host(recorded.rig(RIG), spec(**DECLARED))]))
        tab.open(page, WIDTH)
        tab.ask("Emulation.setScrollbarsHidden", hidden=True)
        tab.evaluate(FOLD)
        height = tab.evaluate("document.documentElement.scrollHeight")
        tab.ask(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        taken = tab.ask("Page.captureScreenshot", format="webp", quality=80)
    return base64.b64decode(taken["data"])


if __name__ == "__main__":
    PICTURE.write_bytes(draw())
