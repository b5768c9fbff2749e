"""Getting to see hosts: over the network, here, or in bundles that were kept."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rigops.cli.fleet import for_each
from rigops.cli.progress import Progress
from rigops.doctor import notes
from rigops.doctor.host_report import HostError
from rigops.errors import RigopsError, UsageError
from rigops.probe.collect import ProbeError, collect
from rigops.probe.registry import SECTIONS
from rigops.transport import TransportError, connect, with_password

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.cli.hosts import Chosen
    from rigops.doctor.host_report import Source
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.spec import RigSpec
    from rigops.transport import HostKeyPolicy, UnknownKey

Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)

REPORT_IT = "this is a fault of rigops: please report it, with what -v prints"


def fault(host: str, error: Exception) -> HostError:
    """Whatever it is, it is this host's alone."""
    log.info("%s", host, exc_info=error)
    return HostError("fault", f"{type(error).__name__}: {error}", REPORT_IT)


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A bundle, or the reason why there is none."""

    host: str
    source: Source
    spec: RigSpec | None
    bundle: Bundle | None = None
    error: HostError | None = None
    duration_ms: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How to look: with which rights, which host keys are trusted, and what is asked."""

    policy: HostKeyPolicy
    root: bool = True
    sudo_password: str | None = None
    sections: Callable[[RigSpec | None], Sequence[Section[Any]]] = lambda _: SECTIONS


def look_at(
    hosts: Sequence[Chosen], how: Looking, then: Callable[[Sighting], tuple[Outcome, str]]
) -> list[Outcome]:
    """All at once. `then` makes something of what was seen, and a word for the line of progress."""
    with Progress("examining") as progress:
        careful = replace(how.policy, ask=_undisturbed(progress, how.policy.ask))
        looking = replace(how, policy=careful)

        def work(host: Chosen) -> Outcome:
            progress.begin(host.name)
            made, word = then(_look(host, looking))
            progress.end(host.name, word)
            return made

        try:
            return for_each(hosts, work)
        except KeyboardInterrupt:
            names = ", ".join(progress.unfinished)
            click.echo(f"\nNot examined to the end: {names}. Nothing was changed.", err=True)
            raise


def _undisturbed(
    progress: Progress, ask: Callable[[UnknownKey], bool] | None
) -> Callable[[UnknownKey], bool] | None:
    if ask is None:
        return None

    def asking(key: UnknownKey) -> bool:
        with progress.silent():
            return ask(key)

    return asking


def _look(host: Chosen, how: Looking) -> Sighting:
    began = time.monotonic()
    source: Source = "local" if host.target.local else "ssh"
    seen = Sighting(host=host.name, source=source, spec=host.spec)
    try:
        seen = _reach_and_ask(host, how, seen)
    except TransportError as error:
        seen = replace(seen, error=_host_error(error.kind, error))
    except ProbeError as error:
        seen = replace(seen, error=_host_error("auth", error))
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - logged and reported
        seen = replace(seen, error=fault(host.name, error))
    return replace(seen, duration_ms=round((time.monotonic() - began) * 1000))


def _reach_and_ask(host: Chosen, how: Looking, seen: Sighting) -> Sighting:
    with connect(host.target, host_keys=how.policy) as connection:
        wanted = how.sudo_password if how.root else None
        found = collect(
            connection,
            how.sections(host.spec),
            host=host.name,
            root=how.root,
            as_root=None if wanted is None else with_password(connection, wanted),
            collected_at=_now(),
        )
    login = notes.of_login(found.login_noise, found.login_seconds)
    return replace(seen, bundle=found.bundle, notes=(*login, *notes.of_bundle(found.bundle)))


def _host_error(kind: str, error: RigopsError) -> HostError:
    return HostError(kind, str(error), " ".join(problem.cure for problem in error.problems))


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
