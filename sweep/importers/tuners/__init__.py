"""Files of auto-tuners: search spaces and measured times in, restrictions and rankings out."""

from sweep.importers.tuners.clock_times import ClockTimes, read_clock_times
from sweep.importers.tuners.exporting import Chosen, kernel_tuner_text, t1_text, triton_text
from sweep.importers.tuners.kernel_tuner import read_cache
from sweep.importers.tuners.ktt import read_ktt
from sweep.importers.tuners.labelled import axes_of, joined, measured_dataset
from sweep.importers.tuners.measurements import MEASURED, Measurements
from sweep.importers.tuners.reading import Source, read_source
from sweep.importers.tuners.recognise import Columns, read_measurements, recognise
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.importers.tuners.skeleton import kernel_text, plan_text
from sweep.importers.tuners.t4 import read_t4
from sweep.importers.tuners.table import read_table

__all__ = [
    "MEASURED",
    "Chosen",
    "ClockTimes",
    "Columns",
    "Measurements",
    "SearchSpace",
    "Source",
    "axes_of",
    "joined",
    "kernel_text",
    "kernel_tuner_text",
    "measured_dataset",
    "plan_text",
    "read_cache",
    "read_clock_times",
    "read_ktt",
    "read_measurements",
    "read_source",
    "read_t1",
    "read_t4",
    "read_table",
    "recognise",
    "t1_text",
    "triton_text",
]
