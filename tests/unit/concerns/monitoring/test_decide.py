"""Which directory node_exporter reads, what the host gets, and what is in the way."""

from __future__ import annotations

import json
import shlex
from typing import Final

import pytest

from rigops.concerns.monitoring import decide
from rigops.concerns.monitoring.facts import (
    EXPORTERS,
    FOLDER,
    PYTHON,
    SECTION,
    Monitoring,
    parse,
)
from rigops.concerns.monitoring.record import TEXTFILE_PATH
from rigops.inventory.spec.model import ExpectedGpus, Notify
from tests.unit.programs import assert_clean_shell

EXEC: Final = (
    "ExecStart={ path=/usr/bin/prometheus-node-exporter ; argv[]=/usr/bin/prometheus-node-exporter "
    "%s ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) }"
)
DEFAULTS: Final = "/etc/default/prometheus-node-exporter"


def host(unit: str | None = "$ARGS", defaults: str = "", *, has_folder: bool = True) -> Monitoring:
    exporters = f"== {EXPORTERS}\n{EXEC % unit if unit is not None else ''}\n"
    folder = f"== {FOLDER}\nyes\n" if has_folder else ""
    return parse(f"== {PYTHON}\nPython 3.11.2\n{exporters}== {DEFAULTS}\n{defaults}\n{folder}")


@pytest.mark.parametrize(
    ("found", "folder"),
    [
        (host(), "/var/lib/prometheus/node-exporter"),
        (host(has_folder=False), None),
        (host(None), None),
        (host("--collector.textfile.directory=/srv/t"), "/srv/t"),
        (host("--collector.textfile.directory /srv/t/ --x"), "/srv/t"),
        (host("--collector.textfile.directory=/srv/t;rm"), "/srv/t"),
        (host(defaults='ARGS="--collector.textfile.directory=/srv/d"'), "/srv/d"),
        (host(defaults="ARGS='--x --collector.textfile.directory=\"/srv/d\"'"), "/srv/d"),
        (
            host(defaults='# ARGS="--collector.textfile.directory=/srv/d"'),
            "/var/lib/prometheus/node-exporter",
        ),
        (host("--collector.textfile.directory=relative", has_folder=False), None),
    ],
)
def test_auto_is_what_node_exporter_reads(found: Monitoring, folder: str | None) -> None:
    assert decide.textfile_folder("auto", found) == folder


def test_a_directory_is_taken_as_it_is() -> None:
    assert decide.textfile_folder("/srv/mine", host("--collector.textfile.directory=/x")) == (
        "/srv/mine"
    )


def test_without_a_directory_the_fix_is_named() -> None:
    assert "no node_exporter runs here. fix: " in decide.no_folder(host(None))
    assert "node_exporter names no directory. fix: " in decide.no_folder(host(has_folder=False))


@pytest.mark.parametrize(
    ("version", "says"),
    [("Python 3.8.0", ""), ("Python 3.13.5", ""), ("Python 3.7.3", "is 3.7"), ("", "needs")],
)
def test_a_host_without_a_python_is_refused(version: str, says: str) -> None:
    found = decide.no_python(parse(f"== {PYTHON}\n{version}\n"))
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize("text", ["", "\0", "== x", "nonsense\n" * 3, f"== {PYTHON}"])
def test_any_text_is_parsed(text: str) -> None:
    assert parse(text) == Monitoring()


def test_the_snippet_is_clean_shell() -> None:
    tools = "block() { :; }; show() { :; }\n"
    assert_clean_shell(f"{tools}look() {{\n{SECTION.snippet}\n}}\nlook\n")


def test_whom_to_notify_is_a_name_and_a_value_a_line_each() -> None:
    assert decide.target(Notify(command="true", ping="https://p")) == (
        "command\ntrue\nping\nhttps://p\n"
    )


def test_the_settings_have_counts_directory_and_quoted_commands() -> None:
    lines = decide.settings(
        ExpectedGpus(models=(("V100", 4),)), "/srv/t", {"toy": ("/bin/toy", "it's; $x")}
    )
    gpus, metrics, check = lines
    assert (gpus, metrics) == ("gpus 4", "metrics /srv/t")
    assert shlex.split(check) == ["check", "toy", "/bin/toy", "it's; $x"]
    assert list(decide.settings(None, None, {})) == []
    assert list(decide.settings(None, None, {}, skips_p2p=True)) == ["p2p skip"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"schema": "rigops.metrics/1", "textfile": "/srv/t/rigops.prom"}', "/srv/t/rigops.prom"),
        ('{"schema": "rigops.metrics/1", "textfile": "/etc/passwd"}', None),
        ('{"schema": "rigops.metrics/1", "textfile": "/srv/../etc/rigops.prom"}', None),
        ('{"schema": "rigops.metrics/1", "textfile": "t/rigops.prom"}', None),
        ('{"schema": "else/1", "textfile": "/srv/t/rigops.prom"}', None),
        (json.dumps({"schema": "rigops.metrics/1", "textfile": "/a\n/rigops.prom"}), None),
        ("{", None),
    ],
)
def test_only_a_textfile_of_ours_is_ever_removed(text: str, path: str | None) -> None:
    assert decide.written_textfile({TEXTFILE_PATH: text}) == path
    assert decide.written_textfile({}) is None
