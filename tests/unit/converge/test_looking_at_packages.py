"""How often a host is asked for a plan over packages, with tools that only answer."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.transport import Privilege
from rigops.transport.result import ScriptResult
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

_DPKG_QUERY = r"""#!/bin/sh
for word; do
    case $word in there*) printf 'ii \t%s\tall\t7\n' "$word" ;; esac
done
"""
_APT = """#!/bin/sh
case "$*" in
*-s*install*) for word; do case $word in new-*) echo "Inst $word (1 here [all])" ;; esac; done ;;
esac
"""
_HEAD = "from rigops.packages.operations import packages\n"


class Answering(FakeHost):
    """Runs the probe here, with these tools in the place of dpkg's and apt's."""

    def __init__(self, tools: Path) -> None:
        super().__init__()
        self.asked = 0
        self._tools = tools
        for name, text in {
            "dpkg": "#!/bin/sh\necho amd64\n", "dpkg-query": _DPKG_QUERY, "apt-get": _APT,
        }.items():  # fmt: skip
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)

    def _here(self, script: str) -> str:
        script = script.replace("PATH=", f"PATH={self._tools}:", 1)
        return script.replace("/var/lib/dpkg/status", str(self._tools / "dpkg"))

    def run_script(
        self,
        script: str | Iterable[bytes],
        *,
        argv: Sequence[str] = ("sh", "-s"),
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = 0,
        on_line: Callable[[bytes], None] | None = None,
    ) -> ScriptResult:
        assert isinstance(script, str)
        self.asked += 1
        done = subprocess.run(
            argv,
            input=self._here(script).encode(),
            capture_output=True,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )
        return ScriptResult(
            exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr, started=True,
            complete=True, login_noise=b"", login_seconds=0,
        )  # fmt: skip


def planned(folder: Path, *wishes: str) -> tuple[Answering, frozenset[str]]:
    (folder / "tools").mkdir()
    host = Answering(folder / "tools")
    deploy = folder / "demo.py"
    lines = [f"packages(concern='demo', install={{{name!r}: None}})\n" for name in wishes]
    deploy.write_text(_HEAD + "".join(lines))
    engine = Engine({"rig": {}})
    engine.attach("rig", HostChannel(host, Privilege("root")), [])
    plan = engine.plan("rig", [deploy])
    assert plan.blocked == ()
    return host, frozenset(one.name for one in plan.packages.install)


def test_any_number_of_met_wishes_costs_one_exec(tmp_path: Path) -> None:
    host, coming = planned(tmp_path, "there", "there-too", "there-as-well")

    assert coming == frozenset()
    assert (host.asked, host.sent) == (1, [])


def test_what_apt_would_do_for_any_number_of_wishes_costs_one_more(tmp_path: Path) -> None:
    host, coming = planned(tmp_path, "new-a", "there", "new-b", "new-c")

    assert coming == {"new-a", "new-b", "new-c"}
    assert (host.asked, host.sent) == (2, [])


def test_what_no_look_answers_whole_is_asked_for_by_itself_and_the_plan_goes_on(
    tmp_path: Path,
) -> None:
    """Such as a section that runs out of its time on a slow host, whenever it is asked."""
    (tmp_path / "tools").mkdir()
    host = Answering(tmp_path / "tools")
    deploy = tmp_path / "odd.py"
    deploy.write_text(
        "from pyinfra.context import host\n"
        "from rigops.facts.sections import SectionFact\n"
        "from rigops.probe.section import Section\n"
        "class Odd(SectionFact):\n"
        "    section = Section(name='odd', snippet='echo seen; exit 3', parse=str.strip)\n"
        "host.get_fact(Odd)\n"
    )
    engine = Engine({"rig": {}})
    engine.attach("rig", HostChannel(host, Privilege("root")), [])

    plan = engine.plan("rig", [deploy])

    assert (plan.changes, plan.blocked) == ((), ())
    assert len(host.sent) == 1
