"""Evaluate expressions over NumPy arrays and find the elements at fault.

All numbers are float64. A *fault* is an element at which Python would raise an error or the number
is not finite. Only elements that Python would evaluate count: not the branch that a conditional
does not take, and not the operands that ``and``, ``or`` or a chained comparison skip.

To keep evaluation as fast as the arithmetic, faults are searched late. Operations such as ``+ - *``
preserve values that are not finite, so these are searched only before operations that could hide
them (division, comparison, ``min``) and in the result. ``settled`` says whether an operand was
searched; ``fault`` is None if no fault was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from sweep.errors import nearest
from sweep.expressions.error import ExpressionError
from sweep.expressions.syntax import Step, Steps, comparisons, fold, operands_of

_EXACT = 2.0**53  # float64 represents integers up to this exactly
_FEW = 4096  # elements of a condition that are looked at beforehand


@dataclass(slots=True)
class _Operand:
    """A value, its elements at fault, and whether all faults have been found.

    ``scratch`` says that no other operand uses the array, so that the next result may overwrite it.
    """

    value: Any
    fault: Any = None
    settled: bool = True
    scratch: bool = False

    @property
    def kind(self) -> str:
        """``"b"`` for booleans, ``"U"`` for strings, ``"f"`` for numbers."""
        kind: str = self.value.dtype.kind
        return kind if kind in "bU" else "f"


class _KindError(Exception):
    """An operand is of the wrong kind."""


def evaluate(
    text: str, steps: Steps, values: Mapping[str, Any], faults: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of a checked tree and where it is at fault (see `Expression.evaluate`)."""
    if steps[-1].operation == "select" and (only := _only_branch(text, steps, values, faults)):
        return only
    loaded: dict[str, _Operand] = {}

    def leaf(step: Step) -> _Operand:
        if step.operation == "constant":
            return _Operand(np.asarray(step.argument))
        if step.argument not in loaded:
            loaded[step.argument] = _load(text, step, values, faults)
        return loaded[step.argument]

    def apply(step: Step, operands: list[_Operand]) -> _Operand:
        try:
            return _apply(step, operands)
        except _KindError as error:
            raise ExpressionError(text, step.position, str(error)) from None

    with np.errstate(all="ignore"):
        result = _settle(fold(steps, leaf, apply))
    value = np.asarray(result.value)
    if result.fault is None:
        return value, np.zeros(value.shape, dtype=bool)
    fault = np.broadcast_to(result.fault, np.broadcast_shapes(value.shape, result.fault.shape))
    replacement: Any = {"f": np.nan, "b": False, "U": ""}[result.kind]
    return np.where(fault, replacement, value), fault.copy()


def _only_branch(
    text: str, steps: Steps, values: Mapping[str, Any], faults: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the branch of a conditional that is taken everywhere, if that is cheap to see.

    The other one is evaluated at one element, for its kind and its errors: what it depends on does
    not make the table larger.
    """
    body, test, other = operands_of(steps)
    known = {s.argument: values[s.argument] for s in steps
             if s.operation == "name" and s.argument in values}  # fmt: skip
    read = [np.shape(known[s.argument]) for s in test if s.argument in known]
    if math.prod(np.broadcast_shapes(*read)) > _FEW:
        return None
    holds, fault = evaluate(text, test, values, faults)
    if holds.dtype.kind == "U" or fault.any() or holds.any() != holds.all():
        return None
    taken, left = (body, other) if holds.any() else (other, body)
    one = {name: np.asarray(value)[(slice(1),) * np.ndim(value)] for name, value in known.items()}
    found, fault = evaluate(text, taken, values, faults)
    kind = evaluate(text, left, one, {})[0].dtype
    if (found.dtype.kind == "U") != (kind.kind == "U"):
        return None  # which is an error
    if found.dtype.kind == kind.kind or kind.kind == "b":
        return found, fault
    return np.where(fault, np.nan, found.astype(kind)) if kind.kind == "f" else found, fault


def _apply(step: Step, operands: list[_Operand]) -> _Operand:
    """Apply one operation, refusing operands of the wrong kind."""
    operation = step.operation
    if operation == "compare":
        return _compare(step.argument, operands)
    if operation == "select":
        return _select(*operands)
    for operand in operands:
        if operand.kind == "U":
            shown = {"negate": "-", "plus": "+"}.get(operation, operation)
            raise _KindError(f"'{shown}' takes numbers, not strings,")
    if operation == "not":
        return _Operand(~_truth(operands[0]), operands[0].fault)
    if operation in ("and", "or"):
        return reduce(lambda left, right: _short_circuit(operation, left, right), operands)
    numbers = [_number(operand) for operand in operands]
    if operation == "gcd":
        return _gcd(numbers)
    if operation == "choose":
        return _choose(*numbers)
    if operation in ("min", "max"):
        return reduce(lambda left, right: _extreme(operation, left, right), numbers)
    for operand in numbers[_ABSORBING.get(operation, len(numbers)) :]:
        _settle(operand)
    result = _elementwise(_ELEMENTWISE[operation], numbers)
    result.settled = operation in _PRESERVING and numbers[0].settled
    return result


# Operands


def _load(text: str, step: Step, values: Mapping[str, Any], faults: Mapping[str, Any]) -> _Operand:
    """Return a name's value as a float64, boolean or string array, with its faults."""
    name = step.argument
    if name not in values:
        raise ExpressionError(
            text, step.position, f"unknown name '{name}'", nearest(name, list(values))
        )
    value = np.asarray(values[name])
    if value.dtype.kind in "OT":
        value = _plain(value)
    fault = faults.get(name)
    if fault is not None:
        fault = np.asarray(fault)
        fault = fault if fault.any() else None
    if value.dtype.kind in "bU":
        return _Operand(value, fault)
    if value.dtype.kind in "iuf":
        settled = value.dtype.kind != "f"
        return _Operand(value.astype(np.float64, copy=False), fault, settled)
    reason = f"the value of '{name}' is neither number, boolean nor string"
    raise ExpressionError(text, step.position, reason)


def _plain(value: np.ndarray) -> np.ndarray:
    """Convert an array of Python objects or variable-length strings to a fixed-size type."""
    members = value.ravel().tolist()
    if all(isinstance(member, str) for member in members):
        return np.asarray(members, dtype=np.str_).reshape(value.shape)
    if all(isinstance(member, bool | int | float | np.number | np.bool_) for member in members):
        return np.asarray(members).reshape(value.shape)
    return value


def _number(operand: _Operand) -> _Operand:
    """Return a number or boolean as float64; True is 1, as in Python."""
    if operand.kind != "b":
        return operand
    return _Operand(operand.value.astype(np.float64), operand.fault)


def _settle(operand: _Operand) -> _Operand:
    """Add all elements that are not finite to the operand's faults."""
    if not operand.settled:
        finite = np.isfinite(operand.value)
        if not finite.all():
            operand.fault = _either(operand.fault, ~finite)
        operand.settled = True
    return operand


def _either(a: Any, b: Any) -> Any:
    """Return the union of two fault masks, each of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _where_reached(fault: Any, reached: Any) -> Any:
    """Return the part of a fault mask, which may be None, that is reached."""
    return None if fault is None else fault & reached


# Arithmetic


def _elementwise(function: Callable[..., Any], operands: Sequence[_Operand]) -> _Operand:
    fault = None
    for operand in operands:
        fault = _either(fault, operand.fault)
    values = [operand.value for operand in operands]
    shape = np.broadcast_shapes(*(value.shape for value in values))
    out = None
    if isinstance(function, np.ufunc) and shape:  # new memory would cost more than the arithmetic
        spare = (o.value for o in operands if o.scratch and o.value.shape == shape)
        out = next(spare, None)
    value = function(*values) if out is None else function(*values, out=out)
    return _Operand(value, fault, settled=False, scratch=True)


def _extreme(operation: str, left: _Operand, right: _Operand) -> _Operand:
    """Return the minimum or maximum, which could hide values that are not finite."""
    result = _elementwise(_ELEMENTWISE[operation], (_settle(left), _settle(right)))
    result.settled = True
    return result


def _power(base: Any, exponent: Any) -> Any:
    """Return ``base ** exponent``, exact if base, exponent and result are integers.

    NumPy's vector instructions may be wrong by a few units in the last place, so that ``tile ** 3``
    would not be an integer. Below 2**49 the error is less than a half, so rounding corrects it.
    """
    if np.ndim(exponent) == 0 and exponent == 2.0:
        return base * base
    power = np.power(base, exponent)
    whole = (base == np.rint(base)) & (exponent == np.rint(exponent)) & (exponent >= 0)
    return np.where(whole & (np.abs(power) < 2.0**49), np.rint(power), power)


def _log2(x: Any) -> Any:
    """Return the binary logarithm, exact for powers of two on every machine."""
    argument, result = np.asarray(x), np.asarray(np.log2(x))
    near = np.abs(result - np.rint(result)) < 1e-9
    mantissa, exponent = np.frexp(argument[near])
    result[near] = np.where(mantissa == 0.5, exponent - 1.0, result[near])
    return result


def _gcd(operands: Sequence[_Operand]) -> _Operand:
    """Return the greatest common divisor; numbers that are not integers are faults."""
    result, fault = np.asarray(0), None
    for operand in operands:
        _settle(operand)
        whole = (operand.value == np.rint(operand.value)) & (np.abs(operand.value) <= _EXACT)
        if not whole.all():
            fault = _either(fault, ~whole)
        fault = _either(fault, operand.fault)
        result = np.gcd(result, np.where(whole, operand.value, 0.0).astype(np.int64))
    return _Operand(result.astype(np.float64), fault)


def _choose(place: _Operand, *values: _Operand) -> _Operand:
    """Return the value at a place of a list; a place outside the list is a fault."""
    result: Any = np.asarray(np.nan)
    is_known: Any = np.asarray(False)
    fault = _settle(place).fault
    for number, operand in enumerate(values):
        fault = _either(fault, _settle(operand).fault)
        chosen = place.value == number
        result, is_known = np.where(chosen, operand.value, result), is_known | chosen
    return _Operand(result, fault if is_known.all() else _either(fault, ~is_known))


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide,
    "%": np.remainder, "**": _power, "negate": np.negative, "plus": np.positive, "abs": np.abs,
    "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt, "log2": _log2,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_ABSORBING = {"/": 1, "//": 1, "%": 1, "**": 0}
"""Operators that map some infinities to finite numbers, with the first operand to settle."""
_PRESERVING = {"negate", "plus", "abs", "ceil", "floor"}
"""Operations whose result is finite if the operand is."""


# Logic


def _truth(operand: _Operand) -> Any:
    """Settle a number or boolean and return where it is true."""
    if operand.kind == "b":
        return operand.value
    return _settle(operand).value != 0.0


def _short_circuit(operation: str, left: _Operand, right: _Operand) -> _Operand:
    """Return ``and`` or ``or``: one of the operands, as in Python."""
    reached = _truth(left) if operation == "and" else ~_truth(left)
    fault = _either(left.fault, _where_reached(right.fault, reached))
    if left.kind == right.kind == "b":
        combine = np.logical_and if operation == "and" else np.logical_or
        return _Operand(combine(left.value, right.value), fault)
    value = np.where(reached, _number(right).value, _number(left).value)
    return _Operand(value, fault, right.settled)


def _select(value: _Operand, condition: _Operand, other: _Operand) -> _Operand:
    """Return ``value if condition else other``; only faults of the branch taken count."""
    if condition.kind == "U":
        raise _KindError("'if' takes a number or boolean, not a string,")
    if value.kind != other.kind:
        if "U" in (value.kind, other.kind):
            raise _KindError("both branches of 'if' must be strings, or none,")
        value, other = _number(value), _number(other)
    taken = _truth(condition)
    fault = _either(_where_reached(value.fault, taken), _where_reached(other.fault, ~taken))
    fault = _either(condition.fault, fault)
    settled = value.settled and other.settled
    return _Operand(np.where(taken, value.value, other.value), fault, settled)


_COMPARE: dict[str, Callable[..., Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def _compare(operators: Sequence[tuple[str, int]], operands: list[_Operand]) -> _Operand:
    """Return a chain of comparisons; an operand is reached if all comparisons before it hold."""
    for operand in operands:
        _settle(operand)
    result: Any = None
    fault = operands[0].fault
    for operator, left, right in comparisons(operators, operands):
        for operand in right:
            reached = operand.fault if result is None else _where_reached(operand.fault, result)
            fault = _either(fault, reached)
        if operator in ("in", "not in"):
            holds: Any = np.zeros(left.value.shape, dtype=bool)
            for member in right:
                holds = holds | _pair("==", left, member)
            holds = ~holds if operator == "not in" else holds
        else:
            holds = _pair(operator, left, right[0])
        result = holds if result is None else result & holds
    return _Operand(result, fault)


def _pair(operator: str, left: _Operand, right: _Operand) -> Any:
    """Compare two operands; strings support only equality, and never equal a number."""
    strings = (left.kind == "U") + (right.kind == "U")
    if strings and operator not in ("==", "!="):
        raise _KindError(f"'{operator}' takes numbers, not strings,")
    if strings == 1:
        shape = np.broadcast_shapes(left.value.shape, right.value.shape)
        return np.full(shape, operator == "!=")
    return _COMPARE[operator](left.value, right.value)
