from __future__ import annotations

from rigops.concerns.nvidia_driver.resolver.vault_sets import PLACE, offers
from rigops.vault.pinned_set import index_digest, index_text, stanzas
from tests.unit.vault.pinned_sets import index_of, package, records


def test_the_text_tells_apt_where_each_package_is_and_what_is_in_it() -> None:
    (one, record), *_ = records("535.261.03")

    text = index_text([(one, record)])

    assert text == (
        "Package: nvidia-kernel-dkms\n"
        "Version: 535.261.03-1\n"
        "Architecture: amd64\n"
        "Source: nvidia-graphics-drivers\n"
        "Depends: dkms, nvidia-kernel-support (= 535.261.03-1)\n"
        "Filename: ./pool/nvidia-kernel-dkms_535.261.03-1_amd64.deb\n"
        f"Size: {one.size}\n"
        f"SHA256: {one.sha256}\n"
        "Description: kept by rigops, tested up to Linux 6.15\n"
    )


def test_the_same_packages_in_any_order_have_the_same_digest() -> None:
    every = records("535.261.03")

    assert index_digest(index_text(every)) == index_digest(index_text(every[::-1]))


def test_what_a_package_says_of_its_own_file_does_not_count() -> None:
    one = package("libcuda1", "1")
    lies = {"Package": "libcuda1", "Version": "1", "SHA256": "0" * 64, "Filename": "/etc/passwd"}

    text = index_text([(one, lies)])

    assert f"SHA256: {one.sha256}\n" in text
    assert "passwd" not in text


def test_a_value_of_several_lines_stays_one_field() -> None:
    (record,) = stanzas("Package: a\nDepends: b,\n c\nX: y\n")

    assert record == {"Package": "a", "Depends": "b, c", "X": "y"}


def test_the_resolver_sees_what_it_sees_of_any_source() -> None:
    found = offers(index_of("535.261.03"), index_of("535.183.01"))

    versions = [one.version for one in found.named("nvidia-kernel-dkms")]
    newest = found.named("nvidia-kernel-dkms")[-1]
    assert versions == ["535.183.01-1", "535.261.03-1"]
    assert (newest.newest_kernel, newest.places) == ("6.15", (PLACE,))
    assert newest.source == "nvidia-graphics-drivers"
    assert [one[0].name for one in newest.depends] == ["dkms", "nvidia-kernel-support"]
    assert found.providing("libnvidia-ml.so.1")


def test_what_the_sources_have_themselves_comes_from_there() -> None:
    own, kept = offers(index_of("535.261.03")), offers(index_of("535.183.01"))

    every = own.and_also(own.and_also(kept))

    assert [one.version for one in every.named("libcuda1")] == ["535.183.01-1", "535.261.03-1"]
    assert own.has({"libcuda1": "535.261.03-1"})
    assert not own.has({"libcuda1": "535.183.01-1"})
    assert every.has({"libcuda1": "535.183.01-1"})
