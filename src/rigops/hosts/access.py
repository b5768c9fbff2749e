"""A host that a command works on, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass
from rigops.transport import (
    Connection,
    HostKeyPolicy,
    Privilege,
    Target,
    UnknownKey,
    connect,
    with_password,
)
from rigops.transport.privilege import WITHOUT_PASSWORD

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.power import Neighbor


@dataclass(frozen=True)
class Chosen:
    """`spec` is None where no inventory declares anything for it.

    `neighbors`: other hosts of the inventory on its circuits. `digest`: of the inventory.
    """

    name: str
    target: Target
    spec: RigSpec | None
    neighbors: tuple[Neighbor, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class HostAccess:
    """Which host keys are trusted, and the password of sudo, where one was typed."""

    host_keys: HostKeyPolicy = HostKeyPolicy()
    sudo_password: str | None = field(default=None, repr=False)

    def asking(self, silent: Callable[[], AbstractContextManager[None]]) -> HostAccess:
        """`silent` surrounds each question about a key."""
        if (ask := self.host_keys.ask) is None:
            return self

        def ask_alone(key: UnknownKey) -> bool:
            with silent():
                return ask(key)

        return replace(self, host_keys=replace(self.host_keys, ask=ask_alone))

    @contextmanager
    def open(self, target: Target) -> Iterator[tuple[Connection, Privilege]]:
        """A connection, and what makes its commands root."""
        with connect(target, host_keys=self.host_keys) as connection:
            yield connection, self.privilege(connection)

    def privilege(self, connection: Connection) -> Privilege:
        if self.sudo_password is None:
            return WITHOUT_PASSWORD
        return with_password(connection, self.sudo_password)
