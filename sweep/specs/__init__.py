"""Find, read, check and describe device and kernel files."""

from __future__ import annotations

from sweep.specs.check import Source
from sweep.specs.device import Device, check_model_parameters, parse_device
from sweep.specs.files import lint, list_devices, list_kernels, load_device, load_kernel
from sweep.specs.formats import DEVICE_NAMES, MATRIX_TYPES, SOURCE_KINDS
from sweep.specs.kernel import Kernel, Measured, parse_kernel
from sweep.specs.kernel_tables import Access
from sweep.specs.reading import data_root
from sweep.specs.schema import format_table, json_schema

__all__ = [
    "DEVICE_NAMES",
    "MATRIX_TYPES",
    "SOURCE_KINDS",
    "Access",
    "Device",
    "Kernel",
    "Measured",
    "Source",
    "check_model_parameters",
    "data_root",
    "format_table",
    "json_schema",
    "lint",
    "list_devices",
    "list_kernels",
    "load_device",
    "load_kernel",
    "parse_device",
    "parse_kernel",
]
