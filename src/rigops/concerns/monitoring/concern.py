"""notify, metrics: alerts of a host, and its self-check."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.monitoring import AUTO, NAME, record
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.model import Notify
from rigops.inventory.spec.scalars import Key, check_names, text

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact

_WEB: Final = ("http://", "https://")
_SCHEME = re.compile(r"[A-Za-z0-9+.-]+://")
_FOLDER = re.compile(r"(/[A-Za-z0-9_.@+-]+)+")


def _line(value: object) -> str:
    """As `text`, whose errors show the value."""
    if not isinstance(value, str):
        refuse("not a string", value, fix="put it in quotes", secret=True)
    if not value.strip() or not value.isprintable():
        refuse("empty, or with a control character", value, secret=True)
    return value


def _url(value: object) -> str:
    url = _line(value)
    if not url.startswith(_WEB) or " " in url:
        refuse("not an http(s) URL", value, secret=True)
    return url


def _command(value: object) -> str:
    command = _line(value)
    if _SCHEME.match(command):
        refuse("a URL, not a command", value, fix='write it under "url"', secret=True)
    return command


def _notify(value: object) -> Notify:
    if isinstance(value, str):
        if value.startswith(_WEB):
            return Notify(url=_line(value))
        if _SCHEME.match(value):
            refuse("this is neither a command nor an http(s) URL", value, secret=True)
        return Notify(command=_line(value))
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        refuse("neither a string nor a dict", value, secret=True)
    found = Collector()
    check_names(found, value, ("url", "command", "ping"))
    notify = Notify(
        url=found.take(_url, value, "url", None),
        command=found.take(_command, value, "command", None),
        ping=found.take(_url, value, "ping", None),
    )
    found.finish(notify)
    if notify == Notify():
        refuse("it names nobody", value, secret=True)
    if notify.url and notify.command:
        refuse("a URL and a command", value, fix="declare one of them", secret=True)
    return notify


def _metrics(value: object) -> str:
    folder = text(value)
    if folder == AUTO:
        return folder
    if not _FOLDER.fullmatch(folder) or posixpath.normpath(folder) != folder:
        refuse("not an absolute path of a directory", value)
    return folder


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.monitoring.facts import MonitoringHost

    return (MonitoringHost,) if spec.notify is not None or spec.metrics is not None else ()


def _files(spec: RigSpec) -> Sequence[str]:
    return (spec.metrics,) if spec.metrics not in {None, AUTO} else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.monitoring.operations import monitoring

    monitoring(
        notify=spec.notify, metrics=spec.metrics, gpus=spec.gpus, skips_p2p=spec.p2p == "skip"
    )


MONITORING: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "notify",
            'a command, a URL, or {"url": …, "ping": …}',
            _notify,
            stays_here=True,
        ),
        Key("metrics", '"auto" or a directory', _metrics),
    ),
    deploy=_deploy,
    facts=_facts,
    files=_files,
    records=(
        HostRecord(
            record.PATH,
            "the self-check reports its findings again",
            of_schema(record.SCHEMA),
            "remove it; the next self-check writes it again",
        ),
        HostRecord(
            record.TEXTFILE_PATH,
            "a textfile in a directory that is no longer declared stays there",
            of_schema(record.TEXTFILE_SCHEMA),
            "remove it; the next self-check writes it again",
        ),
    ),
)
