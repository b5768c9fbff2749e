"""What one section may cost the thread that reads those of all hosts."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from rigops.probe.bundle import LONGEST_LINE, MOST_LINES, Bundle, Collected
from rigops.probe.bundles.reading import read_all
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.snapshot import HostSnapshot
from tests.unit.patterns import slow_growth
from tests.unit.probe.test_sections import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


EVERY = (*SECTIONS, *PASTED)


def growing(sample: str) -> list[Callable[[int], str]]:
    """A whole output, its lines and its longest line, over and over."""
    lines = sample.splitlines() or ["x"]
    middle, longest = lines[len(lines) // 2], max(lines, key=len)
    head = next((line + "\n" for line in lines if line.startswith("== ")), "")
    return [
        lambda size: sample * (size // (len(sample) or 1)),
        lambda size: head + f"{middle}\n" * (size // (len(middle) + 1)),
        lambda size: head + longest + longest[-1:] * size,
        lambda size: head + "\n".join(f"{longest}{number}" for number in range(size // 80)),
        lambda size: "".join(f"== /x/{number}\n{middle}\n" for number in range(size // 80)),
    ]


def test_twice_the_output_takes_a_parser_twice_the_time() -> None:
    slow = [
        (section.name, how)
        for section in EVERY
        for text in growing(SAMPLES[section.name])
        if (how := slow_growth(section.parse, text, 16 * 1024))
    ]

    assert slow == []


def test_twice_the_output_takes_redaction_twice_the_time() -> None:
    def redacted(text: str) -> object:
        bundle = Bundle("rig", None, root=False, sections={"kernel-log": Collected(text)})
        return Redaction([bundle]).bundle(bundle)

    names = SAMPLES["kernel-log"] + "/home/tom/x 192.168.1.7 Serial Number: S4X7\n"
    slow = [how for text in growing(names) if (how := slow_growth(redacted, text, 16 * 1024))]

    assert slow == []


OVER = {
    "a line of a MiB": "x" * LONGEST_LINE * 8,
    "a line that ends another": "y" * (LONGEST_LINE + 1),
    "lines without number": "\n" * MOST_LINES,
}


@pytest.mark.parametrize("what", OVER)
def test_an_output_over_budget_is_incomplete(what: str) -> None:
    texts = {one.name: f"{SAMPLES[one.name]}\n{OVER[what]}" for one in EVERY}
    sections = {name: Collected(text, root=True) for name, text in texts.items()}
    bundle = Bundle("rig", None, root=True, sections=sections)
    snapshot = HostSnapshot(bundle)

    for one in EVERY:
        answer = snapshot[one]
        assert (answer.is_incomplete, answer.is_exhaustive) == (True, False), one.name
        assert len(bundle.sections[one.name].text) < len(texts[one.name]), one.name


def test_a_bundle_with_such_a_line_is_read(tmp_path: Path) -> None:
    archive = tmp_path / "rig.tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        content = b"iommu=pt " * LONGEST_LINE
        member = tarfile.TarInfo("rig/proc-cmdline")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    archive.write_bytes(gzip.compress(packed.getvalue()))

    (bundle,) = read_all(archive)

    assert not bundle.sections["proc-cmdline"].is_complete
    assert len(bundle.sections["proc-cmdline"].text) < 100
