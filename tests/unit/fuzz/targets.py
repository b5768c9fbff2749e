"""What reads foreign text, and examples of what it reads.

A reader may raise RigopsError, which is an answer; anything else is a finding.
"""

from __future__ import annotations

import io
import signal
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops import catalog
from rigops.concerns.acs import operations as acs
from rigops.concerns.kernel_args.trial_boot import conditions
from rigops.doctor.notes import command_for_more, of_paste
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.stories import put_together
from rigops.errors import RigopsError
from rigops.ownership.ownership import Ownership
from rigops.packages import apt_simulated, dpkg, sources
from rigops.packages.records import Holds, OwnedPackages, PackageWork
from rigops.probe import reading
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles import bug_report
from rigops.probe.bundles.reading import read_all
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.pastes import reading as pastes
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.snapshot import HostSnapshot
from rigops.record import journal, kernel_arguments, lockfile
from rigops.record.proven import Proven
from rigops.vault import fill, pinned_set
from tests.corpus import CORPUS
from tests.unit.doctor.examining import EVERY_CONCERN
from tests.unit.doctor.examining import catalog as shipped
from tests.unit.probe.test_sections import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
LONGEST_S: Final = 30  # of the processor, for one input of 64 KiB: it hangs
_MOST_OF_A_FILE: Final = 64 * 1024


@dataclass(frozen=True)
class Target:
    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _file(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    def written(data: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            return read(path)

    return written


def _files(*shapes: str) -> tuple[bytes, ...]:
    found = [path for shape in shapes for path in sorted(FIXTURES.glob(shape)) if path.is_file()]
    return tuple(path.read_bytes()[:_MOST_OF_A_FILE] for path in found)


def _corpus(shape: str) -> tuple[bytes, ...]:
    """Real outputs, where they are."""
    found = [path for path in sorted(CORPUS.glob(shape)) if path.is_file()] if shape else []
    return tuple(path.read_bytes()[:_MOST_OF_A_FILE] for path in found[:20])


_REAL: Final = {
    "nvidia-smi-xml": "01-nvidia-smi-xml/*",
    "nvidia-smi-topo": "02-topo-m/*",
    "nvidia-smi-p2p-read": "03-topo-p2p/*",
    "kernel-log": "04-kernel-log/*",
    "lspci": "06-lspci/*",
    "memory": "11d-dmidecode-memory/*",
}


_COPIED: Final = ("01b-nvidia-smi-q-text/*", "01c-nvidia-smi-other/*", "05-p2p-bench/*")


def _sample(name: str) -> bytes:
    return SAMPLES[name].encode("utf-8", "replace")


def _archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("uname", "proc-cmdline", "pci"):
            member = tarfile.TarInfo(f"rig/{name}")
            member.size = len(_sample(name))
            tar.addfile(member, io.BytesIO(_sample(name)))
    return packed.getvalue()


def _probe_output() -> bytes:
    names = ("uname", "boot", "pci", "nccl")
    parts = [
        f"a-1 begin {name} root=1 limit=6\n{SAMPLES[name]}\na-1 rc=0 from=1.00 to=1.20\n\n"
        f"a-1 end {name}\n"
        for name in names
    ]
    head = "rigops-probe/2 a-1 root=1 at=2026-01-31T18:00:00Z host=rig\n"
    return f"{head}a-1 asked {' '.join(names)}\n{''.join(parts)}a-1 done\n".encode()


def _judged(data: bytes) -> object:
    """A whole host whose sections are pieces of this."""
    names = [section.name for section in (*SECTIONS, *PASTED)]
    pieces = data.decode("utf-8", "replace").split("\x01")
    texts = {**SAMPLES, **dict(zip(names, pieces, strict=False))}
    sections = {name: Collected(texts[name], root=True) for name in names}
    bundle = Bundle("rig", "2026-01-31T18:00:00Z", root=True, sections=sections)
    return examine(HostSnapshot(bundle), None, shipped(), concerns=EVERY_CONCERN)


def _of_paste(data: bytes) -> object:
    bundle = pastes.read([("post.txt", data)], host="rig")
    if bundle.paste is None:
        return None
    snapshot = HostSnapshot(bundle)
    found = examine(snapshot, None, shipped(), concerns=EVERY_CONCERN)
    findings, _ = put_together(found, snapshot, shipped())
    assert sorted(map(id, findings)) == sorted(map(id, found))
    return of_paste(bundle.paste), command_for_more(bundle.sections, findings, CHECKS)


def _redacted(data: bytes) -> object:
    sections = {"kernel-log": Collected(data.decode("utf-8", "replace"))}
    bundle = Bundle("rig", None, root=False, sections=sections)
    return Redaction([bundle]).bundle(bundle)


_RECORDS: Final = _files("version_0_1/**/*.json", "version_0_1/holds", "version_0_1/packages")


@cache
def targets() -> dict[str, Target]:
    found = {
        section.name: Target(
            _text(section.parse),
            (_sample(section.name), *_corpus(_REAL.get(section.name, ""))),
        )
        for section in (*SECTIONS, *PASTED)
    }
    smi = found["nvidia-smi-xml"]
    found["nvidia-smi-xml"] = Target(smi.read, (*smi.examples, *_files("smi/*")))
    log = found["kernel-log"]
    found["kernel-log"] = Target(log.read, (*log.examples, *_files("kernel-log/*")))
    apt = _files("apt/*.txt")
    toml = tuple(
        path.read_bytes()[:_MOST_OF_A_FILE]
        for path in sorted((Path(catalog.__file__).parent / "data").glob("*.toml"))
    )
    lock = _files("version_0_1/inventory.lock.json")
    found |= {
        "frames": Target(reading.read, (_probe_output(),)),
        "archive": Target(_file(read_all, "rig.tar"), (_archive(), _probe_output())),
        "bug-report": Target(
            lambda data: bug_report.read([data], host="rig"), _files("bundles/*.log")
        ),
        "redaction": Target(_redacted, (_sample("kernel-log"), _sample("nccl"), _sample("uname"))),
        "doctor": Target(
            _judged, (b"\x01".join(_sample(one.name) for one in (*SECTIONS, *PASTED)),)
        ),
        "pastes": Target(
            _of_paste,
            (*_files("pastes/*.txt"), *(one for shape in _COPIED for one in _corpus(shape)[:8])),
        ),
        "owned": Target(_text(Ownership.parse), _RECORDS),
        "owned-packages": Target(_text(OwnedPackages.parse), _RECORDS),
        "holds": Target(_text(Holds.parse), _RECORDS),
        "package-work": Target(_text(PackageWork.parse), _RECORDS),
        "proven": Target(_text(Proven.from_json), (*_RECORDS, *lock)),
        "kernel-args": Target(_text(kernel_arguments.read_arguments), _RECORDS),
        "lockfile": Target(_file(lockfile.read, "inventory.lock.json"), lock),
        "journal": Target(
            lambda data: journal.parse(data.split(b"\n")), _files("version_0_1/journal.jsonl")
        ),
        "vault": Target(_text(pinned_set.parse), (*_RECORDS, *lock)),
        "vault-fill": Target(_text(fill.parse), (b"a 1 amd64 " + b"0" * 64 + b" 12\n", *apt)),
        "dpkg": Target(_text(dpkg.parse), apt),
        "apt-simulated": Target(_text(apt_simulated.parse), apt),
        "apt-sources": Target(
            _text(lambda text: sources.parse({"/etc/apt/sources.list": text, "x.sources": text})),
            (b"deb [arch=amd64] https://x.example.org/ a main\n", b"Types: deb\nURIs: http://x\n"),
        ),
        "acs": Target(_text(acs.parse), (b"gpus 2\n0000:00:01.0 port 001d none\nlockdown\n",)),
        "trial-conditions": Target(_text(conditions.parse), _files("grub/*", "bootloaders/*")),
        "catalog": Target(_file(catalog.load, "own.toml"), toml),
    }
    return {name: one for name, one in found.items() if one.examples}


def trouble(target: Target, data: bytes) -> str | None:
    """What another exception says, or that it took too long."""

    def give_up(_number: int, _frame: Any) -> None:
        raise TimeoutError(f"more than {LONGEST_S} s")

    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        target.read(data)
    except RigopsError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever else there is, is what we look for
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None
