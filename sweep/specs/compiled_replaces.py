"""What a compiled table replaces in a kernel file: registers, shared memory, counts, spills."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sweep.specs.compiled import CompiledTable
from sweep.specs.formats import INSTRUCTION_CLASSES

_BY_CLASS = {
    **{f"instructions.{name}": f"compiled_{name}" for name in INSTRUCTION_CLASSES},
    "synchronisation.barriers": "compiled_barriers",
}
_REPLACED = {
    "resources.registers_per_thread": "compiled_registers",
    "resources.shared_memory_bytes": "compiled_shared_bytes",
}


FORMULAS = {name.removeprefix("compiled_"): path for path, name in (_REPLACED | _BY_CLASS).items()}
"""The dotted path of a kernel file's own formula for each column that has one."""


def replacements(
    table: CompiledTable, formulas: Mapping[str, str], read: Collection[str], is_staged: bool
) -> dict[str, str]:
    """Return the expressions with which a table replaces formulas, by dotted path.

    Parameters
    ----------
    table : CompiledTable
        The table.
    formulas : mapping of str to str
        The kernel file's expressions by dotted path.
    read : collection of str
        Names that the file's own expressions read. It says itself what such a column replaces.
    is_staged : bool
        Whether the instructions stand in stages. The table does not divide them, so it replaces
        none then, and none if the file gives only their total.
    """
    paths = dict(_REPLACED)
    if not is_staged and "instructions.computation" not in formulas:
        paths |= _BY_CLASS
    return {
        path: f"{name} if compiled else ({formulas.get(path, '0')})"
        for path, name in paths.items()
        if name.removeprefix("compiled_") in table.columns and name not in read
    }


HIT_RATES = ("compiled_l1_hit_rate", "compiled_l2_hit_rate")
"""Names that expressions may use where a table has the columns of spilled registers."""


_SPILLS = frozenset({"registers", "spill_store_bytes", "spill_load_bytes"})


def hit_rates(table: CompiledTable, threads: str) -> dict[str, str]:
    """Return the share of accesses to spilled registers that hit in each cache, as expressions.

    The words that all resident threads spilled share a cache: as many threads as the multiprocessor
    has registers for. A word is stored at least once and loaded at least once, so the lower of both
    columns bounds their number.

    Parameters
    ----------
    table : CompiledTable
        The table.
    threads : str
        The expression of a block's threads.
    """
    if not table.columns.keys() >= _SPILLS:
        return {}
    resident = "min(max_threads_per_sm, registers_per_sm / max(1, compiled_registers))"
    words = f"max(1, min(compiled_spill_store_bytes, compiled_spill_load_bytes) * {resident})"
    l1 = "local_l1_bytes"
    if "shared_bytes" in table.columns:  # from 7.0 on, blocks take their shared memory from L1
        taken = f"compiled_shared_bytes * {resident} / ({threads})"
        l1 = f"max(0, {l1} - ({taken} if compute_capability >= 7 else 0))"
    found = f"min(1, {l1} / {words})", f"min(1, l2_bytes / ({words} * sm_count))"
    return {k: f"{v} if compiled else 0" for k, v in zip(HIT_RATES, found, strict=True)}


def spills(table: CompiledTable, read: Collection[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the accesses to local memory that spilled registers cause: kind and expressions.

    Local memory is interleaved, so that a warp's words are adjacent. Stores go through L1 to L2.
    """
    found, has_rates = {}, table.columns.keys() >= _SPILLS
    for kind in ("store", "load"):
        column = f"spill_{kind}_bytes"
        if column in table.columns and f"compiled_{column}" not in read:
            texts = {
                "count": f"compiled_{column} / 4 if compiled else 0",
                "bytes": "4",
                "l1_hit_rate": HIT_RATES[0] if has_rates and kind == "load" else "0",
                "l2_hit_rate": HIT_RATES[1] if has_rates else "0",
            }
            found[f"spilled_{kind}s"] = kind, texts
    return found
