"""``sweep ptx | profile | compile``: kernel files and what compilers say of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.cli.parser import call_with
from sweep.cli.values import check_key
from sweep.errors import SweepError, counted, nearest

if TYPE_CHECKING:
    from sweep.cuda.configurations import Variant
    from sweep.space import KernelSpace
    from sweep.specs import Kernel


def ptx(arguments: argparse.Namespace) -> int:
    """Read PTX and print the kernel file, or write it; a summary goes to the error stream."""
    from sweep.cuda.matching import sides_of
    from sweep.importers.files import read_source
    from sweep.importers.ptx.analysis import analyse
    from sweep.importers.ptx.kernel_file import kernel_text
    from sweep.importers.ptx.parser import LARGEST_TEXT, read_ptx
    from sweep.importers.ptx.stages import instruction_costs
    from sweep.importers.ptx.summary import check_complete, summary
    from sweep.models import model_names
    from sweep.space import with_derived
    from sweep.specs import load_device

    paths = [Path(file) for file in arguments.files]
    if len(paths) > 1 or paths[0].is_dir() or arguments.index:
        return _ptx_of_many(arguments, paths)
    if arguments.tile_order:
        raise SweepError("--tile-order: is for many files; write [tile_order] into the kernel file")
    path = paths[0]
    for name in ("block", "grid"):
        if (sides := getattr(arguments, name)) is not None:
            setattr(arguments, name, sides_of(sides, arguments.sizes, f"--{name}"))
    text = read_source(path, LARGEST_TEXT).text
    costs = None
    if arguments.device:
        costs = instruction_costs(with_derived(load_device(arguments.device), model_names()))
    try:
        analysis = call_with(analyse, arguments, read_ptx(text).entry(arguments.entry))
        check_complete(analysis, text)
        kernel = call_with(kernel_text, arguments, analysis, source=path.name, costs=costs)
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    lines = summary(analysis, arguments.registers, before=len(f"sweep: {path.name}: "))
    return _deliver(arguments, kernel, path.name, ["\nsweep: ".join(lines)])


def _ptx_of_many(arguments: argparse.Namespace, paths: Sequence[Path]) -> int:
    """Read the PTX of many configurations and write one kernel file and its table."""
    from sweep.cuda.configurations import read_variants

    for name in ("registers", "dynamic_shared", "device"):
        if getattr(arguments, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise SweepError(f"{option}: is for one file; for many, --index has such columns")
    if arguments.stages not in (None, "loops", "none"):
        raise SweepError(f"--stages {arguments.stages}: for many files, loops or none")
    variants = read_variants(paths, Path(arguments.index) if arguments.index else None)
    source = paths[0].name if paths[0].is_dir() else counted(len(paths), "file")
    return _deliver_many(arguments, variants, source)


def triton(arguments: argparse.Namespace) -> int:
    """Compile a Triton kernel's configurations and write one kernel file over them."""
    from sweep.cuda.triton import import_triton, jobs_of, kernel_of, read_configs
    from sweep.cuda.triton_compiling import compile_all

    if not arguments.targets:
        raise SweepError("--target: names none: write sm_80,sm_90")
    kernel = kernel_of(arguments.place)
    configs = read_configs(kernel, arguments.configs)
    jobs = [
        job
        for target in arguments.targets
        for job in jobs_of(arguments.place, kernel, arguments.signature, configs, target)
    ]
    variants = compile_all(
        jobs,
        configs * len(arguments.targets),
        progress=partial(_with_bar, unit="configuration"),
        processes=arguments.processes,
    )
    if not any(job.divisible for job in jobs):
        note = "no argument is a multiple of 16 (i32:16, *fp16:16), so that loads are narrow"
        print(f"sweep: {arguments.place}: {note}", file=sys.stderr)
    compiler = f"Triton {import_triton().__version__} and its ptxas"
    return _deliver_many(arguments, variants, Path(arguments.place).name, compiler)


def _deliver_many(
    arguments: argparse.Namespace, variants: Sequence[Variant], source: str, compiler: str = ""
) -> int:
    """Write the kernel file of many configurations and its table; remarks go to stderr."""
    from sweep.cuda.matching import Given, analyses_of
    from sweep.cuda.tabulated import tabulated

    path = Path(arguments.output) if arguments.output else None
    if path is not None:
        check_key(path, "a kernel file")
    given = call_with(Given, arguments)
    total = sum(not variant.reason for variant in variants)
    analyses = list(_with_bar(analyses_of(variants, given), total, unit="file"))
    key = path.stem if path else "kernel"
    found = tabulated(variants, analyses, given, key=key, source=source, compiler=compiler)
    return _deliver(arguments, found.text, source, found.remarks, found.table)


def profile(arguments: argparse.Namespace) -> int:
    """Read a profile and print the kernel file, or write it; remarks go to the error stream.

    Into a folder go the files of all kernels.
    """
    from sweep.importers.profiles.kernel_file import Given
    from sweep.measurements.profiled import profiled_kernels, read_profile

    given = call_with(Given, arguments)
    folder = Path(arguments.output or "")
    if arguments.output is None or arguments.kernel is not None or not folder.is_dir():
        found = call_with(read_profile, arguments, arguments.files, given=given)
        return _deliver(arguments, found.text, found.key, found.remarks)
    every = {}
    for name in profiled_kernels(arguments.files):
        found = call_with(read_profile, arguments, arguments.files, given=given, kernel=name)
        if found.key in every:
            raise SweepError(f"{folder}: two kernels make {found.key}.toml: choose one by --kernel")
        every[found.key] = found
    for key, found in every.items():
        arguments.output = str(folder / f"{key}.toml")
        _deliver(arguments, found.text, key, found.remarks)
    return 0


def compile_(arguments: argparse.Namespace) -> int:
    """Compile a kernel's variants and write the table; what is noteworthy goes to stderr."""
    from sweep.cuda.compiling import Task, compile_all, table_text
    from sweep.cuda.variants import variants_of
    from sweep.importers.files import check_free, read_source, write_whole
    from sweep.specs.compiled import parse_table
    from sweep.specs.reading import LARGEST_FILE

    space, capabilities = _space_to_compile(arguments)
    kernel = space.kernel
    path = Path(arguments.output) if arguments.output else _table_of(kernel)
    check_key(path, "a table", ".csv")
    check_free(path, overwrite=arguments.overwrite)
    source = read_source(Path(arguments.file), LARGEST_FILE)
    task = Task(
        source.text,
        source.path.name,
        entry=arguments.entry or "",
        options=tuple(arguments.options),
        count=arguments.instructions,
        trips=arguments.trips,
        arguments=arguments.arguments,
    )
    variants = variants_of(source.text, space, arguments.also)
    bar = partial(_with_bar, unit="variant")
    found = call_with(compile_all, arguments, task, variants, capabilities, progress=bar)
    text = table_text(task, variants, found)
    try:
        table = parse_table(text, path.name, kernel.parameters, kernel.sizes)
    except ValueError as error:
        raise SweepError(f"{path}: {error}") from None
    write_whole(path, text, overwrite=arguments.overwrite)
    spilled = sum(row["spill_load_bytes"] > 0 for _, _, row in found.rows)
    print(f"{path}: {table.head['variants']}, for {', '.join(capabilities)}")
    print(f"{table.described}; {spilled:,} of {len(found.rows):,} rows spill registers")
    if found.failures:
        n = len(found.failures)
        print(f"sweep: {n:,} do not compile, such as {found.failures[0]}", file=sys.stderr)
    if found.uncounted:
        print(f"sweep: instructions are not counted: {found.uncounted}", file=sys.stderr)
    if kernel.compiled is None:
        print(f'use it: in {kernel.key}.toml, write [compiled] and table = "{path.name}"')
    return 0


def _with_bar(items: Iterable[Any], length: int, unit: str) -> Iterator[Any]:
    """Yield items; a progress bar counts them where the error stream is a terminal."""
    from tqdm import tqdm

    yield from tqdm(items, total=length, unit=unit, disable=None)


def _table_of(kernel: Kernel) -> Path:
    """Return the table that the kernel file names, or else that of its name beside it."""
    name = kernel.compiled.name if kernel.compiled else f"{kernel.key}.compiled.csv"
    return kernel.path.with_name(name) if kernel.path else Path(name)


def _space_to_compile(arguments: argparse.Namespace) -> tuple[KernelSpace, tuple[str, ...]]:
    """Return the kernel's space and the compute capabilities to compile for."""
    from sweep.space import Plan, load_plan, resolve
    from sweep.specs import load_kernel

    if arguments.plan:
        plan = load_plan(arguments.plan)
    elif arguments.kernel:
        # Variants do not depend on devices and models. Formulas may, where they fill a table.
        devices = _devices_of(arguments.capabilities or ()) or ("gtx_980",)
        plan = Plan((arguments.kernel,), devices, ("hong_kim",), layout="stacked")
    else:
        raise SweepError("compile: give --kernel NAME or --plan PLAN")
    spaces = resolve(plan, kernel_of=partial(load_kernel, compiled=False)).kernels
    keys = [space.kernel.key for space in spaces]
    wanted = Path(arguments.kernel).stem if arguments.kernel else None
    chosen = [space for space in spaces if wanted in (None, space.kernel.key)]
    if len(chosen) != 1:
        which = f"no kernel '{wanted}'{nearest(str(wanted), keys)}" if wanted else "several kernels"
        raise SweepError(f"{plan.origin}: {which}: --kernel is one of {', '.join(keys)}")
    own = {device.target: None for device in chosen[0].devices if device.target}
    capabilities = tuple(arguments.capabilities or (own if arguments.plan else ()))
    if not capabilities:
        raise SweepError("compile: give --compute-capability, such as 7.0,8.6")
    return chosen[0], capabilities


def _devices_of(capabilities: Collection[str]) -> tuple[str, ...]:
    """Return the first device of each compute capability that has one."""
    from sweep.specs import list_devices, load_device

    found: dict[str, str] = {}
    for key in list_devices() if capabilities else ():
        with suppress(SweepError):  # a file that is wrong is no device
            found.setdefault(load_device(key).target, key)
    return tuple(found[capability] for capability in capabilities if capability in found)


def _deliver(
    arguments: argparse.Namespace, text: str, name: str, remarks: Iterable[str], table: str = ""
) -> int:
    """Write a kernel file and the table that it names, or print both; remarks go to stderr."""
    from sweep.importers.files import write_all
    from sweep.specs import parse_kernel
    from sweep.specs.compiled import appended

    whole = appended(text, table) if table else text
    if arguments.output:
        path = Path(arguments.output)
        check_key(path, "a kernel file")
        parse_kernel(whole, path.stem, path)
        beside = {path.with_name(f"{path.stem}.compiled.csv"): table} if table else {}
        write_all({path: text, **beside}, overwrite=arguments.overwrite)
    else:
        print(whole, end="")
    for remark in remarks:
        print(f"sweep: {name}: {remark}", file=sys.stderr)
    return 0
