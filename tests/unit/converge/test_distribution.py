from __future__ import annotations

from rigops.converge.distribution import blocker
from rigops.inventory.spec import RigSpec
from rigops.probe.sections import os_release

PT = RigSpec(kernel_args=("iommu=pt",))


def test_a_system_that_makes_its_own_files_is_refused_with_what_to_put_into_them() -> None:
    nixos = os_release.parse('ID=nixos\nPRETTY_NAME="NixOS 24.11"\n')
    silverblue = os_release.parse(
        'ID=fedora\nPRETTY_NAME="Fedora Linux 41 (Silverblue)"\nOSTREE_VERSION="41.20250101.0"\n'
    )

    assert 'boot.kernelParams = [ "iommu=pt" ];' in str(blocker(nixos, PT))
    assert "rpm-ostree kargs --append-if-missing=iommu=pt" in str(blocker(silverblue, PT))
    assert blocker(nixos, RigSpec()) is not None


def test_every_other_system_is_left_to_the_concerns() -> None:
    assert blocker(os_release.parse("ID=debian\n"), PT) is None
    assert blocker(os_release.parse("ID=arch\n"), PT) is None
    assert blocker(None, PT) is None
