"""What AMD's integer instructions compute, as far as loops and masks of lanes need it.

Numbers are unsigned words of 32 bits, those of vectors in arrays of int64. The caller takes the low
bits of a result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

MASK = 0xFFFFFFFF


@lru_cache(maxsize=4096)
def lanes_of(mask: int, lanes: int) -> Any:
    """Return a mask as an array of lanes."""
    return np.array([bool(mask >> lane & 1) for lane in range(lanes)])


def signed(x: Any) -> Any:
    """Return unsigned 32-bit numbers as signed ones."""
    return np.where(x >= 2**31, x - 2**32, x)


def signed_scalar(value: int, size: int) -> int:
    """Return an unsigned number of so many bits as a signed one."""
    return value - (1 << size) if value >> (size - 1) else value


def signed_24(x: Any) -> Any:
    """Return the low 24 bits as a signed number."""
    return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000


def bit_field(value: Any, offset: Any, width: Any) -> Any:
    """Return some bits of a number."""
    return (value >> (offset & 31)) & ((1 << (width & 31)) - 1)


def real(word: Any) -> Any:
    """Return the floating-point numbers that words stand for."""
    return (word & MASK).astype(np.uint32).view(np.float32)


def bits(number: Any) -> Any:
    """Return floating-point numbers of 32 bits as words."""
    return number.astype(np.float32).view(np.uint32).astype(np.int64)


AS = {"i": signed, "u": lambda x: x, "f": real}
"""What words are by the letter of a type."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
} | {"lg": operator.ne}
LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "andn1": lambda a, old: ~a & old, "andn2": lambda a, old: a & ~old,
    "and_not0": lambda a, old: ~a & old, "and_not1": lambda a, old: a & ~old,
    "orn2": lambda a, old: a | ~old, "or_not1": lambda a, old: a | ~old,
}  # fmt: skip
SHARED = ("and", "or", "xor", "andn2", "and_not1", "orn2", "or_not1")
"""Logic of masks that is also an instruction of its own."""
SCALAR: dict[str, Callable[..., int]] = {
    "s_mov": lambda a: a, "s_movk": lambda a: a, "s_not": operator.invert,
    **{f"s_{name}": LOGIC[name] for name in SHARED},
    "s_add": operator.add, "s_sub": operator.sub, "s_mul": operator.mul,
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_addc": lambda a, b, c: a + b + c, "s_subb": lambda a, b, c: a - b - c,
    "s_nand": lambda a, b: ~(a & b), "s_nor": lambda a, b: ~(a | b),
    "s_xnor": lambda a, b: ~(a ^ b),
    "s_lshl": lambda a, b: a << (b & 63), "s_lshr": lambda a, b: a >> (b & 63),
    "s_ashr_i32": lambda a, b: signed_scalar(a, 32) >> (b & 31),
    "s_cselect": lambda a, b, c: a if c else b,
    "s_min_i32": lambda a, b: min(a, b, key=lambda x: signed_scalar(x, 32)),
    "s_max_i32": lambda a, b: max(a, b, key=lambda x: signed_scalar(x, 32)),
    "s_min_u32": min, "s_max_u32": max,
    "s_lshl2_add": lambda a, b: 4 * a + b, "s_lshl3_add": lambda a, b: 8 * a + b,
    "s_mulk": operator.mul, "s_addk": operator.add,
    "s_bfe_u32": lambda a, b: bit_field(a, b, b >> 16),
}  # fmt: skip
VECTOR: dict[str, Callable[..., Any]] = {
    "v_mov_b32": lambda a: a, "v_accvgpr_read_b32": lambda a: a, "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a, "v_not_b32": operator.invert,
    "v_add_u32": operator.add, "v_add_nc_u32": operator.add,
    "v_sub_u32": operator.sub, "v_sub_nc_u32": operator.sub,
    "v_subrev_u32": lambda a, b: b - a, "v_subrev_nc_u32": lambda a, b: b - a,
    "v_and_b32": operator.and_, "v_or_b32": operator.or_, "v_xor_b32": operator.xor,
    "v_lshlrev_b32": lambda a, b: b << (a & 31), "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_bfe_u32": bit_field, "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_i32_i24": lambda a, b: signed_24(a) * signed_24(b),
    "v_mul_lo_u32": lambda a, b: signed(a) * signed(b),
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24": lambda a, b, c: signed_24(a) * signed_24(b) + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: ((a + b) & MASK) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: (a << (b & 31)) | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c, "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add3_u32": lambda a, b, c: a + b + c, "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_max_u32": np.maximum, "v_min_u32": np.minimum,
    "v_max_i32": lambda a, b: np.maximum(signed(a), signed(b)),
    "v_min_i32": lambda a, b: np.minimum(signed(a), signed(b)),
    "v_mul_hi_u32": lambda a, b: (a.astype(np.uint64) * b.astype(np.uint64) >> 32).astype(np.int64),
    # Integers are divided by numbers of 32 bits, whose error is mended afterwards.
    "v_cvt_f32_u32": lambda a: bits(a), "v_rcp_iflag_f32": lambda a: bits(1 / real(a)),
    "v_cvt_u32_f32": lambda a: np.clip(np.nan_to_num(real(a)), 0, MASK).astype(np.int64),
    "v_mul_f32": lambda a, b: bits(real(a) * real(b)),
    "v_trunc_f32": lambda a: bits(np.trunc(real(a))),
    **dict.fromkeys(("v_mad_f32", "v_fma_f32"), lambda a, b, c: bits(real(a) * real(b) + real(c))),
}  # fmt: skip
WIDE: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "v_mad_u64_u32": ((1, 1, 2), lambda a, b, c: a * b + c),
    "v_lshl_add_u64": ((2, 1, 2), lambda a, b, c: (a << b) + c),
    "v_lshlrev_b64": ((1, 2), lambda a, b: b << a),
    **dict.fromkeys(("v_mov_b64", "v_pk_mov_b64"), ((2,), lambda a: a)),
}
"""Words of the operands, and what is computed of 64-bit numbers; low words need low words only."""
