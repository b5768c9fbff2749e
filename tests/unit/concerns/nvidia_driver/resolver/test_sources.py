from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.packages.sources import FILE, Release, Source, deb822, parse, with_components
from rigops.probe.sections.os_release import OsRelease

DEBIAN = OsRelease(id="debian", version_id="12", codename="bookworm")
UBUNTU = OsRelease(id="ubuntu", version_id="24.04", codename="noble")
LIST = "/etc/apt/sources.list"
OWN = "/etc/apt/sources.list.d/debian.sources"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBFit\n-----END PGP PUBLIC KEY BLOCK-----"
INSTALLER = """\
# deb cdrom:[Debian GNU/Linux 12.1.0 _Bookworm_ - Official amd64 NETINST]/ bookworm main

deb http://deb.example.org/debian/ bookworm main non-free-firmware  # the release
deb-src http://deb.example.org/debian/ bookworm main
deb [arch=amd64,i386 signed-by=/usr/share/keyrings/a.gpg] http://security.example.org/debian-security bookworm-security main
deb http://deb.example.org/debian/ bookworm-updates main
deb https://vpn.example.net/stable/debian bookworm main
"""  # noqa: E501 - as an installer wrote it
STANZAS = """\
# by hand
Types: deb deb-src
URIs: http://deb.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBFit
 -----END PGP PUBLIC KEY BLOCK-----
X-Repolib-Name: Debian


types: deb
Uris: http://old.example.org/debian
suites: bullseye
components: main
enabled: no
"""


def one(text: str, file: str = LIST) -> Source:
    (found,) = parse({file: text})
    return found


def test_lines_are_read_in_the_words_of_stanzas() -> None:
    found = parse({LIST: INSTALLER})

    assert [source.suites for source in found] == [
        ("bookworm",), ("bookworm",), ("bookworm-security",), ("bookworm-updates",), ("bookworm",),
    ]  # fmt: skip
    assert found[0].components == ("main", "non-free-firmware")
    assert found[1].types == ("deb-src",)
    assert found[2].options == (
        ("Architectures", "amd64 i386"),
        ("Signed-By", "/usr/share/keyrings/a.gpg"),
    )


def test_a_disc_with_spaces_in_its_name_and_added_architectures_are_read() -> None:
    found = one(
        "deb [arch+=arm64 trusted=yes] cdrom:[Debian 12 _Bookworm_ - NETINST]/ bookworm main"
    )

    assert found.uris == ("cdrom:[Debian 12 _Bookworm_ - NETINST]/",)
    assert found.options == (("Architectures-Add", "arm64"), ("Trusted", "yes"))


def test_stanzas_are_read_with_keys_of_many_lines() -> None:
    first, second = parse({OWN: STANZAS})

    assert first.suites == ("bookworm", "bookworm-updates")
    assert first.options == (("Signed-By", KEY),)
    assert first.enabled
    assert (second.uris, second.enabled) == (("http://old.example.org/debian",), False)


def test_what_is_no_source_is_left_out() -> None:
    assert parse({LIST: "deb http://half\nrubbish\n", OWN: "Types: deb\nURIs: http://x\n"}) == ()


def test_a_stanza_is_written_as_it_was_read() -> None:
    fields = (("URIs", "http://x/y"), ("Suites", "bookworm"), ("Signed-By", KEY))
    text = deb822(fields)

    assert text.startswith("Types: deb\nURIs: http://x/y\n")
    assert "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBFit\n" in text
    assert one(text, OWN).options == (("Signed-By", KEY),)


def test_no_value_can_bring_a_field_or_a_stanza_of_its_own() -> None:
    text = deb822([("URIs", "http://x"), ("Suites", "a\nTrusted: yes\n\nTypes: deb")])

    assert [source.options for source in parse({OWN: text})] == [()]


def test_what_debian_lacks_is_asked_from_where_it_comes_itself() -> None:
    assert with_components(parse({LIST: INSTALLER}), DEBIAN) == (
        "Types: deb\n"
        "URIs: http://deb.example.org/debian/\n"
        "Suites: bookworm\n"
        "Components: contrib non-free\n"
        "\n"
        "Types: deb\n"
        "URIs: http://security.example.org/debian-security\n"
        "Suites: bookworm-security\n"
        "Components: contrib non-free non-free-firmware\n"
        "Architectures: amd64 i386\n"
        "Signed-By: /usr/share/keyrings/a.gpg\n"
        "\n"
        "Types: deb\n"
        "URIs: http://deb.example.org/debian/\n"
        "Suites: bookworm-updates\n"
        "Components: contrib non-free non-free-firmware\n"
    )


def test_keys_are_copied_and_the_names_of_other_tools_are_not() -> None:
    text = with_components(parse({OWN: STANZAS}), DEBIAN)

    assert text is not None
    assert one(text, FILE).options == (("Signed-By", KEY),)
    assert one(text, FILE).suites == ("bookworm", "bookworm-updates")
    assert one(text, FILE).types == ("deb",)


@pytest.mark.parametrize(
    ("components", "lacking"),
    [
        ("main universe", "restricted"),
        ("main restricted", None),
    ],
)
def test_what_ubuntu_lacks_is_restricted(components: str, lacking: str | None) -> None:
    text = f"deb http://u.example.org/ubuntu noble {components}\n"
    found = with_components(parse({LIST: text}), UBUNTU)

    assert (found and one(found, FILE).components) == (lacking and (lacking,))


def test_debian_11_has_firmware_in_non_free() -> None:
    old = OsRelease(id="debian", version_id="11", codename="bullseye")
    text = with_components(parse({LIST: "deb http://d.example.org/debian bullseye main\n"}), old)

    assert text is not None
    assert one(text, FILE).components == ("contrib", "non-free")


def test_nothing_is_missing_where_another_line_has_it() -> None:
    text = (
        "deb http://d.example.org/debian bookworm main\n"
        "deb http://d.example.org/debian bookworm contrib non-free non-free-firmware\n"
    )

    assert with_components(parse({LIST: text}), DEBIAN) is None


def test_what_rigops_brought_itself_is_still_missing_without_it() -> None:
    sources = parse({LIST: INSTALLER})
    text = with_components(sources, DEBIAN)
    assert text is not None

    assert with_components((*sources, *parse({FILE: text})), DEBIAN) == text


def test_a_release_file_tells_the_distribution_from_others_of_the_same_suite() -> None:
    text = (
        "deb http://mirror.example.org/debian stable main\n"
        "deb https://vpn.example.net/debian bookworm main\n"
    )
    releases = {
        ("http://mirror.example.org/debian", "stable"): Release("Debian", "bookworm"),
        ("https://vpn.example.net/debian", "bookworm"): Release("Vpn", "bookworm"),
    }
    found = with_components(parse({LIST: text}, releases), DEBIAN)

    assert found is not None
    assert one(found, FILE).uris == ("http://mirror.example.org/debian",)
    assert one(found, FILE).suites == ("stable",)


@pytest.mark.parametrize(
    "text",
    [
        "deb https://a.example.org/d bookworm main\ndeb https://b.example.org/d bookworm main\n",
        "deb https://***@a.example.org/debian bookworm main\n",
        "deb cdrom:[Debian 12]/ bookworm main\n",
        "deb http://a.example.org/debian trixie main\n",
        "deb-src http://a.example.org/debian bookworm main\n",
        "",
    ],
    ids=["two that cannot be told apart", "a login", "a disc", "another release", "src", "none"],
)
def test_where_it_cannot_be_told_or_not_be_copied_there_is_none(text: str) -> None:
    assert with_components(parse({LIST: text}), DEBIAN) is None


def test_other_distributions_get_none() -> None:
    mint = OsRelease(id="linuxmint", version_id="22", codename="wilma")
    text = "deb http://a.example.org/ubuntu noble main\n"

    assert with_components(parse({LIST: text}), mint) is None
    assert with_components(parse({LIST: text}), OsRelease(id="debian")) is None


@given(
    st.text()
    | st.text(alphabet="deb [=]:/#\n .tTypURIsSucomnaliEZ-+,x")
    | st.lists(st.sampled_from(["Types: deb", "URIs: a b", "Suites: bookworm", " .", "", ":"]))
    .map("\n".join)
)  # fmt: skip
def test_any_text_is_read_without_raising(text: str) -> None:
    files = {LIST: text, OWN: text}
    for source in parse(files):
        assert source.types
        assert source.suites
    with_components(parse(files), DEBIAN)
    deb822([("URIs", text)])
