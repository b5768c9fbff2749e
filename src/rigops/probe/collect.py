"""Asks one host, in one exec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.probe import reading
from rigops.probe.bundle import Bundle
from rigops.probe.script import MOST_BYTES, longest_s, script

if TYPE_CHECKING:
    from rigops.probe.section import Section

_LOGIN_S: Final = 20
_NOISE_SHOWN: Final = 300


AsRoot_contra = TypeVar("AsRoot_contra", contravariant=True)


class ScriptOutput(Protocol):
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def started(self) -> bool: ...
    @property
    def login_noise(self) -> bytes: ...
    @property
    def login_seconds(self) -> float: ...


class Asked(Protocol[AsRoot_contra]):
    """As much of a connection as a probe needs."""

    @property
    def name(self) -> str: ...
    def run_script(
        self,
        script: str,
        *,
        privilege: AsRoot_contra | None,
        deadline_s: float,
        max_output: int,
    ) -> ScriptOutput: ...


@dataclass(frozen=True)
class Collection:
    """The sections, and what the login shell printed and took before them."""

    bundle: Bundle
    login_noise: str
    login_seconds: float


class ProbeError(RigopsError):
    """The host was reached and did not run the probe."""


def collect(
    connection: Asked[AsRoot_contra],
    sections: Sequence[Section[Any]],
    *,
    host: str | None = None,
    root: bool = True,
    as_root: AsRoot_contra | None = None,
    collected_at: str | None = None,
) -> Collection:
    """Without `collected_at` it is the time by the host's own clock.

    Without `as_root` each section that wants root tries `sudo -n` for itself, if `root` is meant.
    """
    host = host or connection.name
    answer = connection.run_script(
        script(sections, root=root),
        privilege=as_root,
        deadline_s=longest_s(sections) + _LOGIN_S,
        max_output=(MOST_BYTES + 4096) * len(sections),
    )
    bundle = reading.read(answer.stdout, host=host, collected_at=collected_at)
    if bundle is None:
        heard = answer.login_noise + answer.stdout + answer.stderr
        output = heard[-_NOISE_SHOWN:].decode("utf-8", "replace")
        why = "its sh did not run the probe" if answer.started else "its login shell ran no command"
        raise ProbeError(
            Problem(
                message=f"{host}: {why}"
                + (f"; output: {' '.join(output.split())}" if output else ""),
                fix="see that the login gets an ordinary shell",
                host=host,
            )
        )
    return Collection(bundle, answer.login_noise.decode("utf-8", "replace"), answer.login_seconds)
