"""How sure predictions are: numbers of device and kernel files that may be off."""

from sweep.uncertainty.intervals import with_intervals, with_measured_intervals
from sweep.uncertainty.robust import robust
from sweep.uncertainty.sensitivity import sensitivity

__all__ = ["robust", "sensitivity", "with_intervals", "with_measured_intervals"]
