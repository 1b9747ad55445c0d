"""A complete device file and a complete kernel file, and a function that changes them."""

from __future__ import annotations

DEVICE = """\
schema = 1
name = "Test GPU"
vendor = "ACME"
architecture = "Test"
compute_capability = "5.2"

[clocks]
core_nominal_MHz = 1000
core_min_MHz = 500
core_max_MHz = 1200
memory_nominal_MHz = 2000

[chip]
sm_count = 4
lanes_per_sm = 128
warp_size = 32
memory_bandwidth_GBps = 128
memory_bus_width_bits = 256
l2_KiB = 1024

[model.hong_kim]
issue_cycles = 0.25
mem_ld_cycles = 400

[power]
static_W = 20
core_W_per_V2GHz = 50
memory_W_per_V2GHz = 3
core_voltage = [[500, 0.8], [1200, 1.1]]
memory_voltage = [[2000, 1.5]]

[source]
identity = "assumed: made up"
"clocks.core_nominal_MHz" = "datasheet: page 1"
"clocks.core_min_MHz" = "assumed: half"
"clocks.core_max_MHz" = "datasheet: page 1"
"clocks.memory_nominal_MHz" = "datasheet: page 1"
"chip.sm_count" = "datasheet: page 2"
"chip.lanes_per_sm" = "datasheet: page 2"
"chip.warp_size" = "datasheet: page 2"
"chip.memory_bandwidth_GBps" = "datasheet: page 2"
"chip.memory_bus_width_bits" = "datasheet: page 2"
"chip.l2_KiB" = "datasheet: page 2"
"model.hong_kim.issue_cycles" = "derived: lanes"
"model.hong_kim.mem_ld_cycles" = "microbenchmark: our own"
"power.static_W" = "assumed: a guess"
"power.core_W_per_V2GHz" = "assumed: a guess"
"power.memory_W_per_V2GHz" = "assumed: a guess"
"power.core_voltage" = "assumed: a guess"
"power.memory_voltage" = "assumed: a guess"
"""

KERNEL = """\
schema = 1
name = "Test kernel"
description = "Does nothing in particular."
constraints = ["tile * tile <= 512"]

[source]
default = "paper: Nobody 2020, Table 1"
"resources" = "derived: compiled"
"resources.registers_per_thread" = "assumed: few"

[sizes]
n = 1024

[parameters]
tile = [4, 8, 16]
layout = ["row", "column"]
unroll = [true, false]

[derived]
cost = "tiles * (2 if unroll else 3)"
tiles = "ceil(n / tile)"

[launch]
threads_per_block = "tile * tile"
blocks = "tiles ** 2"

[resources]
registers_per_thread = 18

[instructions]
fp32 = "2 * n"
control = "cost"

[[global_access]]
name = "a"
kind = "load"
count = "n"
bytes = 4
pattern = "strided"
stride = "1 if layout == 'row' else n"

[[global_access]]
name = "c"
kind = "store"
count = 1
bytes = 4
pattern = "coalesced"

[[shared_access]]
name = "tile_load"
kind = "load"
count = "tile"

[synchronisation]
barriers = "2 * tiles"
"""


def spoilt(text: str, old: str, new: str) -> str:
    """Return the text with one passage replaced; it must occur exactly once."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)
