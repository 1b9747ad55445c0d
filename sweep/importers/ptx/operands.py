"""What an instruction reads and writes."""

from __future__ import annotations

from sweep.importers.ptx.module import Address, Instruction, Operand

__all__ = ["address_of", "constant_of", "reads_and_writes"]

_NO_RESULT = frozenset(
    "bra brx ret exit trap brkpt bar barrier membar fence nanosleep pmevent setmaxnreg"
    " griddepcontrol stackrestore st red prefetch prefetchu cp sust sured discard applypriority"
    " stmatrix tensormap".split()
)


def reads_and_writes(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Return the names that an instruction reads and those that it writes.

    Numbers, special registers and variables are among them: what is a register is for the caller
    to know. The first operand is the result, unless it is an address or the opcode has none.

    Parameters
    ----------
    instruction : Instruction
        Any instruction, known or not.

    Returns
    -------
    reads, writes : list of str
        Names without the part that they may select (``%v.x`` is ``%v``).
    """
    if instruction.names is None:
        instruction.names = _find(instruction)
    return instruction.names


def _find(instruction: Instruction) -> tuple[list[str], list[str]]:
    operands = instruction.operands
    reads: list[str] = [instruction.predicate] if instruction.predicate else []
    writes: list[str] = []
    start = 0
    if operands and _has_result(instruction):
        start = 1
        writes = _names(operands[0])
        if instruction.opcode in ("wgmma", "tcgen05"):
            reads += writes  # accumulators
    for operand in operands[start:]:
        reads += _names(operand)
    return reads, writes


def _has_result(instruction: Instruction) -> bool:
    first = instruction.operands[0]
    if isinstance(first, Address):
        return False
    opcode = instruction.opcode
    if opcode in ("bar", "barrier"):
        return "red" in instruction.modifiers
    if opcode == "call":
        operands = instruction.operands
        return isinstance(first, tuple) and len(operands) > 1 and isinstance(operands[1], str)
    return opcode not in _NO_RESULT


def _names(operand: Operand) -> list[str]:
    if isinstance(operand, Address):
        return [_whole(name) for name in (operand.base, *operand.parts) if name]
    if isinstance(operand, tuple):
        return [_whole(name) for name in operand]
    return [_whole(operand)]


def _whole(name: str) -> str:
    """Return a register without the part that is selected by ``.x``."""
    return name.partition(".")[0] if "." in name else name


def address_of(instruction: Instruction, place: int = 0) -> Address | None:
    """Return the ``place``-th address among the operands."""
    found = [operand for operand in instruction.operands if isinstance(operand, Address)]
    return found[place] if place < len(found) else None


def constant_of(instruction: Instruction) -> bool:
    """Whether one of the source operands is a number."""
    return any(
        isinstance(operand, str) and (operand[:1].isdigit() or operand[:1] == "-")
        for operand in instruction.operands[1:]
    )
