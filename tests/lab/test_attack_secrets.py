"""No secret is in a command line, on either side, where every user could read it.

A row more is a line in SECRETS or in COMMANDS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab import witness
from tests.lab.laptop import Laptop, Said
from tests.lab.terminal import Person
from tests.lab.users import ASKS, PASSWORD, added
from tests.shards import ATTACK

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

# What is secret, and how it gets to the host; the inventory and the person at the terminal have the
# first two.
SECRETS = {
    "sudo password": (PASSWORD, ""),
    "notify URL": ("topic-geheim-1", ""),
    "apt auth": (
        "geheim-2",
        "echo machine x.invalid login me password geheim-2 >/etc/apt/auth.conf.d/x.conf",
    ),
    "login in an apt source": (
        "geheim-3",
        "echo deb http://me:geheim-3@127.0.0.1:9/ ./ >/etc/apt/sources.list.d/x.list",
    ),
    "token in a profile": (
        "geheim-4",
        "echo export NCCL_DEBUG=INFO HF_TOKEN=geheim-4 >>/home/asks/.profile",
    ),
    "token in a unit": (
        "geheim-5",
        "echo ExecStart=nvidia-smi -pl 99 --token=geheim-5 >/etc/systemd/system/x.service",
    ),
    "password in fstab": (
        "geheim-6",
        "echo //nas/x /srv/x cifs noauto,username=me,password=geheim-6 0 0 >>/etc/fstab",
    ),
}
COMMANDS = (
    ("doctor", "--save", "bundle", "--raw"),
    ("plan",),
    ("apply", "--yes", "--preflight", "never"),
    ("apply", "--yes", "--preflight", "never"),  # with nothing left to do
    ("history",),
    ("release", "--yes"),
)
_LOCAL = {"history"}


@dataclass(frozen=True)
class Watched:
    said: list[Said]
    on_host: list[list[str]]
    by_controller: list[list[str]]


@pytest.fixture(scope="module")
def watched(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    host = module_lab.one("desktop-3060-1060")
    done = host.run("\n".join([added("asks"), ASKS, *(how for _, how in SECRETS.values())]))
    assert done.returncode == 0, done.stderr
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    url = f"http://127.0.0.1:9/{SECRETS['notify URL'][0]}"
    laptop.declare({host.name: {"ssh_user": "asks", "notify": url, "nccl": {"NCCL_DEBUG": "WARN"}}})
    witness.watch_host(host)
    log = laptop.folder / "witness"
    said = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in witness.watched(log).items():
            patch.setenv(name, value)
        for command, *options in COMMANDS:
            words = [command, *options, *([host.name] if command == "release" else ())]
            if command not in _LOCAL:
                words.append("--ask-sudo-password")
            person = Person({"sudo password": PASSWORD})
            said.append(person.rigops(laptop, [*words, "-i", "inventory.py"]))
            if command == "apply":
                host.run("echo text | /usr/local/libexec/rigops/notify subject")
    return Watched(said, witness.on_host(host), witness.read(log))


def test_every_program_was_seen(watched: Watched) -> None:
    """So that the absence of secrets means something."""
    assert [one.code for one in watched.said] == [0] * len(COMMANDS), watched.said
    programs = {words[0].rpartition("/")[2] for words in watched.on_host if words}
    assert {"sudo", "sh", "setpriv", "apt-cache", "base64", "logger"} <= programs
    assert programs & {"curl", "wget", "python3"}  # which posts to the URL
    assert len(watched.on_host) > 399
    assert any("rigops" in words for words in watched.by_controller)
    assert any(words[0].endswith("ssh") for words in watched.by_controller)


@pytest.mark.parametrize("secret", [secret for secret, _ in SECRETS.values()], ids=list(SECRETS))
def test_no_command_line_has_it(watched: Watched, secret: str) -> None:
    found = [words for words in watched.on_host if any(secret in word for word in words)]
    assert found == []
    found = [words for words in watched.by_controller if any(secret in word for word in words)]
    assert found == []


@pytest.mark.parametrize("secret", [secret for secret, _ in SECRETS.values()], ids=list(SECRETS))
def test_no_answer_has_it(watched: Watched, secret: str) -> None:
    assert [one for one in watched.said if secret in one.out + one.err] == []
