"""The same loop in C++: a model's equations translated from their Python source, and compiled.

It is the limit that a reducing pass is held against: same equations in the same order, same tables,
same tiles, ``g++ -O3 -march=native`` with the same floating-point rules (no contraction, nothing
that changes a result).
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sweep.compiler import passes as _passes
from sweep.compiler.lowering import straight_tree
from sweep.models import get_model
from sweep.models.base import HEAD

__all__ = ["FLAGS", "compiled_loop", "compiler", "translated"]

FLAGS = (
    "-O3", "-march=native", "-std=c++17", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "--param", "logical-op-non-short-circuit=0", "-shared", "-fPIC",
)  # fmt: skip
"""No result depends on the last two of the float options: they let conditions become selects. The
parameter keeps g++ 12 from joining conditions to what it cannot vectorise (luo_suda)."""

OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Gt: ">", ast.GtE: ">=",
    ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip
FUNCTIONS = {"np.ceil": "std::ceil", "np.floor": "std::floor", "np.sqrt": "std::sqrt"}


def compiler() -> str | None:
    """Return the C++ compiler of this machine, if there is one."""
    return shutil.which("g++") or shutil.which("clang++")


class _Function:
    """One Python function of scalars, without branches or loops, as C++."""

    def __init__(self, function: Callable[..., Any], known: dict[str, str]) -> None:
        self.known = known
        self.names: dict[str, Any] = {**function.__globals__}
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        self.tree = tree
        self.arguments = [a.arg for a in tree.args.args]
        self.local = sorted(
            {
                n.id
                for n in ast.walk(tree)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
        )
        self.returned = max(
            len(n.value.elts) if isinstance(n.value, ast.Tuple) else 1
            for n in ast.walk(tree)
            if isinstance(n, ast.Return)
        )

    def source(self) -> str:
        """Return the function's definition."""
        kind = "double" if self.returned == 1 else f"std::array<double, {self.returned}>"
        given = ", ".join(f"double {a}" for a in self.arguments)
        local = [name for name in self.local if name not in self.arguments]
        body = list(self.block(self.tree.body))
        head = [f"static inline __attribute__((always_inline)) {kind} {self.symbol}({given}) {{"]
        if local:
            head.append(f"double {', '.join(f'{name} = 0' for name in local)};")
        return "\n".join([*head, *body, "}"])

    @property
    def symbol(self) -> str:
        """The function's name in C++."""
        return f"f_{self.tree.name}"

    def block(self, statements: list[ast.stmt]) -> Iterator[str]:
        """Yield the lines of statements."""
        for s in statements:
            match s:
                case ast.Expr():
                    continue  # the docstring
                case ast.Assign(targets=targets, value=value):
                    yield "".join(f"{self.value(t)} = " for t in targets) + self.value(value) + ";"
                case ast.Return(value=ast.Tuple(elts=elts)):
                    yield f"return {{{', '.join(f'double({self.value(e)})' for e in elts)}}};"
                case ast.Return(value=value) if value is not None:
                    yield f"return {self.value(value)};"
                case _:
                    raise NotImplementedError(ast.dump(s))

    def value(self, e: ast.expr) -> str:
        """Return an expression."""
        match e:
            case ast.Constant(value=value):
                return repr(float(value))
            case ast.Name(id=name):
                if name in self.local or name in self.arguments:
                    return name
                return repr(float(self.names[name]))
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
                return f"({self.value(left)} * {self.value(left)})"
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return f"std::pow({self.value(left)}, {self.value(right)})"
            case ast.BinOp(left=left, op=op, right=right):
                return f"({self.value(left)} {OPERATORS[type(op)]} {self.value(right)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!({self.value(operand)}))"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.value(operand)})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {OPERATORS[type(op)]} '.join(map(self.value, values))})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [left, *others]
                parts = (
                    f"({self.value(a)} {OPERATORS[type(op)]} {self.value(b)})"
                    for a, op, b in zip(values, ops, others, strict=False)
                )
                return f"({' && '.join(parts)})"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                either = f"double({self.value(body)}) : double({self.value(orelse)})"
                return f"(({self.value(test)}) ? {either})"
            case ast.Attribute(value=ast.Name(id="np"), attr="nan"):
                return "std::numeric_limits<double>::quiet_NaN()"
            case ast.Attribute(value=ast.Name(id="np"), attr="inf"):
                return "std::numeric_limits<double>::infinity()"
            case ast.Call():
                return self.call(e)
        raise NotImplementedError(ast.dump(e))

    def call(self, e: ast.Call) -> str:
        """Return a call; what is called is translated first."""
        name = ast.unparse(e.func)
        if name in ("min", "max"):
            result = self.value(e.args[0])
            for argument in e.args[1:]:
                result = f"py_{name}({result}, {self.value(argument)})"
            return result
        if name in FUNCTIONS:
            return f"{FUNCTIONS[name]}({self.value(e.args[0])})"
        function = _Function(self.names[name].py_func, self.known)
        if function.symbol not in self.known:
            text = function.source()
            self.known[function.symbol] = text
        given = dict(zip(function.arguments, e.args, strict=False))
        given |= {k.arg: k.value for k in e.keywords if k.arg}
        values = (self.value(given[a]) for a in function.arguments)
        return f"{function.symbol}({', '.join(values)})"


class _Point(_Function):
    """A model's straight body as lines of the loop over points, each variable assigned once.

    What does not depend on the point stands before the loop: g++ does not move all of it there.
    """

    def __init__(
        self,
        body: tuple[ast.FunctionDef, dict[str, Any]],
        given: Mapping[str, tuple[str, bool]],
        known: dict[str, str],
    ) -> None:
        tree, self.names = body
        self.known = known
        self.symbols = {name: text for name, (text, _) in given.items()}
        self.varying = {name for name, (_, varies) in given.items() if varies}
        self.truths: set[str] = set()
        self.before: list[str] = []
        self.inside: list[str] = []
        self.results: list[str] = []
        for statement in tree.body:
            self.take(statement)

    def take(self, s: ast.stmt) -> None:
        """Translate one statement."""
        match s:
            case ast.Expr():
                return  # the docstring
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                found = [(self.value(v), self.varies(v), self.is_truth(v)) for v in values]
                for target, (text, *kinds) in zip(targets, found, strict=True):
                    self.assign(target, text, *kinds)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                several, varies = f"several_{len(self.symbols)}", self.varies(value)
                self.lines(varies).append(f"const auto {several} = {self.value(value)};")
                for i, target in enumerate(targets):
                    self.assign(target, f"{several}[{i}]", varies, False)
            case ast.Assign(targets=targets, value=value):
                text, varies, is_truth = self.value(value), self.varies(value), self.is_truth(value)
                for target in targets:
                    self.assign(target, text, varies, is_truth)
            case ast.AugAssign(target=target, op=op, value=value):
                varies = self.varies(value) or self.varies(target)
                text = f"{self.value(target)} {OPERATORS[type(op)]} {self.value(value)}"
                self.assign(target, text, varies, False)
            case ast.Return(value=ast.Tuple(elts=values)):
                self.results = [self.value(v) for v in values]
            case _:
                raise NotImplementedError(ast.dump(s))

    def lines(self, varies: bool) -> list[str]:
        """Return where a line belongs."""
        return self.inside if varies else self.before

    def assign(self, target: ast.expr, text: str, varies: bool, is_truth: bool) -> None:
        """Give a new value a name of its own."""
        assert isinstance(target, ast.Name)
        number = len(self.before) + len(self.inside)
        symbol = self.symbols[target.id] = f"v{number}_{target.id}"
        for found, holds in ((self.varying, varies), (self.truths, is_truth)):
            found.add(target.id) if holds else found.discard(target.id)
        self.lines(varies).append(f"const {'bool' if is_truth else 'double'} {symbol} = {text};")

    def varies(self, e: ast.expr) -> bool:
        """Whether an expression depends on the point."""
        return any(isinstance(n, ast.Name) and n.id in self.varying for n in ast.walk(e))

    def is_truth(self, e: ast.expr) -> bool:
        """Whether an expression is a truth value."""
        match e:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Name(id=name):
                return name in self.truths
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_truth(body) and self.is_truth(orelse)
        return False

    def value(self, e: ast.expr) -> str:
        """Return an expression."""
        if isinstance(e, ast.Name):
            return self.symbols.get(e.id) or repr(float(self.names[e.id]))
        return super().value(e)


def translated(name: str, form: str, length: int, variant: str = "corrected") -> str:
    """Return the C++ of the loop that finds a model's smallest execution time."""
    model = get_model(name)
    known: dict[str, str] = {}
    finish = _Function(_passes._finish.py_func, known)
    known[finish.symbol] = finish.source()
    constant = _passes._constants(model, form, length)
    loads, names = [], {}
    for i, (key, is_constant) in enumerate(constant.items()):
        names[key] = f"in_{key}" + ("" if is_constant else "[j]")
        loads.append(
            f"const double in_{key} = tables[{i}][at[{i}]];"
            if is_constant
            else f"const double* __restrict in_{key} = tables[{i}] + at[{i}] + start;"
        )
    sequences = [i.sequence for i in model.inputs]
    body = straight_tree(model.bodies[variant], sequences, length)
    numbers = []
    for given in model.inputs:
        parts = _passes.parts_of(given.symbol, length) if given.sequence else (given.symbol,)
        for part in parts:
            factors = (_passes.nominal(part), given.factor) if given.factor else (part,)
            text = " * ".join(names[key] for key in factors)
            numbers.append((f"({text})", not all(constant[key] for key in factors)))
    arguments = [argument.arg for argument in body[0].args.args]
    point = _Point(body, dict(zip(arguments, numbers, strict=True)), known)
    shared = ("launch_status", "clock_status", "power_input_status", "static_power", "core_hz",
              "core_watts", "memory_watts")  # fmt: skip
    places = [HEAD.index(key) for key in ("execution_cycles", "core_activity", "memory_activity")]
    joined = ", ".join([point.results[i] for i in places] + [names[key] for key in shared])
    return _LOOP.format(
        functions="\n".join(known.values()),
        loads="\n      ".join(loads),
        before="\n      ".join(point.before),
        point="\n        ".join(point.inside),
        finish=f"{finish.symbol}({joined})",
        skip="in_launch_status == 0.0" if form == "clocks" else "true",
        tile=_passes.TILE,
        n_inputs=len(constant),
    )


_LOOP = """
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
static inline double py_min(double a, double b) {{ return b < a ? b : a; }}
static inline double py_max(double a, double b) {{ return b > a ? b : a; }}
{functions}
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
        const auto f = {finish};
        row[j] = f[0] == 0.0 ? float(f[2]) : std::numeric_limits<float>::quiet_NaN();
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


def compiled_loop(name: str, form: str, length: int, directory: Path) -> Callable[[Any], Any]:
    """Return ``smallest(packed)``: the smallest execution time of a box, and its position.

    Raises
    ------
    RuntimeError
        There is no compiler, or it does not compile this.
    """
    if (command := compiler()) is None:
        raise RuntimeError("no C++ compiler on this machine")
    source, library = directory / f"{name}_{form}.cpp", directory / f"{name}_{form}.so"
    source.write_text(translated(name, form, length))
    done = subprocess.run(
        [command, *FLAGS, str(source), "-o", str(library)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    loop = ctypes.CDLL(str(library)).smallest
    pointer = ctypes.c_void_p

    def smallest(packed: Any) -> tuple[float, int]:
        tables = (pointer * len(packed.tables))(*(t.ctypes.data for t in packed.tables))
        best, place = np.empty(1, np.float32), np.empty(1, np.int64)
        stride, shape = np.ascontiguousarray(packed.stride), packed.shape
        whole = ctypes.c_int64
        loop(tables, pointer(stride.ctypes.data), pointer(shape.ctypes.data),
             whole(stride.shape[1]), whole(packed.n_inner), whole(packed.n_rows),
             pointer(best.ctypes.data), pointer(place.ctypes.data))  # fmt: skip
        return float(best[0]), int(place[0])

    return smallest
