"""What local users plant where root looks: none of it brings a file of root's into a bundle.

A row more is a line in KINDS, or in SETTINGS and its like. Each kind has a user, and is planted at
each place.
"""

from __future__ import annotations

import shlex
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigops.probe.bundles.reading import read_all
from rigops.probe.sections import nccl, units
from tests.lab.laptop import Laptop, Said
from tests.shards import ATTACK

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.bundle import Bundle
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(ATTACK)

KEY = "/root/.ssh/id_ed25519"
HIDDEN = "/root/hidden"
SECRET = "geheim-7c1e"
# Whatever lines a section keeps, it would keep this one.
CONTENT = f"NCCL_DEBUG=VERSION {SECRET} nvidia-smi -pl 99"

# How $path is planted by root for $user. Parents are folders of the user's.
KINDS = {
    "link": f"ln -s {KEY} $path",
    "dangling": "ln -s /root/nothing-there $path",
    # As where fs.protected_hardlinks is 0; there is none between two file systems.
    "hard": f"ln {KEY} $path 2>/dev/null || cp -p {KEY} $path",
    "pipe": "mkfifo $path; chown $user $path",
    "giant": "truncate -s 1T $path; chown $user $path",
    "device": "mknod $path c 1 5; chown $user $path",  # /dev/zero
    "folder": "mkdir $path; chown $user $path",
    "foreign": f"echo '{CONTENT}' >$path; chmod 600 $path",  # root's own
    "parent": f"rm -rf $above; ln -s {HIDDEN}/$above $above",
}

# In a home.
SETTINGS = (
    ".nccl.conf",
    ".profile",
    ".bash_profile",
    ".bashrc",
    ".zshenv",
    ".zshrc",
    ".config/environment.d/planted.conf",
    ".config/systemd/user/planted.service",
)
DATES = (".cache/vllm/gpu_p2p_access_cache_for_planted.json",)
NAMES = ("env/lib/python3/site-packages/nvidia_nccl_cu12-2.99.9.dist-info",)
# Elsewhere; a program of the user's, to which an administrator has made a link.
ELSEWHERE = ("/dev/shm/nccl-$user", "/home/$user/program")

IN_HOMES = (*SETTINGS, *DATES, *NAMES)
PLACES = (*IN_HOMES, *ELSEWHERE)


def _is_row(kind: str, place: str) -> bool:
    return kind != "parent" or ("/" in place and not place.startswith("/"))


def _expected_unread(kind: str, place: str) -> bool:
    """Of a file of one's own that is too large the date is read all the same."""
    if place in SETTINGS:
        return True
    return place in DATES and kind != "giant"


ROWS = [(kind, place) for kind in KINDS for place in PLACES if _is_row(kind, place)]
UNREAD = [(kind, place) for kind, place in ROWS if _expected_unread(kind, place)]


@dataclass(frozen=True)
class Looked:
    said: Said
    bundle: Bundle
    files: dict[str, bytes]  # of the archive

    def where(self, words: str) -> list[str]:
        return [name for name, content in self.files.items() if words.encode() in content]


def _plant(host: Host) -> None:
    lines = [
        "set -e",
        f"install -m 700 -d {HIDDEN}",
        f"umask 077; echo '{CONTENT}' >{KEY}; umask 022",
    ]
    for place in IN_HOMES:
        hidden = shlex.quote(f"{HIDDEN}/{place}-{SECRET}")
        lines.append(f"mkdir -p $(dirname {hidden}); echo '{CONTENT}' >{HIDDEN}/{place}")
        lines.append(f"echo '{CONTENT}' >{hidden}")
    for kind, how in KINDS.items():
        lines.append(f"useradd --create-home --shell /bin/sh {kind}; user={kind}; cd /home/{kind}")
        lines.append(f"ln -s /home/{kind}/program /usr/local/bin/{kind}")
        places = [place for row, place in ROWS if row == kind]
        for place in places:
            lines.append(f"[ ! -e {place} ] || rm {place}")
            if not place.startswith("/"):
                lines.append(f"mkdir -p $(dirname {place})")
        lines.append("chown -R $user .")
        lines += [f"path={place}; above={place.split('/')[0]}; {how}" for place in places]
    lines.append("useradd --create-home --shell /bin/sh honest")
    lines.append("echo 'NCCL_DEBUG=INFO' >/home/honest/.nccl.conf")
    lines.append("chown honest /home/honest/.nccl.conf")
    done = host.run("\n".join(lines), timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def looked(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    host = module_lab.one("desktop-3060-1060")
    _plant(host)
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({host.name: {}})
    said = laptop.doctor("-i", "inventory.py", "--save", "planted.tar.gz", "--raw")
    archive = laptop.folder / "planted.tar.gz"
    (bundle,) = read_all(archive)
    return Looked(said, bundle, _files(archive))


def _files(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        opened = [(one.name, tar.extractfile(one)) for one in tar.getmembers()]
        return {name: file.read() for name, file in opened if file}


def test_the_lines_that_are_asked_for_are_in_the_bundle(looked: Looked) -> None:
    """So that the absence of others means something."""
    assert looked.where("/home/honest/.nccl.conf:1:NCCL_DEBUG=INFO")


@pytest.mark.parametrize(("kind", "place"), ROWS)
def test_no_planted_thing_shows_what_root_alone_may_read(
    looked: Looked, kind: str, place: str
) -> None:
    path = place.replace("$user", kind) if place.startswith("/") else f"/home/{kind}/{place}"
    lines = [
        line
        for one in looked.bundle.sections.values()
        for line in one.text.splitlines()
        if path in line
    ]

    assert not [line for line in lines if SECRET in line or CONTENT[:12] in line]


def test_no_content_and_no_name_of_roots_is_in_the_bundle(looked: Looked) -> None:
    assert looked.where(SECRET) == []


@pytest.mark.parametrize(("kind", "place"), UNREAD)
def test_what_was_not_read_is_said(looked: Looked, kind: str, place: str) -> None:
    found = {*nccl.parse(looked.bundle.sections["nccl"].text).unread}
    folders = place.split("/")
    named = {"/".join([f"/home/{kind}", *folders[: n + 1]]) for n in range(len(folders))}

    assert found & named


def test_a_link_of_the_administrator_to_what_only_root_may_read_is_said(looked: Looked) -> None:
    found = units.parse(looked.bundle.sections["units"].text)

    assert "/usr/local/bin/link" in found.unreadable
    assert not [one for one in found.setters or () if one.file.startswith("/usr/local/bin/")]


def test_no_section_hangs_and_what_it_could_not_read_is_unknown(looked: Looked) -> None:
    seen = looked.said.seen()

    assert {name for name, one in looked.bundle.sections.items() if one.timed_out} == set()
    assert seen.one("nccl.conf_stale")["status"] == "unknown"
    assert "/home/" in seen.one("nccl.conf_stale")["summary"]
