from __future__ import annotations

from rigops.dataclass import dataclass
from rigops.probe.kernel_arguments import split
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import single


@dataclass(frozen=True)
class CommandLine:
    """The running kernel's command line."""

    line: str = ""
    arguments: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> CommandLine:
    line = " ".join(single(text)).strip()
    return CommandLine(line, split(line), () if line else ("it is empty",))


SECTION = Section(
    name="proc-cmdline",
    snippet="copy </proc/cmdline",
    parse=parse,
    lane="files",
    technical=EVERY_WORD,
)
