"""The program that tells somebody, with the machine's own curl, wget and python3."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.listening import Listening, listening
from tests.unit.hostside.small_host import SmallHost
from tests.unit.programs import SHELLS, SHELLS_WHERE_SLOW, needed

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT: Final = "borg has not run"


class Rig(SmallHost):
    def target(self, kind: str, value: str) -> None:
        self.write("etc/rigops/notify", f"{kind}\n{value}\n")

    def tells(
        self, text: bytes = b"since Monday\n", *words: str, fails: bool = False, **limits: int
    ) -> None:
        self.tool("uname", "echo rig")
        program = self.text("notify", {"pause_s": 0, **limits})
        done = self.run(program, *(words or (SUBJECT,)), given=text)
        assert (done.returncode, done.stdout, done.stderr) == (int(fails), b"", b"")


@pytest.fixture(params=SHELLS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path / "host", request.param)


IN_TURN: Final = pytest.mark.parametrize("rig", SHELLS_WHERE_SLOW, indirect=True)
EACH_CLIENT: Final = pytest.mark.parametrize("client", ["curl", "wget", "python3"])


@pytest.fixture
def server() -> Iterator[Listening]:
    with listening() as told:
        yield told


def has(rig: Rig, client: str) -> None:
    needed(client)
    rig.real(client)


@IN_TURN
@EACH_CLIENT
def test_a_url_is_posted_the_text_with_host_and_subject_as_title(
    rig: Rig, server: Listening, client: str
) -> None:
    has(rig, client)
    rig.target("url", server.url("/a?b=[1-3]&c={x,y}"))
    rig.tells(b'"quoted" \\c \\n back`slash` $(no) %s\n\tsecond line, caf\xc3\xa9\n', "Temp é")

    (post,) = server.posts
    assert post.path == "/a?b=[1-3]&c={x,y}" or client == "wget"
    assert post.title == "rig: Temp é"
    assert post.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert post.body.rstrip(b"\n") == (
        b'"quoted" \\c \\n back`slash` $(no) %s\n\tsecond line, caf\xc3\xa9'
    )


@IN_TURN
@EACH_CLIENT
def test_a_url_that_is_secret_is_in_no_process_list(
    rig: Rig, server: Listening, client: str
) -> None:
    has(rig, client)
    seen: list[bytes] = []

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended
                seen.append(path.read_bytes())

    server.while_asked = look
    rig.target("url", server.url("/hush-hush"))
    rig.tells(b"a text to look for\n")

    assert [post.path for post in server.posts] == ["/hush-hush"]
    assert any(client.encode() in one for one in seen)
    assert not [one for one in seen if b"hush-hush" in one or b"a text to look" in one]
    assert "hush-hush" not in rig.journal


@IN_TURN
@EACH_CLIENT
def test_what_is_wrong_is_urgent_and_what_is_well_again_is_not(
    rig: Rig, server: Listening, client: str
) -> None:
    has(rig, client)
    rig.target("url", server.url())
    rig.tells()
    rig.tells(b"since now\n", "good", SUBJECT)

    found = [(one.title, one.headers["Priority"], one.headers["Tags"]) for one in server.posts]
    assert found == [
        (f"rig: {SUBJECT}", "high", "warning"),
        (f"rig: {SUBJECT}", "default", "white_check_mark"),
    ]


@IN_TURN
@EACH_CLIENT
def test_a_dead_man_url_is_told_start_success_and_fail_with_the_text(
    rig: Rig, server: Listening, client: str
) -> None:
    has(rig, client)
    rig.write(
        "etc/rigops/notify", f"url\n{server.url('/topic')}\nping\n{server.url('/hush?rid=1')}\n"
    )
    rig.tells(b"", "ping", "start")
    rig.tells(b"all is well\n", "ping", "success")
    rig.tells(b"a card is gone\n", "ping", "fail")

    assert [(one.path, one.body.strip()) for one in server.posts] == [
        ("/hush/start?rid=1", b""),
        ("/hush?rid=1", b"all is well"),
        ("/hush/fail?rid=1", b"a card is gone"),
    ]
    assert not {"Title", "Priority"} & set(server.posts[0].headers)
    assert rig.journal == ""


@IN_TURN
@EACH_CLIENT
def test_a_login_in_the_url_is_used(rig: Rig, server: Listening, client: str) -> None:
    has(rig, client)
    rig.target("url", server.url(login="me:s%40me@"))
    rig.tells()

    (post,) = server.posts
    assert post.headers["Authorization"] == "Basic bWU6c0BtZQ=="
    assert post.path == "/topic"


@IN_TURN
@EACH_CLIENT
def test_a_server_that_fails_is_tried_three_times(rig: Rig, server: Listening, client: str) -> None:
    has(rig, client)
    rig.target("url", server.url())
    server.answers = [503, 503]
    rig.tells()
    assert len(server.posts) == 3
    assert "not delivered: " not in rig.journal

    server.answers = [503] * 9
    rig.tells(fails=True)
    assert len(server.posts) == 6
    assert f'not delivered: "{SUBJECT}"' in rig.journal


@IN_TURN
@EACH_CLIENT
def test_a_redirection_is_not_followed_and_counts_as_not_told(
    rig: Rig, server: Listening, client: str
) -> None:
    has(rig, client)
    rig.target("url", server.url())
    server.answers = [302] * 3
    rig.tells(fails=True)

    assert {post.path for post in server.posts} == {"/topic"}
    assert "not delivered: " in rig.journal


@IN_TURN
@EACH_CLIENT
def test_a_server_that_is_not_there_is_said_in_the_journal_alone(rig: Rig, client: str) -> None:
    has(rig, client)
    rig.target("url", "http://127.0.0.1:1/secret")
    rig.tells(fails=True)

    assert f"{client} ended with" in rig.journal
    assert "secret" not in rig.journal


def test_without_anything_to_post_with_the_journal_says_so(rig: Rig) -> None:
    rig.target("url", "http://127.0.0.1:1/")
    rig.tells(fails=True)

    assert "neither curl nor GNU wget nor python3 is here" in rig.journal


def test_without_a_dead_man_url_a_ping_is_nothing(rig: Rig) -> None:
    rig.target("command", "exit 1")
    rig.tells(b"", "ping", "start")

    assert rig.journal == ""


def test_a_dead_man_url_alone_tells_nobody_but_by_its_alarm(rig: Rig, server: Listening) -> None:
    rig.target("ping", server.url())
    rig.tells()

    assert server.posts == []
    assert "not delivered: " not in rig.journal


def test_a_dead_man_url_that_does_not_answer_is_said_without_it(rig: Rig) -> None:
    has(rig, "python3")
    rig.target("ping", "http://127.0.0.1:1/secret")
    rig.tells(b"", "ping", "fail", fails=True)

    assert "not delivered: ping fail: python3 ended with 1 URLError" in rig.journal
    assert "secret" not in rig.journal


def test_a_unit_that_failed_is_told_with_its_result_and_the_end_of_its_journal(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f'{{ echo "$RIGOPS_SUBJECT"; cat; }} >{out}')
    rig.tool("systemctl", 'echo "systemctl $*" >>"$0.asked"; echo Result=exit-code')
    rig.tool("journalctl", 'echo "journalctl $*" >>"$0.asked"; printf "one\\ntw\\033o\\n"')
    rig.tells(b"", "unit", "rigops-acs.service")

    assert out.read_text() == "rigops-acs.service failed: exit-code\none\ntwo\n"
    asked = (rig.bin / "journalctl.asked").read_text()
    assert "-u rigops-acs.service -n 20" in asked


def test_the_result_of_a_unit_that_is_gone_already_is_left_out(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f"cat >{out}")
    rig.tool("systemctl", "echo Result=success")
    rig.tool("journalctl", "exit 0")
    rig.tells(b"", "unit", "rigops-kernel-hook-6.1.service")

    assert out.read_text() == "rigops-kernel-hook-6.1.service failed\n"


@IN_TURN
def test_a_unit_whose_journal_does_not_answer_is_told_all_the_same(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f"cat >{out}")
    rig.tool("systemctl", "exec sleep 60")
    rig.tool("journalctl", "exec sleep 60")
    rig.tells(b"", "unit", "rigops-acs.service", ask_s=1)

    assert out.read_text() == "rigops-acs.service failed\n"


def test_a_command_has_the_text_on_stdin_and_subject_and_host_around_it(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target(
        "command", f'{{ echo "$RIGOPS_HOST|$RIGOPS_SUBJECT|${{RIGOPS_COMMAND-}}"; cat; }} >{out}'
    )
    rig.tells(b"two\n\nlines \\c\n", "it's $HOME")

    assert out.read_text() == "rig|it's $HOME|\ntwo\n\nlines \\c\n"
    assert "not delivered: " not in rig.journal


def test_a_command_is_in_no_process_list(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f"token=hush-hush; cat /proc/$$/cmdline /proc/$PPID/cmdline >{out}")
    rig.tells()

    assert out.read_bytes()
    assert b"hush-hush" not in out.read_bytes()


def test_a_command_that_fails_is_told_in_the_journal(rig: Rig) -> None:
    rig.target("command", "exit 7")
    rig.tells(fails=True)
    assert "the command ended with 7" in rig.journal


@IN_TURN
def test_a_command_that_does_not_end_is_told_in_the_journal(rig: Rig) -> None:
    rig.target("command", "sleep 60")
    rig.tells(fails=True, command_s=1)
    assert "the command did not end in 1 s" in rig.journal


def test_the_journal_has_it_also_where_nobody_is_to_be_told(rig: Rig) -> None:
    rig.tells(b"one\ntwo\n")

    assert rig.journal == f"== -t rigops -p user.warning\n{SUBJECT}\none\ntwo\n"


def test_a_target_that_cannot_be_read_is_said(rig: Rig) -> None:
    rig.target("pigeon", "Berta")
    rig.tells(fails=True)

    assert "/etc/rigops/notify could not be read" in rig.journal


def test_control_characters_are_left_out_of_subject_and_text(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f'{{ echo "$RIGOPS_SUBJECT"; cat; }} >{out}')
    rig.tells(b"a\x1b[31m\rb\0\x7f\xc2\x9bc\td\xc3\x9b\n", "x\ny\x1bz")

    assert out.read_bytes() == b"x yz\na[31mbc\td\xc3\x9b\n"


@pytest.mark.parametrize("before", range(3))
def test_no_more_than_4_kib_are_told_and_no_half_character(rig: Rig, before: int) -> None:
    out = rig.root / "told"
    rig.target("command", f"cat >{out}")
    rig.tells(b"x" * before + "€".encode() * 100_000)

    told = out.read_bytes()
    assert 4090 < len(told) <= 4096
    assert set(told.decode().strip("x\n")) == {"€"}


def test_without_text_the_subject_is_told(rig: Rig) -> None:
    out = rig.root / "told"
    rig.target("command", f"cat >{out}")
    rig.tells(b"")

    assert out.read_text() == f"{SUBJECT}\n"


def test_of_a_program_that_arrives_in_part_nothing_runs(rig: Rig) -> None:
    *before, last = rig.text("notify", {}).splitlines()
    assert last == 'notify "$@"'
    done = rig.run("\n".join(before), SUBJECT)

    assert (done.returncode, rig.journal) == (0, "")
