"""Sobol indices: which share of a result's variance each uncertain number accounts for.

The samples are Saltelli's: two independent sets A and B, and for each number the set AB_i, which is
A with that number's column from B. First order after Saltelli et al. (Computer Physics
Communications 181, 2010, Table 2, (b)), total after Jansen (ibid., Table 2, (f)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweep.errors import QueryError
from sweep.fields import Array

RESAMPLED = 200
"""Bootstrap samples behind an interval."""

LEVEL = 0.95
"""Share of the bootstrap samples inside an interval."""

FEWEST, MOST = 16, 1 << 20
"""Samples that are allowed."""

CHUNK = 50
"""Bootstrap samples at once: bounds the memory."""


class Indices(NamedTuple):
    """Indices of the numbers in order: arrays, and intervals with a row for both ends."""

    first: Array
    total: Array
    first_interval: Array
    total_interval: Array


def places(n: int, dimensions: int, seed: int) -> Array:
    """Return ``n`` points of a scrambled Sobol sequence, from 0 to 1 in each dimension.

    Raises
    ------
    QueryError
        The number is no power of two, for which alone the sequence is balanced, or out of range.
    """
    if n < FEWEST or n > MOST or n & (n - 1):
        raise QueryError(f"{n} samples: a power of two, {FEWEST} to {MOST:,}")
    from scipy.stats.qmc import Sobol

    return Sobol(dimensions, scramble=True, rng=seed).random(n)


def design(n: int, numbers: int, seed: int) -> Array:
    """Return Saltelli's samples: ``n`` rows of A, then of B, then of each AB_i in order."""
    both = places(n, 2 * numbers, seed)
    a, b = both[:, :numbers], both[:, numbers:]
    mixed = np.repeat(a[np.newaxis], numbers, axis=0)
    for i in range(numbers):
        mixed[i, :, i] = b[:, i]
    return np.concatenate([a, b, mixed.reshape(-1, numbers)])


def indices(results: Array, numbers: int, seed: int) -> Indices:
    """Return the indices behind the results of :func:`design`.

    Samples without a result (NaN in any of their sets) are left out. A result that does not vary
    has indices of 0.

    Parameters
    ----------
    results : array
        In the order of the design's rows.
    numbers : int
        How many numbers were varied.
    seed : int
        Of the bootstrap.
    """
    sets = results.reshape(numbers + 2, -1)
    sets = sets[:, np.isfinite(sets).all(axis=0)]
    n = sets.shape[1]
    spread = sets[:2].std() if n else 0.0
    if not spread > 0.0:
        zero = np.zeros(numbers)
        return Indices(zero, zero, np.zeros((2, numbers)), np.zeros((2, numbers)))
    sets = (sets - sets[:2].mean()) / spread
    a, b, mixed = sets[0], sets[1], sets[2:]
    # Per sample: what both indices are means of, and the sum and squares behind the variance.
    terms = np.concatenate([b * (mixed - a), 0.5 * (a - mixed) ** 2, [a + b, a * a + b * b]])
    first, total = _estimates(terms.mean(axis=1)[:, np.newaxis], numbers)
    drawn = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLED // CHUNK):
        counts = drawn.multinomial(n, np.full(n, 1.0 / n), size=CHUNK).astype(np.float64)
        # Not a matrix product: its sums depend on the number of threads.
        means = np.stack([(counts * term).sum(axis=1) for term in terms]) / n
        found.append(np.stack(_estimates(means, numbers)))
    ends = np.quantile(np.concatenate(found, axis=2), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=2)
    return Indices(first[:, 0], total[:, 0], ends[:, 0], ends[:, 1])


def _estimates(means: Array, numbers: int) -> tuple[Array, Array]:
    """Return first and total indices from means over samples, for each column of these."""
    variance = means[-1] / 2 - (means[-2] / 2) ** 2
    variance = np.where(variance > 0, variance, np.nan)
    return means[:numbers] / variance, means[numbers : 2 * numbers] / variance
