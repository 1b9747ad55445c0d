"""OpenCL C sources as CUDA, so that NVRTC compiles them.

Address spaces, kernels and vector literals are rewritten; functions and types of OpenCL C stand in
``opencl.h``. What has no counterpart is refused by name. NVIDIA's OpenCL driver has another front
end but the same back end, so registers and spills of its machine code may differ a little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import takewhile

from sweep.cuda.nvrtc import CompileError

OPTIONS = ("-default-device", "-prec-div=false", "-prec-sqrt=false")
"""Functions run on the device, and division and roots are as exact as OpenCL C 7.4 asks for."""

_REFUSED = {
    r"(read|write)_(only|write)|image\w+_t|(read|write)_image\w+|sampler_t|get_image\w+": "images",
    r"\w+_pipe(_\w+)?": "pipes",
    r"event_t|async_work_group_\w+|wait_group_events|prefetch": "asynchronous copies",
    r"half\d*|vload_half\w*|vstore_half\w*": "numbers of half precision",
    r"\w*sub_group\w*|work_group_(all|any|broadcast|reduce_\w+|scan_\w+)": "subgroups",
    r"(convert|as)_[a-z]+\d+(_\w+)?|convert_\w+_(sat|rt[ezpn])\w*": "such conversions",
    r"shuffle2?|vec_step": "such functions",
}
_WHY_REFUSED = re.compile("|".join(f"(?P<_{i}>{p})" for i, p in enumerate(_REFUSED)))
_TYPES = "char|uchar|short|ushort|int|uint|long|ulong|float|double"
_VECTOR = re.compile(rf"(?:{_TYPES})(?:2|3|4|8|16)")
_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\\\n)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<other>[0-9.][\w.]*|.)",
    re.DOTALL,
)
_BLOCK = re.compile(
    r"__attribute__\s*\(\(\s*reqd_work_group_size\s*\(([^,()]+),([^,()]+),([^,()]+)\)\s*\)\)"
)
_HINTS = re.compile(r"__attribute__\s*\(\(\s*(?:vec_type|work_group_size)_hint\s*\([^()]*\)\s*\)\)")
_LITERAL = re.compile(rf"\(\s*({_VECTOR.pattern})\s*\)\s*\(")
_ALIAS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+"
    r"((?:__)?(?:local|global|constant|private|kernel))[ \t]*$",
    re.MULTILINE,
)
_PLAIN = {"restrict": "__restrict__", "kernel": "__global__", "global": "", "private": ""}


@cache
def header() -> str:
    """Return the CUDA source that defines OpenCL C's types and functions."""
    return (files("sweep.cuda") / "opencl.h").read_text(encoding="utf-8")


def as_cuda(source: str, name: str, macros: Sequence[str] = ()) -> str:
    """Return an OpenCL C source as CUDA.

    Parameters
    ----------
    source, name : str
        The text, and its name for messages.
    macros : sequence of str
        ``NAME`` or ``NAME=VALUE``.

    Raises
    ------
    CompileError
        It uses what CUDA has no counterpart of: images, pipes, subgroups, asynchronous copies, half
        precision, swizzles, or local memory whose size only the host knows.
    """
    text = _HINTS.sub("", _BLOCK.sub(r"__launch_bounds__((\1) * (\2) * (\3))", source))
    text = _LITERAL.sub(r" cl_\1(", text)
    body = "".join(_Translation(_ALIAS.sub("", text), name, dict(_ALIAS.findall(text))).words())
    # The name of a line's file is for messages, which may not end its string.
    shown = re.sub(r"[^\w.-]", "_", name)
    pairs = (macro.partition("=") for macro in macros)
    defined = "".join(f"#define {key} {value if is_ else 1}\n" for key, is_, value in pairs)
    before = f'#line 1 "opencl.h"\n{header()}\n{defined}'
    return f'{before}extern "C" {{\n#line 1 "{shown}"\n{body}\n}}\n'


class _Translation:
    """One walk through the tokens of a source."""

    def __init__(self, text: str, name: str, aliases: Mapping[str, str]) -> None:
        self.name, self.aliases = name, aliases
        self.tokens = [(m.lastgroup, m[0]) for m in _TOKEN.finditer(text)]
        self.line, self.round, self.curly, self.in_head = 1, 0, 0, False

    def words(self) -> Iterator[str]:
        """Yield the tokens of the CUDA source."""
        for number, (kind, token) in enumerate(self.tokens):
            if kind == "word":
                yield self._word(number, token)
            else:
                yield token
            self._count(token, kind == "skip")

    def _count(self, token: str, is_skipped: bool) -> None:
        """Keep the line, the depth of brackets, and whether a kernel's parameters are read."""
        self.line += token.count("\n")
        if not is_skipped:
            self.round += (token == "(") - (token == ")")
            self.curly += (token == "{") - (token == "}")
            self.in_head &= token not in ("{", ";")

    def _word(self, number: int, word: str) -> str:
        if word in self.aliases and self._near(number, -1)[1] not in ("ifdef", "ifndef", "undef"):
            word = self.aliases[word]
        plain = word.removeprefix("__")
        self.in_head |= plain == "kernel"
        if refused := _WHY_REFUSED.fullmatch(word):
            raise self._error(word, f"{list(_REFUSED.values())[int(str(refused.lastgroup)[1:])]}"
                              " have no counterpart in CUDA")  # fmt: skip
        if plain in _PLAIN:
            return _PLAIN[plain]
        if plain in ("local", "constant"):
            return self._local(number) if plain == "local" else self._constant(number)
        if not _VECTOR.fullmatch(word) and self._is_literal(number):
            raise self._error(f"({word})(...)", "a vector literal of a type that OpenCL does not"
                              " name: write (float4)(...) or the like")  # fmt: skip
        return f"cl_{word}" if _VECTOR.fullmatch(word) else word

    def _local(self, number: int) -> str:
        """Return what a kernel's shared variable has; a pointer to one has no address space."""
        if self.round:
            if self.in_head:
                raise self._error("__local", "a parameter of a kernel, whose size the host chooses")
            return ""
        return "" if "*" in self._declared(number) else "__shared__"

    def _constant(self, number: int) -> str:
        """Return what a table in constant memory has; a pointer to one has no address space."""
        declared = self._declared(number)
        if not self.round and not self.curly and "*" not in declared:
            return "__constant__"
        return "" if "const" in (*declared, self._near(number, -1)[1]) else "const"

    def _declared(self, number: int) -> list[str]:
        """Return the tokens of a declaration up to its size, value or end."""
        ends = {";", "=", "[", ",", "{"}
        return list(takewhile(lambda token: token not in ends,
                              (token for _, token in self.tokens[number + 1 :])))  # fmt: skip

    def _near(self, number: int, step: int) -> tuple[int, str]:
        """Return the next token that is neither space nor comment, and its number."""
        number += step
        while 0 <= number < len(self.tokens) and self.tokens[number][0] == "skip":
            number += step
        return number, self.tokens[number][1] if 0 <= number < len(self.tokens) else ""

    def _is_literal(self, number: int) -> bool:
        """Return whether a word stands as in ``(word)(first, second)``."""
        (opened, before), (closed, after) = self._near(number, -1), self._near(number, 1)
        argument, inner = self._near(closed, 1)
        kind, word = self.tokens[self._near(opened, -1)[0]] if opened > 0 else ("", "")
        if (before, after, inner) != ("(", ")", "(") or (kind == "word" and word != "return"):
            return False
        depth = 0
        for _, token in self.tokens[argument:]:
            depth += (token == "(") - (token == ")")
            if depth == 0 or (depth == 1 and token == ","):
                return depth == 1
        return False

    def _error(self, what: str, why: str) -> CompileError:
        return CompileError(f"{self.name}({self.line}): {what}: {why}")
