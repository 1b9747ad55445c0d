"""Parse PTX text: directives, functions, scopes, instructions and their operands.

The parser skips text that does not affect counts (debugging data, initial values, prototypes). A
directive that PTX ISA 1.0 to 9.0 does not have is an error with its line.
"""

from __future__ import annotations

import re
from collections import ChainMap

from sweep.errors import nearest
from sweep.importers.ptx.module import (
    ISA,
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    PtxError,
    Register,
    Variable,
    Word,
)
from sweep.importers.ptx.tokens import VARIABLES, Tokens, integer_of

LARGEST_TEXT = 16 * 2**20
"""Texts of more characters (16 MiB) are refused."""

LARGEST_BODY = 1_000_000
"""Largest number of instructions and labels in a function."""

NEWEST_VERSION = 9
"""The newest supported PTX ISA version."""

MAX_NESTING = 100
"""Largest depth of nested scopes (braces)."""

_DIRECTIVES = ISA["directives"]
_LABELLED = (".branchtargets", ".calltargets", ".callprototype")


def read_ptx(text: str) -> Module:
    """Return the contents of a PTX text.

    Parameters
    ----------
    text : str
        The text, of any PTX ISA version up to 9.

    Raises
    ------
    PtxError
        The text is not PTX (the message has the line), or larger than 16 MiB.
    """
    if len(text) > LARGEST_TEXT:
        raise PtxError(f"{len(text)} characters: a text may have {LARGEST_TEXT} at most")
    return _Parser(text).whole()


def _unknown(name: str, line: int, *places: str) -> PtxError:
    """Return an error about a directive that does not exist where it stands."""
    known = [directive for place in places for directive in _DIRECTIVES[place]]
    return PtxError(f"unknown directive '{name}'{nearest(name, known)}", line)


class _Scope:
    """The names that are declared between two braces, and those of the scopes around it."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.registers: dict[str, Register] = {}
        self.families: dict[str, tuple[int, int]] = {}
        self.labels: ChainMap[str, Label] = outer.labels.new_child() if outer else ChainMap()

    def declare(self, variable: Variable) -> None:
        """Add a register, or the family ``name0 ... name(count-1)``."""
        width = -(-(variable.bytes or 0) // 4)
        if variable.count is not None:
            self.families[variable.name] = width, variable.count
        else:
            self.registers[variable.name] = Register(variable.name, width)

    def resolve(self, word: str) -> Word:
        """Return the register with this name; ``%v.x`` stands for ``%v``; else the word itself."""
        name = word.partition(".")[0]
        if name not in self.registers:
            family = name.rstrip("0123456789")
            width, count = self.families.get(family, (0, 0))
            number = name[len(family) :]
            if not 0 < len(number) < 10 or int(number) >= count:
                return self.outer.resolve(word) if self.outer is not None else word
            self.registers[name] = Register(name, width)
        return self.registers[name]


class _Parser(Tokens):
    """A recursive descent parser."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.module = Module()
        self.function: Function
        self.scope: _Scope

    def whole(self) -> Module:
        """Parse the whole text."""
        if self.kind == "end":
            raise self.error("the text is empty")
        if self.text == ".amdgcn_target":
            raise self.error("this is AMD's assembly, not PTX")
        if self.text != ".version":
            raise self.expected("'.version' at the beginning")
        while self.kind != "end":
            if self.kind == "directive":
                self._directive()
            elif not self.accept(";"):
                raise self.expected("a directive")
        if not self.module.target:
            raise self.error("the directive .target is missing")
        return self.module

    def _directive(self) -> None:
        name, line = self.text, self.line
        if name in (".reg", *VARIABLES):
            self.module.variables += self.declarations()
            self.expect(";")
            return
        self.advance()
        if name == ".version":
            self._version()
        elif name == ".target":
            self.module.target = self.module.target or self.text
            self.take("word", "a target such as sm_75")
            while self.accept(","):
                self.take("word", "a target")
        elif name == ".address_size":
            self.integer()
        elif name == ".section":
            while self.kind in ("directive", "word"):
                self.advance()
            self.expect("{")
            self.skip_over("}")
        elif name in (".alias", ".pragma"):
            self.skip_to(";")
        elif name in (".entry", ".func"):
            self._function(line, is_entry=name == ".entry")
        elif name not in _DIRECTIVES["linkage"]:
            raise _unknown(name, line, "outside", "linkage", "variables")

    def _version(self) -> None:
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", self.text):
            raise self.expected("a version such as 9.0")
        if float(self.text) >= NEWEST_VERSION + 1:
            newer = f"PTX ISA {self.text} is newer than {NEWEST_VERSION}"
            raise self.error(f"{newer}, the newest known here")
        self.module.version = self.module.version or self.text
        self.advance()

    # Functions

    def _function(self, line: int, *, is_entry: bool) -> None:
        self._limits({})  # .func .attribute(...) name
        self.scope = _Scope()
        if not is_entry:
            self._parameters()  # the result
        name = self.take("word", "the name of a function")
        function = self.function = Function(self.module, name, is_entry, line)
        function.parameters = self._parameters()
        self._limits(function.limits)
        known = self.module.functions.setdefault(name, function)
        if self.accept(";"):
            return
        if self.kind == "directive":
            raise _unknown(self.text, self.line, "limits")
        if self.text != "{":
            raise self.expected(f"the body of '{name}'")
        if known.has_body:
            reason = f"the function '{name}' has a body already (line {known.line})"
            raise PtxError(reason, line)
        self._body()
        function.has_body = True
        self.module.functions[name] = function

    def _parameters(self) -> tuple[Variable, ...]:
        found: list[Variable] = []
        if not self.accept("("):
            return ()
        while not self.accept(")"):
            if self.kind != "directive":
                raise self.expected("a parameter")
            found += self.declarations(single=True)
            if found[-1].space == "reg":
                self.scope.declare(found[-1])
            if self.text != ")":
                self.expect(",")
        return tuple(found)

    def _limits(self, limits: dict[str, tuple[int, ...]]) -> None:
        """Read performance directives and the numbers after them."""
        while self.kind == "directive" and self.text in _DIRECTIVES["limits"]:
            name = self.text[1:]
            self.advance()
            if self.accept("("):
                self.skip_over(")")
            values: list[int] = []
            while self.kind in ("number", "string") or self.text == ",":
                if self.kind == "number":
                    values.append(self.integer())
                else:
                    self.advance()
            if name == "pragma":
                self.accept(";")
            limits[name] = tuple(values)

    # Bodies

    def _body(self) -> None:
        """Read a body from its opening to its closing brace."""
        first = self.line
        self.expect("{")
        self.branches: list[tuple[Instruction, _Scope]] = []
        self.lists: dict[str, tuple[list[str], int, _Scope]] = {}
        while True:
            if self.kind == "directive":
                self._inner_directive("")
            elif self.kind == "end":
                name = self.function.name
                raise PtxError(f"the body of '{name}' is not closed: '}}' is missing", first)
            elif self.accept("{"):
                if len(self.scope.labels.maps) > MAX_NESTING:
                    raise self.error(f"more than {MAX_NESTING} scopes within each other")
                self.scope = _Scope(self.scope)
            elif self.accept("}"):
                if self.scope.outer is None:
                    break
                self.scope = self.scope.outer
            elif not self.accept(";"):
                self._statement()
        self._resolve_branches()

    def _add(self, item: Instruction | Label) -> None:
        if len(self.function.body) >= LARGEST_BODY:
            raise PtxError(f"more than {LARGEST_BODY} instructions in a function", item.line)
        self.function.body.append(item)

    def _statement(self) -> None:
        """Read an instruction, or a label."""
        guard: Word = ""
        negated = False
        if self.accept("@"):
            negated = self.accept("!")
            guard = self.scope.resolve(self.take("word", "a predicate"))
        line = self.line
        word = self.take("word", "an instruction")
        if guard or not self.accept(":"):
            self._instruction(word, line, guard, negated)
        elif self.text in _LABELLED:
            self._inner_directive(word)
        else:
            if word in self.scope.labels.maps[0]:
                raise PtxError(f"the label '{word}' is defined twice", line)
            label = self.scope.labels[word] = Label(line, word)
            self._add(label)

    def _inner_directive(self, label: str) -> None:
        """Read a directive inside a body; ``label`` is the label before it."""
        text = self.text
        if text == ".reg":
            for register in self.declarations():
                self.scope.declare(register)
        elif text in VARIABLES:
            self.function.variables += self.declarations()
        elif text == ".branchtargets":
            names: list[str] = []
            self.lists[label] = names, self.line, self.scope
            self.advance()
            while self.text != ";":
                names.append(self.take("word", "a label"))
                self.accept(",")
        elif text in _DIRECTIVES["skipped"]:
            self.skip_to(";")
        else:
            raise _unknown(text, self.line, "inside", "variables", "skipped")
        self.expect(";")

    def _instruction(self, word: str, line: int, guard: Word, negated: bool) -> None:
        """Read the operands of an instruction up to its semicolon."""
        opcode, *modifiers = word.split(".")
        if not opcode[0].isalpha():
            raise PtxError(f"an instruction is expected, not '{word[:40]}'", line)
        operands: list[Operand] = []
        while self.text != ";" or operands:
            operands.append(self._operand())
            if not self.accept(","):
                break
        if self.text != ";":
            if self.kind == "end":
                raise PtxError(f"'{word}' does not end: ';' is missing", line)
            if self.line > line:
                raise PtxError(f"';' is missing after '{word}'", line)
            raise self.expected("',' or ';'")
        self.advance()
        instruction = Instruction(line, opcode, tuple(modifiers), tuple(operands), guard, negated)
        if opcode in ("bra", "brx"):
            self.branches.append((instruction, self.scope))
        self._add(instruction)

    def _operand(self) -> Operand:
        for opening, closing in ("{}", "()"):
            if self.accept(opening):
                return self._list(closing)
        if self.accept("["):
            return self._address()
        first = self._word()
        if self.accept("|"):
            return (first, self._word())
        self._offset()  # mov.u64 %rd1, table+8
        return first

    def _offset(self) -> int:
        """Read an offset such as ``+8`` or ``-8+16``; return 0 if there is none."""
        total = 0
        while self.text in ("+", "-"):
            sign = -1 if self.text == "-" else 1
            self.advance()
            total += sign * self.integer()
        return total

    def _word(self) -> Word:
        """Read a register, name or number, with its sign; ``!`` before a predicate is dropped."""
        sign = ""
        while self.text in ("!", "-"):
            sign = "-" if self.text == "-" else sign
            self.advance()
        text, kind = self.text, self.kind
        if kind not in ("word", "number"):
            raise self.expected("an operand")
        self.advance()
        return self.scope.resolve(text) if kind == "word" else sign + text

    def _list(self, closing: str) -> tuple[Word, ...]:
        found: list[Word] = []
        while not self.accept(closing):
            found.append(self._word())
            if not self.accept(",") and self.text != closing:
                raise self.expected(f"',' or '{closing}'")
        return tuple(found)

    def _address(self) -> Address:
        base = self._word()
        offset, parts = self._offset(), []
        while self.accept(","):
            self.accept("{")
            parts.append(self._word())
            self.accept("}")
        if not self.accept("]"):
            raise self.expected("']'")
        fixed = integer_of(base) if isinstance(base, str) else None
        return Address(base, offset, tuple(parts)) if fixed is None else Address("", offset + fixed)

    def _resolve_branches(self) -> None:
        """Replace the names of branch targets by labels."""
        lists = {
            name: tuple(self._label(label, line, scope) for label in names)
            for name, (names, line, scope) in self.lists.items()
        }
        for branch, scope in self.branches:
            target = branch.operands[-1] if branch.operands else None
            if not isinstance(target, str):
                raise PtxError(f"'{branch.name}' has no target", branch.line)
            if branch.opcode == "bra":
                branch.targets = (self._label(target, branch.line, scope),)
            elif target in lists:
                branch.targets = lists[target]
            else:
                raise PtxError(f"no list of branch targets '{target}'", branch.line)

    def _label(self, name: str, line: int, scope: _Scope) -> Label:
        if name in scope.labels:
            return scope.labels[name]
        known = {item.name for item in self.function.body if isinstance(item, Label)}
        hint = nearest(name, known) if len(known) < 1000 else ""
        raise PtxError(f"there is no label '{name}'{hint}", line)
