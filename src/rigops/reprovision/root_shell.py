"""How stages run a command on the host as root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rigops.transport import Result

# Words of the command, and seconds.
RunAsRoot = Callable[[Sequence[str], float], Result]
