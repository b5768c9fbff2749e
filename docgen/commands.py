"""A page for each command, from its own help."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

import click

from docgen.markdown import MADE, table
from rigops.cli.main import JOBS, rigops

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_WRAPPED: Final = "\b\n"
_HEAD: Final = f"""\
# Commands and options

{MADE}

`rigops COMMAND --help` shows these pages in the terminal.

`-v`, `--json` and `--no-color` are options of every command that reports; a document of `--json`
begins with its `schema`, and is the only thing on standard output. `--ask-sudo-password` and
`--accept-host-key` are options of every command that reaches hosts. Options that take several
values are repeatable and accept commas.
"""
_CODES: Final = f"""
## Exit codes

{
    table(
        ("code", "meaning"),
        (
            ("0", "ok"),
            (
                "1",
                "a failure: a failed check, a host that did not get what was declared, broken P2P",
            ),
            (
                "2",
                "wrong command or inventory; nothing was touched. With `--json`: `rigops.error/1`",
            ),
            ("3", "unknown: a host was not reached, or could not be judged"),
            ("4", "`rigops plan --exit-code`: changes are pending"),
            ("130", "interrupted or declined"),
        ),
    )
}

Of several hosts the gravest counts, in the order 1, 3, 4, 0.
"""


def pages() -> dict[str, str]:
    context = click.Context(rigops, info_name="rigops")
    made = {}
    index = [_HEAD]
    for (job, _), commands in JOBS.items():
        rows = [(f"[rigops {name}]({name}.md)", line) for name, line in commands.items()]
        index.append(f"\n## {job}\n\n{table(('command', 'what it does'), rows)}\n")
        for name in commands:
            if command := rigops.get_command(context, name):
                made[f"commands/{name}.md"] = _page(command, context, name)
    return {"commands/README.md": "".join([*index, _CODES]), **made}


def _page(command: click.Command, parent: click.Context, name: str) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(["rigops", name, *command.collect_usage_pieces(context)])
    records = [one.get_help_record(context) for one in command.get_params(context)]
    options = [(f"`{one[0]}`", " ".join(one[1].split())) for one in records if one and one[1]]
    text = "\n\n".join(_paragraphs(inspect.cleandoc(command.help or "")))
    return f"""\
# rigops {name}

{MADE}

```text
{usage}
```

{text}

## Options

{table(("option", "what it does"), options)}

[All commands](README.md)
"""


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.split("\n\n"):
        if not part.startswith(_NOT_WRAPPED):
            yield part
            continue
        head, _, lines = part.removeprefix(_NOT_WRAPPED).partition("\n")
        yield f"## {head.rstrip(':')}\n\n```text\n{inspect.cleandoc(lines)}\n```"
