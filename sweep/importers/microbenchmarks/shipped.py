"""What files of other devices say of one: of a device like it, and of its compute capability."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from sweep.hardware.paths import PIECES
from sweep.importers.microbenchmarks.measurement import Clocks, Measurement
from sweep.importers.tuners.configurations import DRIVER_NAMES
from sweep.specs import Device, list_devices, load_device
from sweep.specs.formats import DEVICE, Key

OF_THE_CHIP = frozenset({
    "chip.sm_count", "chip.memory_bandwidth", "chip.memory_bus_width", "chip.l2",
    "chip.memory_side_cache", "microbenchmark.l2_far_latency", "microbenchmark.kernel_launch",
    *(f"microbenchmark.dram_piece_{size}_factor" for size in PIECES),
})  # fmt: skip
"""Values that another count of multiprocessors or another memory changes, besides clocks and
bandwidths; the others are those of a multiprocessor."""

AS_IF = "assumed: as "
"""How sources of values begin that are those of a device like it, though it is another one."""

_OF_SAME_SM = frozenset({
    "chip.warp_size", "chip.fp64_lanes_per_sm", "chip.integer_lanes_per_sm",
    "chip.special_lanes_per_sm", "chip.load_store_lanes_per_sm", "chip.schedulers_per_sm",
    "chip.issue_width_per_sm", "chip.texture_units_per_sm", "chip.shared_banks",
    "chip.lanes_per_sm",
})  # fmt: skip
_OF_CAPABILITY = _OF_SAME_SM | {"chip.l1"}
"""Values of [chip] that are those of all chips of a compute capability."""

_OF_MEMORY = re.compile("l1_|l2_|dram_|shared_|memory_side")
"""In names of latencies that are not those of arithmetic."""

_SAME_SM = {"5.3": "5.2", "6.2": "6.1", "7.2": "7.0", "8.7": "8.6"}
"""Capabilities of integrated GPUs, whose multiprocessors have the lanes and schedulers of another
capability's by the CUDA C++ Programming Guide, Compute Capabilities; caches may differ."""

SECTIONS = ("clocks", "chip", "matrix", "occupancy", "host_link", "microbenchmark")
"""Tables of device files whose values are numbers."""

_SAME_CHIP = ("chip.sm_count", "chip.memory_bus_width", "chip.l2")


def keys() -> Iterator[tuple[str, Key]]:
    """Yield the keys of device files that are numbers, by their paths without units."""
    for name in SECTIONS:
        for key in DEVICE[name].keys:
            yield f"{name}.{key.stem}", key


def is_other(device: Device, given: Iterable[Measurement]) -> bool:
    """Return whether tools name another GPU; a name given by hand is a label of the user's."""
    said = {_words(str(m.value)) for m in given if m.key == "name" and m.method == "query"}
    names = device.name, device.name.partition("(")[0], DRIVER_NAMES.get(device.key, "")
    own = [*map(_words, names)]
    return bool(said) and not any(
        words == known and (size == other or not size or not other)
        for words, size in said for known, other in own
    )  # fmt: skip


def _words(name: str) -> tuple[tuple[str, ...], str]:
    """Return a name's words without vendor, cooling and module (OAM, VF), and the memory's size."""
    size = "".join(re.findall(r"(\d+) ?gb", name.casefold()))
    plain = re.sub(r"\d+ ?gb|[-_(),]", " ", name.casefold())
    words = re.sub(r"\b(k\d+)[cm]\b", r"\1", plain).split()
    return tuple(word for word in words if word not in ("nvidia", "amd", "oam", "vf")), size


def of_like(
    device: Device, found: dict[str, float], *, other: bool = False
) -> Iterator[Measurement]:
    """Yield what the file of a device like it says, as long as both are the same chip.

    Parameters
    ----------
    device : Device
        The device like it.
    found : dict of str to float
        What is said of the device otherwise, by path, in base units. Where the chips differ, only
        values of a multiprocessor are taken over.
    other : bool
        Whether tools name another GPU: then values of the chip and rates of matrix units are
        assumed, and the driver's clocks count, of the memory even the highest one alone.
    """
    same = _is_same_chip(device, found)
    clock = device.values.get("microbenchmark.core_clock")
    clocks = Clocks(clock / 1e6 if clock else None)
    nominal, *ends = (f"clocks.core_{end}" for end in ("nominal", "min", "max"))
    said = found.get(nominal, 0.0)
    low, high = (device.values.get(path, said) for path in ends)
    for path, key in keys():
        whole = path in OF_THE_CHIP or path.endswith(("_bandwidth", "_sustained"))
        whole = whole or path.startswith("clocks.")
        if other and path.startswith("clocks.memory_") and "clocks.memory_max" in found:
            continue
        if other and said and path in ends and not low <= said <= high:
            continue
        if path in device.values and path != "microbenchmark.core_clock" and (same or not whole):
            source = _source(device, key.path, other, whole or path.startswith("matrix."))
            yield _taken(device, path, key, "device_file", clocks, source)


def _source(device: Device, path: str, other: bool, of_product: bool = True) -> str:
    """Return where a value of a device like it comes from; what was measured there is not here."""
    own = device.sources[path]
    if not other or not (of_product or own.kind == "microbenchmark"):
        return str(own)
    return f"{AS_IF if of_product else 'derived: as '}{device.name} has it; {own}"


def _is_same_chip(device: Device, found: dict[str, float]) -> bool:
    here = device.values
    return all(found.get(path, here.get(path)) == here.get(path) for path in _SAME_CHIP)


def tables_of_like(
    device: Device, found: dict[str, float], *, other: bool = False
) -> Iterator[Measurement]:
    """Yield what a device like it says of models and of power, if both are the same chip."""
    if not _is_same_chip(device, found):
        return
    raw = tomllib.loads(device.text)
    tables = {f"model.{model}": table for model, table in raw.get("model", {}).items()}
    for section, table in (tables | {"power": raw.get("power", {})}).items():
        for name, value in table.items():
            path = f"{section}.{name}"
            yield Measurement(path, value, "", device.deviations.get(path), "device_file",
                              device.key, source=_source(device, path, other))  # fmt: skip


def of_capability(
    capability: str, target: str, sm_count: float | None = None
) -> Iterator[Measurement]:
    """Yield values that all devices here of a compute capability, or target of AMD's, agree on.

    Matrix units differ within a capability: of those only devices with as many multiprocessors are
    asked, and all must say the same.
    """
    shipped = _shipped()
    alike = [d for d in shipped if (capability and d.compute_capability == capability)
             or (target and d.compiler_target == target)]  # fmt: skip
    generation = f"compute capability {capability}" if capability else target
    if other := "" if alike else _SAME_SM.get(capability, ""):
        alike = [d for d in shipped if d.compute_capability == other]
        generation = f"compute capability {other}, whose lanes {capability} has, too"
    for path, key in keys():
        if not _is_of_capability(path) or (other and path not in _OF_SAME_SM):
            continue
        having = [d for d in alike if path in d.values]
        if path.startswith("matrix."):
            having = [d for d in alike if d.values["chip.sm_count"] == sm_count]
        numbers = {d.values.get(path) for d in having}
        if len(numbers) == 1 and None not in numbers:
            own = having[0].sources[key.path]
            words = f"as {having[0].name} has it, {generation}; {own}"
            kind = "assumed" if own.kind == "assumed" else "derived"
            yield _taken(having[0], path, key, "same_capability", Clocks(), f"{kind}: {words}")


def _is_of_capability(path: str) -> bool:
    """Return whether a value is that of all chips of a compute capability, or may be."""
    section, _, name = path.partition(".")
    if section == "microbenchmark":  # latencies of arithmetic
        return name.endswith("_latency") and not _OF_MEMORY.search(name)
    is_rate = section == "matrix" and name.endswith("_multiply_adds")
    return section == "occupancy" or is_rate or path in _OF_CAPABILITY


def _shipped() -> list[Device]:
    return [load_device(name) for name in list_devices()]


def architecture_of(capability: str, target: str) -> str:
    """Return the architecture's name that devices here of a capability have, without the chip."""
    for device in _shipped():
        if target and device.compiler_target == target:
            return device.architecture
        if capability and device.compute_capability == capability:
            return device.architecture.partition(" (")[0]
    return architecture_of(_SAME_SM[capability], "") if capability in _SAME_SM else ""


def target_of(name: str) -> str:
    """Return AMD's target of the device here of a name, ``""`` if there is none."""
    said = _words(name)[0]
    return next((d.compiler_target for d in _shipped() if said and _words(d.name)[0] == said), "")


def _taken(
    device: Device, path: str, key: Key, method: str, clocks: Clocks, source: str
) -> Measurement:
    value = device.values[path] / (key.unit.factor if key.unit else 1.0)
    unit = key.unit.suffix if key.unit else ""
    return Measurement(path, float(f"{value:.12g}"), unit, device.deviations.get(key.path), method,
                       device.key, clocks=clocks, source=source)  # fmt: skip
