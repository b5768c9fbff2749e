"""`make docs-pages`: writes them below the checkout, or below the folder that is named."""

from __future__ import annotations

import sys
from pathlib import Path

import rigops.converge.early  # noqa: F401 - before every other import of pyinfra
from docgen import checks, commands, hardware, keys, stories, terminal

ROOT = Path(__file__).resolve().parents[1]


def main(words: list[str]) -> None:
    folder = Path(words[0]) if words else ROOT
    pages = {
        **checks.pages(),
        **commands.pages(),
        **stories.pages(),
        "hardware.md": hardware.page(),
        "inventory.md": keys.page((ROOT / "docs/reference/inventory.md").read_text()),
        "../pictures/first-hour.svg": terminal.picture((ROOT / "docs/first-hour.md").read_text()),
    }
    for name, text in pages.items():
        path = folder / "docs/reference" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
