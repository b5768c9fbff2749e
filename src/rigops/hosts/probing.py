"""Hosts probed over ssh or on this machine, many at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rigops.dataclass import dataclass
from rigops.errors import REPORT_IT, HostError, UsageError
from rigops.hosts.parallel import Console, for_each
from rigops.probe.bundle import Bundle
from rigops.probe.collect import ProbeError, collect
from rigops.record import journal
from rigops.transport import TransportError

if TYPE_CHECKING:
    from rigops.doctor.host_report import Source
    from rigops.hosts.access import Chosen, HostAccess
    from rigops.inventory.spec import RigSpec
    from rigops.power import Neighbor
    from rigops.probe.section import Section

Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)

# Held for imports while hosts answer: of two threads that come from different sides into packages
# that import their own modules, Python hands one a module that is not yet whole.
IMPORTING = threading.RLock()


def all_sections() -> Sequence[Section[Any]]:
    with IMPORTING:
        from rigops.concerns.registry import every_section  # noqa: PLC0415 - while hosts answer

        return every_section()


def internal_error(host: str, error: Exception) -> HostError:
    """An unexpected exception fails its own host only."""
    log.info("%s", host, exc_info=error)
    return HostError("fault", f"{type(error).__name__}: {error}", REPORT_IT)


@dataclass(frozen=True, kw_only=True)
class CollectedHost:
    """A bundle, or the reason why there is none.

    `known_as`: the name of its records on this machine; empty: it has none, as a stranger's bundle.
    """

    host: str
    source: Source
    spec: RigSpec | None
    neighbors: tuple[Neighbor, ...] = ()
    bundle: Bundle | None = None
    error: HostError | None = None
    duration_ms: int = 0
    notes: tuple[str, ...] = ()
    known_as: str = ""


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """`more`: what the first answers make necessary to ask besides, in a second exec."""

    access: HostAccess
    root: bool = True
    sections: Callable[[RigSpec | None], Sequence[Section[Any]]] = lambda _: all_sections()
    more: Callable[[Bundle, RigSpec | None], Sequence[Section[Any]]] = lambda *_: ()


def probe_hosts(
    hosts: Sequence[Chosen],
    options: ProbeOptions,
    then: Callable[[CollectedHost], tuple[Outcome, str]],
    console: Console,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """`then` turns each collected host into an outcome and a word for the progress line."""
    with console.progress("examining") as progress:
        asking = replace(options, access=options.access.asking(progress.silent))

        def work(host: Chosen) -> Outcome:
            progress.begin(host.name)
            made, word = then(_collect(host, asking))
            progress.end(host.name, word)
            return made

        try:
            return for_each(hosts, work, meanwhile)
        except KeyboardInterrupt:
            names = ", ".join(progress.unfinished)
            console.tell("", f"Not finished: {names}. Nothing was changed.")
            raise


def _collect(host: Chosen, options: ProbeOptions) -> CollectedHost:
    began = time.monotonic()
    source: Source = "local" if host.target.local else "ssh"
    collected = CollectedHost(
        host=host.name,
        source=source,
        spec=host.spec,
        neighbors=host.neighbors,
        known_as=host.name,
    )
    try:
        collected = _connect_and_collect(host, options, collected)
    except TransportError as error:
        collected = replace(collected, error=HostError(error.kind, str(error), error.fix))
    except ProbeError as error:
        collected = replace(collected, error=HostError("auth", str(error), error.fix))
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - logged and reported
        collected = replace(collected, error=internal_error(host.name, error))
    return replace(collected, duration_ms=round((time.monotonic() - began) * 1000))


def _connect_and_collect(
    host: Chosen, options: ProbeOptions, collected: CollectedHost
) -> CollectedHost:
    with options.access.open(host.target) as (connection, privilege):
        ask = partial(
            collect,
            connection,
            host=host.name,
            root=options.root,
            as_root=privilege if privilege.kind == "password" else None,
            collected_at=journal.now(),
        )
        found = ask(options.sections(host.spec))
        bundle = found.bundle
        if more := options.more(bundle, host.spec):
            with suppress(TransportError, ProbeError):  # what is known without it counts
                sections = {**bundle.sections, **ask(more).bundle.sections}
                bundle = replace(bundle, sections=sections)
    with IMPORTING:
        from rigops.doctor import notes  # noqa: PLC0415 - while hosts answer

    login = notes.of_login(found.login_noise, found.login_seconds)
    return replace(collected, bundle=bundle, notes=(*login, *notes.of_bundle(bundle)))
