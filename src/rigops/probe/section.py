"""One thing to ask a host: a piece of shell, and the pure function that reads its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rigops.dataclass import dataclass

Facts = TypeVar("Facts")

EVERY_WORD: Final = "*"  # as `technical`: people name nothing in this output


@dataclass(frozen=True, kw_only=True)
class Section(Generic[Facts]):
    """`parse` takes any text without raising; what it could not parse is in the facts' `unparsed`.

    It is `str` where only people read the output.
    The snippet may use `block HEAD`, `show FILE…`, `show_kernel FILE…`, `run COMMAND…`, `copy`,
    `say LINE`, `there PATH`, `units_of PATTERN…` and `is_root` of the script's tools, and
    `$asked_at`, the host's clock when it was asked, in seconds. It is the body of a function, in a
    shell that asks other sections before it and after it. It returns 0 where its answer is whole,
    an empty one included.
    """

    name: str
    snippet: str
    parse: Callable[[str], Facts]
    timeout_s: int = 8  # after which the script goes on without it
    wants_root: bool = False
    asks_driver: bool = False  # only when everything else has been answered: the driver may hang
    lane: str = ""  # those with the same name are asked one after the other
    is_slow: bool = False  # it may need all its time on a healthy host
    is_exact: bool = False  # no secret in it is replaced: it is for apply, and never in a bundle
    needs: str = ""  # the command without which there is nothing to say
    # The words in the output that its parser or a check looks for. Redaction leaves them, though a
    # host or a user may be called so.
    technical: str = ""
