"""A real Debian kernel with headers on a host, in the place of the lab's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.lab import bootstrap

if TYPE_CHECKING:
    from tests.lab.hosts import Host

LONGEST_S: Final = 2400  # one build takes four minutes on two idle processors
# The lab's own kernel has no source that a real module could be built from.
_OWN_KERNEL: Final = r"""
set -eu
export DEBIAN_FRONTEND=noninteractive
rm -f /etc/apt/sources.list.d/rigsim.sources /etc/apt/sources.list
cat >/etc/apt/sources.list.d/debian.sources
apt-get -q update
apt-get -q -y purge $(dpkg-query -W -f '${Package}\n' 'linux-image-*' 'linux-headers-*' \
    linux-base initramfs-tools)
apt-get -q -y --no-install-recommends install \
    linux-image-amd64 linux-headers-amd64 initramfs-tools """


def install(host: Host, *packages: str) -> None:
    """And these packages, from this machine's Debian archive."""
    done = host.run(_OWN_KERNEL + " ".join(packages), given=_sources(), timeout=LONGEST_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _sources() -> str:
    """This machine's Debian with the components of drivers, and those of the next release."""
    uri = bootstrap.archive()
    security = bootstrap.archive(security=True)
    components = "contrib non-free non-free-firmware"
    return "\n".join([
        _stanza(uri, f"{bootstrap.SUITE} {bootstrap.SUITE}-updates", f"main {components}"),
        _stanza(security, f"{bootstrap.SUITE}-security", f"main {components}"),
        _stanza(uri, "trixie", components),
    ])  # fmt: skip


def _stanza(uri: str, suites: str, components: str) -> str:
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    return (
        f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: {components}\nSigned-By: {key}\n"
    )
