"""One value for each key out of what several tools say.

Where two values of a key disagree, the first in :attr:`Measurement.rank` wins: the better method,
then stated clocks, then locked ones, then the smaller deviation, then the file that was given
first. The other one is reported. Rates at one size only bound what the device can do from below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sweep.errors import SweepError
from sweep.hardware.l2_rates import l2_bytes
from sweep.importers.microbenchmarks.conversion import converted, follows_clock, said, times
from sweep.importers.microbenchmarks.measurement import LOWER_BOUNDS, METHODS, TEXTS, Measurement
from sweep.importers.microbenchmarks.shipped import (
    AS_IF,
    architecture_of,
    is_other,
    keys,
    of_capability,
    of_like,
    tables_of_like,
    target_of,
)
from sweep.specs import Device
from sweep.specs.check import check_value
from sweep.specs.formats import UNITS, Key

AGREE = 0.05
"""Relative difference up to which two measured values agree."""

SAME = 0.01
"""The same for what the driver says of one GPU."""

DRAM_SHARE, L2_BYTES = 0.85, 32.0
"""What models assume of a GPU without measurements: DRAM's share of its peak [1], and what L2
serves to a multiprocessor in a cycle [byte], if no GPU like it was measured (`sweep/hardware`)."""

FAR_CLOCK = 0.9
"""Measured below this share of the nominal clock, values are of a GPU that was held back."""

TRANSFERS = {"": 2.0, "gfx94": 4.0, "gfx10": 16.0, "gfx11": 16.0, "gfx12": 16.0}
"""Transfers in a memory clock as drivers count it: 2, on AMD's with HBM3 4 (an MI300X of 5.2 GT/s:
1300 MHz), with GDDR6 16."""

DURING = "clock during the test"


@dataclass
class Merged:
    """What is known of a device.

    Attributes
    ----------
    texts : dict of str to Measurement
        The top of the file.
    chosen : dict of str to Measurement
        By path without unit, in the unit of the key; cycles at ``microbenchmark.core_clock``.
    models : dict of str to Measurement
        Parameters of models, by their keys.
    remarks : list of str
        What was not taken, and why; one line each.
    """

    texts: dict[str, Measurement] = field(default_factory=dict)
    chosen: dict[str, Measurement] = field(default_factory=dict)
    models: dict[str, Measurement] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def number(self, path: str) -> float | None:
        """Return a chosen number in the unit of its key."""
        found = self.chosen.get(path)
        return None if found is None else float(found.value)


def merged(measurements: Iterable[Measurement], like: Device | None = None) -> Merged:
    """Return one value for each key.

    Parameters
    ----------
    measurements : iterable of Measurement
        What tools say, in the order of the files.
    like : Device, optional
        A device whose file completes them.

    Raises
    ------
    SweepError
        Two tools describe different GPUs, or a value is outside the range of its key.
    """
    given, result = list(measurements), Merged()
    for key in TEXTS:
        _choose_text(result, key, [m for m in given if m.key == key])
    capability, target = _identify(result, like)
    if architecture := architecture_of(capability, target):
        own = Measurement("architecture", architecture, method="same_capability")
        result.texts.setdefault("architecture", own)
    given = [_of_two_transfers(one, target) for one in given]
    _same_gpu(given)
    known = dict(keys())
    found = {m.key: _base(m) for m in given if m.method in ("query", "given") and m.key in known}
    other = like if like and is_other(like, given) else None
    sm_count = found.get("chip.sm_count", like.values["chip.sm_count"] if like else None)
    of_file = of_like(like, found, other=bool(other)) if like else ()
    candidates: dict[str, list[Measurement]] = {}
    for one in (*given, *of_file, *of_capability(capability, target, sm_count)):
        if one.key in known:
            candidates.setdefault(one.key, []).append(one)
    measured = [path for path in known if path.startswith("microbenchmark.")]
    for path in (path for path in known if path not in measured):
        _choose(result, known[path], path, candidates.get(path, []))
    _clocks(result)
    _peak_bandwidth(result, target)
    if other is not None:
        _scale_dram(result, known, other, candidates)
    _core_clock(result, given, candidates)
    for path in (path for path in measured if path != "microbenchmark.core_clock"):
        _choose(result, known[path], path, candidates.get(path, []))
    tables = sorted((m for m in given if m.key.startswith("model.")), key=lambda m: m.rank)
    for one in (*tables, *(tables_of_like(like, found, other=bool(other)) if like else ())):
        result.models.setdefault(one.key, one)
    if other is not None:
        _say_taken(result, other)
    _say_missing(result, capability)
    return result


# ---------------------------------------------------------------------------- texts and identity


def _text(result: Merged, key: str) -> str:
    return str(result.texts[key].value) if key in result.texts else ""


def _choose_text(result: Merged, key: str, found: list[Measurement]) -> None:
    if found:
        result.texts[key] = min(found, key=lambda m: list(METHODS).index(m.method))
    names = {str(m.value).removeprefix("NVIDIA ").casefold(): m for m in found}
    if len(names) > 1 and key != "architecture":
        (a, b), what = list(names.values())[:2], key.replace("_", " ")
        text = f"{what}: {said(a)} and {said(b)}"
        if key == "name" and "AMD" in {_text(result, "vendor"), str(a.value)[:3], str(b.value)[:3]}:
            result.remarks.append(f"{text}: the first is taken")
        else:
            raise SweepError(f"{text}: two GPUs")


def _identify(result: Merged, like: Device | None) -> tuple[str, str]:
    """Complete the texts; return the compute capability and AMD's target, one of them or none."""
    capability, target = (_text(result, key) for key in ("compute_capability", "compiler_target"))
    if not (capability or target) and (target := target_of(_text(result, "name"))):
        own = Measurement("compiler_target", target, method="same_capability")
        result.texts["compiler_target"] = own
    if like is None:
        return capability, target
    if (capability or target) not in ("", like.target):
        reason = f"{like.generation}, but the tools say {capability or target}"
        raise SweepError(f"{like.key} is no device like it: it is of {reason}")
    for key in TEXTS:
        if text := getattr(like, key):
            own = Measurement(key, text, method="device_file", tool=like.key)
            result.texts.setdefault(key, own)
    return like.compute_capability, like.compiler_target


def _base(one: Measurement) -> float:
    return float(one.value) * (UNITS[one.unit].factor if one.unit in UNITS else 1.0)


def _same_gpu(given: list[Measurement]) -> None:
    """Refuse what drivers say of two GPUs."""
    first: dict[str, Measurement] = {}
    for one in (m for m in given if m.method == "query" and not isinstance(m.value, str)):
        other = first.setdefault(one.key, one)
        is_limit = one.key.endswith(("_min", "_max"))
        if abs(_base(one) / _base(other) - 1.0) > SAME and not is_limit:
            raise SweepError(f"{one.key}: {said(other)} and {said(one)}: two GPUs, or two"
                             " settings of its clocks")  # fmt: skip


# ---------------------------------------------------------------------------- choosing


def _choose(result: Merged, key: Key, path: str, found: list[Measurement]) -> None:
    """Take the best candidate for a key, and report those that disagree."""
    at = result.number("microbenchmark.core_clock"), result.number("chip.sm_count")
    found = [ready for one in found if (ready := converted(one, key, *at)) is not None]
    for one in found:
        reason = check_value(key, one.value)[1]
        if reason:
            raise SweepError(f"{one.place or one.tool}: {key.path} = {one.value:.6g}: {reason}")
    ordered = _without_bounds(result, path, sorted(found, key=lambda m: m.rank))
    if not ordered:
        return
    best, *rest = ordered
    result.chosen[path] = best
    for other in rest:
        off = float(other.value) / float(best.value) - 1.0 if best.value else 0.0
        if abs(off) > AGREE and other.method != "same_capability":
            result.remarks.append(
                f"{path.partition('.')[2]}: {said(best)} is taken, {METHODS[best.method]};"
                f" {said(other)} is {abs(off):.0%} {'higher' if off > 0 else 'lower'}"
            )


def _without_bounds(result: Merged, path: str, found: list[Measurement]) -> list[Measurement]:
    """Return candidates without impossible rates, and without lower bounds that say nothing."""
    if not path.endswith("_bandwidth") or path == "chip.memory_bandwidth":
        return found
    kept = []
    peak = result.number("chip.memory_bandwidth") if ".dram_" in path else None
    for one in found:
        if peak and float(one.value) > peak:
            reason = f"is above the peak of {peak:.6g} GB/s (of caches?):"
            result.remarks.append(f"{path.partition('.')[2]}: {said(one)} {reason} left out")
        else:
            kept.append(one)
    rest = [one for one in kept if one.method not in LOWER_BOUNDS]
    least = max((float(one.value) for one in rest), default=_assumed_bandwidth(result, path))
    bounds = sorted((one for one in kept if one.method in LOWER_BOUNDS),
                    key=lambda one: -float(one.value))  # fmt: skip
    for one in bounds:
        if float(one.value) <= least:
            least_by = "measured otherwise" if rest else "that models assume without a measurement"
            reason = f"is a lower bound, below the {least:.5g} GB/s {least_by}: left out"
            result.remarks.append(f"{path.partition('.')[2]}: {said(one)} {reason}")
    return [one for one in bounds if float(one.value) > least][:1] or rest


def _assumed_bandwidth(result: Merged, path: str) -> float:
    """Return what models assume for a bandwidth that is not measured [GB/s], 0 for nothing."""
    peak, n_sm, clock = (result.number(path) for path in (
        "chip.memory_bandwidth", "chip.sm_count", "microbenchmark.core_clock"))  # fmt: skip
    if path.endswith(".dram_read_bandwidth"):
        return DRAM_SHARE * (peak or 0.0)
    if path.endswith(".l2_read_bandwidth"):
        capability, width = _text(result, "compute_capability"), "chip.memory_bus_width"
        per_sm = l2_bytes(capability, result.number(width), n_sm) or L2_BYTES
        return per_sm * (n_sm or 0.0) * (clock or 0.0) * 1e-3
    return 0.0


# ---------------------------------------------------------------------------- clocks and units


def _transfers(target: str) -> float:
    return TRANSFERS[next((f for f in TRANSFERS if f and target.startswith(f)), "")]


def _of_two_transfers(one: Measurement, target: str) -> Measurement:
    """Return what a driver says of a memory clock as device files count: two transfers a clock."""
    factor = _transfers(target) / 2.0
    if factor == 1.0 or one.method != "query" or not one.key.startswith("clocks.memory_"):
        return one
    return replace(one, value=factor * float(one.value), place=f"{one.place}, times {factor:g}")


def _clocks(result: Merged) -> None:
    """Complete the nominal clocks and drop ranges with one end."""
    for domain in ("core", "memory"):
        low, nominal, high = (f"clocks.{domain}_{end}" for end in ("min", "nominal", "max"))
        chosen = result.chosen
        if nominal not in chosen and high in chosen:
            source = f"assumed: the highest {domain} clock, {chosen[high].place}; none says nominal"
            chosen[nominal] = replace(chosen[high], key=nominal, source=source)
        least, usual, most = (result.number(path) for path in (low, nominal, high))
        if usual is not None:
            if most is not None and most < usual <= most * (1.0 + SAME):  # a driver rounded it
                most = usual
                chosen[high] = replace(chosen[high], value=usual)
            if not (least or 0.0) <= usual <= (math.inf if most is None else most):
                to = "more" if most is None else said(chosen[high])
                raise SweepError(f"{nominal}: {said(chosen[nominal])} is outside {least or 0:g} to"
                                 f" {to}: another GPU, or clocks that were limited?")  # fmt: skip
        if None in (least, most):
            for end in (low, high):
                if chosen.pop(end, None):
                    result.remarks.append(
                        f"clocks.{domain}: the range has one end only and is left out"
                        " (`nvidia-smi -q -d SUPPORTED_CLOCKS` lists all clocks)"
                    )


def _peak_bandwidth(result: Merged, target: str) -> None:
    """Derive the peak bandwidth from clock and width where they are not those of a file."""
    chosen, path = result.chosen, "chip.memory_bandwidth"
    clock, width = (chosen.get(p) for p in ("clocks.memory_nominal", "chip.memory_bus_width"))
    if clock is None or width is None or (path in chosen and clock.method == "device_file"):
        return
    peak = 2.0 * float(clock.value) * float(width.value) / 8e3
    if stated := chosen.get(path):
        off = abs(float(stated.value) / peak - 1.0)
        if stated.method == "given" and off > AGREE:
            result.remarks.append(f"memory_bandwidth: {said(stated)} is taken, given by hand; clock"
                                  f" and width of the memory give {peak:.6g} GB/s")  # fmt: skip
        if stated.method == "given" or off < SAME:
            return
    is_assumed = any(one.source.startswith("assumed") for one in (clock, width))
    kind = "assumed" if is_assumed or _transfers(target) != 2.0 else "derived"
    words = f"2 transfers a clock of {width.value:g} bits at {clock.value:g} MHz"
    chosen[path] = Measurement(path, float(f"{peak:.7g}"), "GBps", source=f"{kind}: {words}")


def _scale_dram(
    result: Merged, known: Mapping[str, Key], like: Device, candidates: dict[str, list[Measurement]]
) -> None:
    """Scale rates of DRAM of a device like it, but another one, in proportion to the peaks."""
    peak = result.number("chip.memory_bandwidth") or 0.0
    ratio = peak * 1e9 / like.values["chip.memory_bandwidth"]
    if abs(ratio - 1.0) < SAME:
        return
    for path in (p for p in candidates if ".dram_" in p and p.endswith("_bandwidth")):
        for i, one in enumerate(candidates[path]):
            if one.method == "device_file":
                source = f"{one.source}, times {ratio:.4g}"
                candidates[path][i] = replace(times(one, ratio, known[path]), source=source)


def _core_clock(
    result: Merged, given: list[Measurement], candidates: Mapping[str, list[Measurement]]
) -> None:
    """Choose the clock to which all measured cycles belong: that of the latency of DRAM."""
    path = "microbenchmark.core_clock"
    measured = [m for m in given if m.key.startswith("microbenchmark.")
                and (m.method != "given" or follows_clock(m.key))]  # fmt: skip
    first = sorted(candidates.get("microbenchmark.dram_latency", []), key=lambda m: m.rank)
    by_file = [m for found in candidates.values() for m in found if m.method == "device_file"]
    stated = [m for m in (*first, *measured, *by_file) if m.clocks.core and m.key != path]
    nominal = result.number("clocks.core_nominal")
    if nominal and (not stated or (measured and stated[0].method == "device_file")):
        assumed = "assumed: the nominal clock; no tool states the clock while it measured"
        source = assumed if measured else "derived: the nominal clock"
        result.chosen[path] = Measurement(path, nominal, "MHz", source=source)
    elif stated:
        one = stated[0]
        own = one.source and f"{one.source.partition(':')[0]}: that of {one.tool}"
        result.chosen[path] = replace(one, key=path, value=one.clocks.core or 0.0, unit="MHz",
                                      deviation=None, note=DURING, source=own)  # fmt: skip
    clock = result.number(path)
    if clock and nominal and measured and not FAR_CLOCK <= clock / nominal <= 1 / FAR_CLOCK:
        result.remarks.append(f"measured at {clock:g} MHz, the nominal clock is {nominal:g}: was"
                              " the GPU held back?")  # fmt: skip


# ---------------------------------------------------------------------------- remarks


def _say_taken(result: Merged, like: Device) -> None:
    """Say which values are those of a device like it, though tools name another GPU."""
    taken = [path.partition(".")[2] for path, one in result.chosen.items()
             if one.source.startswith(AS_IF) and one.method == "device_file"]  # fmt: skip
    taken += [path.rpartition(".")[0] for path, one in result.models.items()
              if one.source.startswith(AS_IF)]  # fmt: skip
    if names := ", ".join(dict.fromkeys(taken)):
        who = f"{_text(result, 'name')} is not {like.name}"
        result.remarks.append(f"{who}: for lack of a tool that says them, {names} are those of"
                              f" {like.key}, and marked as assumed")  # fmt: skip


def _say_missing(result: Merged, capability: str) -> None:
    """Say which values that models need no tool says."""
    side = "memory_side_cache"
    if f"chip.{side}" in result.chosen and f"microbenchmark.{side}_bandwidth" not in result.chosen:
        result.remarks.append(f"{side}: models leave it out until [microbenchmark] has"
                              f" {side}_bandwidth_GBps, which no tool says")  # fmt: skip
    told = ("microbenchmark.tensor_fp16_fma_per", "matrix.")
    if float(capability or 0) >= 7.0 and not any(path.startswith(told) for path in result.chosen):
        result.remarks.append(
            "no [matrix]: kernels with matrix instructions have no time; the data sheet says rates"
            " by type, or the file of a device that --like names"
        )
