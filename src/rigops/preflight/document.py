"""The document rigops.preflight/1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rigops.preflight.environment import environment
from rigops.preflight.found import overall
from rigops.preflight.paragraph import paragraph

if TYPE_CHECKING:
    from rigops.preflight.found import HostFound

SCHEMA = "rigops.preflight/1"


def document(hosts: Sequence[HostFound]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "status": overall(hosts),
        "hosts": [
            {
                **host.as_json(),
                "env": environment(host).as_json(),
                "paragraph": paragraph(host),
            }
            for host in hosts
        ],
    }
