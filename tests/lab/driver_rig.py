"""A host under the nvidia_driver concern, and what tests of it ask of real apt and dpkg."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.lab import hosts
from tests.lab.laptop import Laptop
from tests.lab.packages import FILE, source
from tests.lab.tended import Tended
from tests.lab.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

PIN = "/etc/apt/preferences.d/rigops-nvidia.pref"
BLACKLIST = "/etc/apt/apt.conf.d/52rigops-nvidia"
MODPROBE = "/etc/modprobe.d/rigops-nvidia.conf"
SOURCES = "/etc/apt/sources.list.d/rigops-driver.sources"
HOOKS = (
    "/etc/kernel/postinst.d/00-rigops-nvidia",
    "/etc/kernel/header_postinst.d/00-rigops-nvidia",
    "/usr/local/libexec/rigops/kernel_hook",
)
ALL = (PIN, BLACKLIST, MODPROBE, *HOOKS)
# What a login leaves, and what the journal writes all the time.
ALWAYS_CHANGES = ("/var/log/", "/run/")

DRIVER_SOURCE = "nvidia-graphics-drivers"
TOOLS = ("nvidia-modprobe", "nvidia-persistenced", "nvidia-settings", "nvidia-xconfig")
OLD, GOOD, REAL, NEWEST = "545.29.06", "535.261.03", "535.171.04", "580.178.04"
THE_535: Final[Mapping[str, Any]] = {"driver": "535"}
AUTO = ("--reboot", "auto")
NEVER = ("--reboot", "never")


class Rig(Tended):
    @property
    def loaded(self) -> str:
        """The version of the kernel's module; empty: there is none."""
        return self.host.run("cat /sys/module/nvidia/version").stdout.strip()

    @property
    def runs(self) -> str:
        """The version in which the libraries reach the module and the cards."""
        said = self.host.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
        return said.stdout.split("\n")[0] if said.returncode == 0 else ""

    def drives(self) -> set[str]:
        """The drivers that have a card."""
        said = self.does("lspci -k -d 10de::0300")
        return {line.split()[-1] for line in said.splitlines() if "in use:" in line}

    def versions(self, *sources: str) -> dict[str, str]:
        """Of every package that the sources of the driver and of its tools build."""
        sources = sources or (DRIVER_SOURCE, *TOOLS)
        said = self.does(
            "dpkg-query -W -f '${db:Status-Abbrev}|${source:Package}|${Package} ${Version}\\n'"
        )
        rows = [line.split("|") for line in said.splitlines()]
        return dict(
            pair.split()
            for status, built_from, pair in rows
            if status.startswith(("ii", "hi")) and built_from.startswith(sources)
        )

    def drivers(self) -> set[str]:
        built = self.versions(DRIVER_SOURCE).values()
        return {version.partition("-")[0] for version in built}

    def holds(self) -> set[str]:
        return set(self.does("apt-mark showhold").split())

    def there(self, *paths: str) -> list[str]:
        return self.host.run(f"ls -d {' '.join(paths)} 2>/dev/null").stdout.split()

    def refusal(self, **declared: object) -> str:
        """Why nothing was done, which is looked at in every file."""
        before = Tree(self.host)
        host = self.apply(1, *AUTO, **declared)
        assert (host["outcome"], host["changes"]) == ("refused", []), host
        assert self.changed_since(before) == set()
        assert "reboot" not in stages(host)
        (blocked,) = host["blocked"]
        assert (blocked["concern"], set(blocked["keys"])) == ("nvidia_driver", set(declared))
        reason: str = blocked["reason"]
        return reason

    def changed_since(self, earlier: Tree) -> set[str]:
        found = earlier.differences(Tree(self.host))
        return {path for path in found if not path.startswith(ALWAYS_CHANGES)}

    def has_suites(self, *suites: str) -> None:
        self.has_sources("\n".join(source("debian", suite) for suite in suites))

    def has_sources(self, text: str) -> None:
        assert self.host.run(f"cat >/{FILE}", given=text).returncode == 0
        self.does("apt-get -q update")

    def upgrades(self, command: str) -> str:
        """What it says: somebody upgrades all that there is, and the driver stays."""
        before = self.versions()
        said = self.does(f"DEBIAN_FRONTEND=noninteractive {command} 2>&1")
        assert self.versions() == before
        assert self.runs == GOOD
        return said


def stages(host: Mapping[str, Any]) -> list[str]:
    return [stage["stage"] for stage in host["stages"]]


def subjects(host: Mapping[str, Any], kind: str) -> set[str]:
    return {one["subject"] for one in host["changes"] if one["kind"] == kind}


def upgraded(said: str) -> set[str]:
    """By unattended-upgrades, in its own words."""
    shape = re.search(r"(?m)^Packages that will be upgraded: (.*)$", said)
    return set(shape[1].split()) if shape else set()


def printed(reason: str) -> object:
    """The declaration that a refusal says to make, as somebody copies it."""
    shape = re.search(r'"driver_source": (\{[^}]*\}|"[^"]*")', reason)
    assert shape, reason
    found: object = ast.literal_eval(shape[1])
    return found


@contextmanager
def tended(tmp_path_factory: pytest.TempPathFactory, *words: str) -> Iterator[Rig]:
    with hosts.running(words) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
