"""The kernel arguments of this rig: kernel_args."""

from pyinfra.context import host

from rigops.operations import guards
from rigops.operations.kernel_args import CONCERN, kernel_args
from rigops.spec import read

_spec = read(host.data.dict())
_wanted = _spec.kernel_args or ()

guards.arguments_can_count(name="Arguments that count", concern=CONCERN, wanted=_wanted)
kernel_args(
    name="Kernel arguments",
    wanted=_wanted,
    declared=_spec.kernel_args is not None,
    trial=_spec.kernel_trial or "required",
)
guards.tell_of_iommu(name="IOMMU", concern=CONCERN, wanted=_wanted)
guards.tell_of_firmware(name="Firmware", concern=CONCERN, p2p=_spec.p2p)
guards.tell_of_other_arguments(name="Arguments of others", concern=CONCERN, wanted=_wanted)
guards.tell_virtual_machines(name="Virtual machines", concern=CONCERN, arguments=_wanted)
guards.tell_of_no_snapshot(name="Snapshots", concern=CONCERN)
