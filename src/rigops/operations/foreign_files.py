"""Shell that changes a file of somebody else's, with the tools of ``taking_steps``. Pure."""

from __future__ import annotations

import shlex
from base64 import b64encode

_ABSENT = "absent"


def target(path: str, digest: str | None) -> str:
    """Sets at. A link stays one. Whoever changed the file since it was read is not overruled.

    `digest`: of the file as it was read; None where there was none.
    """
    quoted = shlex.quote(path)
    return f'at=$(readlink -f {quoted}) || at={quoted}\nexpect "$at" {digest or _ABSENT}'


def replaced(path: str, digest: str | None, text: str) -> str:
    """With owner, mode and all that an existing file has; at every moment the old or the new."""
    return f"""\
{target(path, digest)}
if [ -e "$at" ]; then
    cp -a "$at" "$at.rigops-new"
else
    mkdir -p "${{at%/*}}"
    : >"$at.rigops-new"
fi
base64 -d >"$at.rigops-new" <<'RIGOPS_END'
{b64encode(text.encode()).decode()}
RIGOPS_END
settle "$at\""""
