"""Records of a host: the last proven state, and every run of apply."""

from rigops.record.proven import Bios, Driver, Pair, Proven, ProvenGpu

__all__ = ["Bios", "Driver", "Pair", "Proven", "ProvenGpu"]
