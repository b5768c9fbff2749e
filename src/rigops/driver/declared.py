"""What an inventory declares of the driver, as the request that is resolved."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rigops.driver.request import Request

if TYPE_CHECKING:
    from rigops.spec import RigSpec
    from rigops.spec.model import DriverWish


def request(spec: RigSpec, wish: DriverWish, *, locked: str = "", upgrade: bool = False) -> Request:
    return Request(
        wish=wish,
        flavor=spec.driver_flavor or "auto",
        set_=spec.driver_set,
        allow_bad=bool(spec.driver_allow_bad),
        upgrade=upgrade,
        locked=locked,
        source=spec.driver_source.kind if spec.driver_source else "auto",
    )


def identity(spec: RigSpec) -> str:
    """All that a resolution depends on: with another text it is made anew."""
    source = asdict(spec.driver_source) if spec.driver_source else None
    wish = spec.driver.text if spec.driver else None
    return json.dumps(
        [wish, spec.driver_flavor, spec.driver_set, bool(spec.driver_allow_bad), source]
    )
