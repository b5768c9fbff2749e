"""That the boot or the preflight which tried a tree failed: the same is not tried again."""

from __future__ import annotations

from functools import partial
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, document, parse
from rigops.json_fields import readable

PATH: Final = "/var/lib/rigops/failed_modules.json"
SCHEMA: Final = "rigops.failed_modules/1"


@dataclass(frozen=True)
class FailedModules:
    digest: str
    reason: str
    at: Time
    options: str = ""  # that module_options declared for it

    def to_json(self) -> str:
        return document(SCHEMA, self)


def failed(text: str | None) -> FailedModules | None:
    """A record that cannot be read is none: then it is tried again."""
    return readable(partial(parse, FailedModules, schema=SCHEMA, place=PATH), text)
