"""How well a fit determines its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

POOR = 0.25
"""Mean deviation from which on a model does not fit: its parameters say nothing."""

UNKNOWN = 0.5
"""Relative standard deviation from which on a parameter is not known."""


def deviations(fit: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the standard deviation of each parameter of a least-squares fit.

    Parameters
    ----------
    fit : scipy.optimize.OptimizeResult
        Of ``least_squares``. From its Jacobian and its residuals; infinite for a parameter that
        changes nothing.
    """
    freedom = max(len(fit.fun) - len(fit.x), 1)
    values, vectors = np.linalg.eigh(fit.jac.T @ fit.jac)
    floor = 1e-12 * values.max()
    with np.errstate(divide="ignore"):
        inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), np.inf)
    variance = np.array([
        sum(weight * inv for weight, inv in zip(row**2, inverse, strict=True) if weight > 1e-12)
        for row in vectors
    ])  # fmt: skip
    return np.sqrt(variance * 2.0 * fit.cost / freedom)
