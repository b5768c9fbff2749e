"""The pinned NVIDIA driver of this rig: driver and what belongs to it."""

from pyinfra.context import host

from rigops.operations import guards
from rigops.operations.nvidia_driver import CONCERN, nvidia_driver
from rigops.spec import read

_spec = read(host.data.dict())

nvidia_driver(_spec)
guards.tell_virtual_machines(
    name="Virtual machines",
    concern=CONCERN,
    because="another driver" if _spec.driver is not None else "",
)
guards.tell_of_no_snapshot(name="Snapshots", concern=CONCERN)
