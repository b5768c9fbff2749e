from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.nvidia_driver.apt_offers import Offered, parse
from rigops.concerns.nvidia_driver.resolver.offers import Origin, Relation
from rigops.packages.sources import Release

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures/apt"


def fixture(name: str) -> Offered:
    return parse((FIXTURES / f"driver-offers-{name}.txt").read_text())


def record(version: str, *more: str) -> str:
    return "\n".join(("Package: libcuda1", f"Version: {version}", *more, ""))


def test_every_version_is_read_with_where_it_comes_from() -> None:
    found = fixture("debian")
    older, newer = found.offers.named("nvidia-kernel-dkms")

    assert (older.version, older.newest_kernel) == ("535.183.01-1", "6.9")
    assert (newer.version, newer.newest_kernel) == ("535.261.03-1", "6.15")
    assert newer.upstream == "535.261.03"
    assert newer.places == ("bookworm/non-free",)
    assert newer.source == "nvidia-graphics-drivers"
    assert newer.depends[0] == (Relation("nvidia-installer-cleanup"),)
    assert newer.depends[1] == (
        Relation("firmware-nvidia-gsp", "=", "535.261.03"),
        Relation("firmware-nvidia-gsp-535.261.03"),
    )
    assert Relation("nvidia-kernel-dkms-any", "=", "535.261.03") in newer.provides
    assert found.offers.named("linux-headers-6.1.0-50-amd64")[0].places == ("bookworm/main",)
    assert found.offers.named("nvidia-persistenced")[0].source == "nvidia-persistenced"
    assert (found.has_lists, found.trouble) == (True, ())


def test_the_real_535_of_ubuntu_comes_before_the_one_that_leads_to_580() -> None:
    real, transitional = fixture("ubuntu").offers.named("nvidia-driver-535")

    assert (real.version, real.places) == ("535.171.04-0ubuntu2", ("noble/restricted",))
    assert transitional.upstream == "535.309.01"
    assert transitional.depends == ((Relation("nvidia-driver-580"),),)


def test_sources_come_with_who_made_them() -> None:
    updates, pocket = fixture("ubuntu").sources

    assert updates.releases == {"noble-updates": Release("Ubuntu", "noble-updates")}
    assert pocket.releases == {"noble": Release("Ubuntu", "noble")}
    assert pocket.file == "/etc/apt/sources.list.d/rigsim.sources"


def test_versions_ascend_as_dpkg_has_it() -> None:
    versions = ["1:2-1", "535.9-1", "535.10-1", "535.10-1~bpo12+1"]
    places = "".join(f"libcuda1 {one} a/b\n" for one in versions)
    found = parse(f"== places\n{places}== records\n" + "\n".join(map(record, versions)))

    assert [one.version for one in found.offers.every] == [
        "535.9-1", "535.10-1~bpo12+1", "535.10-1", "1:2-1",
    ]  # fmt: skip


def test_what_is_only_installed_is_no_offer_and_one_of_two_places_is_one_offer() -> None:
    places = "== places\nlibcuda1 2-1 a/main\nlibcuda1 2-1 b/main\nlibcuda1 2-1 ./\n"
    records = record("1-1") + "\n" + record("2-1", "Source: src (2)") + "\n" + record("2-1")
    (found,) = parse(f"{places}== records\n{records}").offers.every

    assert found.version == "2-1"
    assert found.places == ("a/main", "b/main", "./")
    assert found.source == "src"


def test_fields_that_go_on_below_are_whole() -> None:
    text = "== places\nlibcuda1 1-1 a/b\n== records\n" + record("1-1", "Depends: a (= 1),", " b")
    (found,) = parse(text).offers.every

    assert found.depends == ((Relation("a", "=", "1"),), (Relation("b"),))


def test_trouble_and_missing_lists_are_told() -> None:
    found = parse("== trouble\nW: Failed to fetch x\n\n== lists\n0\n")

    assert found == Offered(trouble=("W: Failed to fetch x",), has_lists=False)


def test_releases_of_suites_with_slashes_and_discs_are_read() -> None:
    text = (
        "== file /etc/apt/sources.list\n"
        "deb http://s.example.org/ stable/updates main\n"
        "deb cdrom:[Debian 12 _x_]/ bookworm main\n"
        "== releases\n"
        " 500 http://s.example.org stable/updates/main amd64 Packages\n"
        "     release v=10,o=Debian,a=stable,n=buster,l=Debian-Security,c=main,b=amd64\n"
        "--\n"
        " 500 cdrom:[Debian 12 _x_]/ bookworm/main amd64 Packages\n"
        "     release v=12,o=Debian Disc,n=bookworm,c=main,b=amd64\n"
    )
    first, second = parse(text).sources

    assert first.releases == {"stable/updates": Release("Debian", "buster")}
    assert second.releases == {"bookworm": Release("Debian Disc", "bookworm")}


def test_every_version_comes_with_who_made_its_places() -> None:
    text = (
        "== releases\n"
        " 500 http://d.example.org/debian bookworm/non-free amd64 Packages\n"
        "     release v=12,o=Debian,a=stable,n=bookworm,l=Debian,c=non-free,b=amd64\n"
        "--\n"
        " 600 https://n.example.org/repos/debian12/x86_64  Packages\n"
        "     release o=NVIDIA,l=NVIDIA CUDA,c=\n"
        "--\n"
        " 500 file:/srv/own ./ Packages\n"
        "     release c=\n"
        "== places\n"
        "libcuda1 535-1 bookworm/non-free "
        "http://d.example.org/debian bookworm/non-free amd64 Packages\n"
        "libcuda1 535-1 bookworm/non-free "
        "http://d.example.org/debian bookworm/non-free i386 Packages\n"
        "libcuda1 535-1 https://n.example.org/repos/debian12/x86_64 "
        "https://n.example.org/repos/debian12/x86_64  Packages\n"
        "libcuda1 580-1 ./ file:/srv/own ./ Packages\n"
        f"== records\n{record('535-1')}\n{record('580-1')}"
    )
    both, own = parse(text).offers.every

    assert both.origins == (
        Origin("http://d.example.org/debian", "Debian"),
        Origin("https://n.example.org/repos/debian12/x86_64", "NVIDIA"),
    )
    assert both.places == ("bookworm/non-free", "https://n.example.org/repos/debian12/x86_64")
    assert own.origins == (Origin("file:/srv/own"),)


@given(st.text())
def test_any_text_is_read_without_raising(text: str) -> None:
    parse(text)
    heads = ("file /etc/apt/sources.list", "places", "records", "releases", "lists", "trouble")
    parse("".join(f"== {head}\n{text}\n" for head in heads))
    parse(
        f"== places\nlibcuda1 {text} a {text}\n== records\n{record(text, f'Depends: {text}')}\n"
        f"== releases\n 500 http://{text} Packages\n     release {text}\n"
    )
