"""The grammar of GRUB's scripts, as far as configurations use it."""

from collections.abc import Iterator
from typing import NamedTuple

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SPECIAL = frozenset("0123456789?@#*")
_RESERVED = frozenset(("then", "elif", "else", "fi", "do", "done"))


class GrubError(Exception):
    """What GRUB would have shown on the screen."""


class Part(NamedTuple):
    text: str
    variable: bool
    quoted: bool


class Token(NamedTuple):
    """A word, or with no parts one of: ; { } and the end of the text (empty)."""

    parts: tuple[Part, ...]
    sign: str
    line: int

    @property
    def plain(self) -> str:
        """The text of a word that could be reserved; empty for any other word."""
        if len(self.parts) == 1 and not self.parts[0].variable and not self.parts[0].quoted:
            return self.parts[0].text
        return ""


class Command(NamedTuple):
    words: tuple[Token, ...]
    block: "tuple[Statement, ...] | None"


class If(NamedTuple):
    branches: "tuple[tuple[tuple[Statement, ...], tuple[Statement, ...]], ...]"
    otherwise: "tuple[Statement, ...]"


class For(NamedTuple):
    name: str
    words: tuple[Token, ...]
    block: "tuple[Statement, ...]"


class Function(NamedTuple):
    name: str
    block: "tuple[Statement, ...]"


Statement = Command | If | For | Function


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _take(self) -> str:
        char = self._peek()
        self.at += 1
        self.line += char == "\n"
        return char

    def _skip(self) -> None:
        while self._peek():
            if self._peek() in " \t\r":
                self._take()
            elif self.text.startswith("\\\n", self.at):
                self._take()
                self._take()
            elif self._peek() == "#":
                while self._peek() not in ("", "\n"):
                    self._take()
            else:
                return

    def _variable(self, *, quoted: bool) -> Part:
        self._take()
        if self._peek() == "{":
            end = self.text.find("}", self.at)
            name = self.text[self.at + 1 : end] if end > 0 else ""
            if not name or not set(name) <= _NAME | _SPECIAL:
                raise GrubError(f"line {self.line}: syntax error in a variable name")
            self.at = end + 1
            return Part(name, variable=True, quoted=quoted)
        if self._peek() in _SPECIAL:
            return Part(self._take(), variable=True, quoted=quoted)
        start = self.at
        while self._peek() and self._peek() in _NAME:
            self._take()
        if start == self.at:
            return Part("$", variable=False, quoted=True)
        return Part(self.text[start : self.at], variable=True, quoted=quoted)

    def _single(self) -> Part:
        line = self.line
        self._take()
        end = self.text.find("'", self.at)
        if end < 0:
            raise GrubError(f"line {line}: unterminated single quote")
        text = self.text[self.at : end]
        self.line += text.count("\n")
        self.at = end + 1
        return Part(text, variable=False, quoted=True)

    def _double(self) -> Iterator[Part]:
        line = self.line
        self._take()
        text = ""
        while (char := self._peek()) != '"':
            if not char:
                raise GrubError(f"line {line}: unterminated double quote")
            if char == "$":
                yield Part(text, variable=False, quoted=True)
                text = ""
                yield self._variable(quoted=True)
                continue
            self._take()
            if char == "\\" and self._peek() in ("$", '"', "\\", "\n"):
                char = self._take().replace("\n", "")
            text += char
        self._take()
        yield Part(text, variable=False, quoted=True)

    def _word(self) -> Token:
        line, text = self.line, ""
        parts: list[Part] = []
        while (char := self._peek()) and char not in " \t\r\n;":
            if char in "|&<>()" and not text and not parts and char in "|&":
                raise GrubError(f"line {line}: syntax error near {char}")
            if char in "$'\"":
                if text:
                    parts.append(Part(text, variable=False, quoted=False))
                    text = ""
                if char == "$":
                    parts.append(self._variable(quoted=False))
                elif char == "'":
                    parts.append(self._single())
                else:
                    parts.extend(self._double())
                continue
            self._take()
            if char == "\\":
                parts.append(Part(text, variable=False, quoted=False))
                parts.append(Part(self._take().replace("\n", ""), variable=False, quoted=True))
                text = ""
                continue
            text += char
        if text:
            parts.append(Part(text, variable=False, quoted=False))
        return Token(tuple(parts), "", line)

    def token(self) -> Token:
        self._skip()
        char = self._peek()
        if not char:
            return Token((), "", self.line)
        if char in "\n;":
            line = self.line
            self._take()
            return Token((), ";", line)
        word = self._word()
        return Token((), word.plain, word.line) if word.plain in ("{", "}") else word


class Parser:
    """Yields statement after statement: GRUB runs what stands before an error."""

    def __init__(self, text: str) -> None:
        self._lexer = _Lexer(text)
        self._next = self._lexer.token()

    def _take(self) -> Token:
        token, self._next = self._next, self._lexer.token()
        return token

    def _skip_separators(self) -> None:
        while self._next.sign == ";":
            self._take()

    def _at_end(self) -> bool:
        return not self._next.parts and not self._next.sign

    def _wrong(self, wanted: str) -> GrubError:
        found = self._next.sign or self._next.plain or ("end of file" if self._at_end() else "word")
        return GrubError(f"line {self._next.line}: syntax error: {found!r}, expected {wanted}")

    def __iter__(self) -> Iterator[Statement]:
        self._skip_separators()
        while not self._at_end():
            yield self._statement()
            self._skip_separators()

    def _until(self, *reserved: str) -> tuple[Statement, ...]:
        statements = []
        self._skip_separators()
        while self._next.plain not in reserved:
            if self._at_end():
                raise self._wrong(" or ".join(reserved))
            statements.append(self._statement())
            self._skip_separators()
        return tuple(statements)

    def _block(self) -> tuple[Statement, ...]:
        if self._next.sign != "{":
            raise self._wrong("{")
        self._take()
        statements = []
        self._skip_separators()
        while self._next.sign != "}":
            if self._at_end():
                raise self._wrong("}")
            statements.append(self._statement())
            self._skip_separators()
        self._take()
        return tuple(statements)

    def _if(self) -> If:
        branches = []
        otherwise: tuple[Statement, ...] = ()
        while True:
            self._take()
            condition = self._until("then")
            self._take()
            branches.append((condition, self._until("elif", "else", "fi")))
            if self._next.plain != "elif":
                break
        if self._next.plain == "else":
            self._take()
            otherwise = self._until("fi")
        self._take()
        return If(tuple(branches), otherwise)

    def _for(self) -> For:
        self._take()
        name = self._take().plain
        if self._take().plain != "in":
            raise self._wrong("in")
        words = []
        while self._next.parts:
            words.append(self._take())
        self._skip_separators()
        if self._next.plain != "do":
            raise self._wrong("do")
        self._take()
        block = self._until("done")
        self._take()
        return For(name, tuple(words), block)

    def _statement(self) -> Statement:
        first = self._next
        if first.plain == "if":
            return self._if()
        if first.plain == "for":
            return self._for()
        if first.plain == "function":
            self._take()
            name = self._take().plain
            self._skip_separators()
            return Function(name, self._block())
        if first.sign or first.plain in _RESERVED:
            raise self._wrong("a command")
        words = []
        while self._next.parts:
            words.append(self._take())
        block = self._block() if self._next.sign == "{" else None
        return Command(tuple(words), block)
