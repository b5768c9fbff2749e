# The two simulated rigs of `make demo`. An inventory is a Python file that pyinfra can read too:
# every list at the top level is a group of hosts, and the dict of a host is its declaration.

import os as _os

# Written by `python -m tests.lab ssh-config`.
_LAB = _os.environ.get("XDG_RUNTIME_DIR", "/run") + "/rigops-lab/ssh_config"

simulated = (
    [
        # Three second-hand RTX 3090 on a Threadripper: the driver is pinned to a branch that
        # reports peer-to-peer correctly, and the IOMMU does not translate DMA.
        (
            "threadripper",
            {
                "driver": "535",
                "kernel_args": ["iommu=pt"],
                "acs_redirect": "off",
                "gpus": {"3090": 3},
            },
        ),
        # Four V100 SXM2 in an old server, which reach each other over NVLink.
        (
            "t180",
            {
                "driver": "535",
                "gpus": {"V100": 4},
                "p2p": "nvlink",
            },
        ),
    ],
    {"ssh_config_file": _LAB, "reboot_timeout": 300},
)
