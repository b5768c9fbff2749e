from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe import script
from rigops.probe.sections import backups, memory, nccl, network, smart, storage
from rigops.probe.text import preamble
from tests.unit import programs
from tests.unit.patterns import slow_growth
from tests.unit.probe import host_sections
from tests.unit.probe.snippets import TOOLS, as_collected, hidden
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.section import Section

SECTIONS: Final[list[Section[Any]]] = [
    one.SECTION for one in (memory, storage, smart, network, backups, nccl)
]
EACH = pytest.mark.parametrize("section", SECTIONS, ids=[one.name for one in SECTIONS])


def test_settings_with_their_places() -> None:
    found = nccl.parse(host_sections.NCCL)

    assert [(one.name, one.value, one.file, one.number) for one in found.settings] == [
        ("NCCL_P2P_DISABLE", "1", "/etc/nccl.conf", 2),
        ("NCCL_DEBUG", "WARN", "/etc/nccl.conf", 3),
        ("NCCL_IB_DISABLE", "1", "/etc/environment", 7),
        ("NCCL_P2P_LEVEL", "LOC", "/etc/systemd/system/vllm.service.d/env.conf", 3),
        ("NCCL_DEBUG", "INFO", "/etc/systemd/system/vllm.service.d/env.conf", 3),
        ("NCCL_SOCKET_IFNAME", "enp5s0", "/home/me/.bashrc", 121),
    ]
    assert found.processor == "AuthenticAMD"
    assert not found.closed
    assert not found.unparsed


def test_old_verdicts_and_versions() -> None:
    found = nccl.parse(host_sections.NCCL)

    assert [(one.epoch, one.path.rsplit("/", 1)[1]) for one in found.caches] == [
        (1714557600, "gpu_p2p_access_cache_for_0,1.json")
    ]
    assert [one.version for one in found.libraries] == ["2.18.5", "2.26.2"]


@pytest.mark.parametrize("section", [one for one in SECTIONS if one.parse is not str])
@given(text=st.text())
def test_rubbish_is_left_unparsed(section: Section[Any], text: str) -> None:
    rubbish = f"rubbish {text}"

    assert section.parse(rubbish).unparsed


@EACH
@given(
    cut=st.integers(0, 3000),
    at=st.integers(0, 3000),
    put=st.one_of(st.text(max_size=5), st.sampled_from(["9" * 5000, "\x00", "\n== ", "=\n=\n"])),
)
def test_no_damage_makes_a_parser_raise(section: Section[Any], cut: int, at: int, put: str) -> None:
    whole = host_sections.ALL[section.name]

    section.parse(whole[:cut])
    section.parse(whole[:at] + put + whole[at:])
    section.parse(whole.replace("\n", "\r\n"))


@EACH
def test_twice_the_flood_takes_twice_the_time(section: Section[Any]) -> None:
    whole = host_sections.ALL[section.name]
    but_the_last_line = whole.rstrip().rsplit("\n", 1)[0]
    for head in re.findall(r"(?m)^== .*$", whole):
        for piece in ("a", " ", "[", "md0 : a", 'A="', "NCCL_A=", "/a:1:", "1 ", "x\n"):
            start = f"{but_the_last_line}\n{head}\n"

            def flood(size: int, start: str = start, piece: str = piece) -> str:
                return f"{start}{piece * (size // len(piece))}\n"

            assert slow_growth(section.parse, flood, 16 * 1024) is None


@pytest.mark.parametrize("shell", SHELLS)
@EACH
def test_every_shell_runs_the_snippet_and_the_parser_reads_it(
    shell: str, section: Section[Any]
) -> None:

    done = _run(shell, section.snippet)

    assert (done.returncode, done.stderr) == (0, "")
    assert preamble(as_collected(done.stdout)) == ()
    section.parse(as_collected(done.stdout))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_snippet_finds_what_was_left_behind_in_a_home(shell: str, tmp_path: Path) -> None:
    home = tmp_path / "home/me"
    (home / ".cache/vllm").mkdir(parents=True)
    (home / ".cache/vllm/gpu_p2p_access_cache_for_0,1.json").write_text("{}")
    (home / ".nccl.conf").write_text("NCCL_P2P_LEVEL=SYS\n")
    (home / ".bashrc").write_text("true\nexport NCCL_P2P_DISABLE=1 API_KEY=geheim\n")
    site = home / "env/lib/python3.11/site-packages/nvidia_nccl_cu12-2.26.2.dist-info"
    site.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "root:x:0:0::/nowhere:/bin/sh\n"
        f"me:x:{os.getuid()}:{os.getgid()}::{home}:/bin/sh\nsys:x:9:9::{home}:/bin/sh\n"
    )

    done = _run(shell, nccl.SECTION.snippet.replace("/etc/", f"{tmp_path}/etc/"))

    found = nccl.parse(as_collected(done.stdout))
    assert [(one.name, one.value, one.number) for one in found.settings] == [
        ("NCCL_P2P_LEVEL", "SYS", 1),
        ("NCCL_P2P_DISABLE", "1", 2),
    ]
    assert [one.path for one in found.caches] == [
        str(home / ".cache/vllm/gpu_p2p_access_cache_for_0,1.json")
    ]
    assert "2.26.2" in {one.version for one in found.libraries}
    assert "geheim" not in done.stdout
    assert not found.unparsed


def _run(shell: str, snippet: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*programs.shell(shell), "-c", f"{TOOLS}\n{hidden(snippet)}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": script.PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
    )
