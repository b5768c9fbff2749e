"""The answer to a paste is one page: what is wrong, what was judged, and what to paste next."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rigops.errors import UsageError
from rigops.probe.bundles.reading import read_all
from tests.corpus import CORPUS
from tests.unit.catalog.entries import KNOWN_LINE

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Rigops

PASTES: Final = Path(__file__).parents[2] / "fixtures/pastes"
_IDS: Final = re.compile(r"(?:[a-z0-9]+\.[a-z0-9_]+, ){2}")
_ONE_PAGE: Final = 60  # lines
_FINDING: Final = re.compile(r"  (fail|unknown|warn|info|ok) +\S")
_WORST_FIRST: Final = ("fail", "unknown", "warn", "info", "ok")


def said(rigops: Rigops, path: Path) -> list[str]:
    """As in a terminal without UTF-8, where an ellipsis is three dots."""
    return rigops("doctor", "--from", str(path)).out.replace("…", "...").splitlines()


def texts(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.txt")) if is_paste(path)]


def is_paste(path: Path) -> bool:
    try:
        return any(one.paste and one.paste.recognized for one in read_all(path))
    except UsageError:
        return False


@pytest.mark.parametrize("folder", [PASTES, CORPUS], ids=["fixtures", "corpus"])
def test_a_paste_is_answered_on_one_page_the_worst_first_and_without_a_list_of_ids(
    rigops: Rigops, folder: Path
) -> None:
    for path in texts(folder):
        lines = said(rigops, path)

        assert max(map(len, lines)) <= 100, path
        assert not [line for line in lines if _IDS.search(line)], path
        if len(path.read_bytes().splitlines()) <= _ONE_PAGE:
            assert len(lines) <= 20, path
        for page in "\n".join(lines).split("\n\n")[:-1]:
            statuses = [found[1] for one in page.splitlines() if (found := _FINDING.match(one))]
            assert statuses == sorted(statuses, key=_WORST_FIRST.index), path
            assert _FINDING.match(page.splitlines()[1]), path


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("healthy-log", ["in these 8 lines, from the boot on: no Xid,"]),
        ("nccl-tests-healthy", ["collectives of 3 sizes computed the right values, up to 8.42"]),
        ("mixed-bench-and-burn-healthy", ["2 cards computed without an error, up to 73"]),
        ("topo-healthy-nvlink", ["2 cards, NV4 between them"]),
        ("smi-q-healthy-excerpt", ["1 card: 1x RTX 3090", "(61 °C)", "default of 350 W", "30%"]),
        ("lspci-two-3080-grepped", ["2 cards: 2x RTX 3080"]),
        ("p2p-granted-all-letters", ["peer access is granted for 2 of 2 ordered pairs"]),
    ],
)
def test_what_is_well_is_told_with_its_values(rigops: Rigops, name: str, lines: list[str]) -> None:
    answer = rigops("doctor", "--from", str(PASTES / f"{name}.txt"))
    text = " ".join(answer.out.split())

    assert not [line for line in lines if line not in text], answer.out
    assert "could not be judged" not in text
    assert answer.code == 0


@pytest.mark.parametrize(
    ("name", "cause", "effect"),
    [
        ("talos-gsp-timeout", "GSP firmware did not answer the driver: Xid 119", "xid"),
        ("smi-lost-powershell", "lost: nvidia-smi cannot reach it any more", "gpu.count"),
        ("rm-init-after-passthrough", "it did not answer when it was woken", "gpu.init"),
        ("log-grep-files", "Xid 79: GPU has fallen off the bus", "gpu.init"),
        (
            "nouveau-and-secure-boot",
            "refuses the NVIDIA module because of Secure Boot",
            "drv.loaded",
        ),
    ],
)
def test_what_follows_from_a_finding_is_told_once(
    rigops: Rigops, name: str, cause: str, effect: str
) -> None:
    said = rigops("doctor", "--from", str(PASTES / f"{name}.txt")).out
    whole = rigops("doctor", "--from", str(PASTES / f"{name}.txt"), "-v").out

    assert cause in " ".join(said.split())
    assert re.search(rf"^ +explains: {effect}\b", said, re.MULTILINE)
    assert not re.search(rf"^  fail +{effect} ", said, re.MULTILINE)
    assert re.search(rf"^  fail +{effect} ", whole, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("healthy-log", "ok", 0),
        ("xid-31-journal-pager", "WARN", 0),
        ("xid-79-proxmox-prompt", "FAIL", 1),
        ("nccl-tests-hang", "unknown", 3),
        ("gpu-burn-nothing-computed", "unknown", 3),
        ("smi-table-discourse-cut", "unknown", 3),
        ("topo-cut-in-table", "unknown", 3),
        ("p2p-of-what", "unknown", 3),
    ],
)
def test_the_exit_code_follows_what_was_judged(
    rigops: Rigops, name: str, status: str, code: int
) -> None:
    answer = rigops("doctor", "--from", str(PASTES / f"{name}.txt"))

    assert answer.out.splitlines()[0].split("  ")[1] == status
    assert answer.code == code


def test_json_has_every_check_and_calls_skipped_what_the_paste_does_not_show(
    rigops: Rigops,
) -> None:
    answer = rigops("doctor", "--from", str(PASTES / "healthy-log.txt"), "--json")
    (host,) = json.loads(answer.out)["hosts"]
    by_id = {one["id"]: one for one in host["findings"]}

    assert {one["status"] for one in host["findings"]} == {"ok", "skipped"}
    assert by_id["btrfs.space"]["summary"] == "no output in the paste decides it"
    assert host["notes"][-1] == "more would be decided by: nvidia-smi -q"


@pytest.mark.parametrize("option", [(), ("-v",)])
def test_a_file_whose_name_is_long_makes_no_line_wider(
    rigops: Rigops, tmp_path: Path, option: tuple[str, ...]
) -> None:
    post = tmp_path / f"{'_fell_off_the_bus' * 8}.txt"
    post.write_text((PASTES / "xid-79-proxmox-prompt.txt").read_text())

    first, *rest = (
        rigops("doctor", "--from", str(post), *option).out.replace("…", "...").split("\n")
    )

    assert re.fullmatch(r"(_fell_off_the_bus)+\w*\.\.\.  FAIL", first)
    assert max(map(len, (first, *rest))) <= 100


def test_only_of_a_check_that_nothing_pasted_decides_is_unknown(rigops: Rigops) -> None:
    answer = rigops("doctor", "--from", str(PASTES / "healthy-log.txt"), "--only", "btrfs.space")

    assert "unknown  btrfs.space  nothing in this paste can be judged: " in answer.out
    assert answer.code == 3


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("$ nvidia-smi\nNo devices were found\n", "sudo dmesg | grep -i -e NVRM -e nvidia"),
        ((PASTES / "xid-79-proxmox-prompt.txt").read_text(), "sudo lspci -Dnnvvv"),
        ((PASTES / "apt-dkms-build-failed.txt").read_text(), "dkms status"),
        ((PASTES / "healthy-log.txt").read_text(), "nvidia-smi -q"),
    ],
    ids=["no device", "xid", "dkms", "well"],
)
def test_the_one_command_fits_the_finding(
    rigops: Rigops, tmp_path: Path, text: str, command: str
) -> None:
    (tmp_path / "post.txt").write_text(text)

    lines = said(rigops, tmp_path / "post.txt")

    asked = [line for line in lines if line.startswith("More would be decided by")]
    assert asked == [f"More would be decided by: {command}"]


def test_a_fix_is_whole_and_the_versions_stand_in_the_summary(rigops: Rigops) -> None:
    text = " ".join(" ".join(said(rigops, PASTES / "api-mismatch-after-update.txt")).split())

    assert "the loaded driver (535.129.03) and the libraries of programs (535.183.01) are" in text
    assert "fix: reboot: `systemctl reboot`; the module of the new version is" in text


@pytest.mark.parametrize(
    ("name", "shown", "absent"),
    [
        # A stranger has no inventory: what to do by hand comes first.
        ("iommu-event-overflow", 'and reboot (or declare "kernel_args": ["iommu=pt"])', "1 host:"),
        ("dmar-no-pasid", "known here at 0000:41:00.0, 0000:c1:00.0 once", "/sys/bus/pci"),
        ("rm-init-of-old-driver", "gpu.init the driver could not start this card", "GPU unknown"),
        ("mixed-hang-report-github", "ok /proc/cmdline: nothing on", "kernel-log"),
        ("mixed-hang-report-github", "4 other lines are judged only if known", "not recognized"),
        ("apt-unmet", "known lines alone are judged", "not recognized"),
        ("nccl-tests-with-p2p-disabled", "nccl-tests (line 3 to 7), NCCL's log (line 8", "-log "),
    ],
)
def test_a_page_has_no_codes_and_says_nothing_twice(
    rigops: Rigops, name: str, shown: str, absent: str
) -> None:
    text = " ".join(" ".join(said(rigops, PASTES / f"{name}.txt")).split())

    assert shown in text
    assert absent not in text


def test_beside_advice_it_is_not_said_that_there_is_nothing_to_fix(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "post.txt").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")

    lines = said(rigops, tmp_path / "post.txt")

    assert any("fix: " in line for line in lines)
    assert not [line for line in lines if "Nothing to fix" in line]


def test_an_output_in_many_pieces_is_named_once_and_briefly(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text("[    1.0] usb 1-1: new device\nWell.\n" * 30)

    text = " ".join(" ".join(said(rigops, tmp_path / "post.txt")).split())

    assert "kernel log (line 1, 3, 5, 7, and 26 more pieces); 30 other lines" in text


def test_verbose_counts_what_the_paste_does_not_show(rigops: Rigops) -> None:
    answer = rigops("doctor", "-v", "--from", str(PASTES / "healthy-log.txt"))

    assert re.search(r"skipped \d+ checks, of which the paste shows nothing", answer.out)
    assert not _IDS.search(answer.out)


def test_verbose_has_the_act_by_hand_too(rigops: Rigops) -> None:
    answer = rigops("doctor", "-v", "--from", str(PASTES / "iommu-event-overflow.txt"))

    assert "or by hand: add iommu=pt to the kernel command line" in " ".join(answer.out.split())


def test_of_a_log_with_errors_of_another_device_it_is_not_said_that_it_has_none(
    rigops: Rigops, tmp_path: Path
) -> None:
    line = "nvme 0000:02:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver)"
    (tmp_path / "post.txt").write_text(f"[    2.000000] {line}\n")

    answer = rigops("doctor", "--from", str(tmp_path / "post.txt"), "--json")
    found = [one for one in answer.json()["hosts"][0]["findings"] if one["id"] == "pci.aer.corr"]

    assert {one["status"] for one in found} == {"info"}


def test_a_known_line_of_the_users_catalog_is_found_though_nothing_else_says_anything(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text('rigs = (["box"], {"catalog": "mine.toml"})\n')
    (tmp_path / "mine.toml").write_text(KNOWN_LINE)
    (tmp_path / "post.txt").write_text("riser-watch: link of 0000:41:00.0 retrained\n")

    assert "warn  pci.width" in rigops("doctor", "box", "--from", "post.txt").out
    assert rigops("doctor", "--from", "post.txt").code == 2


def test_a_known_line_of_the_users_catalog_that_no_check_would_show_is_refused(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text('rigs = (["box"], {"catalog": "ours.toml"})\n')
    (tmp_path / "ours.toml").write_text(KNOWN_LINE.replace("pci.width", "pci.widht"))

    for arguments in (("box",), ("box", "--from", str(PASTES / "healthy-log.txt"))):
        answer = rigops("doctor", *arguments)
        assert answer.code == 2
        assert "ours.toml: our-riser.finding = pci.widht: a known line is of no check" in answer.err
        assert "did you mean 'pci.width'?" in answer.err


@pytest.mark.parametrize(
    "name",
    ["mixed-hang-report-github", "mixed-two-hosts-proxmox", "healthy-log", "topo-cut-in-table"],
)
@pytest.mark.parametrize("saved", ["saved", "saved.tar.gz"])
def test_a_saved_paste_is_judged_and_shown_as_before(rigops: Rigops, name: str, saved: str) -> None:
    source = str(PASTES / f"{name}.txt")

    before = rigops("doctor", "--from", source, "--save", saved, "--raw")
    after = rigops("doctor", "--from", saved)

    assert after.out.replace(f"--from {saved}", f"--from {source}") == before.out
    assert after.code == before.code
    documents = [rigops("doctor", "--from", one, "--json").json() for one in (source, saved)]
    hosts, again = ({one["host"]: one for one in found["hosts"]} for found in documents)
    for host in (*hosts.values(), *again.values()):
        del host["duration_ms"]
    assert again == hosts


def test_a_paste_saved_without_names_is_judged_as_a_paste_and_names_nobody(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "post.txt").write_text(
        "asked by hannelore@basement\nhannelore@basement:~$ dmesg\n"
        "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n"
    )

    before = rigops("doctor", "--from", "post.txt", "--save", "saved")
    after = rigops("doctor", "--from", "saved")

    assert len(after.out.splitlines()) == len(before.out.splitlines())
    assert "recognized: kernel log (line 3)" in after.out
    meta = (tmp_path / "saved/meta.json").read_text()
    assert not [one for one in ("hannelore", "basement") if one in f"{meta}{after.out}"]


def test_a_line_that_says_something_is_found_below_the_prompt_of_each_host(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "post.txt").write_text(
        "me@head:~$ uname -r\n6.1.0-18-amd64\n"
        "me@worker:~$ sudo apt install nvtop\n"
        "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct "
        "the problem.\n"
        "me@laptop:~$ ls\ntrain.py\n"
    )

    hosts = rigops("doctor", "--from", "post.txt", "--json").json()["hosts"]

    assert [one["host"] for one in hosts] == ["head", "worker"]
    assert hosts[1]["status"] == "fail"
