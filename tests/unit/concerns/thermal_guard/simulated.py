"""Cards that heat up and cool down in simulated time, under the guard's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.thermal_guard.guard.baselines import Baselines
from rigops.concerns.thermal_guard.guard.ladder import Guard, Held, PowerOff, Request, Say, SetLimit
from rigops.concerns.thermal_guard.guard.readings import STEPS, GuardSettings, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOLD: Final = 30.0
TURN: Final = 5.0
A, B = "0000:0a:00.0", "0000:42:00.0"


def uuid_of(address: str) -> str:
    return f"GPU-{address[5:7]}"


class Rig:
    """`celsius`: of a card at a time, with its limit; None: its sensor is lost.

    `is_silent`: nvidia-smi reports nothing. `can_set`: it takes limits.
    """

    def __init__(
        self,
        settings: GuardSettings,
        *addresses: str,
        baselines: Baselines | None = None,
        held: tuple[Held, ...] = (),
    ) -> None:
        self.guard = Guard(settings, baselines or Baselines(settings.hold_s))
        self.guard.restore(held)
        self.now = 0.0
        self.limits = dict.fromkeys(map(uuid_of, addresses or (A,)), 350.0)
        self.addresses = {uuid_of(one): one for one in addresses or (A,)}
        self.celsius: Callable[[float, float], float | None] = lambda _, __: 60.0
        self.more: Mapping[str, float | None] = {}
        self.is_silent = False
        self.can_set = True
        self.waits = False
        self.said: list[tuple[float, Say]] = []
        self.set: list[tuple[float, float]] = []
        self.powered_off: list[float] = []

    def reading(self, uuid: str) -> Reading:
        limit = self.limits[uuid]
        return Reading(
            uuid,
            self.addresses[uuid],
            celsius=self.celsius(self.now, limit),
            memory=self.more.get("memory"),
            margin=self.more.get("margin"),
            draw=self.more.get("draw", limit - 1),
            limit=limit,
            least=100.0,
            default=350.0,
        )

    def turn(self) -> None:
        readings = [] if self.is_silent else [self.reading(uuid) for uuid in self.limits]
        trouble = "nvidia-smi does not answer" if self.is_silent else ""
        self.do(
            self.guard.see(
                self.now, self.now, readings, trouble, waits=self.waits, sets=not self.is_silent
            )
        )
        self.now += TURN

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.turn()

    def order(self, step: int, why: str = "on battery") -> None:
        self.do(self.guard.order(self.now, Request(step, why)))
        self.now += 1

    def do(self, actions: list[SetLimit | Say | PowerOff]) -> None:
        for action in actions:
            if isinstance(action, SetLimit):
                self.set.append((self.now, action.watts))
                if self.can_set:
                    self.limits[action.uuid] = action.watts
            elif isinstance(action, PowerOff):
                self.powered_off.append(self.now)
            else:
                self.said.append((self.now, action))

    @property
    def step(self) -> str:
        return STEPS[self.guard.step]

    @property
    def told(self) -> list[str]:
        return [STEPS[one.step] for _, one in self.said if one.tells]

    @property
    def limit(self) -> float:
        return self.limits[uuid_of(A)]
