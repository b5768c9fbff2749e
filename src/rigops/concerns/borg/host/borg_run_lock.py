"""One run at a time; a restore and a drill are runs too."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rigops.backup.host.one_run import only_run
from rigops.backup.host.volumes import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def only_borg_run(wait_s: float = 0.0) -> Iterator[None]:
    with only_run(f"{RUN}/borg.lock", wait_s=wait_s, works_on="the backups"):
        yield
