# The two rigs of the demonstration. An inventory is a Python file that pyinfra can read too:
# every list at the top level is a group of hosts, and a host's dict says what it should be.

simulated = [
    # Three second-hand RTX 3090 on a Threadripper: the driver is pinned to a branch whose
    # answer about peer-to-peer can be trusted, and the IOMMU stops translating DMA.
    (
        "threadripper",
        {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": 2201,
            "ssh_user": "root",
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
            "ssh_hostname": "127.0.0.1",
            "ssh_port": 2202,
            "ssh_user": "root",
            "driver": "535",
            "gpus": {"V100": 4},
            "gpu_clocks": "application=877,1005",
            "p2p": "nvlink",
        },
    ),
]
