# A home lab: one list of rigs; what they share is in group_data/rigs.py. The name of a constant
# begins with an underscore, since pyinfra reads other lists as hosts.

_BEHIND_THE_ROUTER = "192.168.1."

rigs = [
    (
        "threadripper",
        {
            "ssh_hostname": _BEHIND_THE_ROUTER + "20",
            "gpus": {"3090": 3},
            "gpu_power_limit": 285,
            "limits": {"shm": "32G", "memlock": "unlimited"},
            "psus": [
                {"watts": 750, "host": True, "gpus": ["0000:0a:00.0"]},
                {"watts": 1200, "gpus": ["0000:42:00.0", "0000:43:00.0"]},
            ],
        },
    ),
    (
        "t180",
        {
            "ssh_hostname": _BEHIND_THE_ROUTER + "21",
            "gpus": {"V100": 4},
            "gpu_power_limit": 200,
            "p2p": "nvlink",
            "nccl": {"NCCL_P2P_LEVEL": "NVL"},
        },
    ),
]
