"""A stub of NVIDIA's tree of open kernel modules: its layout, and modules that only say their mark.

The version is in three places; two cores are built once, and the rest for a kernel. Every module
needs one of the others, so that a mix of two trees shows in the kernel's log.
"""

from __future__ import annotations

import io
import tarfile
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULES: Final = ("nvidia", "nvidia-modeset", "nvidia-drm", "nvidia-uvm", "nvidia-peermem")
_CORES: Final = {"nvidia": "nv-kernel", "nvidia-modeset": "nv-modeset-kernel"}
_NEEDS: Final = {
    "nvidia": "nv_kernel_core", "nvidia-modeset": "nvidia_mark", "nvidia-uvm": "nvidia_mark",
    "nvidia-drm": "nvidia_modeset_mark", "nvidia-peermem": "nvidia_mark",
}  # fmt: skip
_CORE_MAKEFILE: Final = """\
OUTPUT := _out/Linux_x86_64
KERNEL_FLAGS := -O2 -ffreestanding -fno-pic -mcmodel=kernel -mno-red-zone -mno-sse \\
    -fno-asynchronous-unwind-tables -fcf-protection=none
include ../../version.mk

$(OUTPUT)/@NAME@.o: core.c
\tmkdir -p $(OUTPUT)
\t$(CC) $(KERNEL_FLAGS) -c -o $@ $<
"""
_OPEN_MAKEFILE: Final = """\
ifneq ($(KERNELRELEASE),)
include $(src)/Kbuild
else
modules:
\t$(MAKE) -C /lib/modules/$(KERNEL_UNAME)/build M=$(CURDIR) modules
endif
"""
_KBUILD_RULE: Final = """
$(obj)/%.o: $(obj)/%.o_binary
\tcp $< $@
\ttouch $(dir $@).$(notdir $@).cmd
"""
_SOURCE: Final = """\
#include <linux/module.h>
#include <linux/moduleparam.h>

int @NEEDS@(void);
int @SELF@_mark(void);
int @SELF@_mark(void) { return @NEEDS@(); }
EXPORT_SYMBOL(@SELF@_mark);

static char *NVreg_RegistryDwords = "none";
module_param(NVreg_RegistryDwords, charp, 0444);
static int tree;
module_param(tree, int, 0444);

static int __init begin(void)
{
    tree = @SELF@_mark();
    pr_info("@NAME@ of tree %d with %s\\n", tree, NVreg_RegistryDwords);
    return 0;
}
static void __exit end(void) {}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
@ALIAS@"""
_ALIAS: Final = 'MODULE_ALIAS("pci:v000010DEd*sv*sd*bc03sc00i00*");\n'


def files(version: str, mark: int) -> dict[str, str]:
    """`mark`: a number that its modules put into the kernel's log."""
    kbuild = [f'ccflags-y += -DNV_VERSION_STRING=\\"{version}\\"']
    found = {
        "version.mk": f"NVIDIA_VERSION = {version}\n",
        "src/common/inc/nvUnixVersion.h": f'#define NV_VERSION_STRING "{version}"\n',
        "kernel-open/Makefile": _OPEN_MAKEFILE,
    }
    for folder, name in _CORES.items():
        core = f"{name.replace('-', '_')}_core"
        found[f"src/{folder}/Makefile"] = _CORE_MAKEFILE.replace("@NAME@", name)
        found[f"src/{folder}/core.c"] = (
            f"int {core}(void);\nint {core}(void) {{ return {mark}; }}\n"
        )
    for module in MODULES:
        core = f" {module}/{_CORES[module]}.o" if module in _CORES else ""
        kbuild += [f"obj-m += {module}.o", f"{module}-y := {module}/module.o{core}"]
        text = _SOURCE.replace("@ALIAS@", _ALIAS if module in {"nvidia", "nvidia-drm"} else "")
        text = text.replace("@NEEDS@", _NEEDS[module]).replace("@NAME@", module)
        found[f"kernel-open/{module}/module.c"] = text.replace("@SELF@", module.replace("-", "_"))
    return {**found, "kernel-open/Kbuild": "\n".join(kbuild) + "\n" + _KBUILD_RULE}


def archive(found: Mapping[str, str]) -> bytes:
    """The tar.gz that is sent to a host."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for path, text in sorted(found.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


def digest(found: Mapping[str, str]) -> str:
    return sha256(repr(sorted(found.items())).encode()).hexdigest()
