"""Parse PTX text: directives, functions, instructions.

What has no bearing on counts (debugging data, initial values, prototypes) is passed over; a
directive that PTX ISA 1.0 to 9.0 does not have is an error with its line.
"""

from __future__ import annotations

from sweep.errors import nearest
from sweep.importers.ptx.body import parse_body
from sweep.importers.ptx.declarations import parse_variables
from sweep.importers.ptx.module import Function, Module, PtxError, Variable
from sweep.importers.ptx.tokens import Tokens

__all__ = ["LARGEST_TEXT", "NEWEST_VERSION", "read_ptx"]

LARGEST_TEXT = 16 * 2**20
"""Texts of more characters (16 MiB) are refused."""

NEWEST_VERSION = (9, 0)
"""The newest PTX ISA version whose directives and opcodes are known here."""

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param", ".tex", ".reg")
_LIMITS = (
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".pragma",
    ".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters",
    ".abi_preserve", ".abi_preserve_control", ".attribute", ".unified",
)  # fmt: skip
_TOP = (
    ".version", ".target", ".address_size", ".entry", ".func", ".file", ".loc", ".section",
    ".alias", ".pragma", *_LINKAGE, *_SPACES,
)  # fmt: skip


def read_ptx(text: str) -> Module:
    """Return what a PTX text consists of.

    Parameters
    ----------
    text : str
        The text, of any PTX ISA version up to 9.

    Raises
    ------
    PtxError
        With the line of the first thing that is no PTX, or for more than 16 MiB.
    """
    if len(text) > LARGEST_TEXT:
        raise PtxError(f"{len(text)} characters: a text may have {LARGEST_TEXT} at most")
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.version = ""
        self.target = ""
        self.functions: dict[str, Function] = {}
        self.variables: list[Variable] = []

    def module(self) -> Module:
        tokens = self.tokens
        if tokens.text != ".version":
            reason = f"a PTX text begins with .version, not with {tokens.shown()}"
            raise tokens.error("the text is empty" if tokens.kind == "end" else reason)
        while tokens.kind != "end":
            if tokens.kind == "mark" and tokens.text == ";":
                tokens.advance()
            elif tokens.kind == "directive":
                self._directive()
            else:
                raise tokens.error(f"a directive is expected, not {tokens.shown()}")
        if not self.target:
            raise tokens.error("the directive .target is missing")
        module = Module(self.version, self.target, self.functions, tuple(self.variables))
        for function in self.functions.values():
            function.module = module
        return module

    def _directive(self) -> None:
        tokens = self.tokens
        name = tokens.text
        if name == ".version":
            tokens.advance()
            self._version(tokens.text)
            tokens.take("number", "a version such as 9.0")
        elif name == ".target":
            tokens.advance()
            self.target = self.target or tokens.text
            tokens.take("word", "a target such as sm_75")
            while tokens.accept(","):
                tokens.take("word", "a target")
        elif name == ".address_size":
            tokens.advance()
            tokens.integer()
        elif name in (".file", ".loc"):
            tokens.skip_line()
        elif name == ".section":
            while tokens.kind != "end" and not tokens.sees("{"):
                tokens.advance()
            tokens.skip_block()
        elif name in (".alias", ".pragma"):
            tokens.skip_to(";")
        elif name in _LINKAGE:
            tokens.advance()
        elif name in (".entry", ".func"):
            self._function()
        elif name in _SPACES:
            self.variables += parse_variables(tokens, None)
            tokens.expect(";")
        else:
            raise tokens.error(f"unknown directive '{name}'{nearest(name, _TOP)}")

    def _version(self, text: str) -> None:
        major, _, minor = text.partition(".")
        if not (major.isdigit() and minor.isdigit() and len(text) < 8):
            raise self.tokens.error(f"a version such as 9.0 is expected, not '{text}'")
        if int(major) > NEWEST_VERSION[0]:
            raise self.tokens.error(f"PTX ISA {text} is newer than 9, the newest known here")
        self.version = self.version or text

    def _function(self) -> None:
        tokens = self.tokens
        line = tokens.line
        is_entry = tokens.text == ".entry"
        tokens.advance()
        while tokens.kind == "directive" and tokens.text in _LIMITS:
            self._limit({})  # .func .attribute(...) name
        returned = self._parameters() if not is_entry and tokens.sees("(") else []
        name = tokens.take("word", "the name of a function")
        function = Function(name, is_entry, line)
        given = self._parameters() if tokens.sees("(") else []
        function.parameters = tuple(given)
        for variable in (*returned, *given):
            if variable.space == "reg":
                kind = {1: "b8", 2: "b16", 8: "b64", 16: "b128"}.get(variable.bytes or 0, "b32")
                function.registers.declare(variable.name, kind)
        while tokens.kind == "directive" and tokens.text in _LIMITS:
            self._limit(function.limits)
        if tokens.sees("{"):
            known = self.functions.get(name)
            if known is not None and known.has_body:
                raise PtxError(
                    f"the function '{name}' has a body already (line {known.line})", line
                )
            parse_body(tokens, function)
            function.has_body = True
            self.functions[name] = function
        elif tokens.accept(";"):
            self.functions.setdefault(name, function)
        else:
            if tokens.kind == "directive":
                hint = nearest(tokens.text, _LIMITS)
                raise tokens.error(f"unknown directive '{tokens.text}'{hint}")
            raise tokens.error(f"the body of '{name}' is expected, not {tokens.shown()}")

    def _parameters(self) -> list[Variable]:
        tokens = self.tokens
        tokens.expect("(")
        found: list[Variable] = []
        while not tokens.sees(")"):
            if tokens.kind != "directive":
                raise tokens.error(f"a parameter is expected, not {tokens.shown()}")
            found += parse_variables(tokens, None, single=True)
            if not tokens.sees(")"):
                tokens.expect(",")
        tokens.advance()
        return found

    def _limit(self, limits: dict[str, tuple[int, ...]]) -> None:
        """Read a performance directive and the numbers after it."""
        tokens = self.tokens
        name = tokens.text[1:]
        tokens.advance()
        if tokens.accept("("):
            tokens.skip_to(")")
        values: list[int] = []
        while tokens.kind in ("number", "string") or tokens.sees(","):
            if tokens.kind == "number":
                values.append(tokens.integer())
            else:
                tokens.advance()
        if name == "pragma":
            tokens.accept(";")
        limits[name] = tuple(values)
