from __future__ import annotations

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import assignments


@dataclass(frozen=True)
class OsRelease:
    id: str | None = None
    version_id: str | None = None
    codename: str | None = None
    pretty_name: str | None = None
    is_image: bool = False  # of ostree, which replaces /usr and stores kernel arguments itself
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> OsRelease:
    values = assignments(text)
    return OsRelease(
        id=values.get("ID") or None,
        version_id=values.get("VERSION_ID") or None,
        codename=values.get("VERSION_CODENAME") or None,
        pretty_name=values.get("PRETTY_NAME") or None,
        is_image="OSTREE_VERSION" in values,
        unparsed=() if values.get("ID") else ("there is no ID",),
    )


SECTION = Section(
    name="os-release",
    snippet="""
for file in /etc/os-release /usr/lib/os-release; do
    if [ -r "$file" ]; then copy <"$file"; return 0; fi
done
return 1
""",
    parse=parse,
    lane="files",
    technical=EVERY_WORD,
)
