"""The strict model of a preseed: each question that may be in it, its type, and its answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from rigops.autoinstall.disk_match import SERIAL, SHORT, WWN, Entry
from rigops.dataclass import dataclass
from rigops.inventory.spec.names import did_you_mean

_TRUE, _FALSE = ("boolean", "true"), ("boolean", "false")
_ADDRESS: Final = r"[0-9.]{7,15}"
_SHELL: Final = r"\S.*;"
_PARTITION: Final = r"\d+ \d+ -?\d+ (free|ext4|btrfs)( \$?[a-z_]+\{ [a-z0-9/]* ?\})+ \."

# Type and pattern of the answer, by question; those in _OPTIONAL need not be there.
_QUESTIONS: Final = {
    "debian-installer/locale": ("string", r"[A-Za-z_.0-9-]{1,30}"),
    "keyboard-configuration/xkb-keymap": ("select", r"[a-z]{2,10}"),
    "keyboard-configuration/variantcode": ("string", r"[\w-]{1,40}"),
    "clock-setup/utc": _TRUE,
    "clock-setup/ntp": _TRUE,
    "time/zone": ("string", r"[A-Za-z0-9_+/-]{1,60}"),
    "netcfg/choose_interface": ("select", r"auto|[A-Za-z0-9][A-Za-z0-9_.-]{0,14}"),
    "netcfg/get_hostname": ("string", r"[a-z0-9-]{1,63}"),
    "netcfg/hostname": ("string", r"[a-z0-9-]{1,63}"),
    "netcfg/get_domain": ("string", r"[A-Za-z0-9.-]{0,253}"),
    "netcfg/disable_autoconfig": _TRUE,
    "netcfg/get_ipaddress": ("string", _ADDRESS),
    "netcfg/get_netmask": ("string", _ADDRESS),
    "netcfg/get_gateway": ("string", _ADDRESS),
    "netcfg/get_nameservers": ("string", r"[0-9a-fA-F:. ]*"),
    "netcfg/confirm_static": _TRUE,
    "netcfg/wireless_essid": ("string", r"[ -~]{1,32}"),
    "netcfg/wireless_security_type": ("select", "wpa"),
    "netcfg/wireless_wpa": ("string", r"[ -~]{8,64}"),
    "hw-detect/load_firmware": _TRUE,
    "mirror/http/proxy": ("string", r"(http://[A-Za-z0-9.:\[\]-]+/?)?"),
    "mirror/suite": ("string", r"[a-z]+"),
    "apt-setup/contrib": _TRUE,
    "apt-setup/non-free": _TRUE,
    "apt-setup/non-free-firmware": _TRUE,
    "passwd/root-login": ("boolean", "true|false"),
    "passwd/root-password-crypted": ("password", "!"),
    "passwd/make-user": ("boolean", "true|false"),
    "passwd/user-fullname": ("string", r"[a-z_][a-z0-9_-]{0,31}"),
    "passwd/username": ("string", r"[a-z_][a-z0-9_-]{0,31}"),
    "passwd/user-password-crypted": ("password", "!"),
    "passwd/user-uid": ("string", r"[1-9][0-9]{0,4}"),
    "passwd/user-default-groups": ("string", r"(adm|sudo|video|render)( (adm|sudo|video|render))*"),
    "partman/early_command": ("string", _SHELL),
    "partman-auto/method": ("string", "regular"),
    "partman-auto/choose_recipe": ("select", "rigops"),
    "partman-auto/expert_recipe": ("string", rf"rigops ::( {_PARTITION})+"),
    "partman-partitioning/choose_label": ("select", "gpt"),
    "partman-partitioning/default_label": ("string", "gpt"),
    "partman-partitioning/confirm_write_new_label": _TRUE,
    "partman-lvm/device_remove_lvm": _TRUE,
    "partman-md/device_remove_md": _TRUE,
    "partman-basicfilesystems/no_swap": _FALSE,
    "partman/choose_partition": ("select", "finish"),
    "partman/confirm": _TRUE,
    "partman/confirm_nooverwrite": _TRUE,
    "partman-efi/non_efi_system": _FALSE,
    "base-installer/kernel/image": ("string", "linux-image-amd64"),
    "pkgsel/update-policy": ("select", "none"),
    "pkgsel/upgrade": ("select", "safe-upgrade"),
    "pkgsel/include": ("string", r"[a-z0-9.+ -]+"),
    "tasksel/first": ("multiselect", "ssh-server"),
    "popularity-contest/participate": _FALSE,
    "grub-installer/only_debian": _TRUE,
    "grub-installer/with_other_os": _FALSE,
    "preseed/late_command": ("string", _SHELL),
    "finish-install/reboot_in_progress": ("note", ""),
}
_STATIC: Final = frozenset(
    f"netcfg/{name}"
    for name in (
        "disable_autoconfig", "get_ipaddress", "get_netmask", "get_gateway", "get_nameservers",
        "confirm_static",
    )
)  # fmt: skip
_WIRELESS: Final = frozenset(
    f"netcfg/wireless_{name}" for name in ("essid", "security_type", "wpa")
)
_OWN_ACCOUNT: Final = frozenset(
    f"passwd/user{name}" for name in ("-fullname", "name", "-password-crypted", "-default-groups")
)
_OF_ROOT: Final = frozenset({"passwd/root-password-crypted"})
_ALONE: Final = frozenset({"keyboard-configuration/variantcode", "passwd/user-uid"})
# Of each of these all are there, or none.
_TOGETHER: Final = (_STATIC, _WIRELESS, _OWN_ACCOUNT, _OF_ROOT)
_OPTIONAL: Final = frozenset().union(_ALONE, *_TOGETHER)
_OWNERS: Final = {
    "tasksel/first": "tasksel",
    "popularity-contest/participate": "popularity-contest",
}
_PATTERNS = re.compile(r"for pattern in (?P<words>.+?); do")


@dataclass(frozen=True)
class Answer:
    owner: str
    question: str
    type: str
    value: str


def parse(text: str) -> list[Answer]:
    """As debconf-set-selections reads it: a line that ends in a backslash goes on."""
    return [
        Answer(*[*line.split(None, 3), "", "", ""][:4])
        for line in _whole_lines(text)
        if line.strip() and not line.startswith("#")
    ]


def _whole_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for line in text.splitlines():
        goes_on = line.endswith("\\")
        parts.append(line.removesuffix("\\").strip())
        if not goes_on:
            yield " ".join(parts)
            parts = []


def faults(text: str) -> list[str]:
    """All that is wrong with a rendered file."""
    answers = parse(text)
    names = [answer.question for answer in answers]
    found = [fault for answer in answers for fault in _faults(answer)]
    found += [f"{name}: for the second time" for name in sorted({*names}) if names.count(name) > 1]
    missing = _QUESTIONS.keys() - _OPTIONAL - {*names}
    found += [f"{name}: missing" for name in sorted(missing)]
    for group in _TOGETHER:
        if (there := group & {*names}) and there != group:
            found += [f"{name}: missing" for name in sorted(group - there)]
    if len({*names} & {"passwd/username", *_OF_ROOT}) != 1:
        found.append("passwd/username: neither a user nor root, or both")
    if not found and not entries(text):
        found.append("partman/early_command: no pattern of a disk")
    return found


def answer_of(text: str, question: str) -> str:
    return next(answer.value for answer in parse(text) if answer.question == question)


def entries(text: str) -> list[Entry]:
    """The properties by which the early command matches disks, in order."""
    found = _PATTERNS.search(answer_of(text, "partman/early_command"))
    words = shlex.split(found["words"]) if found else []
    parts = [word.partition("=") for word in words]
    known = {SERIAL, SHORT, WWN}
    return [Entry(name, glob) for name, _, glob in parts] if {p[0] for p in parts} <= known else []


def _faults(answer: Answer) -> Iterator[str]:
    if answer.question not in _QUESTIONS:
        hint = did_you_mean(answer.question, _QUESTIONS)
        yield f"{answer.question}: unknown question" + (f"; {hint}" if hint else "")
        return
    kind, pattern = _QUESTIONS[answer.question]
    owner = _OWNERS.get(answer.question, "d-i")
    if answer.owner != owner:
        yield f"{answer.question}: owner {answer.owner!r} is not {owner!r}"
    if answer.type != kind:
        yield f"{answer.question}: type {answer.type!r} is not {kind!r}"
    if not re.fullmatch(pattern, answer.value):
        yield f"{answer.question}: {answer.value[:60]!r} is not like {pattern}"
