"""What the tests of the site need of the machine."""

from __future__ import annotations

from importlib.util import find_spec

from tests.pages.requirements import lacks as lacks_browser


def lacks() -> str | None:
    return lacks_browser() if find_spec("mkdocs") else "mkdocs is not installed: make docs"
