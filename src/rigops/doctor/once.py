"""Views that several checks, or one for each card, share are computed once a host."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

Value = TypeVar("Value")


def once(view: Callable[[Examined], Value]) -> Callable[[Examined], Value]:
    @wraps(view)
    def asked(examined: Examined) -> Value:
        if view not in examined.views:
            examined.views[view] = view(examined)
        return cast("Value", examined.views[view])

    return asked
