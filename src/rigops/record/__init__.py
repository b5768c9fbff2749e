"""Records of a host: the last proven state, and every run of apply."""

from rigops.record.pairs import Pair
from rigops.record.proven import Bios, Difference, Driver, Proven, ProvenGpu, differences

__all__ = ["Bios", "Difference", "Driver", "Pair", "Proven", "ProvenGpu", "differences"]
