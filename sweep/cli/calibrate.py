"""``sweep calibrate``: a device file from what micro-benchmark tools print."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.errors import SweepError, printable

if TYPE_CHECKING:
    from sweep.importers.microbenchmarks.measurement import Measurement
    from sweep.importers.microbenchmarks.merging import Merged
    from sweep.specs import Device


def calibrate(arguments: argparse.Namespace) -> int:
    """Write a device file from tools' files."""
    from sweep.importers.microbenchmarks.files import read_measurements

    files, is_whole = list(arguments.files), True
    measurements = read_measurements(files)  # first: measuring takes minutes
    if arguments.gpu is not None:
        path, is_whole = measure(arguments)
        files.insert(0, path)
        measurements[:0] = read_measurements([path])
    if not files:
        raise SweepError("no files: give what tools printed, or --gpu to measure this machine's")
    return finish(arguments, measurements, files) or int(not is_whole)


def measure(arguments: argparse.Namespace) -> tuple[Path, bool]:
    """Run the procedures on this machine's GPU; return the samples' file, and if all were tried."""
    from sweep.cuda import nvrtc
    from sweep.importers.files import check_free, write_whole
    from sweep.microbenchmarks.gpu import NvidiaGpu
    from sweep.microbenchmarks.procedures import as_json
    from sweep.microbenchmarks.running import measured

    output = Path(arguments.output)
    path = Path(arguments.samples or output.with_suffix(".samples.json"))
    for file in (output, path):
        check_free(file, overwrite=arguments.overwrite)
        if not os.access(file.parent, os.W_OK):
            raise SweepError(f"{file}: cannot be written: no folder, or a protected one")

    def compiled(source: str, capability: str) -> str:
        return nvrtc.load(capability).compile(source, "measure.cu", capability, []).ptx

    def tell(line: str) -> None:
        print(f"sweep: {printable(line)}", file=sys.stderr)

    gpu = NvidiaGpu(arguments.gpu, compiled, may_lock=not arguments.no_lock)
    with arguments.interrupts.by_all():  # or the clocks would stay locked
        samples = measured(gpu, tell)
    write_whole(path, as_json(samples), overwrite=arguments.overwrite)
    print(f"wrote {path}")
    return path, gpu.is_alive()


def finish(
    arguments: argparse.Namespace, measurements: Sequence[Measurement], files: Sequence[Path]
) -> int:
    """Write the device file of measurements; what was not taken goes to the error stream."""
    from sweep.importers.microbenchmarks.merging import merged
    from sweep.specs import load_device

    like = load_device(arguments.like) if arguments.like else None
    known = merged(measurements, like)
    tools = Counter(one.tool for key, one in known.chosen.items()
                    if key.startswith("microbenchmark.") and not one.source)  # fmt: skip
    names = list(dict.fromkeys(one.tool for one in measurements))
    comments = [f"Written by `sweep calibrate` from what {', '.join(names)} printed."]
    if not tools:
        raise SweepError(
            "the files have no measured value: mt4g or gpu-benches measure latencies and bandwidths"
            " (`sweep new device` begins a file without)"
        )
    path = write_device(Path(arguments.output), known, comments, arguments.overwrite,
                        powered=files)  # fmt: skip
    listed = ", ".join(f"{count} by {tool}" for tool, count in tools.items())
    print(f"wrote {path}: {sum(tools.values())} measured values, {listed}")
    print(f"next: sweep show {path}")
    return 0


def write_device(
    path: Path,
    known: Merged,
    comments: Sequence[str],
    overwrite: bool,
    *,
    blanks: bool = False,
    powered: Sequence[Path] = (),
) -> Path:
    """Write a device file with notes on what was not taken, and on what models lack.

    Of the files ``powered`` those that hold samples of our own kernels give it a power.
    """
    from sweep.importers.files import write_whole
    from sweep.importers.microbenchmarks.device_file import device_text
    from sweep.specs import parse_device

    lacks = lacks_of_models(parse_device(device_text(known, path.stem), path.stem))
    notes = list(dict.fromkeys([*known.remarks, *lacks]))
    text = device_text(known, path.stem, [*comments, *(f"- {note}" for note in notes)],
                       blanks=blanks)  # fmt: skip
    text, without = with_power_of(powered, text, path.stem)
    write_whole(path, text, overwrite=overwrite)
    for note in (*notes, *without):
        print(f"sweep: {printable(note)}", file=sys.stderr)
    return path


def with_power_of(files: Sequence[Path], text: str, key: str) -> tuple[str, list[str]]:
    """Return a device's file with the power that samples among the files tell, or why not."""
    from sweep.importers.files import read_source
    from sweep.importers.microbenchmarks.own_samples import READER
    from sweep.measurements.calibrating_power import calibrate_power
    from sweep.specs import parse_device

    for file in files:
        if READER.recognises(read_source(file).text):
            try:
                return calibrate_power(file, device=parse_device(text, key)).device.text, []
            except SweepError as error:
                stays = "[power] is not measured" if "\n[power]\n" in text else "no [power]"
                return text, [f"{stays}: {error}"]
    return text, []


def lacks_of_models(device: Device) -> list[str]:
    """Return a line for each model that a device's file cannot serve, or serves by assumptions."""
    from sweep.models import model_names
    from sweep.space import what_is_missing, with_derived

    complete, lines = with_derived(device, model_names()), []
    assumed: dict[str, list[str]] = {}
    for name in model_names():
        if lacking := what_is_missing(complete, name, device):
            lines.append(f"{name} does not run without {', '.join(lacking)}")
        for path in complete.assumed((f"model.{name}",)):
            assumed.setdefault(complete.sources[path].reference.rpartition("; ")[2], []).append(
                name
            )
    lines += [f"assumed for {', '.join(dict.fromkeys(names))}: {what}"
              for what, names in assumed.items()]  # fmt: skip
    return lines
