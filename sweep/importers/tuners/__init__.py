"""Files of auto-tuners: search spaces and measured times in, restrictions and rankings out."""

from sweep.importers.tuners.exporting import Chosen, kernel_tuner_text, t1_text, triton_text
from sweep.importers.tuners.formats import read_measurements, recognise
from sweep.importers.tuners.labelled import axes_of, joined, measured_dataset
from sweep.importers.tuners.measurements import MEASURED, Measurements
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.importers.tuners.skeleton import kernel_text, plan_text
from sweep.importers.tuners.table import ClockTimes, Columns, read_clock_times

__all__ = [
    "MEASURED",
    "Chosen",
    "ClockTimes",
    "Columns",
    "Measurements",
    "SearchSpace",
    "axes_of",
    "joined",
    "kernel_text",
    "kernel_tuner_text",
    "measured_dataset",
    "plan_text",
    "read_clock_times",
    "read_measurements",
    "read_t1",
    "recognise",
    "t1_text",
    "triton_text",
]
