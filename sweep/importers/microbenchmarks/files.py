"""Read files of whatever tool wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sweep.importers.files import read_source
from sweep.importers.microbenchmarks import (
    accel_sim,
    device_query,
    gpu_benches_curves,
    gpu_benches_kernels,
    mt4g,
    nvbench,
    nvidia_smi,
    own_samples,
    rocm,
)
from sweep.importers.microbenchmarks.measurement import Measurement
from sweep.importers.microbenchmarks.reader import MAX_TEXT, Reader

READERS: tuple[Reader, ...] = (
    mt4g.READER,
    nvbench.READER,
    nvidia_smi.READER,
    device_query.READER,
    rocm.INFO,
    rocm.SMI,
    rocm.AMD_SMI,
    accel_sim.READER,
    gpu_benches_curves.CACHE,
    gpu_benches_curves.L2_CACHE,
    gpu_benches_curves.LATENCY,
    gpu_benches_kernels.STREAM,
    gpu_benches_kernels.STRIDES,
    gpu_benches_kernels.SMALL_KERNELS,
    own_samples.READER,
)
"""All formats. The first one that recognises a text reads it."""


LONGEST_LINE = 2000
"""Searching longer lines takes time with their square."""


def read_measurements(paths: Iterable[str | os.PathLike[str]]) -> list[Measurement]:
    """Return what tools' files say, in their order.

    Parameters
    ----------
    paths : iterable of path
        Files that any of :data:`READERS` recognises, gzipped or not.

    Raises
    ------
    TuningError
        One cannot be read, is of no known tool, or says something impossible.
    """
    found = []
    for path in paths:
        source = read_source(path, MAX_TEXT)
        is_json = source.text.lstrip().startswith("{")
        if not is_json and max(map(len, source.text.splitlines())) > LONGEST_LINE:
            raise source.error(
                f"a line of more than {LONGEST_LINE} characters, which no tool prints"
            )
        reader = next((reader for reader in READERS if reader.recognises(source.text)), None)
        if reader is None:
            known = ", ".join(reader.tool for reader in READERS)
            raise source.error(f"not the output of a tool that is known here: {known}")
        found += reader.read(source)
    return found
