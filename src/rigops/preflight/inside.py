"""Preflight in a running container: by its engine's exec, as the container's own user.

The program travels on stdin, so nothing of it is left there. It ends by itself also where nobody
waits for it any more, since an engine may go on with an exec that has lost its client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.errors import UsageError, usage_error
from rigops.hostside.p2p.verdict import SKIPPED
from rigops.preflight.found import Container, HostFound
from rigops.preflight.judge import judge
from rigops.preflight.lost import Host
from rigops.preflight.payload import plain
from rigops.preflight.run import prove, take_census
from rigops.transport import ScriptResult

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

OPTION: Final = "--in"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FOUND: Final = re.compile(
    r"found (?P<engine>docker|podman) (?P<how>login|sudo) (?P<id>[0-9a-f]{64}) (?P<state>[a-z]+) "
    r"/?(?P<name>\S+) (?P<image>.*)"
)
_NO_SUCH: Final = "no such"
_FIND_S: Final = 60.0
_SUDO: Final = ("sudo", "-n", "--")

# Docker is asked only where its daemon runs: asking would start it. Root's containers of Podman are
# others than those of the login.
_FIND: Final = r"""
name=$1
asks() {
    case $how in
        login) timeout 20 "$engine" "$@" ;;
        sudo) timeout 20 sudo -n -- "$engine" "$@" ;;
    esac </dev/null
}
last() { printf '%s\n' "$output" | tail -n 1 | head -c 300; }
for engine in docker podman; do
    command -v "$engine" >/dev/null || continue
    [ "$engine" = podman ] || [ -e /run/docker.pid ] || pidof dockerd >/dev/null || continue
    echo "engine $engine"
    for how in login sudo; do
        [ "$how" = login ] || [ "$(id -u)" != 0 ] || continue
        if output=$(asks inspect --type container \
            --format '{{.Id}} {{.State.Status}} {{.Name}} {{.Config.Image}}' -- "$name" 2>&1); then
            printf 'found %s %s %s\n' "$engine" "$how" "$(last)"
            break
        fi
        printf 'answer %s: %s\n' "$engine" "$(last)"
        asks ps --format '{{.Names}}' 2>/dev/null | head -n 20 | sed 's/^/running /'
    done
done
exit 0
"""


@dataclass(frozen=True)
class Inside:
    """A host as one of its containers sees it."""

    host: Host
    container: Container

    def run_script(
        self,
        script: str,
        *,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None] | None = None,
    ) -> ScriptResult:
        found = self.container
        sudo = _SUDO if found.by_sudo else ()
        words = (*sudo, found.engine, "exec", "-i", found.id, *argv)
        return self.host.run_script(script, argv=words, deadline_s=deadline_s, on_line=on_line)

    def close(self) -> None:
        self.host.close()


def prove_inside(
    name: str,
    host: Host,
    spec: RigSpec | None,
    word: str,
    *,
    level: str,
    pairs: Sequence[tuple[str, str]],
    catalog: Catalog,
    reconnect: Callable[[], Host],
    progress: Callable[[str], None],
) -> HostFound:
    """The proof in the container that `word` names, and what differs from the host.

    How many cards are declared is about the host.
    """
    if spec is not None and spec.p2p == "skip":
        return HostFound(host=name, status=SKIPPED, reasons=('declared p2p = "skip"',))
    progress("looking for the container")
    container = find_container(host, word, name)
    progress("querying peer access on the host")
    outside = take_census(host, name, finds_nccl=True)
    if outside.gpus and not (outside.lost or outside.needs_reboot):
        found = prove(
            name,
            Inside(host, container),
            replace(spec, gpus=None) if spec else None,
            level=level,
            pairs=pairs,
            catalog=catalog,
            outside=outside,
            reconnect=reconnect,
            progress=progress,
        )
    else:
        found = judge(name, outside, spec, copies=False)
    return replace(found, container=container)


def check_name(word: str) -> str:
    """A name, or the beginning of an id. Raises UsageError for what is neither."""
    if _NAME.fullmatch(word):
        return word
    raise usage_error(
        message="not a name or id of a container",
        key=OPTION,
        value=word,
        accepted="what `docker ps` or `podman ps` shows",
    )


def find_container(host: Host, word: str, name: str) -> Container:
    """Raises UsageError where there is none, or it does not run. `name`: of the host."""
    words = ("sh", "-c", _FIND, "rigops", word)
    output = host.run_script("", argv=words, deadline_s=_FIND_S).stdout.decode("utf-8", "replace")
    lines = output.splitlines()
    found = [shape for line in lines if (shape := _FOUND.fullmatch(line))]
    if not found:
        raise _wrong(name, word, *_why_none(lines))
    if len(found) > 1:
        raise _wrong(name, word, "both docker and podman have one", "name it by its id")
    shape = found[0]
    if shape["state"] != "running":
        fix = f"{shape['engine']} start {shape['name']}"
        raise _wrong(name, word, f"the container does not run: {shape['state']}", fix)
    return Container(
        name=plain(shape["name"]),
        id=shape["id"],
        engine=shape["engine"],
        image=plain(shape["image"]),
        by_sudo=shape["how"] == "sudo",
    )


def _why_none(lines: Sequence[str]) -> tuple[str, str]:
    if not any(line.startswith("engine ") for line in lines):
        return "neither a running docker nor podman is on this host", ""
    answers = [plain(line.partition(" ")[2]) for line in lines if line.startswith("answer ")]
    troubles = [text for text in answers if _NO_SUCH not in text.lower()]
    running = dict.fromkeys(line.partition(" ")[2] for line in lines if line.startswith("running "))
    fix = f"one of those that run: {', '.join(map(plain, running))}" if running else ""
    return "; ".join(["no such container", *dict.fromkeys(troubles)]), fix


def _wrong(host: str, word: str, message: str, fix: str) -> UsageError:
    return usage_error(message=message, host=host, key=OPTION, value=word, fix=fix)
