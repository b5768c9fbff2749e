"""docs/reference/checks/README.md, made from the checks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from rigops.doctor.registry import CHECKS

if TYPE_CHECKING:
    from rigops.doctor.check import Check

_WIDTH: Final = 100
_FIXES: Final = {
    "apply": "`rigops apply`",
    "apply+reboot": "`rigops apply` and a reboot",
    "bios": "a setting of the firmware",
    "hands": "by hand",
    "buy": "other hardware",
    "accept": "none; accept it",
}
_HEAD: Final = """\
# Checks

<!-- Made from the checks: `make checks-page` writes it, and a test compares. Do not edit. -->

`rigops doctor` runs all of them. `--only ID` and `--skip ID` choose, and a host is then asked only
what the chosen ones need. `rigops doctor --explain ID` shows one in the terminal.

*Needs* names the sections of a bundle that a check looks into; a section that was not collected
leaves the check unknown, never healthy. A check that needs a GPU is skipped where there is none.
*Essential* means that the whole host is unknown where the check is.
"""


def page() -> str:
    checks = sorted(CHECKS, key=lambda check: check.id)
    rows = [f"| [{one.id}](#{one.id.replace('.', '')}) | {one.title} |" for one in checks]
    table = "\n".join(["| check | what is healthy |", "|---|---|", *rows])
    return "\n".join([_HEAD, table, *map(_section, checks)])


def _section(check: Check) -> str:
    names = [section.name for section in check.sections]
    needs = ["a GPU"] if check.needs_gpu else []
    needs += [f"`{name}`" for name in dict.fromkeys(names)]
    keys = ", ".join(f"`{key}`" for key in sorted(check.keys))
    facts = [
        f"Needs: {', '.join(needs) or 'nothing'}.",
        f"Fix: {', '.join(_FIXES[kind] for kind in check.fixes) or 'nothing to fix'}.",
        *(["Essential."] if check.essential else []),
        *([f"Essential where declared: {keys}."] if keys and not check.essential else []),
    ]
    text = textwrap.fill(check.explanation, _WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [textwrap.fill(one, _WIDTH - 2, break_on_hyphens=False) for one in facts]
    bullets = "\n".join("- " + one.replace("\n", "\n  ") for one in lines)
    return f"\n## {check.id}\n\n**{check.title}.**\n\n{text}\n\n{bullets}"


if __name__ == "__main__":
    print(page())  # noqa: T201 - what this module is for
