"""Settings for a host, as lines that a shell can source."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rigops.preflight.environment import environment
from rigops.preflight.headline import in_a_word
from rigops.report.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.preflight.found import HostFound


def environment_lines(found: HostFound) -> list[str]:
    """Only comments and exports, each line printable."""
    return [visible(line) for line in _lines(found)]


def _lines(found: HostFound) -> Iterator[str]:
    advice = environment(found)
    day = f", {found.at[:10]}" if found.at else ""
    yield f"# rigops preflight {found.host}{day}: {in_a_word(found)}"
    for variable in advice.variables:
        yield f"# why: {variable.why}"
        yield f"# until when: {variable.until}"
        yield f"export {variable.name}={shlex.quote(variable.value)}"
    for note in advice.notes:
        yield f"# {note}"
