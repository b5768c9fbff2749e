"""Kernel log lines, whatever wrote them down, and the events that matter to a rig."""

from rigops.probe.kernel_log.model import IommuFault, KernelLog, LogLine, Xid
from rigops.probe.kernel_log.parser import parse

__all__ = ["IommuFault", "KernelLog", "LogLine", "Xid", "parse"]
