"""What the kernel makes of its command line, as far as the simulation goes."""

from .rig import Rig

_OFF = ("off", "0", "n")


def _values(command_line: str, name: str) -> list[str]:
    prefix = name + "="
    return [word[len(prefix) :] for word in command_line.split() if word.startswith(prefix)]


def iommu_mode(rig: Rig, command_line: str) -> str:
    """translated, passthrough or off."""
    mode = rig.iommu
    own = _values(command_line, "intel_iommu" if rig.is_intel else "amd_iommu")
    options = [option for value in own for option in value.split(",")]
    generic = [o for value in _values(command_line, "iommu") for o in value.split(",")]
    if "off" in options or "off" in generic:
        return "off"
    if mode == "off":
        # Firmware that hides the IOMMU of an AMD board cannot be overruled; on Intel "off" is the
        # kernel's default, and only intel_iommu=on changes it.
        if not rig.is_intel or "on" not in options:
            return "off"
        mode = "translated"
    for option in generic:
        mode = {"pt": "passthrough", "nopt": "translated"}.get(option, mode)
    for value in _values(command_line, "iommu.passthrough"):
        mode = "translated" if value in _OFF else "passthrough"
    return mode


def blacklisted(command_line: str) -> set[str]:
    names = _values(command_line, "modprobe.blacklist") + _values(command_line, "module_blacklist")
    return {name for value in names for name in value.split(",")}


def mode_was_asked_for(command_line: str) -> bool:
    return bool(_values(command_line, "iommu") or _values(command_line, "iommu.passthrough"))
