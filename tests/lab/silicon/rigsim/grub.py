"""A small GRUB: from the host's own grub.cfg and environment block to what would boot."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from . import disk, grub_environment
from .grub_syntax import Command, For, Function, GrubError, If, Parser, Statement, Token

_FEATURES = (
    "menuentry_id", "timeout_style", "platform_search_hint", "all_video_module",
    "default_font_path", "chainloader_bpb", "ntldr", "200_final",
)  # fmt: skip
# Drivers, screen and disks: there is nothing behind them here, and they work.
_HARMLESS = frozenset((
    "insmod", "echo", "loadfont", "terminal_output", "terminal_input", "export",
    "background_image", "sleep", "clear", "gfxmode", "initrd", "initrd16", "initrdefi", "rmmod",
    "play", "keymap", "password", "password_pbkdf2", "true", "normal", "videoinfo", "hdparm",
    "cutmem", "serial", "boot",
))  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_DEVICE = re.compile(r"^\([^)]*\)")
_ROOT, _ESP = "hd0,gpt2", "hd0,gpt1"
_OPTION_WITH_VALUE = ("--class", "--users", "--hotkey", "--id", "--source")


class Entry(NamedTuple):
    title: str
    id: str
    arguments: tuple[str, ...]
    block: tuple[Statement, ...]
    is_submenu: bool


class Boot(NamedTuple):
    """failure: why GRUB itself would not have come this far; empty when it would."""

    command_line: str
    kernel: str
    title: str
    failure: str


class _Return(Exception):  # noqa: N818 - # control flow, not an error
    pass


class _Tests:
    """What stands between [ and ]."""

    def __init__(self, words: Sequence[str], find: Callable[[str], Path | None]) -> None:
        self._words = list(words)
        self._find = find

    def value(self) -> bool:
        result = self._and()
        while self._words and self._words[0] == "-o":
            self._words.pop(0)
            result = self._and() or result
        return result

    def _and(self) -> bool:
        result = self._one()
        while self._words and self._words[0] == "-a":
            self._words.pop(0)
            result = self._one() and result
        return result

    def _one(self) -> bool:
        words = self._words
        if not words:
            return False
        first = words.pop(0)
        if first == "!":
            return not self._one()
        if len(words) >= 2 and words[0] in ("=", "==", "!=", "-eq", "-ne", "-lt", "-gt"):
            return self._compare(first, words.pop(0), words.pop(0))
        if first in ("-n", "-z", "-f", "-e", "-s", "-d") and words:
            return self._unary(first, words.pop(0))
        return bool(first)

    @staticmethod
    def _compare(left: str, sign: str, right: str) -> bool:
        if sign in ("=", "=="):
            return left == right
        if sign == "!=":
            return left != right
        try:
            first, second = int(left or 0), int(right or 0)
        except ValueError:
            return False
        return {
            "-eq": first == second, "-ne": first != second,
            "-lt": first < second, "-gt": first > second,
        }[sign]  # fmt: skip

    def _unary(self, sign: str, word: str) -> bool:
        if sign == "-n":
            return bool(word)
        if sign == "-z":
            return not word
        path = self._find(word)
        if path is None:
            return False
        if sign == "-s":
            return path.is_file() and path.stat().st_size > 0
        return path.is_dir() if sign == "-d" else path.exists()


class Grub:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._disk = disk.read(root)
        directory = next(
            (name for name in ("/boot/grub", "/boot/grub2") if (root / name[1:]).is_dir()),
            "/boot/grub",
        )
        self.variables = {
            "prefix": directory,
            "config_directory": directory,
            "config_file": f"{directory}/grub.cfg",
            "root": _ROOT,
            "grub_platform": "efi" if (root / "boot/efi").is_dir() else "pc",
            "grub_cpu": "x86_64",
        }
        self.variables.update({f"feature_{name}": "y" for name in _FEATURES})
        self._functions: dict[str, tuple[Statement, ...]] = {}
        self._menu: list[Entry] = []
        self._arguments: tuple[str, ...] = ()
        self._kernel: tuple[str, ...] = ()
        self._depth = 0

    def _find(self, word: str) -> Path | None:
        """The file that GRUB would open: its root is this tree's, or a /boot of its own."""
        path = _DEVICE.sub("", word).lstrip("/")
        places = ("boot/efi",) if self._is_on_esp(word) else ("", "boot")
        for candidate in (self._root / place / path for place in places):
            if path and candidate.exists():
                return candidate
        return None

    @staticmethod
    def _is_on_esp(word: str) -> bool:
        return word.startswith(f"({_ESP})")

    def _expand(self, token: Token) -> list[str]:
        words, current, started = [], "", False
        for part in token.parts:
            text = self._value(part.text) if part.variable else part.text
            if not part.variable or part.quoted:
                current += text
                started = started or part.quoted or bool(text)
                continue
            pieces = text.split()
            if pieces and text[0].isspace() and started:
                words.append(current)
                current = ""
            for number, piece in enumerate(pieces):
                if number:
                    words.append(current)
                    current = ""
                current += piece
                started = True
        return [*words, current] if started else words

    def _value(self, name: str) -> str:
        if name.isdigit():
            position = int(name)
            return self._arguments[position - 1] if 0 < position <= len(self._arguments) else ""
        if name in "@*":
            return " ".join(self._arguments)
        return self.variables.get(name, "")

    def run(self, statements: Sequence[Statement] | Parser) -> bool:
        result = True
        for statement in statements:
            if isinstance(statement, If):
                result = self._if(statement)
            elif isinstance(statement, For):
                for token in statement.words:
                    for word in self._expand(token):
                        self.variables[statement.name] = word
                        result = self.run(statement.block)
            elif isinstance(statement, Function):
                self._functions[statement.name] = statement.block
            else:
                result = self._command(statement)
        return result

    def _if(self, statement: If) -> bool:
        for condition, block in statement.branches:
            if self.run(condition):
                return self.run(block)
        return self.run(statement.otherwise)

    def _command(self, command: Command) -> bool:
        words = [word for token in command.words for word in self._expand(token)]
        if not words:
            return True
        name, *arguments = words
        if name == "!":
            return not self._call(arguments[0], arguments[1:], command) if arguments else False
        return self._call(name, arguments, command)

    def _call(self, name: str, arguments: list[str], command: Command) -> bool:
        if _ASSIGNMENT.match(name):
            return self._set([name])
        if name in self._functions:
            return self._function(name, arguments)
        if name in ("menuentry", "submenu"):
            self._menu.append(self._entry(name, arguments, command))
            return True
        if name in ("[", "test"):
            return _Tests(arguments[:-1] if name == "[" else arguments, self._find).value()
        if name in _HARMLESS:
            return True
        builtin = {
            "set": self._set,
            "unset": self._unset,
            "load_env": self._load_env,
            "save_env": self._save_env,
            "search": self._search,
            "source": self._source,
            ".": self._source,
            "configfile": self._source,
            "linux": self._linux,
            "linux16": self._linux,
            "linuxefi": self._linux,
            "return": self._return,
        }.get(name)
        return builtin(arguments) if builtin else False

    def _function(self, name: str, arguments: list[str]) -> bool:
        outer, self._arguments = self._arguments, tuple(arguments)
        try:
            return self.run(self._functions[name])
        except _Return:
            return True
        finally:
            self._arguments = outer

    def _return(self, _arguments: list[str]) -> bool:
        raise _Return

    def _set(self, arguments: list[str]) -> bool:
        for argument in arguments:
            name, _, value = argument.partition("=")
            self.variables[name] = value
        return True

    def _unset(self, arguments: list[str]) -> bool:
        for name in arguments:
            self.variables.pop(name, None)
        return True

    def _search(self, arguments: list[str]) -> bool:
        """There is an EFI system partition, if any, and whatever else is looked for is the root."""
        name, wanted, rest = "root", "", list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--set" and rest:
                name = rest.pop(0)
            elif word.startswith("--set="):
                name = word.partition("=")[2]
            elif not word.startswith("-"):
                wanted = word
        self.variables[name] = _ESP if wanted and wanted == self._disk.esp_uuid else _ROOT
        return True

    def _environment(self, arguments: list[str]) -> tuple[str, list[str]]:
        file, names, rest = f"{self.variables['prefix']}/grubenv", [], list(arguments)
        while rest:
            word = rest.pop(0)
            if word in ("-f", "--file") and rest:
                file = rest.pop(0)
            elif word.startswith("--file="):
                file = word.partition("=")[2]
            elif not word.startswith("-"):
                names.append(word)
        return file, names

    def _load_env(self, arguments: list[str]) -> bool:
        file, names = self._environment(arguments)
        path = self._find(file)
        if path is None:
            return False
        values = grub_environment.read(path)
        self.variables.update({k: v for k, v in values.items() if not names or k in names})
        return True

    def _save_env(self, arguments: list[str]) -> bool:
        file, names = self._environment(arguments)
        path = self._find(file)
        can_be_written = self._is_on_esp(file) or self._disk.can_be_written
        return (
            can_be_written
            and path is not None
            and grub_environment.change(path, {name: self.variables.get(name) for name in names})
        )

    def _source(self, arguments: list[str]) -> bool:
        path = self._find(arguments[0]) if arguments else None
        if path is None:
            return False
        self._depth += 1
        if self._depth > 20:
            raise GrubError("configuration files source one another without end")
        try:
            return self.run(Parser(path.read_text(errors="replace")))
        finally:
            self._depth -= 1

    def _linux(self, arguments: list[str]) -> bool:
        if not arguments or self._find(arguments[0]) is None:
            shown = arguments[0] if arguments else ""
            raise GrubError(f"error: file `{shown}' not found.")
        self._kernel = tuple(arguments)
        return True

    @staticmethod
    def _entry(name: str, words: list[str], command: Command) -> Entry:
        title, identity, positional, rest = "", "", [], list(words)
        while rest:
            word = rest.pop(0)
            if word in _OPTION_WITH_VALUE:
                value = rest.pop(0) if rest else ""
                identity = value if word == "--id" else identity
            elif word.startswith("--id="):
                identity = word.partition("=")[2]
            elif not word.startswith("--"):
                positional.append(word)
        title = positional[0] if positional else ""
        block = command.block or ()
        return Entry(title, identity or title, tuple(positional), block, name == "submenu")

    @staticmethod
    def _pick(menu: list[Entry], wanted: str) -> tuple[Entry, str]:
        """The entry that a default names, and what is left of it for a submenu."""
        for entry in menu:
            for name in (entry.id, entry.title):
                if wanted == name:
                    return entry, ""
                if name and wanted.startswith(name + ">"):
                    return entry, wanted[len(name) + 1 :]
        first, _, rest = wanted.partition(">")
        if first.isdigit() and int(first) < len(menu):
            return menu[int(first)], rest
        return menu[0], ""

    def _start(self, entry: Entry, rest: str, chosen: str) -> Entry:
        chosen = f"{chosen}>{entry.id}" if chosen else entry.id
        self._arguments = entry.arguments
        if entry.is_submenu:
            self._menu = []
            self.run(entry.block)
            if not self._menu:
                raise GrubError(f"the submenu {entry.title} is empty")
            return self._start(*self._pick(self._menu, rest), chosen)
        self.variables["chosen"] = chosen
        self.run(entry.block)
        if not self._kernel:
            raise GrubError(f"{entry.title}: error: you need to load the kernel first.")
        return entry

    def _booted(self, entry: Entry, failure: str) -> Boot:
        kernel, *arguments = self._kernel
        words = [f'"{word}"' if " " in word else word for word in arguments]
        line = " ".join((f"BOOT_IMAGE={_DEVICE.sub('', kernel)}", *words))
        return Boot(line, kernel, entry.title, failure)

    def boot(self) -> Boot:
        config = self._find(self.variables["config_file"])
        failure = ""
        if config is None:
            return Boot("", "", "", f"error: file `{self.variables['config_file']}' not found.")
        try:
            self.run(Parser(config.read_text(errors="replace")))
        except GrubError as error:
            failure = f"{config.name}: {error}"
        menu = self._menu
        if not menu:
            return Boot("", "", "", failure or f"{config.name}: no menu entry")
        choices = [] if failure else [self._pick(menu, self.variables.get("default", ""))]
        choices.extend((entry, "") for entry in menu)
        for entry, rest in choices:
            self._kernel = ()
            try:
                return self._booted(self._start(entry, rest, ""), failure)
            except GrubError as error:
                failure = failure or str(error)
        return Boot("", "", "", failure)
