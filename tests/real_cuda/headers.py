"""What a C header declares, after the preprocessor: prototypes, and the kinds of their types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from tests.real_cuda.compiler import CUDA_H, NCCL_H, preprocess

if TYPE_CHECKING:
    from collections.abc import Mapping

_POINTER: Final = "pointer"
_KINDS: Final[Mapping[str, str]] = {
    "int": "int",
    "unsigned int": "unsigned",
    "unsigned long": "unsigned 64",
    "unsigned long long": "unsigned 64",
    "size_t": "unsigned 64",
    "uint64_t": "unsigned 64",
    "float": "float",
}
_PROTOTYPE: Final = re.compile(r"\b(?:CUresult|ncclResult_t) (\w+) ?\(([^;]*)\);")
_PARAMETER: Final = re.compile(
    r"((?:const )?(?:unsigned )?\w+(?: long)?(?: ?\*(?: ?const)?)*) ?\w+"
)
_TYPEDEF: Final = re.compile(r"typedef ((?:\w+ )+)(\w+);")
_STRUCT_POINTER: Final = re.compile(r"typedef struct \w+ ?\* ?(\w+);")
_ENUM: Final = re.compile(r"typedef enum(?: \w+)? ?\{[^{}]*\} (\w+);")
_STRUCT: Final = re.compile(r"typedef struct(?: \w+)? ?\{[^{}]*\} (\w+);")


@dataclass(frozen=True)
class Type:
    text: str  # as declared, without const
    kind: str  # int, unsigned, unsigned 64, float, enum, struct or pointer


class Header:
    def __init__(self, text: str) -> None:
        text = re.sub(r"\s+", " ", text)
        self._prototypes = dict(_PROTOTYPE.findall(text))
        self._aliases = {name: of.strip() for of, name in _TYPEDEF.findall(text)}
        kinds = {_POINTER: _STRUCT_POINTER, "enum": _ENUM, "struct": _STRUCT}
        self._kinds = {
            **{name: kind for kind, named in kinds.items() for name in named.findall(text)},
            **_KINDS,
        }

    def parameters(self, function: str) -> list[Type]:
        """Of this very symbol; a type that is not understood is an error."""
        text = self._prototypes[function].strip()
        return [] if text in {"", "void"} else [self._type_of(one) for one in text.split(",")]

    def _type_of(self, parameter: str) -> Type:
        parsed = _PARAMETER.fullmatch(parameter.strip())
        assert parsed, f"no parameter that this test understands: {parameter}"
        return self.type_named(re.sub(r"\bconst\b ?", "", parsed[1]))

    def type_named(self, text: str) -> Type:
        text = text.strip()
        return Type(text, _POINTER if text.endswith("*") else self._kind_of(text))

    def pointee(self, pointer: Type) -> Type:
        assert pointer.text.endswith("*"), f"{pointer.text} is no pointer to something"
        return self.type_named(pointer.text.removesuffix("*"))

    def _kind_of(self, name: str) -> str:
        while name not in self._kinds:
            assert name in self._aliases, f"no type that this test understands: {name}"
            name = self._aliases[name]
        return self._kinds[name]


@cache
def cuda_h() -> Header:
    """With names as its macros make them: those of the current ABI."""
    return Header(preprocess(CUDA_H))


@cache
def nccl_h() -> Header:
    return Header(preprocess(NCCL_H))
