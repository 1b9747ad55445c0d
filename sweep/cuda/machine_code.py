"""AMD's machine code as text: instructions, and on which of them branches depend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sweep.cuda.wave_arithmetic import VECTOR, WIDE

_REGISTER = re.compile(r"[sva]\d+|(vcc|exec)_(lo|hi)|scc|m0")
_RANGE = re.compile(r"^([sva])\[(\d+):(\d+)\]$")
PAIRS = {"vcc": ["vcc_lo", "vcc_hi"], "exec": ["exec_lo", "exec_hi"]}
LOADS = ("global_load", "flat_load", "scratch_load", "buffer_load")
LOAD, STORE = -1, -2
_STORE = re.compile(r"(global|flat|scratch|buffer)_(store|atomic)")
_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")
_NO_RESULT = re.compile(
    r"^(s_(cbranch|branch|waitcnt|barrier|cmp|bitcmp|endpgm|nop|delay|clause|setprio|sleep|inst|send"
    r"|code|trap|icache|dcache|waitcnt_\w+|set(reg|prio|halt))|buffer_(store|gl|wb|inv|atomic)"
    r"|(global|flat|scratch)_(store|atomic)|ds_(write|store|add|min|max|or|and|inc|nop|bar))"
)
_TWO_RESULTS = re.compile(
    r"^v_((add|sub|subrev)(c|b|brev)?_co(_ci)?_|subb|addc|mad_[ui]64|div_scale)"
)
_SETS_SCC = re.compile(
    r"^s_(add|addk|sub|addc|subb|and|or|xor|andn[12]|and_not[01]|orn2|or_not1|nand|nor|xnor|not|lsh[lr]|ashr"
    r"|bfe|abs|min|max|cmp|bitcmp|bcnt|absdiff|lshl\d_add|wqm)"
)
_KNOWN = ("s_", "scratch_", "buffer_",
          "v_readlane", "v_writelane", "v_readfirstlane", "v_cndmask", "v_cmp")  # fmt: skip
"""How instructions begin whose results may be known, besides those in `VECTOR`."""
_ON_ITSELF = ("s_mulk_i32", "s_addk_i32")
_IMPLICIT: tuple[tuple[re.Pattern[str], list[str], list[str]], ...] = (
    (re.compile(r"v_cmpx|s_\w+_saveexec"), PAIRS["exec"], []),
    (re.compile(r"s_\w+_saveexec|s_cbranch_exec"), [], PAIRS["exec"]),
    (re.compile(r"s_cbranch_vcc"), [], PAIRS["vcc"]),
    (_SETS_SCC, ["scc"], []),
    (re.compile(r"s_(cbranch_scc|cselect|addc|subb|cmov)"), [], ["scc"]),
)
"""Names of instructions, and the registers that these write and read besides their operands."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name without the encoding, operands, and the registers it touches."""

    name: str
    operands: tuple[str, ...]
    text: str
    writes: tuple[str, ...]
    reads: tuple[str, ...]


def registers(operand: str) -> list[str]:
    """Return the 32-bit registers of an operand.

    >>> registers("v[2:3]"), registers("-|s4|"), registers("0x10")
    (['v2', 'v3'], ['s4'], [])
    """
    word = operand.strip("-|").removeprefix("neg(").removeprefix("abs(").rstrip(")|")
    if word in PAIRS:
        return PAIRS[word]
    if found := _RANGE.match(word):
        return [f"{found[1]}{i}" for i in range(int(found[2]), int(found[3]) + 1)]
    return [word] if _REGISTER.fullmatch(word) else []


def is_vector(register: str) -> bool:
    """Return whether a register has a number for each lane: ``v0``, ``a0``, but not ``vcc_lo``."""
    return register[0] in "va" and register[1].isdigit()


def parse(line: str) -> tuple[Instruction, ...]:
    """Return the instruction of a line; two that RDNA 3 issues as a pair."""
    return tuple(_one(part.strip()) for part in line.split("::"))


def _one(text: str) -> Instruction:
    word, _, rest = text.partition(" ")
    name = _SUFFIX.sub("", word.replace("v_dual_", "v_"))
    # Commas in brackets do not part operands.
    operands = tuple(o.strip() for o in re.split(r",(?![^\[]*\])", rest) if rest)
    if operands:  # modifiers follow the last operand
        operands = (*operands[:-1], operands[-1].split(" ")[0])
    if name == "v_pk_mov_b32" and "op_sel:[0,1]" in rest and len({*operands[1:]}) == 1:
        name, operands = "v_pk_mov_b64", operands[:2]  # copies both words
    n_results = 0 if _NO_RESULT.match(name) else 2 if _TWO_RESULTS.match(name) else 1
    if name.startswith("v_cmpx"):  # to exec, from two operands
        n_results = len(operands) - 2
    if name in _ON_ITSELF:
        operands = (operands[0], *operands)
    writes = [r for o in operands[:n_results] for r in registers(o)]
    reads = [r for o in operands[n_results:] for r in registers(o)]
    for pattern, written, read in _IMPLICIT:
        if pattern.match(name):
            writes += written
            reads += read
    if name == "v_cndmask_b32" and len(operands) == 3:
        reads += PAIRS["vcc"]
    if is_scratch(text):
        (reads if writes else writes).append("scratch")
    if not (name in VECTOR or name in WIDE or "_co_" in name or name.startswith(_KNOWN)):
        reads = []
    return Instruction(name, operands, text, tuple(writes), tuple(reads))


def is_scratch(text: str) -> bool:
    """Return whether an instruction accesses a thread's scratch memory (spilled registers)."""
    return text.startswith("scratch_") or bool(re.match(r"buffer_(load|store)_dword", text))


def _access(one: Instruction, stores_apart: bool) -> int | None:
    """Return whether an instruction loads, stores, or waits, and for how many at most."""
    if one.name.startswith(LOADS):
        return LOAD
    if _STORE.match(one.name):
        return None if stores_apart else STORE
    limit = re.search(r"vmcnt\((\d+)\)", one.text)
    return int(limit[1]) if limit else None


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel.

    Attributes
    ----------
    lines : tuple of tuple of Instruction
        In order; a pair of RDNA 3 is one line.
    labels : mapping of str to int
        Where each label points.
    stores_apart : bool
        Whether stores have a counter of their own, as from GFX10 on.
    """

    lines: tuple[tuple[Instruction, ...], ...]
    labels: Mapping[str, int]
    stores_apart: bool = False
    _cache: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, lines: Iterable[str], *, stores_apart: bool = False) -> Code:
        """Return the code in the lines of an assembler's text."""
        found: list[tuple[Instruction, ...]] = []
        labels = {}
        for line in lines:
            words = line.split(";")[0].strip()
            if words.endswith(":"):
                labels[words[:-1]] = len(found)
            elif words and not words.startswith("."):
                found.append(parse(words))
        return cls(tuple(found), labels, stores_apart)

    @cached_property
    def _kinds(self) -> tuple[int | None, ...]:
        return tuple(_access(line[0], self.stores_apart) for line in self.lines)

    def accesses(self, start: int, stop: int) -> tuple[int, ...]:
        """Return the accesses to memory and the waits for them between two lines, in order.

        `LOAD`, `STORE`, or how many accesses may still be under way after a wait.
        """
        if (start, stop) not in self._cache:
            kinds = (kind for kind in self._kinds[start:stop] if kind is not None)
            self._cache[start, stop] = tuple(kinds)
        return self._cache[start, stop]

    @cached_property
    def followed(self) -> tuple[tuple[bool, ...], ...]:
        """Whether branches may depend on what each line does, by the names of registers.

        Nothing for a line on which none depends; otherwise, for each of its instructions, whether
        what it reads is followed, too.
        """
        wanted = {"exec_lo", "exec_hi"}
        marked: set[int] = set()
        # Only where integers are divided, floating-point numbers decide branches.
        divides = any(line[0].name == "v_rcp_iflag_f32" for line in self.lines)
        while True:
            before = len(wanted), len(marked)
            for i, line in enumerate(self.lines):
                for one in line:
                    if one.name.startswith("s_cbranch") or not wanted.isdisjoint(one.writes):
                        marked.add(i)
                        # The carry of an address is of interest only with its sum.
                        is_aside = "_co_" in one.name and wanted.isdisjoint(one.writes[:1])
                        if not is_aside and (divides or not one.name.endswith("_f32")):
                            wanted.update(one.reads)
            if before == (len(wanted), len(marked)):
                return tuple(
                    tuple(wanted.issuperset(one.reads) for one in line) if i in marked else ()
                    for i, line in enumerate(self.lines)
                )
