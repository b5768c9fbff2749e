"""Runs deploy files on hosts, each host for itself: one's trouble is never another's.

pyinfra's own loops (connect_all, load_deploy_file, run_ops) stop all hosts when one raises, and ask
every fact twice. Here each host has a greenlet; planning runs the deploy files in pyinfra's Prepare
stage, and applying runs the same files again in its Execute stage, where each operation takes
effect at once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import gevent
import pyinfra
from pyinfra.api.config import Config
from pyinfra.api.exceptions import NestedOperationError
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State, StateStage
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state

from rigops.converge.connector import CONNECTION, MEMO, RigConnector
from rigops.converge.memo import Memo
from rigops.operations.change import BLOCKED, CHANGES, Change, announced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyinfra.api.facts import FactBase
    from pyinfra.api.host import Host

    from rigops.transport import Connection

Value = TypeVar("Value")

# pyinfra tells its story on a logger of its own; what matters is in our results.
logging.getLogger("pyinfra").setLevel(logging.CRITICAL)


class DeployError(Exception):
    """A deploy could not go on at this host; the text says why."""


@dataclass(frozen=True)
class Planned:
    changes: tuple[Change, ...]
    blocked: tuple[tuple[str, str], ...]  # concern and reason
    pending: bool  # some operation would run a command


class Engine:
    def __init__(self, data: Mapping[str, Mapping[str, object]]) -> None:
        pyinfra.is_cli = True
        hosts = [(name, dict(given)) for name, given in data.items()]
        self._inventory = Inventory((hosts, {}))
        self._state = State()
        config = Config()
        ctx_state.set(self._state)
        ctx_config.set(config)
        ctx_inventory.set(self._inventory)
        config.lock_current_state()
        for host in self._inventory:
            host.connector_cls = RigConnector
        self._state.init(self._inventory, config)
        self._state.fail_hosts = _fail  # type: ignore[method-assign]  # a failed fact is its host's

    def attach(
        self,
        name: str,
        connection: Connection,
        known: Iterable[tuple[type[FactBase[Any]], object]],
    ) -> None:
        """The connection to use from now on, and what was just seen over it."""
        host = self._host(name)
        memo = Memo()
        for fact, value in known:
            memo.seed(fact, value)
        host.connector_data.update({CONNECTION: connection, MEMO: memo})
        host.connected = True
        fetch = partial(type(host).get_fact, host)

        def remembered(fact: type[FactBase[Any]], *args: object, **kwargs: object) -> Any:
            return memo.get(fetch, fact, args, kwargs)

        host.get_fact = remembered  # type: ignore[method-assign, assignment]  # pyinfra has no hook for it
        self._state.activate_host(host)

    def plan(self, name: str, deploys: Sequence[Path]) -> Planned:
        host = self._start(name, StateStage.Prepare)
        self._run(host, deploys)
        operations = self._state.ops[host].values()
        return Planned(
            changes=tuple(announced(host)),
            blocked=tuple(host.connector_data.get(BLOCKED, ())),
            pending=any(one.operation_meta.will_change for one in operations),
        )

    def apply(self, name: str, deploys: Sequence[Path]) -> None:
        host = self._start(name, StateStage.Execute)
        self._run(host, deploys)

    def _start(self, name: str, stage: StateStage) -> Host:
        if self._state.current_stage < stage:
            self._state.set_stage(stage)
        self._state.is_executing = stage is StateStage.Execute
        host = self._host(name)
        host.op_hash_order = []
        self._state.ops[host] = {}
        host.connector_data.pop(CHANGES, None)
        host.connector_data.pop(BLOCKED, None)
        return host

    def _run(self, host: Host, deploys: Sequence[Path]) -> None:
        ctx_host.set(host)
        ctx_config.set(self._state.config.copy())
        try:
            for number, path in enumerate(deploys):
                self._state.current_op_file_number = number
                code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
                exec(code, {"__file__": str(path)})  # noqa: S102 - deploys are run by path
        except NestedOperationError as error:
            raise DeployError(self._what_failed(host)) from error

    def _what_failed(self, host: Host) -> str:
        for operation_hash, data in self._state.ops[host].items():
            meta = data.operation_meta
            if meta.is_complete() and meta.did_error():
                names = ", ".join(self._state.get_op_meta(operation_hash).names)
                said = " ".join((meta.stderr or meta.stdout).split())
                return f"{names}: {said or 'failed and said nothing'}"
        return "an operation failed"

    def _host(self, name: str) -> Host:
        return self._inventory.get_host(name)


def _fail(hosts: Iterable[Host], _: int | None = None) -> NoReturn:
    raise DeployError(f"a fact of {', '.join(host.name for host in hosts)} could not be read")


def on_each(names: Iterable[str], work: Callable[[str], Value]) -> dict[str, Value | BaseException]:
    """Do the work for all at once; whatever one raises is that one's result."""
    results: dict[str, Value | BaseException] = {}

    def one(name: str) -> None:
        try:
            results[name] = work(name)
        except BaseException as error:  # noqa: BLE001 - kept as the host's result
            results[name] = error

    gevent.joinall([gevent.spawn(one, name) for name in names])
    return results
