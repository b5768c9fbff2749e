"""What the ports between the GPUs do with peer traffic: acs_redirect."""

from pyinfra.context import host

from rigops.operations import guards
from rigops.operations.acs import CONCERN, acs
from rigops.spec import read

_spec = read(host.data.dict())
_clears = _spec.acs_redirect == "off"

acs(redirect=_spec.acs_redirect)
guards.tell_of_firmware(name="Firmware", concern=CONCERN, acs=_clears)
guards.tell_virtual_machines(
    name="Virtual machines",
    concern=CONCERN,
    because="that cards reach each other past the IOMMU" if _clears else "",
)
