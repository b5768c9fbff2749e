"""The words that sections declare keep the verdict, and names that are none of them go."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe import kernel_log
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles import bug_report
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.section import EVERY_WORD
from tests.corpus import CORPUS
from tests.shards import PROPERTIES
from tests.unit import recorded
from tests.unit.probe import answers, host_sections, pasted
from tests.unit.probe.bundles.redacting import changed_by_redaction, without_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIXTURES = Path(__file__).parents[3] / "fixtures"
OURS = ((FIXTURES / "kernel-log", "kernel-log"), (FIXTURES / "smi", "nvidia-smi-xml"))
OF_THE_CORPUS = (
    (CORPUS / "01-nvidia-smi-xml", "nvidia-smi-xml"),
    (CORPUS / "01b-nvidia-smi-q-text", "nvidia-smi-xml"),
    (CORPUS / "02-topo-m", "nvidia-smi-topo"),
    (CORPUS / "03-topo-p2p", "nvidia-smi-p2p-read"),
    (CORPUS / "04-kernel-log", "kernel-log"),
    (CORPUS / "06-lspci", "lspci"),
    (CORPUS / "07-cmdline-grub-iommu", "bootloader"),
)
RIG = recorded.rig("threadripper-3x3090")
WORD = re.compile(r"(?=(?<![A-Za-z0-9])([A-Za-z0-9]+|[A-Za-z]+(?:[-_.][A-Za-z]+)+)(?![A-Za-z0-9]))")
LITERAL = re.compile(r"[A-Za-z]{4,}")
NO_LITERAL = re.compile(r"\(\?P?<\w+>|\[(?:\\.|[^\]\\])*\]|\\[A-Za-z]|\{[0-9,]+\}")


def changed(sections: Iterable[tuple[str, str]]) -> Bundle:
    texts = {name: Collected(text) for name, text in sections}
    return Bundle("rig", None, root=True, sections={**RIG.sections, **texts})


def bundles() -> Iterator[tuple[str, Bundle]]:
    for name in recorded.NAMES:
        yield name, recorded.rig(name)
    yield "answers", answers.bundle(answers.BROKEN)
    yield "host sections", changed(host_sections.ALL.items())
    yield "programs", changed(pasted.SAMPLES.items())
    report = FIXTURES / "bundles/nvidia-bug-report.log"
    yield report.name, bug_report.read([report.read_bytes()], host="x")


def of_files(folders: Iterable[tuple[Path, str]]) -> Iterator[tuple[str, Bundle]]:
    """Each with one file of each section, so that it takes less time."""
    listed: dict[str, list[tuple[str, Path]]] = {}
    for folder, section in folders:
        listed.setdefault(section, []).extend((section, file) for file in sorted(folder.glob("*")))
    for together in zip_longest(*listed.values()):
        files = [one for one in together if one]
        texts = [(name, file.read_bytes().decode("utf-8", "replace")) for name, file in files]
        yield " ".join(file.name for _, file in files), changed(texts)


@pytest.mark.parametrize(
    "bundle",
    [
        *(pytest.param(one, id=name) for name, one in bundles()),
        *(
            pytest.param(one, id=name, marks=pytest.mark.shard(PROPERTIES))
            for name, one in (*of_files(OURS), *of_files(OF_THE_CORPUS))
        ),
    ],
)
def test_the_verdict_stays_where_every_word_is_the_name_of_a_user(bundle: Bundle) -> None:
    words = {word for one in bundle.sections.values() for word in WORD.findall(one.text)}
    users = "".join(f"USER={word}\n" for word in sorted(words))
    named = Bundle("rig", None, root=True, sections={**bundle.sections, "users": Collected(users)})

    assert changed_by_redaction(named) is None


def patterns(value: object) -> Iterator[str]:
    if isinstance(value, re.Pattern):
        yield value.pattern
    elif isinstance(value, (tuple, frozenset)):
        for one in value:
            yield from patterns(one)


def test_the_words_of_a_parsers_patterns_are_declared() -> None:
    modules = [one.parse.__module__ for one in (*SECTIONS, *PASTED) if one.technical != EVERY_WORD]
    modules += [
        one.name for one in pkgutil.iter_modules(kernel_log.__path__, f"{kernel_log.__name__}.")
    ]
    declared = " ".join(one.technical for one in (*SECTIONS, *PASTED)).lower()
    words = {
        (module, word)
        for module in modules
        for value in vars(importlib.import_module(module)).values()
        for pattern in patterns(value)
        for word in LITERAL.findall(NO_LITERAL.sub(" ", pattern))
    }

    assert len(words) > 50
    assert {(module, word) for module, word in words if word.lower() not in declared} == set()


@pytest.mark.parametrize(
    ("section", "text", "left"),
    [
        ("storage", "/dev/sdb1 /srv/titan-data ext4", "/dev/sdb1 /srv/host-1-data ext4"),
        ("nvidia-smi-xml", "<name>NVIDIA TITAN V</name>", "<name>NVIDIA TITAN V</name>"),
        (
            "nvidia-smi-xml",
            "<process_name>/opt/titan/serve</process_name>",
            "<process_name>/opt/host-1/serve</process_name>",
        ),
        ("kernel-log", "BTRFS: device label grant devid 1", "BTRFS: device label user-1 devid 1"),
        ("kernel-log", "nouveau 0000:0a:00.0: titan", "nouveau 0000:0a:00.0: host-1"),
        ("proc-cmdline", "root=/dev/mapper/titan-root ro", "root=/dev/mapper/host-1-root ro"),
        ("proc-cmdline", "root=ZFS=grant/ROOT quiet", "root=ZFS=user-1/ROOT quiet"),
        ("proc-cmdline", "resume=UUID=1234-abcd", "resume=UUID=0000-0001"),
        ("proc-cmdline", "rd.lvm.lv=titan/root titan", "rd.lvm.lv=host-1/root titan"),
        ("nvidia-modinfo", "signer:   titan Secure Boot key", "signer:   host-1 Secure Boot key"),
        (
            "smart",
            "Serial Number: S466NX0M1234\nsn S466NX0M1234",
            "Serial Number: serial-1\nsn serial-1",
        ),
        ("my-notes", "titan belongs to grant", "host-1 belongs to user-1"),
    ],
)
def test_names_that_our_own_prose_knows(section: str, text: str, left: str) -> None:
    users = Collected("USER=grant\nUSER=resume\n")
    bundle = Bundle("titan", None, root=False, sections={section: Collected(text), "u": users})

    assert without_names(bundle).sections[section].text == left


def test_a_kernel_that_is_called_as_its_host_is_still_that_kernel() -> None:
    sections = {
        "uname": Collected("Linux titan 6.1.0-titan #1 SMP x86_64 GNU/Linux\n"),
        "modprobe": Collected("== stat initramfs\n1 /boot/initrd.img-6.1.0-titan\n"),
    }
    redacted = without_names(Bundle("titan", None, root=False, sections=sections))

    assert redacted.sections["uname"].text == "Linux host-1 6.1.0-titan #1 SMP x86_64 GNU/Linux\n"
    assert redacted.sections["modprobe"] == sections["modprobe"]


@pytest.mark.parametrize("kind", ["host", "serial", "wifi", "path"])
def test_a_user_who_is_called_as_pseudonyms_are(kind: str) -> None:
    bundle = Bundle("nasbox", None, root=False, sections={"u": Collected(f"USER={kind}\nnasbox")})

    assert without_names(bundle).sections["u"].text == "USER=user-1\nhost-1"
