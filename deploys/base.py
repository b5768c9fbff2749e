"""What every rig needs before its GPUs: limits, nccl, notify."""

from pyinfra.context import host

from rigops.operations.base import base
from rigops.spec import read

_spec = read(host.data.dict())

base(limits=_spec.limits, nccl=_spec.nccl, notify=_spec.notify)
