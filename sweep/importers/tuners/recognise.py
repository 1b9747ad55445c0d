"""Which tuner wrote a file."""

from __future__ import annotations

from sweep.importers.tuners.kernel_tuner import is_cache, read_cache
from sweep.importers.tuners.ktt import is_ktt, read_ktt
from sweep.importers.tuners.measurements import Measurements
from sweep.importers.tuners.reading import Source
from sweep.importers.tuners.t4 import is_t4, read_t4
from sweep.importers.tuners.table import Columns, read_table

__all__ = ["Columns", "read_measurements", "recognise"]


def recognise(source: Source) -> str:
    """Return a file's format: ``t1``, ``kernel_tuner``, ``t4``, ``ktt`` or ``csv``.

    Raises
    ------
    TuningError
        It is JSON, but of no format that is read.
    """
    if not source.is_json:
        return "csv"
    if is_cache(source):  # first: it may be open, and then is no JSON
        return "kernel_tuner"
    document = source.document
    if isinstance(document, dict) and "ConfigurationSpace" in document:
        return "t1"
    if is_ktt(document):
        return "ktt"
    if is_t4(document):
        return "t4"
    raise source.error(
        "no format that is read: T1, T4, a cache of Kernel Tuner, output of KTT, or CSV"
    )


def read_measurements(source: Source, columns: Columns | None = None) -> Measurements:
    """Return the measured times of a file of any format.

    Raises
    ------
    TuningError
        The file holds none, or is wrong.
    """
    kind = recognise(source)
    if kind == "t1":
        raise source.error("a search space without measured times")
    if kind == "csv":
        return read_table(source, columns)
    return {"kernel_tuner": read_cache, "ktt": read_ktt, "t4": read_t4}[kind](source)
