"""Runs deploy files on hosts, each host for itself: a failure of one stops no other.

pyinfra's own loops (connect_all, load_deploy_file, run_ops) stop all hosts when one raises, and ask
every fact twice. Here each host has a greenlet; planning runs the deploy files in pyinfra's Prepare
stage, and applying runs the same files again in its Execute stage, where each operation takes
effect at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from gevent.local import local
from pyinfra.api.config import Config
from pyinfra.api.exceptions import NestedOperationError
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State, StateOperationMeta, StateStage
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state

from rigops.converge.connector import FOREIGN, HostChannel, RigopsConnector
from rigops.converge.errors import DeployError
from rigops.facts.sections import SectionFact
from rigops.plan.change import Plan
from rigops.plan.context import Consent, TrialOptions, context_of, needs_reboot, plan_of, provide
from rigops.probe.bundle import Bundle
from rigops.probe.collect import collect

# pyinfra reports on a logger of its own; what matters is in our results.
logging.getLogger("pyinfra").setLevel(logging.CRITICAL)

ReasonsByConcern = Callable[[], "Iterable[tuple[str, str]]"]

_NO_CONSENT = Consent()
_ALL_REMOVALS = Consent(removals=None)
_GUESSES = 5  # a fact may show that another one is needed


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
            host.connector_cls = RigopsConnector
        self._state.init(self._inventory, config)
        self._state.fail_hosts = _fail  # type: ignore[method-assign]  # a failed fact is its host's

    def attach(
        self, name: str, channel: HostChannel, known: Iterable[tuple[type[FactBase[Any]], object]]
    ) -> None:
        """The connection to use from now on, and what was just seen over it."""
        host = self._host(name)
        cache = channel.cache
        for fact, value in known:
            cache.seed(fact, value)
        RigopsConnector.for_host(host).channel = channel
        host.connected = True
        fetch = partial(type(host).get_fact, host)

        def cached(fact: type[FactBase[Any]], *args: object, **kwargs: object) -> Any:
            return cache.get(fetch, fact, args, kwargs)

        host.get_fact = cached  # type: ignore[method-assign, assignment]  # pyinfra has no hook for it
        self._state.activate_host(host)

    def provide(self, name: str, value: object) -> None:
        """Data of this run, for the operations that ask for it by its type."""
        provide(self._host(name), value)

    def plan(
        self,
        name: str,
        deploys: Sequence[Path],
        *,
        consent: Consent = _ALL_REMOVALS,
        trial: TrialOptions | None = None,
        reboot_reasons: ReasonsByConcern = tuple,
    ) -> Plan:
        """`reboot_reasons` is asked at the host after its deploys."""
        host = self._host(name)
        channel = RigopsConnector.for_host(host).channel
        cache = channel.cache
        for _ in range(_GUESSES):
            with cache.guessing():
                try:
                    planned = self._planned(host, deploys, consent, trial, reboot_reasons)
                except Exception:  # a guess may mislead an operation: it counts once all is known
                    if not cache.to_fetch:
                        raise
                else:
                    if not cache.to_fetch:
                        return planned
            _fetch(host.name, channel)
        # Missing answers are asked for one by one, and their failures reported.
        return self._planned(host, deploys, consent, trial, reboot_reasons)

    def apply(
        self,
        name: str,
        deploys: Sequence[Path],
        *,
        consent: Consent = _NO_CONSENT,
        trial: TrialOptions | None = None,
        shown: Plan | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`shown`: the plan, outside which nothing is changed."""
        host = self._start(name, StateStage.Execute, consent, trial)
        context_of(host).shown = shown
        with self._state.taking_effect():
            self._run(host, deploys, tell)

    def _planned(
        self,
        host: Host,
        deploys: Sequence[Path],
        consent: Consent,
        trial: TrialOptions | None,
        reboot_reasons: ReasonsByConcern,
    ) -> Plan:
        self._start(host.name, StateStage.Prepare, consent, trial)
        self._run(host, deploys, lambda _: None)
        for concern, reason in reboot_reasons():
            needs_reboot(host, concern, reason)
        return plan_of(host)

    def _start(
        self, name: str, stage: StateStage, consent: Consent, trial: TrialOptions | None
    ) -> Host:
        if self._state.current_stage < stage:
            self._state.set_stage(stage)
        host = self._host(name)
        host.op_hash_order = []
        self._state.ops[host] = {}
        self._state.op_meta = {}
        context = context_of(host)
        context.has_engine = True
        context.consent, context.trial, context.shown = consent, trial, None
        context.plan, context.reported, context.wanted_paths = Plan(), set(), {}
        return host

    def _run(self, host: Host, deploys: Sequence[Path], tell: Callable[[str], None]) -> None:
        ctx_host.set(host)
        ctx_config.set(self._state.config.copy())
        channel = RigopsConnector.for_host(host).channel
        try:
            for path in deploys:
                tell(path.stem)
                before = set(self._state.ops[host])
                exec(_compiled(path), {"__file__": str(path)})  # noqa: S102 - deploys are run by path
                channel.flush()
                if not self._state.is_executing:
                    self._refuse_foreign(host, path.stem, before)
        except (NestedOperationError, DeployError) as error:
            if channel.lost is not None:
                raise channel.lost from error
            if isinstance(error, DeployError):
                raise
            raise DeployError(self._what_failed(host)) from error
        finally:
            channel.waiting.clear()

    def _refuse_foreign(self, host: Host, concern: str, before: Collection[str]) -> None:
        """Operations that would change something and report nothing: pyinfra's own, for example."""
        reported, plan = context_of(host).reported, plan_of(host)
        for operation_hash, data in self._state.ops[host].items():
            is_new = operation_hash not in before and operation_hash not in reported
            if is_new and data.operation_meta.will_change:
                names = ", ".join(sorted(self._state.get_op_meta(operation_hash).names))
                plan.blocked += ((concern, f"{names}: {FOREIGN}"),)

    def _what_failed(self, host: Host) -> str:
        for operation_hash, data in self._state.ops[host].items():
            meta = data.operation_meta
            if meta.is_complete() and meta.did_error():
                names = ", ".join(self._state.get_op_meta(operation_hash).names)
                output = " ".join((meta.stderr or meta.stdout).split())
                return f"{names}: {output or 'failed without output'}"
        return "an operation failed"

    def _host(self, name: str) -> Host:
        return self._inventory.get_host(name)


@cache
def _compiled(path: Path) -> CodeType:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


def _fetch(name: str, channel: HostChannel) -> None:
    """Everything that was missing, in one exec."""
    requests = list(channel.cache.to_fetch.requests())
    sections = [request.section for request in requests]
    bundle = collect(channel.connection, sections, host=name, as_root=channel.privilege).bundle
    for request in requests:
        answer = bundle.sections.get(request.section.name)
        if answer is not None and answer.is_complete:
            for fact, asked, value in request.known(request.section.parse(answer.text)):
                channel.cache.seed(fact, value, **asked)


def seen(
    bundle: Bundle, facts: Iterable[type[SectionFact[Any]]]
) -> list[tuple[type[SectionFact[Any]], object]]:
    """The facts that the bundle holds in whole."""
    return [
        (fact, fact.section.parse(answer.text))
        for fact in facts
        if (answer := bundle.sections.get(fact.section.name)) is not None and answer.is_complete
    ]


def _fail(hosts: Iterable[Host], _: int | None = None) -> NoReturn:
    raise DeployError(f"a fact of {', '.join(host.name for host in hosts)} could not be read")
