"""What a paste says around its Xids: a cause that the number alone does not tell."""

from __future__ import annotations

from typing import Final, NamedTuple

from rigops.doctor.line_search import texts_of
from rigops.doctor.searched import is_in
from rigops.probe.snapshot import HostSnapshot


class Context(NamedTuple):
    numbers: frozenset[int]
    pattern: str
    advice: str


_NOT_A_LIMIT: Final = (
    r"^(?!.{0,200}(?:Shutdown|Slowdown|Max|[Tt]hreshold|Target|Limit|[Cc]rit|high)).{0,200}"
)
CONTEXTS: Final = (
    Context(
        frozenset({8, 13, 16, 31, 32, 43, 56, 61, 62, 69, 109, 119, 154}),
        r"(?i:\b(?:after|from|during|on|upon|through) (?:a |the )?"
        r"(?:suspend|suspension|resum|sleep|wak|hibernat)|PM: suspend (?:entry|exit)"
        r"|\b(?:nvidia-(?:suspend|resume)|Operation 'suspend' finished))",
        "it comes with suspend, which loses the card's memory: end programs and containers that "
        "use the card before it, set `NVreg_PreserveVideoMemoryAllocations=1` and enable "
        "nvidia-suspend, nvidia-resume and nvidia-hibernate. Now: end them and run `rmmod "
        "nvidia_uvm && modprobe nvidia_uvm`, or reboot.",
    ),
    Context(
        frozenset({62, 74, 79}),
        _NOT_A_LIMIT + r"\b(?:9[0-9]|1[01][0-9]) ?°?C\b",
        "the text has 90 °C or more, at which cards switch off: look at fans and their curve, "
        "dust, pads and the air between the cards first, and lower the power limit.",
    ),
    Context(
        frozenset({79, 119, 154}),
        r"NVreg_DynamicPowerManagement=0x0?[23]",
        "the card may switch itself off (NVreg_DynamicPowerManagement), which is made for laptops: "
        "set it to 0x00 in /etc/modprobe.d, build the initramfs again and reboot.",
    ),
    Context(
        frozenset({79, 119, 154}),
        r"(?i:\b(?:eGPU|Thunderbolt|OCuLink|USB4)\b)",
        "an external card: a short certified cable, an enclosure with reserve of power, on before "
        "the machine starts; its link one generation lower (BIOS), and `pcie_aspm=off "
        "pcie_port_pm=off` on the kernel command line.",
    ),
    Context(
        frozenset({61, 62, 79, 154}),
        r"(?i:\b(?:at|on|while|when|plain|being) idle\b|\bafter .{0,40}\b(?:idle|inactivity)\b"
        r"|\b(?:P-?state|(?:memory|mem)[- ]clock) (?:transition|switch|retrain|change))",
        "it comes with changes of the clocks, not with load: hold them as a test (`nvidia-smi "
        "-lmc MAX,MAX`, `nvidia-smi -lgc 1500,1500`, `nvidia-smi -pm 1`), and try `pcie_aspm=off`; "
        "if that ends it, keep it or take another driver.",
    ),
    Context(
        frozenset({8, 13, 31, 32, 43, 61, 62, 69, 79, 109, 119}),
        r"(?i:(?<!not )(?<!no )(?<!n.t )(?<!without )over-?clock(?!.{0,20}\b(?:off|none)\b)"
        r"|undervolt|GPU(?:Graphics|Memory)[A-Za-z]{0,20}Offset|\bhive ?os\b|afterburner"
        r"|(?:mem(?:ory)?|core|clock) offset)",
        "the text speaks of changed clocks or voltages: take them off first, the memory's before "
        "all; if the Xids end, come back in small steps.",
    ),
)


def advice(snapshot: HostSnapshot, number: int) -> str:
    """Or "". A host's own logs are long: that it was suspended once explains nothing there."""
    if snapshot.bundle.paste is None:
        return ""
    texts = texts_of(snapshot)
    return next(
        (one.advice for one in CONTEXTS if number in one.numbers and is_in(one.pattern, texts)),
        "",
    )
