# The two simulated rigs of `make demo`. An inventory is a Python file that pyinfra can read too:
# every list at the top level is a group of hosts, and a host's dict says what it should be.

import os as _os

# Where `python -m tests.lab ssh-config` says that the simulated rigs can be reached.
_LAB = _os.environ.get("XDG_RUNTIME_DIR", "/run") + "/rigops-lab/ssh_config"

simulated = (
    [
        # Three second-hand RTX 3090 on a Threadripper: the driver is pinned to a branch whose
        # answer about peer-to-peer can be trusted, and the IOMMU stops translating DMA.
        (
            "threadripper",
            {
                "driver": "535",
                "kernel_args": ["iommu=pt"],
                "gpus": {"3090": 3},
                "gpu_power_limit": "285W",
            },
        ),
        # Four V100 SXM2 in an old server: capped clocks keep all four on the bus.
        (
            "t180",
            {
                "driver": "535",
                "gpus": {"V100": 4},
                "gpu_clocks": "application=877,1005",
                "p2p": "nvlink",
            },
        ),
    ],
    {"ssh_config_file": _LAB, "reboot_timeout": 300},
)
