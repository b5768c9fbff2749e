"""GRUB's environment block: a file of fixed size that GRUB rewrites in place."""

from pathlib import Path

_SIGNATURE = "# GRUB Environment Block\n"


def read(path: Path) -> dict[str, str]:
    text = path.read_text(errors="replace")
    if not text.startswith(_SIGNATURE):
        return {}
    values, line, escaped = {}, "", False
    for char in text[len(_SIGNATURE) :]:
        if escaped:
            line += char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "\n":
            name, equals, value = line.partition("=")
            if equals and not name.startswith("#"):
                values[name] = value
            line = ""
        else:
            line += char
    return values


def change(path: Path, values: dict[str, str | None]) -> bool:
    """Sets each name, or drops it at None; False where the block is not one or is too small."""
    size = path.stat().st_size
    with path.open() as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            return False
    kept = read(path)
    for name, value in values.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = value
    escape = str.maketrans({"\\": "\\\\", "\n": "\\\n"})
    text = _SIGNATURE + "".join(
        f"{name}={value.translate(escape)}\n" for name, value in kept.items()
    )
    if len(text) > size:
        return False
    with path.open("r+") as file:
        file.write(text.ljust(size, "#"))
    return True
