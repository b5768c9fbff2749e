"""Runs deploy files on hosts, each host for itself: one's trouble is never another's.

pyinfra's own loops (connect_all, load_deploy_file, run_ops) stop all hosts when one raises, and ask
every fact twice. Here each host has a greenlet; planning runs the deploy files in pyinfra's Prepare
stage, and applying runs the same files again in its Execute stage, where each operation takes
effect at once.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import gevent
from gevent.local import local
from pyinfra.api.config import Config
from pyinfra.api.exceptions import NestedOperationError
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State, StateStage
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state

from rigops.converge.connector import RigConnector, Seat, StepsFailedError, seat_of, take_seat
from rigops.converge.troubles import DeployError
from rigops.operations.change import PackageChanges, begin_story, story
from rigops.operations.consent import Consent, agree, give
from rigops.operations.driver_vault import let_take
from rigops.operations.trying import let_try
from rigops.probe.collect import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import CodeType

    from pyinfra.api.facts import FactBase
    from pyinfra.api.host import Host
    from pyinfra.api.state import StateOperationMeta

    from rigops.converge.memo import Memo
    from rigops.facts.sections import SectionFact
    from rigops.operations.change import Change, Repair
    from rigops.operations.driver_vault import Shelf
    from rigops.operations.trying import Way
    from rigops.probe.bundle import Bundle

Value = TypeVar("Value")

# pyinfra tells its story on a logger of its own; what matters is in our results.
logging.getLogger("pyinfra").setLevel(logging.CRITICAL)

_NOTHING = Consent()
_GUESSES = 5  # a fact may show that yet another one is wanted


@dataclass(frozen=True)
class Planned:
    changes: tuple[Change, ...]
    packages: PackageChanges
    repairs: tuple[Repair, ...]
    blocked: tuple[tuple[str, str], ...]  # concern and reason
    notices: tuple[tuple[str, str], ...]
    undeclared: Mapping[str, tuple[str, ...]]  # concern, and the files of it that would go
    pending: bool  # some operation would run a command
    trying: tuple[str, ...] = ()  # kernel arguments for the next boot to try
    trial_wait_s: int = 0  # what the bootloader's menus add to that
    untried: str = ""  # why they cannot be tried
    owed: tuple[tuple[str, str], ...] = ()  # concern and what a reboot is to bring


class _State(State):
    """One host may be planned for while another is changed, each in its greenlet.

    pyinfra tells operations apart by their place in the stack of calls, which it looks up in the
    sources at every one, or, as here, by their number. Then hosts must not share the meta data.
    """

    _turn = local()

    @property
    def op_meta(self) -> dict[str, StateOperationMeta]:
        meta: dict[str, StateOperationMeta] = self._turn.__dict__.setdefault("op_meta", {})
        return meta

    @op_meta.setter
    def op_meta(self, meta: dict[str, StateOperationMeta]) -> None:
        self._turn.op_meta = meta

    @property
    def is_executing(self) -> bool:  # type: ignore[override]  # a plain attribute in pyinfra
        return getattr(self._turn, "takes_effect", False)

    @contextmanager
    def taking_effect(self) -> Iterator[None]:
        self._turn.takes_effect = True
        try:
            yield
        finally:
            self._turn.takes_effect = False


class Engine:
    def __init__(self, data: Mapping[str, Mapping[str, object]]) -> None:
        hosts = [(name, dict(given)) for name, given in data.items()]
        self._inventory = Inventory((hosts, {}))
        self._state = _State()
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
        self, name: str, seat: Seat, known: Iterable[tuple[type[FactBase[Any]], object]]
    ) -> None:
        """The connection to use from now on, and what was just seen over it."""
        host = self._host(name)
        memo = seat.memo
        for fact, value in known:
            memo.seed(fact, value)
        take_seat(host, seat)
        host.connected = True
        fetch = partial(type(host).get_fact, host)

        def remembered(fact: type[FactBase[Any]], *args: object, **kwargs: object) -> Any:
            return memo.get(fetch, fact, args, kwargs)

        host.get_fact = remembered  # type: ignore[method-assign, assignment]  # pyinfra has no hook for it
        self._state.activate_host(host)

    def bring(self, name: str, shelf: Shelf | None) -> None:
        """The packages that deploys may take from the vault."""
        let_take(self._host(name), shelf)

    def plan(
        self,
        name: str,
        deploys: Sequence[Path],
        *,
        agreed: Collection[str] | None = None,
        consent: Consent = _NOTHING,
        way: Way | None = None,
    ) -> Planned:
        """`agreed`: the removals of whole concerns that were agreed to; None plans them all."""
        host = self._host(name)
        memo = seat_of(host).memo
        for _ in range(_GUESSES):
            with memo.guessing():
                try:
                    planned = self._planned(host, deploys, agreed, consent, way)
                except Exception:
                    if not memo.missing:
                        raise
                else:
                    if not memo.missing:
                        return planned
            _look(host, memo)
        # What a look did not answer is asked for one by one, and its failure told.
        return self._planned(host, deploys, agreed, consent, way)

    def apply(
        self,
        name: str,
        deploys: Sequence[Path],
        *,
        agreed: Collection[str] = (),
        consent: Consent = _NOTHING,
        way: Way | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        host = self._start(name, StateStage.Execute, agreed, consent, way)
        with self._state.taking_effect():
            self._run(host, deploys, tell)

    def _planned(
        self,
        host: Host,
        deploys: Sequence[Path],
        agreed: Collection[str] | None,
        consent: Consent,
        way: Way | None,
    ) -> Planned:
        self._start(host.name, StateStage.Prepare, agreed, consent, way)
        self._run(host, deploys, lambda _: None)
        told = story(host)
        operations = self._state.ops[host].values()
        return Planned(
            changes=tuple(told.changes),
            packages=told.packages,
            repairs=tuple(told.repairs),
            blocked=tuple(told.blocked),
            notices=tuple(told.notices),
            undeclared=dict(told.undeclared),
            pending=any(one.operation_meta.will_change for one in operations),
            trying=told.trying,
            trial_wait_s=told.trial_wait_s,
            untried=told.untried,
            owed=tuple(told.owed),
        )

    def _start(
        self,
        name: str,
        stage: StateStage,
        agreed: Collection[str] | None,
        consent: Consent,
        way: Way | None,
    ) -> Host:
        if self._state.current_stage < stage:
            self._state.set_stage(stage)
        host = self._host(name)
        host.op_hash_order = []
        self._state.ops[host] = {}
        self._state.op_meta = {}
        begin_story(host)
        agree(host, agreed)
        give(host, consent)
        let_try(host, way)
        return host

    def _run(self, host: Host, deploys: Sequence[Path], tell: Callable[[str], None]) -> None:
        ctx_host.set(host)
        ctx_config.set(self._state.config.copy())
        seat = seat_of(host)
        try:
            for path in deploys:
                tell(path.stem)
                exec(_compiled(path), {"__file__": str(path)})  # noqa: S102 - deploys are run by path
                seat.settle()
        except (NestedOperationError, DeployError) as error:
            if seat.lost is not None:
                raise seat.lost from error
            if isinstance(error, DeployError):
                raise
            raise DeployError(self._what_failed(host)) from error
        except StepsFailedError as error:
            raise DeployError(str(error)) from error
        finally:
            seat.waiting.clear()

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


@cache
def _compiled(path: Path) -> CodeType:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


def _look(host: Host, memo: Memo) -> None:
    """Everything that was missing, in one exec."""
    looks = list(memo.missing.looks())
    seat = seat_of(host)
    sections = [look.section for look in looks]
    bundle = collect(seat.connection, sections, host=host.name, as_root=seat.privilege).bundle
    for look in looks:
        answer = bundle.sections.get(look.section.name)
        if answer is not None and answer.whole:
            for fact, asked, value in look.known(look.section.parse(answer.text)):
                memo.seed(fact, value, **asked)


def seen(
    bundle: Bundle, facts: Iterable[type[SectionFact[Any]]]
) -> list[tuple[type[SectionFact[Any]], object]]:
    """The facts that the bundle holds in whole."""
    return [
        (fact, fact.section.parse(answer.text))
        for fact in facts
        if (answer := bundle.sections.get(fact.section.name)) is not None and answer.whole
    ]


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
