from __future__ import annotations

from pathlib import Path

import pytest

from rigops.errors import UsageError
from rigops.transport import LOCAL, Target


@pytest.mark.parametrize(
    ("text", "user", "alias", "port"),
    [
        ("rig", None, "rig", None),
        ("me@rig", "me", "rig", None),
        ("me@rig.example:2222", "me", "rig.example", 2222),
        ("10.0.0.5:22", None, "10.0.0.5", 22),
        ("me@[fe80::1%eth0]:2222", "me", "fe80::1%eth0", 2222),
        ("[::1]", None, "::1", None),
        ("::1", None, "::1", None),
        (r"DOMAIN\me@rig", r"DOMAIN\me", "rig", None),
        ("me@corp@rig", "me@corp", "rig", None),
    ],
)
def test_a_host_on_the_command_line_is_taken_apart(
    text: str, user: str | None, alias: str, port: int | None
) -> None:
    target = Target.parse(text)
    assert (target.user, target.alias, target.port) == (user, alias, port)
    assert target.name == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@rig",
        "me@",
        "rig:",
        "rig:ssh",
        "rig:0x16",
        "rig:70000",
        "[::1",
        "[::1]22",
        "-oProxyCommand=reboot",
        "me@-oProxyCommand=reboot",
        "-l@rig",
        "rig;reboot",
        "$(reboot)",
        "a b",
        "me\n@rig",
        "rig,other",
    ],
)
def test_what_is_no_host_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert caught.value.problems[0].accepted


def test_the_local_machine_has_a_name_of_its_own() -> None:
    assert Target.parse("@local") is LOCAL
    assert Target.from_host_data("@local", {"ssh_user": "me"}) is LOCAL


def test_host_data_of_pyinfra_is_understood() -> None:
    data = {
        "ssh_hostname": "10.0.0.5",
        "ssh_port": "2222",
        "ssh_user": "me",
        "ssh_key": Path("/keys/id"),
        "ssh_key_password": "phrase",
        "ssh_password": "word",
        "ssh_config_file": "/c",
        "ssh_known_hosts_file": "/k",
        "ssh_forward_agent": True,
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
        "driver": "535",
    }
    assert Target.from_host_data("@ssh/rig", data) == Target(
        name="rig",
        hostname="10.0.0.5",
        port=2222,
        user="me",
        key="/keys/id",
        key_password="phrase",
        password="word",
        config_file="/c",
        known_hosts_file="/k",
        forward_agent=True,
        allow_agent=False,
        look_for_keys=False,
    )
    assert Target.from_host_data("rig", {"ssh_port": None, "ssh_user": ""}) == Target(name="rig")


@pytest.mark.parametrize(
    "port",
    [
        0,
        "0",
        -1,
        65536,
        "",
        " 22",
        "+22",
        "22.0",
        22.0,
        "\u0662\u0662",
        10**5000,
        "9" * 5000,
        False,
    ],
    ids=lambda port: f"{port!r:.12}" if not isinstance(port, int) or port < 10**6 else "giant",
)
def test_what_is_no_port_is_an_error_that_names_the_key(port: object) -> None:
    with pytest.raises(UsageError) as caught:
        Target.from_host_data("rig", {"ssh_port": port})
    (problem,) = caught.value.problems
    assert (problem.host, problem.key) == ("rig", "ssh_port")
    assert problem.accepted == "a number from 1 to 65535"


@pytest.mark.parametrize(
    ("key", "value"),
    [("ssh_port", "high"), ("ssh_user", 7), ("ssh_allow_agent", "yes"), ("ssh_port", True)],
)
def test_host_data_of_the_wrong_kind_is_named(key: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        Target.from_host_data("rig", {key: value})
    assert caught.value.problems[0].host == "rig"


def test_secrets_never_show() -> None:
    target = Target(name="rig", password="open sesame", key_password="open barley")
    assert "sesame" not in repr(target)
    assert "barley" not in repr(target)
    with pytest.raises(UsageError) as caught:
        Target.from_host_data("rig", {"ssh_password": ["open sesame"]})
    assert "sesame" not in f"{caught.value} {caught.value.problems}"
