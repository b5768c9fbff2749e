"""What was kept is judged again, with and without what identifies the host."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

import rigops.hosts.access as seen
from rigops.probe.bundles import evidence
from rigops.probe.script import script
from tests.unit.cli.test_doctor import MARK, Rig
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops
    from tests.unit.forks import Said


@pytest.fixture(autouse=True)
def rigs(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(target: Target, **_: object) -> Rig:
        return Rig(target.name, answers.BROKEN)

    monkeypatch.setattr(seen, "connect", connect)


def verdicts(said: Said) -> list[tuple[str, str, str]]:
    (host,) = said.json()["hosts"]
    return [(one["id"], one["status"], one["subject"]) for one in host["findings"]]


@pytest.mark.parametrize("name", ["kept.tar.gz", "kept"])
@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_a_kept_host_is_judged_as_it_was(rigops: Rigops, name: str, raw: tuple[str, ...]) -> None:
    live = rigops("doctor", "threadripper", "--save", name, *raw, "--json")
    kept = rigops("doctor", "--from", name, "--json")

    assert live.code == kept.code == 1
    assert verdicts(kept) == verdicts(live)
    (host,) = kept.json()["hosts"]
    assert host["source"] == "bundle"
    assert (host["host"] == "threadripper") == bool(raw)
    assert f"Saved {name}" in live.err


def test_several_hosts_are_kept_in_one_file(rigops: Rigops) -> None:
    rigops("doctor", "a", "b", "--save", "both.tar.gz", "--raw", "--json")

    said = rigops("doctor", "--from", "both.tar.gz", "--json")

    assert [host["host"] for host in said.json()["hosts"]] == ["a", "b"]
    only = rigops("doctor", "b", "--from", "both.tar.gz", "--json")
    assert [host["host"] for host in only.json()["hosts"]] == ["b"]
    missing = rigops("doctor", "c", "--from", "both.tar.gz")
    assert missing.code == 2
    assert "no bundle has this host" in missing.err


def test_bundles_are_named_again_and_again_or_with_commas(rigops: Rigops) -> None:
    for host, name in (("a", "a"), ("b", "b"), ("cd", "c,d")):
        rigops("doctor", host, "--save", name, "--raw")

    said = rigops("doctor", "--from", "a,b", "--from", "c,d", "--json")

    assert [host["host"] for host in said.json()["hosts"]] == ["a", "b", "cd"]


def test_a_bundle_is_judged_by_the_declarations_of_the_host_that_is_named(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text('rigs = [("mine", {"gpus": 9})]\n')
    rigops("doctor", "anything", "--save", "kept")

    count = {
        one["id"]: one["summary"]
        for one in rigops("doctor", "mine", "--from", "kept", "--json").json()["hosts"][0][
            "findings"
        ]
    }["gpu.count"]

    assert "9" in count
    assert rigops("doctor", "mien", "--from", "kept").code == 2


@pytest.mark.parametrize("words", [("kept.tar.gz",), ("-i", "kept.tar.gz"), ("away.log", "rig")])
def test_a_bundle_without_from_is_told_how_it_is_read(
    rigops: Rigops, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "kept.tar.gz").write_bytes(b"\x1f\x8b")

    said = rigops("doctor", *words)

    (bundle,) = (word for word in words if "." in word)
    assert said.code == 2
    assert f"fix: rigops doctor --from {bundle}" in said.err


def test_nothing_is_overwritten_and_no_host_is_asked_for_that(
    rigops: Rigops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept.tar.gz").write_text("mine")
    monkeypatch.setattr(seen, "connect", None)

    said = rigops("doctor", "rig", "--save", "kept.tar.gz")

    assert said.code == 2
    assert "kept.tar.gz" in said.err
    assert (tmp_path / "kept.tar.gz").read_text() == "mine"


def test_raw_says_how_to_save_and_alone_means_nothing(rigops: Rigops) -> None:
    assert rigops("doctor", "rig", "--raw").code == 2


def test_a_bundle_that_would_be_judged_otherwise_without_names_is_not_written(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = "usb usb3: SerialNumber: 0000:c1:00\nNVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU lost\n"
    monkeypatch.setattr(seen, "connect", lambda target, **_: Rig(target.name, {"kernel-log": log}))
    monkeypatch.setattr(evidence, "without", lambda text: text)
    monkeypatch.setattr(evidence, "replace_between", lambda text, replace: replace(text))

    said = rigops("doctor", "rig", "--save", "kept.tar.gz")

    assert said.code == 2
    for part in ("kept.tar.gz", "xid", "kernel-log", "NVRM: Xid (PCI:0000:c1:00): 79", "--raw"):
        assert part in said.err
    assert list(tmp_path.glob("kept*")) == []
    rigops("doctor", "rig", "--save", "kept.tar.gz", "--raw")
    assert (tmp_path / "kept.tar.gz").exists()


def test_the_probes_own_output_is_a_bundle(rigops: Rigops, tmp_path: Path) -> None:
    answer = Rig("rig", answers.BROKEN).run_script(
        script([]), privilege=None, deadline_s=60, max_output=1
    )
    (tmp_path / "answer").write_bytes(b"[sudo] password for me:\n" + answer.stdout)

    said = rigops("doctor", "--from", "answer", "--json")

    assert said.code == 1
    assert MARK not in said.out
    assert {"drv.pin", "iommu.mode"} <= {
        one for one, status, _ in verdicts(said) if status == "fail"
    }


def archive(path: Path, name: str, content: bytes = b"x") -> None:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))


def newer(path: Path) -> None:
    path.mkdir()
    (path / "meta.json").write_text('{"schema": "rigops.bundle/2"}')


def cut(path: Path) -> None:
    archive(path, "rig/uname", b"x" * 100_000)
    path.write_bytes(path.read_bytes()[:20])


def letter(path: Path) -> None:
    text = b"Dear rigops,\n"
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def nothing(path: Path) -> None:
    assert not path.exists()


def climbing(path: Path) -> None:
    archive(path, "../../etc/passwd")


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "climbing.tar.gz": (climbing, "../../etc/passwd"),
    "newer": (newer, "rigops.bundle/2"),
    "cut.tar.gz": (cut, "cut.tar.gz"),
    "missing": (nothing, "missing"),
    "letter.txt": (letter, "letter.txt"),
    "letter.log.gz": (letter, "letter.log.gz"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_bundle_is_refused_in_one_clear_line(
    rigops: Rigops, tmp_path: Path, name: str
) -> None:
    make, named = BAD[name]
    make(tmp_path / name)

    said = rigops("doctor", "--from", name, "--json")

    assert said.code == 2
    document: Any = json.loads(said.out)
    assert document["schema"] == "rigops.error/1"
    (error,) = document["errors"]
    assert named in error["message"] + str(error["file"]) + str(error["value"])


def test_binary_rubbish_in_every_section_is_judged_and_never_healthy(
    rigops: Rigops, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in answers.BROKEN:
        (kept / name).write_bytes(bytes(range(256)) * 40)

    said = rigops("doctor", "--from", "kept", "--json")

    assert said.code in {1, 3}
    (host,) = said.json()["hosts"]
    assert host["unread"]


POST = """\
Training hangs, what is it?

```
me@rig:~$ cat /proc/cmdline
BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=/dev/nvme0n1p2 ro quiet
me@rig:~$ sudo dmesg | tail -1
[  812.500000] NVRM: Xid (PCI:0000:41:00): 79, pid=4711, name=python, GPU has fallen off the bus.
```
"""


def test_a_post_is_judged_by_what_is_in_it(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text(POST, encoding="utf-8")

    said = rigops("doctor", "--from", "post.txt")

    assert said.code == 1
    text = " ".join(said.out.split())
    assert "post FAIL" in text
    assert "recognized: /proc/cmdline (line 5), kernel log (line 7); 1 other line is" in text
    assert "More would be decided by: sudo lspci -Dnnvvv" in text
    assert "Xid 79" in text


def test_a_post_of_standard_input(rigops: Rigops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(POST.encode()))))

    (host,) = rigops("doctor", "--from", "-", "--json").json()["hosts"]

    assert host["host"] == "paste"
    assert [one["id"] for one in host["findings"] if one["status"] == "fail"] == ["xid"]


def test_a_text_without_any_output_is_refused(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text("It hangs.\n", encoding="utf-8")

    said = rigops("doctor", "--from", "post.txt")

    assert said.code == 2
    assert "no output is recognized in it" in said.err


def test_what_would_decide_more_is_not_there_yet(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text(POST, encoding="utf-8")

    (host,) = rigops("doctor", "--from", "post.txt", "--json").json()["hosts"]

    wanted = host["notes"][-1].rpartition(": ")[2]
    assert wanted
    assert wanted not in {"cat /proc/cmdline", "sudo dmesg"}
