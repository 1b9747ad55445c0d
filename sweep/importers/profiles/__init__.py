"""Profiles of Nsight Compute and nvprof, as kernel files.

>>> launches = read_profile('''
... "ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
... "0","axpy(float*)","(256, 1, 1)","(4096, 1, 1)","smsp__inst_executed.sum","inst","425,984"
... "0","axpy(float*)","(256, 1, 1)","(4096, 1, 1)","lts__t_sectors_op_read.sum","sector","262,144"
... ''')
>>> inputs = inputs_of(chosen(launches))
>>> inputs.warps, inputs.computation, inputs.global_accesses
(32768, 11.0, [Access(name='loads', kind='load', count=2.0, transactions=4.0)])
"""

from __future__ import annotations

from sweep.importers.profiles.counters import QUANTITIES, Quantity
from sweep.importers.profiles.inputs import Given, Inputs, inputs_of
from sweep.importers.profiles.kernel_file import kernel_text
from sweep.importers.profiles.launches import (
    Launch,
    bare_name,
    chosen,
    kernels_of,
    read_profile,
)

__all__ = [
    "QUANTITIES",
    "Given",
    "Inputs",
    "Launch",
    "Quantity",
    "bare_name",
    "chosen",
    "inputs_of",
    "kernel_text",
    "kernels_of",
    "read_profile",
]
