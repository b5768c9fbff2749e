from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rigops.concerns.kernel_args.bootloader import shell, tokens
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "GRUB_CMDLINE_LINUX_DEFAULT"
NEW_LINE = f'{NAME}=""'
OURS = ["iommu=pt", "pci=realloc=off"]

variable = tokens.assigned(NAME)


def assigning(text: str, *, add: list[str] | None = None, remove: list[str] | None = None) -> str:
    return tokens.changed(text, variable, NEW_LINE, add=add or (), remove=remove or ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"quiet splash"', '"quiet splash iommu=pt"'),
        ("'quiet splash'", "'quiet splash iommu=pt'"),
        ("quiet", "quiet\\ iommu=pt"),
        ("quiet\\ splash # as it came", "quiet\\ splash\\ iommu=pt # as it came"),
        ('quiet" splash"', 'quiet" splash iommu=pt"'),
        ("\"quiet \"'splash'", "\"quiet \"'splash iommu=pt'"),
        ('""', '"iommu=pt"'),
        ("''", "'iommu=pt'"),
        ("", "iommu=pt"),
        ('"  "', '"iommu=pt  "'),
        (" # nothing", "iommu=pt # nothing"),
        ('"quiet \\\n  splash"', '"quiet \\\n  splash iommu=pt"'),
        ('" quiet  "', '" quiet iommu=pt  "'),
        ('"$OTHER"', '"$OTHER iommu=pt"'),
        ('"${OTHER} x"', '"${OTHER} x iommu=pt"'),
        ('"quiet -- splash"', '"quiet iommu=pt -- splash"'),
        ('"quiet ---"', '"quiet iommu=pt ---"'),
        ('"-- splash"', '"iommu=pt -- splash"'),
        ("--\\ splash", "iommu=pt\\ --\\ splash"),
        ('"dyndbg=\\"file a.c +p\\" x"', '"dyndbg=\\"file a.c +p\\" x iommu=pt"'),
        ("'dyndbg=\"file a.c +p\"'", "'dyndbg=\"file a.c +p\" iommu=pt'"),
        ('"dyndbg=\\"a -- b\\" x"', '"dyndbg=\\"a -- b\\" x iommu=pt"'),
        ('"quiet quiet"', '"quiet quiet iommu=pt"'),
        ('"xiommu=pt iommu=ptx"', '"xiommu=pt iommu=ptx iommu=pt"'),
        ('"a iommu=pt b"', '"a iommu=pt b"'),
        ('"a -- iommu=pt"', '"a iommu=pt -- iommu=pt"'),
        ('"cost=$ a"', '"cost=$ a iommu=pt"'),
        ('"a\\\\b"', '"a\\\\b iommu=pt"'),
        ('"caf\u00e9\u00a0x"', '"caf\u00e9\u00a0x iommu=pt"'),
    ],
)
def test_a_value_gets_an_argument_and_nothing_else_changes(before: str, after: str) -> None:
    was, becomes = (f"{NAME}={value}" for value in (before, after))
    earlier = f"{'' if chr(10) in before else '#'}{was}\nX=1\n"
    for begin, end in (
        ("", "\n"),
        ("", ""),
        ("\t", "\n"),
        (f'{NAME}="old"\nexport ', "\n"),
        (earlier, "\nY='a b'\n"),
    ):
        old, new = (f"{begin}{one}{end}" for one in (was, becomes))

        assert assigning(old, add=["iommu=pt"]) == new
        assert old == new or assigning(new, remove=["iommu=pt"]) == old


def test_line_ends_of_windows_stay() -> None:
    text = f'X=1\r\n{NAME}="quiet"\r\nY=2\r\n'

    added = assigning(text, add=OURS)

    assert added == f'X=1\r\n{NAME}="quiet iommu=pt pci=realloc=off"\r\nY=2\r\n'
    assert assigning(added, remove=OURS) == text


@pytest.mark.parametrize("text", ["", "X=1", "X=1\n", f"# {NAME}=no\n", "X='\n'\n\n"])
def test_a_file_without_the_variable_gets_a_line_and_loses_it(text: str) -> None:
    added = assigning(text, add=OURS)

    assert _as_sh_reads_it(added) == "iommu=pt pci=realloc=off"
    assert assigning(added, remove=OURS) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{NAME}="$(cat /proc/cmdline)"', "computed"),
        (f'{NAME}="`uname`"', "computed"),
        (f'{NAME}="${{X:-quiet}}"', "computed"),
        (f"{NAME}=$1", "computed"),
        (f"{NAME}=$'a b'", "computed"),
        (f'{NAME}="quiet', "not closed"),
        (f"{NAME}='quiet\n", "not closed"),
        (f'{NAME}="dyndbg=\\"file a.c"', "not closed"),
        (f'{NAME}=a\n{NAME}+=" b"\n', r"\+="),
        (f'if [ -e /x ]; then\n  {NAME}="a"\nfi\n', "`if`"),
        (f'[ -e /x ] && {NAME}="a"\n', r"`\[`"),
        (f'{NAME}="a"\n. /etc/more\n', r"`\.`"),
        (f"{NAME}=a\\", "escape"),
        (f'X="not closed\n{NAME}="a"\n', "cannot be followed"),
        (f"cat <<END\n'\nEND\n{NAME}=a\n", "cannot be followed"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CannotEditError, match=reason):
        assigning(text, add=OURS)


def test_what_others_compute_does_not_matter() -> None:
    text = f'D=`lsb_release 2> /dev/null || echo Debian`\nE=$(. /x; echo "a)")\n{NAME}="quiet"\n'

    assert assigning(text, add=["iommu=pt"]) == text.replace("quiet", "quiet iommu=pt")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("options a b\n", "options a b iommu=pt\n"),
        ("t x\noptions\ta\n options b\nlinux /v", "t x\noptions\ta\n options b iommu=pt\nlinux /v"),
        ("options a\noptions b -- c\noptions d", "options a\noptions b iommu=pt -- c\noptions d"),
        ("options a\noptions -- c\n", "options a iommu=pt\noptions -- c\n"),
        ("options a\r\ninitrd /i\r\n", "options a iommu=pt\r\ninitrd /i\r\n"),
        ("#options a\ntitle x", "#options a\ntitle x\n# Added by rigops.\noptions iommu=pt"),
        ("options $kernelopts $tuned_params\n", "options $kernelopts $tuned_params iommu=pt\n"),
    ],
)  # fmt: skip
def test_the_options_of_an_entry_are_one_command_line(before: str, after: str) -> None:
    assert tokens.changed(before, tokens.options, "options ", add=["iommu=pt"]) == after
    assert tokens.changed(after, tokens.options, "options ", remove=["iommu=pt"]) == before


def test_an_argument_at_the_begin_of_a_line_leaves_the_line_before_alone() -> None:
    text = "options a\noptions iommu=pt b\n"

    removed = tokens.changed(text, tokens.options, "options ", remove=["iommu=pt"])

    assert tokens.options(removed) is not None
    assert removed.startswith("options a\noptions ")
    assert removed.split() == ["options", "a", "options", "b"]


@pytest.mark.parametrize(
    ("find", "before", "after"),
    [
        (tokens.bare, "a b\n", "a b iommu=pt\n"),
        (tokens.bare, "a\nb", "a\nb iommu=pt"),
        (tokens.bare, "", "iommu=pt"),
        (tokens.bare, "a\r\n", "a iommu=pt\r\n"),
        (tokens.commented, "# why\na\n# end\n", "# why\na iommu=pt\n# end\n"),
        (tokens.commented, "# why\n", "# why\niommu=pt"),
    ],
)
def test_a_bare_command_line(find: Callable[[str], tokens.Line], before: str, after: str) -> None:
    assert tokens.changed(before, find, "", add=["iommu=pt"]) == after
    assert tokens.changed(after, find, "", remove=["iommu=pt"]) == before


def test_nothing_is_written_into_a_comment() -> None:
    with pytest.raises(CannotEditError, match="comment"):
        tokens.changed("# why", tokens.commented, "", add=OURS)


def test_only_the_last_of_the_same_arguments_is_taken_out() -> None:
    assert assigning(f'{NAME}="iommu=pt a iommu=pt b"', remove=["iommu=pt"]) == (
        f'{NAME}="iommu=pt a b"'
    )


# Any text that a shell takes as a value, with blanks of all kinds and quotes of all kinds.
pieces = st.sampled_from(
    [
        "quiet",
        "a=b",
        "iommu=off",
        "--",
        "---",
        " ",
        "  ",
        "\t",
        "é",
        "$X",
        "${X}",
        "a\\\\b",
        ",",
        ".",
    ]
)
plain = st.lists(pieces, max_size=8).map("".join)
double = st.lists(pieces | st.sampled_from(["\\\n", '\\"', "'", "\\$", "#", ";"]), max_size=8).map(
    lambda some: '"' + "".join(some) + '"'
)
single = st.lists(pieces | st.sampled_from(['"', "\\", "#", ";", "\n"]), max_size=8).map(
    lambda some: "'" + "".join(some) + "'"
)
bare = st.lists(
    st.sampled_from(["quiet", "a=b", "\\ ", "\\\t", "--", "$X", "\\\n", "\\'", "b#c"]), max_size=8
).map("".join)  # fmt: skip
values = st.lists(double | single | bare, max_size=3).map("".join)
others = st.sampled_from(
    ["", "# a comment's quote\n", "X=1\n", "Y=`date`\n", f"#{NAME}=no\n", "\n"]
)
endings = st.sampled_from(["", "\n", " # why\n", "; Z=1\n", "\r\n", "\n\n# end"])
files = st.builds(
    lambda before, value, end: f"{before}{NAME}={value}{end}", others, values, endings
)
arguments = st.lists(
    st.text("abcdefg=.,:/@%+-_0", min_size=2, max_size=8).filter(lambda one: one.strip("-")),
    min_size=1, max_size=3, unique=True,
)  # fmt: skip


@given(text=files | others, ours=arguments)
def test_adding_and_taking_back_restores_a_shell_file_and_touches_nobody_elses(
    text: str, ours: list[str]
) -> None:
    _holds(text, ours, variable, NEW_LINE)


@given(lines=st.lists(plain, max_size=4), end=st.sampled_from(["", "\n", "\r\n"]), ours=arguments)
def test_adding_and_taking_back_restores_an_entry(
    lines: list[str], end: str, ours: list[str]
) -> None:
    text = "\n".join(["title x", *(f"options {line}" for line in lines)]) + end

    _holds(text, ours, tokens.options, "options ")


@given(text=st.lists(plain | st.sampled_from(["\n", "\r\n", "# x\n"])).map("".join), ours=arguments)
@pytest.mark.parametrize("find", [tokens.bare, tokens.commented])
def test_adding_and_taking_back_restores_a_bare_line(
    text: str, ours: list[str], find: Callable[[str], tokens.Line]
) -> None:
    _holds(text, ours, find, "")


@given(st.text(alphabet=st.sampled_from(list(f"{NAME[:3]}=\"'\\$`(){{}};&|# \n\raé"))))
def test_no_text_escapes_as_an_exception(text: str) -> None:
    shell.read(text)
    shell.read(f"{NAME}={text}")
    variable(f"{NAME}={text}")
    tokens.options(f"options {text}")


@given(value=values)
def test_values_are_what_the_shell_makes_of_them(value: str) -> None:
    text = f"{NAME}={value}\n"
    (found,) = [one for one in shell.read(text).assignments if one.name == NAME][-1:]
    assume(not found.value.fault)

    read = "".join(one.letter for one in found.value.units)

    assert read.split() == _as_sh_reads_it(text).split()


def _holds(
    text: str, ours: list[str], find: Callable[[str], tokens.Line | None], new_line: str
) -> None:
    line = find(text)
    before = [one.text for one in line.tokens] if line else []
    assume(not set(ours) & set(before))
    try:
        added = tokens.changed(text, find, new_line, add=ours)
    except CannotEditError:
        return
    after = find(added)
    assert after is not None
    assert [one.text for one in after.tokens if one.text not in ours] == before
    assert [one for one in after.arguments if one in ours] == ours
    assert tokens.changed(added, find, new_line, add=ours) == added
    assert tokens.changed(added, find, new_line, remove=ours) == text
    for one in reversed(ours):
        added = tokens.changed(added, find, new_line, remove=[one])
    assert added == text


def _as_sh_reads_it(text: str) -> str:
    script = f'{text}\nprintf "%s" "${NAME}"'
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, errors="replace"
    ).stdout
