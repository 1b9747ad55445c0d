"""Arrays of samples in place of numbers, in functions that were written for one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sweep.fields import Array


class MixedError(Exception):
    """A condition holds for some of the samples only; ``truth`` says for which."""

    def __init__(self, truth: Array) -> None:
        super().__init__("a condition holds for some samples only")
        self.truth = truth


class Samples(np.ndarray):
    """Numbers, one for each sample, whose truth is that of all of them.

    Rules of a device are written for one number and ask ``if latency > 100``. With samples the
    answer is yes or no where all agree; where they do not, :func:`each_way` evaluates both sides.

    >>> latency = np.array([4.0, 6.0]).view(Samples)
    >>> "slow" if latency > 1.0 else "fast"
    'slow'
    """

    def __bool__(self) -> bool:
        truth = np.asarray(self, bool)
        if truth.size and truth.all() != truth.any():
            raise MixedError(truth.ravel())
        return bool(truth.all())


def each_way(
    function: Callable[[Mapping[str, Samples]], Array], columns: Mapping[str, Array]
) -> Array:
    """Return a function's results over samples, whichever way its conditions go.

    Parameters
    ----------
    function : callable
        Takes samples by name; returns an array whose first axis is that of the samples.
    columns : mapping of str to array
        Numbers by name, all of one length.

    Examples
    --------
    >>> each_way(lambda x: x["a"] if x["a"] < 2.0 else -x["a"], {"a": np.array([1.0, 3.0])})
    array([ 1., -3.])
    """
    try:
        found = function({name: column.view(Samples) for name, column in columns.items()})
        return np.asarray(found)
    except MixedError as mixed:
        truth = mixed.truth
    sides = [np.flatnonzero(truth), np.flatnonzero(~truth)]
    parts = [each_way(function, {n: c[rows] for n, c in columns.items()}) for rows in sides]
    result = np.empty((len(truth), *parts[0].shape[1:]), parts[0].dtype)
    for rows, part in zip(sides, parts, strict=True):
        result[rows] = part
    return result
