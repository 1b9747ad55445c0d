"""Translate a model's program to a C++ loop and compile it.

Reducing passes are compared with this loop: the same equations in the same order, the same tables
and tiles, ``g++ -O3 -march=native`` with the same floating-point rules (no contraction, no option
that changes a result).
"""

from __future__ import annotations

import ast
import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sweep.compiler.program import OPERATORS
from sweep.compiler.reductions import TILE
from sweep.compiler.source import Pass, Point

__all__ = ["FLAGS", "compiled_loop", "compiler", "translated"]

FLAGS = (
    "-O3", "-march=native", "-std=c++17", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "--param", "logical-op-non-short-circuit=0", "-shared", "-fPIC",
)  # fmt: skip
"""The last two float options change no result; they allow g++ to replace branches by selections.
The parameter keeps g++ 12 from merging conditions, which would prevent vectorisation (luo_suda)."""


WORDS = {
    "ceil": "std::ceil", "floor": "std::floor", "sqrt": "std::sqrt", "abs": "std::abs",
    "nan": "std::numeric_limits<double>::quiet_NaN()",
    "inf": "std::numeric_limits<double>::infinity()", "min": "py_min", "max": "py_max",
}  # fmt: skip
SIGNS = {op: sign for op, (_, sign) in OPERATORS.items()}
SIGNS |= {ast.And: "&&", ast.Or: "||", ast.Not: "!"}


def written(expression: ast.expr, names: Mapping[str, str]) -> str:
    """Return the text of an expression in C++, with a text of its own for each name."""

    def text(part: ast.expr) -> str:
        return written(part, names)

    match expression:
        case ast.Constant(value=bool() as value):
            return str(value).lower()
        case ast.Constant(value=int() | float() as value):
            return repr(float(value))
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(attr=name):
            return WORDS[name]
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2)):
            return f"({text(base)} * {text(base)})"
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return f"std::pow({text(base)}, {text(exponent)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({text(left)} {SIGNS[type(op)]} {text(right)})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"({SIGNS[type(op)]}{text(operand)})"
        case ast.BoolOp(op=op, values=values):
            return f"({f' {SIGNS[type(op)]} '.join(map(text, values))})"
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = zip([left, *others], ops, others, strict=False)
            found = [f"({text(a)} {SIGNS[type(op)]} {text(b)})" for a, op, b in sides]
            return f"({' && '.join(found)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({text(test)} ? {text(body)} : {text(orelse)})"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *others]):
            result = text(first)
            for other in others:
                result = f"{WORDS[name]}({result}, {text(other)})"
            return result if others else f"{WORDS[name]}({result})"
    raise AssertionError(ast.dump(expression))


def compiler() -> str | None:
    """Return the C++ compiler of this machine, if there is one."""
    return shutil.which("g++") or shutil.which("clang++")


def translated(which: Pass) -> str:
    """Return the C++ of a pass's loop, which finds the smallest execution time."""
    constant, sequences = which.inputs(), which.sequences()
    inputs = {key: (f"in_{key}" + ("" if one else "[j]"), not one) for key, one in constant.items()}
    inputs |= {
        part: ("0.0", False) for zero in which.zeros for part in sequences.get(zero, (zero,))
    }
    found = Point(which, inputs, written)
    loads = [
        f"const double in_{key} = tables[{i}][at[{i}]];"
        if is_constant
        else f"const double* __restrict in_{key} = tables[{i}] + at[{i}] + start;"
        for i, (key, is_constant) in enumerate(constant.items())
        if key in found.read or key == "launch_status"
    ]
    lines = {True: [], False: []}
    for line in found.lines:  # g++ itself does not move all invariant code out of the loop
        lines[line.varies].append(f"const auto {line.name} = {line.text};")
    return _LOOP.format(
        loads="\n      ".join(loads),
        before="\n      ".join(lines[False]),
        point="\n        ".join(lines[True]),
        status=found.results["status"],
        time=found.results["execution_time"],
        skip="in_launch_status == 0.0" if which.form == "clocks" else "true",
        tile=TILE,
        n_inputs=len(constant),
    )


_LOOP = """
#include <cmath>
#include <cstdint>
#include <limits>
static inline double py_min(double a, double b) {{ return b < a ? b : a; }}
static inline double py_max(double a, double b) {{ return b > a ? b : a; }}
extern "C" void smallest(const double** tables, const int64_t* stride, const int64_t* shape,
                         int64_t n_outer, int64_t n, int64_t n_rows, float* best, int64_t* place) {{
  static thread_local float row[{tile}];
  float least = std::numeric_limits<float>::infinity();
  int64_t found = -1;
  for (int64_t start = 0; start < n; start += {tile}) {{
    const int64_t stop = start + {tile} < n ? start + {tile} : n;
    int64_t index[16] = {{0}}, at[{n_inputs}] = {{0}};
    for (int64_t r_ = 0; r_ < n_rows; ++r_) {{
      {loads}
      if ({skip}) {{
      {before}
      #pragma GCC ivdep
      for (int64_t j = 0; j < stop - start; ++j) {{
        {point}
        row[j] = {status} == 0.0 ? float({time}) : std::numeric_limits<float>::quiet_NaN();
      }}
      int64_t better = 0;
      for (int64_t j = 0; j < stop - start; ++j) better += row[j] < least;
      if (better)
        for (int64_t j = 0; j < stop - start; ++j)
          if (row[j] < least) {{ least = row[j]; found = r_ * n + start + j; }}
      }}
      for (int64_t d = n_outer - 1; d >= 0; --d) {{
        if (++index[d] < shape[d]) {{
          for (int i = 0; i < {n_inputs}; ++i) at[i] += stride[i * n_outer + d];
          break;
        }}
        index[d] = 0;
        for (int i = 0; i < {n_inputs}; ++i) at[i] -= stride[i * n_outer + d] * (shape[d] - 1);
      }}
    }}
  }}
  *best = least;
  *place = found;
}}
"""


def compiled_loop(which: Pass, directory: Path) -> Callable[[Any], Any]:
    """Return ``smallest(packed)``: the smallest execution time of a box, and its position.

    Raises
    ------
    RuntimeError
        There is no compiler, or compilation fails.
    """
    if (command := compiler()) is None:
        raise RuntimeError("no C++ compiler on this machine")
    name = f"{which.model}_{which.form}"
    source, library = directory / f"{name}.cpp", directory / f"{name}.so"
    source.write_text(translated(which))
    done = subprocess.run(
        [command, *FLAGS, str(source), "-o", str(library)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    loop = ctypes.CDLL(str(library)).smallest
    pointer = ctypes.c_void_p

    def smallest(packed: Any) -> tuple[float, int]:
        owners = np.cumsum(packed.begins == 0) - 1  # the first number of each table begins it
        begins = [packed.tables[t].ctypes.data + 8 * int(b)
                  for t, b in zip(owners, packed.begins, strict=True)]  # fmt: skip
        tables = (pointer * len(begins))(*begins)
        best, place = np.empty(1, np.float32), np.empty(1, np.int64)
        stride, shape = np.ascontiguousarray(packed.stride), packed.shape
        whole = ctypes.c_int64
        loop(tables, pointer(stride.ctypes.data), pointer(shape.ctypes.data),
             whole(stride.shape[1]), whole(packed.n_inner), whole(packed.n_rows),
             pointer(best.ctypes.data), pointer(place.ctypes.data))  # fmt: skip
        return float(best[0]), int(place[0])

    return smallest
