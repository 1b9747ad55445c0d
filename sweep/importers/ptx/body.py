"""The body of a function: scopes, labels, instructions and their operands."""

from __future__ import annotations

from sweep.errors import nearest
from sweep.importers.ptx.declarations import parse_variables
from sweep.importers.ptx.module import Address, Function, Instruction, Label, Operand, PtxError
from sweep.importers.ptx.tokens import Tokens, integer_of

__all__ = ["LARGEST_BODY", "MAX_NESTING", "parse_body"]

LARGEST_BODY = 1_000_000
"""Most instructions and labels of a function."""

MAX_NESTING = 100
"""Most scopes (braces) within each other."""

_VARIABLES = (".shared", ".local", ".param", ".const", ".global", ".tex")
_INSIDE = (*_VARIABLES, ".reg", ".pragma", ".loc", ".file", ".branchtargets", ".calltargets",
           ".callprototype", ".abi_preserve", ".abi_preserve_control")  # fmt: skip


class _Scope:
    """Names declared between two braces; ``suffix`` makes them unique in the function."""

    def __init__(self, parent: _Scope | None, suffix: str) -> None:
        self.parent = parent
        self.suffix = suffix
        self.registers: set[str] = set()
        self.families: set[str] = set()
        self.labels: set[str] = set()
        self.depth: int = 0 if parent is None else parent.depth + 1

    def register(self, name: str) -> str:
        """Return the unique name of a register; part of it (``%v.x``) is the whole register."""
        stem = name.partition(".")[0]
        scope: _Scope | None = self
        while scope is not None and scope.parent is not None:
            if stem in scope.registers or stem.rstrip("0123456789") in scope.families:
                return stem + scope.suffix
            scope = scope.parent
        return name

    def label(self, name: str) -> str | None:
        """Return the unique name of a label that is visible here."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return name + scope.suffix
            scope = scope.parent
        return None


class _Body:
    def __init__(self, tokens: Tokens, function: Function) -> None:
        self.tokens = tokens
        self.function = function
        self.outermost = self.scope = _Scope(None, "")
        self.n_scopes = 0
        self.branches: list[tuple[Instruction, _Scope]] = []
        self.lists: list[tuple[str, int, _Scope]] = []

    def parse(self) -> None:
        tokens, line = self.tokens, self.tokens.line
        tokens.expect("{")
        while True:
            if tokens.kind == "word":
                self._statement()
            elif tokens.kind == "directive":
                self._directive("")
            elif tokens.kind == "end":
                name = self.function.name
                raise PtxError(f"the body of '{name}' is not closed: '}}' is missing", line)
            elif tokens.accept("{"):
                self._open()
            elif tokens.accept("}"):
                if self.scope.parent is None:
                    break
                self.scope = self.scope.parent
            elif tokens.accept("@"):
                negated = tokens.accept("!")
                guard = self.scope.register(tokens.take("word", "a predicate"))
                line = tokens.line
                self._instruction(tokens.take("word", "an instruction"), line, guard, negated)
            elif not tokens.accept(";"):
                raise tokens.error(f"an instruction is expected, not {tokens.shown()}")
        self._resolve_branches()

    def _open(self) -> None:
        if self.scope.depth >= MAX_NESTING:
            raise self.tokens.error(f"more than {MAX_NESTING} scopes within each other")
        self.n_scopes += 1
        self.scope = _Scope(self.scope, f"@{self.n_scopes}")

    def _add(self, item: Instruction | Label) -> None:
        if len(self.function.body) >= LARGEST_BODY:
            raise PtxError(f"more than {LARGEST_BODY} instructions in a function", item.line)
        self.function.body.append(item)

    # Labels and directives

    def _statement(self) -> None:
        """Read an instruction, or a label."""
        tokens = self.tokens
        word, line = tokens.text, tokens.line
        tokens.advance()
        if not tokens.accept(":"):
            self._instruction(word, line)
        elif tokens.kind == "directive" and tokens.text in (".branchtargets", ".calltargets",
                                                            ".callprototype"):  # fmt: skip
            self._directive(word)
        else:
            if word in self.scope.labels:
                raise PtxError(f"the label '{word}' is defined twice", line)
            self.scope.labels.add(word)
            self._add(Label(line, word, word + self.scope.suffix))

    def _directive(self, name: str) -> None:
        """Read a directive inside a body; ``name`` is the label before it."""
        tokens = self.tokens
        text = tokens.text
        if text in (".loc", ".file"):
            tokens.skip_line()
        elif text == ".branchtargets":
            tokens.advance()
            found = []
            while not tokens.accept(";"):
                found.append(tokens.take("word", "a label"))
                tokens.accept(",")
            self.function.targets[name] = tuple(found)
            self.lists.append((name, tokens.line, self.scope))
        elif text == ".reg":
            parse_variables(tokens, self._declare)
            tokens.expect(";")
        elif text in _VARIABLES:
            self.function.variables += parse_variables(tokens, None)
            tokens.expect(";")
        elif text in _INSIDE:
            tokens.skip_to(";")
        else:
            raise tokens.error(f"unknown directive '{text}'{nearest(text, _INSIDE)}")

    def _declare(self, name: str, kind: str, count: int | None) -> None:
        (self.scope.registers if count is None else self.scope.families).add(name)
        self.function.registers.declare(name + self.scope.suffix, kind, count)

    # Instructions

    def _instruction(self, word: str, line: int, guard: str = "", negated: bool = False) -> None:
        """Read the operands of an instruction up to its semicolon."""
        tokens = self.tokens
        opcode, *modifiers = word.split(".")
        if not opcode[0].isalpha():
            raise PtxError(f"an instruction is expected, not '{word[:40]}'", line)
        operands: list[Operand] = []
        if not tokens.sees(";"):
            operands.append(self._operand())
            while tokens.accept(","):
                operands.append(self._operand())
            if not tokens.sees(";"):
                if tokens.kind == "end":
                    raise PtxError(f"'{word}' does not end: ';' is missing", line)
                if tokens.line > line:
                    raise PtxError(f"';' is missing after '{word}'", line)
                raise tokens.error(f"',' or ';' is expected, not {tokens.shown()}")
        tokens.advance()
        instruction = Instruction(line, opcode, tuple(modifiers), tuple(operands), guard, negated)
        if opcode in ("bra", "brx"):
            self.branches.append((instruction, self.scope))
        self._add(instruction)

    def _operand(self) -> Operand:
        tokens = self.tokens
        if tokens.accept("{"):
            return self._list("}")
        if tokens.accept("("):
            return self._list(")")
        if tokens.accept("["):
            return self._address()
        first = self._word()
        if tokens.accept("|"):
            return (first, self._word())
        while tokens.sees("+") or tokens.sees("-"):  # mov.u64 %rd1, table+8
            tokens.advance()
            tokens.integer()
        return first

    def _word(self) -> str:
        """Read a register, name or number, with its sign; ``!`` before a predicate is dropped."""
        tokens = self.tokens
        sign = ""
        while tokens.sees("!") or tokens.sees("-"):
            sign = "-" if tokens.text == "-" else sign
            tokens.advance()
        text = tokens.text
        if tokens.kind == "word":
            tokens.advance()
            return self.scope.register(text) if self.scope.depth else text
        if tokens.kind == "number":
            tokens.advance()
            return sign + text
        raise tokens.error(f"an operand is expected, not {tokens.shown()}")

    def _list(self, closing: str) -> tuple[str, ...]:
        found: list[str] = []
        while not self.tokens.accept(closing):
            found.append(self._word())
            if not self.tokens.accept(",") and not self.tokens.sees(closing):
                raise self.tokens.error(
                    f"',' or '{closing}' is expected, not {self.tokens.shown()}"
                )
        return tuple(found)

    def _address(self) -> Address:
        tokens = self.tokens
        base = self._word()
        offset, parts = 0, []
        while not tokens.accept("]"):
            if tokens.accept(","):
                tokens.accept("{")
                parts.append(self._word())
                tokens.accept("}")
            elif tokens.sees("+") or tokens.sees("-"):
                sign = -1 if tokens.text == "-" else 1
                tokens.advance()
                offset += sign * tokens.integer()
            else:
                raise tokens.error(f"']' is expected, not {tokens.shown()}")
        fixed = integer_of(base)
        return Address("", offset + fixed) if fixed is not None else Address(
            base, offset, tuple(parts)
        )  # fmt: skip

    def _resolve_branches(self) -> None:
        """Replace the labels of branches by their unique names."""
        for name, line, scope in self.lists:
            targets = self.function.targets[name]
            self.function.targets[name] = tuple(self._label(t, line, scope) for t in targets)
        for branch, scope in self.branches:
            if not branch.operands or not isinstance(branch.operands[-1], str):
                raise PtxError(f"'{branch.name}' has no target", branch.line)
            target = branch.operands[-1]
            if branch.opcode == "bra":
                key = self._label(target, branch.line, scope)
                branch.operands = (*branch.operands[:-1], key)
            elif target not in self.function.targets:
                raise PtxError(f"no list of branch targets '{target}'", branch.line)

    def _label(self, name: str, line: int, scope: _Scope) -> str:
        key = scope.label(name)
        if key is None:
            known = {item.name for item in self.function.body if isinstance(item, Label)}
            hint = nearest(name, known) if len(known) < 1000 else ""
            raise PtxError(f"there is no label '{name}'{hint}", line)
        return key


def parse_body(tokens: Tokens, function: Function) -> None:
    """Read a body from its opening to its closing brace into ``function``.

    Parameters
    ----------
    tokens : Tokens
        At the opening brace.
    function : Function
        Takes code, registers and variables.

    Raises
    ------
    PtxError
        At the first thing that is no PTX.
    """
    _Body(tokens, function).parse()
