"""Captures hosts: one probe each, the passphrase tried, and the result stored on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.borg import BorgEngine
from rigops.backup.engines import Engines
from rigops.capture import controller, store
from rigops.capture.controller import Passphrase
from rigops.capture.describe import describe
from rigops.capture.document import Capture, NotCaptured
from rigops.capture.subject import Subject
from rigops.catalog import Catalog
from rigops.concerns.borg import record as borg_record
from rigops.concerns.borg.passphrase import read_passphrase
from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.errors import HostError, RigopsError
from rigops.hosts.engines import EngineOptions, HostAnswer, ask_engines
from rigops.hosts.parallel import Console
from rigops.hosts.probing import CollectedHost, ProbeOptions, all_sections, probe_hosts
from rigops.hosts.run_records import Beginning, record
from rigops.inventory.spec import RigSpec
from rigops.json_fields import readable
from rigops.probe.bundle import Bundle
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.snapshot import HostSnapshot
from rigops.record import journal
from rigops.record.journal import Run
from rigops.record.lockfile import LockedHost
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.hosts.access import Chosen, HostAccess

_QUESTION: Final = (
    "Run passphrase_command here, and try its passphrase on {}? It is stored nowhere, and nothing "
    "is changed."
)
_UNCONFIRMED: Final = Passphrase(
    why="the passphrase was not tried: it was not confirmed", fix="pass --yes"
)
_NOT_DECLARED: Final = Passphrase(
    state="absent",
    why="passphrase_command is not declared",
    fix='declare a command that prints it here, such as "pass show rig"',
)
_NO_REPOSITORY: Final = Passphrase(
    why="the passphrase was not tried: there is no repository yet", fix="rigops apply"
)
_RIGHT_ONE: Final = "let passphrase_command print the passphrase of this repository"


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """`is_snippet`: nothing is tried, and nothing stored."""

    access: HostAccess
    catalog: Callable[[RigSpec | None], Catalog]
    locked: Mapping[str, LockedHost]
    most_days: int
    is_confirmed: bool
    accepts_no_driver: bool = False
    is_snippet: bool = False


def capture_hosts(
    chosen: Sequence[Chosen], options: CaptureOptions, console: Console
) -> list[Capture | NotCaptured]:
    probed = probe_whole(chosen, options.access, console)
    return [_capture(host, one, options, console) for host, one in zip(chosen, probed, strict=True)]


def probe_whole(
    chosen: Sequence[Chosen], access: HostAccess, console: Console
) -> list[CollectedHost]:
    """All sections, and what tells machines apart."""
    options = ProbeOptions(access=access, sections=lambda _: (*all_sections(), IDENTITY))
    return probe_hosts(chosen, options, lambda one: (one, "examined"), console)


def _capture(
    host: Chosen, collected: CollectedHost, options: CaptureOptions, console: Console
) -> Capture | NotCaptured:
    begun, bundle = Beginning(host, "capture"), collected.bundle
    if bundle is None:
        error = collected.error or HostError("fault", "nothing was collected")
        return NotCaptured(host.name, error)
    spec = host.spec or RigSpec()
    own = Store.from_declared(spec.rigops_vault)
    locked = options.locked.get(host.name)
    examined = Examined(HostSnapshot(bundle), spec, options.catalog(host.spec))
    repository = _repository(examined.snapshot)
    passphrase = Passphrase()
    if not options.is_snippet:
        passphrase = _passphrase(host, spec, repository, options, console)
    found = describe(
        Subject(
            host=host.name,
            examined=examined,
            locked=locked,
            controller=controller.look(
                own,
                host.name,
                locked.sets[0] if locked and locked.sets else None,
                repository,
                passphrase,
                tree=locked.tree if locked else "",
            ),
            at=bundle.collected_at or journal.now(),
            runs=journal.read(host=host.name).runs,
            digest=host.digest,
            most_days=options.most_days,
            login=host.target.user,
            accepts_no_driver=options.accepts_no_driver,
        )
    )
    if options.is_snippet:
        return found
    stored = _stored(own, found, bundle)
    if troubles := record(_run_of(begun, stored)):
        console.tell(*(f"Warning: {text}" for text in troubles))
    return stored


def _stored(own: Store, found: Capture, bundle: Bundle) -> Capture | NotCaptured:
    """One that is not stored is none."""
    try:
        return store.put(own, found, bundle)
    except RigopsError as error:
        return NotCaptured(found.host, HostError("store", str(error), error.fix))


def _run_of(begun: Beginning, found: Capture | NotCaptured) -> Run:
    """For the journal of this machine: the host is only read."""
    if isinstance(found, NotCaptured):
        return begun.ended("failed", reason=found.error.message, touched=False)
    against = [one for one in found.requirements if one.status in {"fail", "unknown"}]
    return begun.ended(
        found.status.replace(" ", "_"),
        changes=(f"stored in {found.place}",),
        reason="; ".join(f"{one.id}: {one.summary}" for one in against),
        touched=False,
    )


def _repository(snapshot: HostSnapshot) -> str:
    """Its id; empty where it was never opened."""
    records = snapshot[RIGOPS_STATE].or_empty.records
    state = readable(borg_record.parse, records.get(borg_record.PATH))
    return state.repository.id if state else ""


def _passphrase(
    host: Chosen, spec: RigSpec, repository: str, options: CaptureOptions, console: Console
) -> Passphrase:
    declared = spec.borg
    if declared is None or not declared.managed:
        return Passphrase()
    if not declared.passphrase_command:
        return _NOT_DECLARED
    if not repository:
        return _NO_REPOSITORY
    if not (options.is_confirmed or console.agrees(_QUESTION.format(host.name))):
        return _UNCONFIRMED
    try:
        given = read_passphrase(declared.passphrase_command, host.name)
    except RigopsError as error:
        why = f"this machine does not know the passphrase: {error}"
        return Passphrase(state="absent", why=why, fix=error.fix)
    return _tried(host, given, repository, options.access, console)


def _tried(
    host: Chosen, given: str, repository: str, access: HostAccess, console: Console
) -> Passphrase:
    def work(_: Chosen, engines: Engines) -> HostAnswer:
        (engine,) = engines.every
        assert isinstance(engine, BorgEngine)  # noqa: S101 - it was asked for
        return HostAnswer(host=host.name, status="ok", value=engine.prove(given))

    options = EngineOptions(access=access, engine="borg")
    (answer,) = ask_engines([host], options, "trying the passphrase", work, console)
    if answer.error is not None:
        return Passphrase(
            why=f"the passphrase could not be tried: {answer.error.message}", fix=answer.error.fix
        )
    return _proof(answer.value, repository)


def _proof(found: ProgramResult, repository: str) -> Passphrase:
    message, fix = str(found.get("message") or ""), str(found.get("fix") or "")
    if found.get("is_wrong"):
        return Passphrase(
            state="refused",
            why=f"the passphrase of this machine does not open it: {message}",
            fix=_RIGHT_ONE,
        )
    if not found.get("proven"):
        return Passphrase(
            why=f"whether the passphrase opens it is not known: {message}",
            fix=fix or "see `rigops doctor`",
            is_absent=found.get("state") == "absent",
        )
    if found.get("id") != repository:
        return Passphrase(
            state="refused",
            why="the passphrase opens another repository than the host has on record",
            fix="run rigops apply",
        )
    return Passphrase(state="opened", key=str(found.get("key_sha256") or ""))
