"""What the tests of pages need of the machine."""

from __future__ import annotations

import shutil


def lacks() -> str | None:
    return None if shutil.which("chromium") else "chromium is not installed"
