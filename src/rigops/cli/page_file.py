"""The file that --html names: refused before hosts are asked, and written whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from rigops.errors import usage_error

_KEY: Final = "--html"
_PRIVATE: Final = 0o600


def _checked(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """A file may be replaced, nothing else."""
    if path is None:
        return None
    if path.is_dir():
        fix = f"name a file: {_KEY} {path / 'rigops.html'}"
        raise usage_error(message="is a directory", key=_KEY, value=str(path), fix=fix)
    if path.exists() and not path.is_file():
        fix = f"name a file that is new or may be replaced, such as {_KEY} rigops.html"
        raise usage_error(message="is no file", key=_KEY, value=str(path), fix=fix)
    if not path.parent.is_dir():
        fix = f"make it first: mkdir -p {path.parent}"
        raise usage_error(
            message="its directory does not exist", key=_KEY, value=str(path), fix=fix
        )
    return path


html_option: Callable[[Any], Any] = click.option(
    _KEY,
    "html_path",
    type=click.Path(path_type=Path),
    callback=_checked,
    metavar="FILE",
    help="Also write one page for a browser: drawings, findings, evidence. It has all names.",
)


def write_page(path: Path, text: str) -> None:
    from rigops import atomic_file
    from rigops.report.terminal import print_lines

    try:
        atomic_file.replace(path, text, _PRIVATE)
    except OSError as error:
        raise usage_error(
            message=f"not written: {error.strerror}",
            key=_KEY,
            value=str(path),
            fix="name a file in a directory that you may write",
        ) from error
    print_lines(f"Wrote {path}: open it in a browser.", err=True)
