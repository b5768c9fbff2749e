"""Input for a distribution's own tools to make the same machine: a module of NixOS, or files.

rigops installs no driver on NixOS and Arch. A version is the one that was proven or is loaded,
where it suits what is declared; a branch alone gets the package that the distribution has of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rigops.concerns.base.limits import bounds

if TYPE_CHECKING:
    from rigops.capture.document import Capture
    from rigops.inventory.spec import RigSpec

_LEGACY: Final = ("340", "390", "470", "535", "580")  # branches with a package of their own
_UNIT: Final = "gpu-power-limit"


def snippet(kind: str, capture: Capture, spec: RigSpec) -> str:
    return "\n".join(_KINDS[kind](capture, spec)) + "\n"


def _nixos(capture: Capture, spec: RigSpec) -> Iterator[str]:
    yield f"# {capture.host}: a module for imports of configuration.nix. Made by rigops; not tried."
    yield "{ config, lib, ... }:"
    yield "{"
    if spec.driver is not None:
        yield from _indented(_nixos_driver(capture, spec))
    if spec.kernel_args:
        words = " ".join(map(_nix, spec.kernel_args))
        yield f"  boot.kernelParams = [ {words} ];"
    if options := _module_options(spec):
        yield f"  boot.extraModprobeConfig = {_nix(options)};"
    limits = spec.limits
    if limits and limits.shm:
        yield f"  boot.devShmSize = {_nix(limits.shm)};"
    if rows := list(_bounds(spec)):
        yield "  security.pam.loginLimits = ["
        for item, value in rows:
            yield f'    {{ domain = "*"; type = "-"; item = "{item}"; value = "{value}"; }}'
        yield "  ];"
    for path, text in _files(spec).items():
        yield f"  environment.etc.{_nix(path)}.text = {_nix(text)};"
    if commands := list(_power_commands(capture, spec)):
        program = "${config.hardware.nvidia.package.bin}/bin/nvidia-smi"
        yield f"  systemd.services.{_UNIT} = {{"
        yield '    wantedBy = [ "multi-user.target" ];'
        yield '    serviceConfig = { Type = "oneshot"; RemainAfterExit = true; };'
        yield "    script = ''"
        yield from (f"      {program} {words}" for words in commands)
        yield "    '';"
        yield "  };"
    yield "}"


def _nixos_driver(capture: Capture, spec: RigSpec) -> Iterator[str]:
    version, branch = _version(capture, spec), _branch(capture, spec)
    yield 'services.xserver.videoDrivers = [ "nvidia" ]; # loads the driver; starts no desktop'
    yield "hardware.nvidia = {"
    yield f"  open = {'true' if _is_open(capture, spec) else 'false'};"
    if spec.gpu_persistence:
        yield "  nvidiaPersistenced = true;"
    packages = "config.boot.kernelPackages.nvidiaPackages"
    if version:
        yield f"  package = {packages}.mkDriver {{"
        yield f'    version = "{version}";'
        yield "    # nix prints the right hash of each in place of this one"
        for name in (
            "sha256_64bit", "sha256_aarch64", "openSha256", "settingsSha256", "persistencedSha256",
        ):  # fmt: skip
            yield f"    {name} = lib.fakeHash;"
        yield "  };"
    elif branch in _LEGACY:
        yield f"  package = {packages}.legacy_{branch};"
    else:
        yield f"  package = {packages}.production; # see that it is of branch {branch}"
    yield "};"


def _arch(capture: Capture, spec: RigSpec) -> Iterator[str]:
    yield f"# {capture.host}: files for Arch Linux. Made by rigops; not tried."
    if spec.driver is not None:
        yield from _arch_driver(capture, spec)
    if spec.kernel_args:
        yield ""
        yield "# Add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub and run"
        yield "# grub-mkconfig -o /boot/grub/grub.cfg; of systemd-boot, to options of its entry:"
        yield " ".join(spec.kernel_args)
    files = {f"/etc/{path}": text for path, text in _files(spec).items()}
    if options := _module_options(spec):
        files["/etc/modprobe.d/nvidia.conf"] = options
    if rows := list(_bounds(spec)):
        files["/etc/security/limits.d/90-gpu.conf"] = "".join(
            f"* - {item} {value}\n" for item, value in rows
        )
    if commands := list(_power_commands(capture, spec)):
        runs = "".join(f"ExecStart=/usr/bin/nvidia-smi {words}\n" for words in commands)
        files[f"/etc/systemd/system/{_UNIT}.service"] = (
            "[Unit]\nDescription=Power limits of the GPUs\n\n[Service]\nType=oneshot\n"
            f"RemainAfterExit=yes\n{runs}\n[Install]\nWantedBy=multi-user.target\n"
        )
    for path, text in files.items():
        yield ""
        yield f"# {path}"
        yield text.removesuffix("\n")
    if spec.limits and spec.limits.shm:
        yield ""
        yield "# /etc/fstab"
        yield f"tmpfs /dev/shm tmpfs rw,nosuid,nodev,size={spec.limits.shm} 0 0"
    units = [*([f"{_UNIT}.service"] if commands else []),
             *(["nvidia-persistenced.service"] if spec.gpu_persistence else [])]  # fmt: skip
    if units:
        yield ""
        yield f"# then: systemctl enable --now --no-reload {' '.join(units)}"


def _arch_driver(capture: Capture, spec: RigSpec) -> Iterator[str]:
    version, branch = _version(capture, spec), _branch(capture, spec)
    wanted = f"driver {version}" if version else f"branch {branch}"
    if branch in _LEGACY:
        names = [f"nvidia-{branch}xx-dkms", f"nvidia-{branch}xx-utils"]
        yield f"# {wanted}: of the AUR, {' '.join(names)}; see that it is this version"
    else:
        names = ["nvidia-open-dkms" if _is_open(capture, spec) else "nvidia-dkms", "nvidia-utils"]
        yield f"# {wanted}: {' '.join(names)}; Arch has the newest only, older ones are in"
        yield "# https://archive.archlinux.org/packages/"
    yield "# /etc/pacman.conf, so that no upgrade replaces it; linux too, where its module is built"
    yield f"IgnorePkg = {' '.join(names)}"


def _version(capture: Capture, spec: RigSpec) -> str:
    known = capture.driver.version if capture.driver else ""
    declared = spec.driver
    if declared is None:
        return known
    if known and declared.versions.contains(known, prereleases=True):
        return known
    return declared.text if declared.kind == "version" else ""


def _branch(capture: Capture, spec: RigSpec) -> str:
    text = _version(capture, spec) or (spec.driver.text if spec.driver else "")
    return text.partition(".")[0]


def _is_open(capture: Capture, spec: RigSpec) -> bool:
    declared = spec.driver_flavor
    if declared in {"open", "proprietary"}:
        return declared == "open"
    return bool(capture.driver and capture.driver.flavor == "open")


def _module_options(spec: RigSpec) -> str:
    return "".join(
        f"options {module} {' '.join(f'{name}={value}' for name, value in options)}\n"
        for module, options in spec.module_options or ()
        if options
    )


def _bounds(spec: RigSpec) -> Iterator[tuple[str, str]]:
    """As PAM wants them: locked memory in KiB, rounded up."""
    for item, bound in bounds(spec.limits).items() if spec.limits else ():
        is_size = item == "memlock" and isinstance(bound, int)
        yield item, str(-(-int(bound) // 1024) if is_size else bound)


def _files(spec: RigSpec) -> Mapping[str, str]:
    """Below /etc."""
    found = {}
    if spec.nccl:
        found["nccl.conf"] = "".join(f"{name}={value}\n" for name, value in spec.nccl)
    if spec.limits and spec.limits.removeipc is not None:
        word = "yes" if spec.limits.removeipc else "no"
        found["systemd/logind.conf.d/90-gpu.conf"] = f"[Login]\nRemoveIPC={word}\n"
    return found


def _power_commands(capture: Capture, spec: RigSpec) -> Iterator[str]:
    """The limits in force, where any is declared."""
    if spec.gpu_power_limit is None:
        return
    for one in capture.gpus:
        if one.uuid and one.power_limit_watts:
            yield f"-i {one.uuid} -pl {one.power_limit_watts:g}"


def _nix(text: str) -> str:
    """A string of Nix, which is JSON's but for what it would replace."""
    return json.dumps(text, ensure_ascii=False).replace("${", "\\${")


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


_KINDS: Final[Mapping[str, Callable[[Capture, RigSpec], Iterator[str]]]] = {
    "nixos": _nixos,
    "arch": _arch,
}
