"""The questions whose answers ``test_fingerprints`` holds to the letter."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import sweep
from sweep.cli import main

PAPER = "gtx_980_paper"
TABLES = ("grid", "stacked")
MEASURED = "tile,block_rows,padding,tiles_per_block,time_ms\n" + "".join(
    f"{tile},{rows},{padding},1,{1 + (7 * tile + 5 * rows + 3 * padding) % 11}\n"
    for tile in (16, 32, 64)
    for rows in (2, 4, 8)
    for padding in (0, 1)
)
PLAN: dict[str, Any] = {
    "kernels": ["matrixmul_shared", "transpose"],
    "devices": [PAPER, "gtx_280"],
    "models": ["hong_kim", "wang_chu"],
    "constraints": ["tile % unroll == 0", "tile / work_per_thread > 2", "tile % block_rows == 0"],
    "axes": {"core_clock_ratio": [0.8, 0.9, 1.0], "memory_clock_ratio": [0.7, 1.0]},
}


def plan(layout: str) -> sweep.Plan:
    """Return the plan that questions are about, as a grid or as a list."""
    return sweep.Plan(layout=layout, name=layout, **PLAN)


def prepare() -> None:
    """Write plans, their stores and a table of measured times into the current directory."""
    for layout in TABLES:
        write(layout, layout)
        sweep.run(f"{layout}.toml", f"{layout}.zarr")
    write("after", "grid", variant="printed")
    Path("measured.csv").write_text(MEASURED, encoding="utf-8")


def write(name: str, layout: str, **more: str) -> None:
    """Write a plan's file."""
    keys: dict[str, Any] = {"schema": 1, "name": name, "layout": layout, **PLAN, **more}
    axes = keys.pop("axes")
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    lines += ["[axes]", *(f"{axis} = {json.dumps(values)}" for axis, values in axes.items())]
    Path(f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


@cache
def source(kind: str, layout: str) -> Any:
    """Return a plan, its results in memory, or the path of its store."""
    if kind == "store":
        return f"{layout}.zarr"
    return plan(layout) if kind == "plan" else sweep.evaluate(plan(layout)).load()


# Asked of stores, of results in memory and of plans, grids and lists: always the same answer.
ASKED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "best": ("best", (), {}),
    "best by a parameter": ("best", (), {"by": ["tile"]}),
    "best of all": ("best", (), {"by": []}),
    "best by clocks": ("best", (), {"by": ["core_clock_ratio", "kernel", "device"]}),
    "best energy": ("best", ("energy",), {"by": ["model", "kernel"]}),
    "largest occupancy": ("best", ("occupancy",), {"sense": "max", "by": ["kernel"]}),
    "best of a selection": (
        "best", (), {"select": {"tile": [16, 32], "device": PAPER}, "by": ["model"]}),
    "best of a range": ("best", (), {"select": {"tile": (16, 64)}, "by": ["device"]}),
    "best where": ("best", (), {"where": "occupancy > 0.3 and tile >= 16"}),
    "top": ("top", (4,), {}),
    "top by": ("top", (2,), {"by": ["tile", "model"]}),
    "top where": ("top", (3,), {"where": "bound == 'memory'", "by": ["kernel"]}),
    "pareto": ("pareto", (), {}),
    "pareto of a device": ("pareto", (), {"select": {"device": PAPER}, "by": ["kernel"]}),
    "pareto with occupancy": (
        "pareto", (("execution_time", "occupancy"), ("min", "max")),
        {"by": ["kernel", "device", "model"]}),
    "pareto of three": (
        "pareto", (("execution_time", "energy", "occupancy"), ("min", "min", "max")),
        {"select": {"device": PAPER, "kernel": "transpose"}}),
    "summary": ("summary", (), {}),
    "summary by": ("summary", (), {"by": ["kernel", "model"], "select": {"device": PAPER}}),
    "histogram": ("histogram", ("execution_time",), {"bins": 8, "log": True}),
    "histogram by": ("histogram", ("regime",), {"by": ["kernel", "model"]}),
}  # fmt: skip

ONE = ["kernel=transpose", f"device={PAPER}", "model=wang_chu"]
COMMANDS: dict[str, list[str]] = {
    "best store": ["best", "grid.zarr"],
    "best list json": ["best", "stacked.zarr", "--by", "device,model", "--format", "json"],
    "best plan csv": ["best", "grid.toml", "kernel=transpose", "--format", "csv"],
    "best energy max": ["best", "grid.zarr", "--objective", "energy", "--max", "--by", "kernel"],
    "best include": ["best", "grid.zarr", "--include", "hong_kim_rounds", "model=hong_kim"],
    "best of nothing": ["best", "grid.zarr", "--where", "occupancy > 2"],
    "best misspelt": ["best", "grid.zarr", "--objective", "enrgy"],
    "top store": ["top", "grid.zarr", "5", *ONE],
    "top list csv": ["top", "stacked.zarr", "3", *ONE, "--format", "csv"],
    "top plan json": ["top", "stacked.toml", "2", *ONE, "--format", "json"],
    "top where": ["top", "grid.zarr", "3", "--where", "tile < 64 and occupancy >= 0.5"],
    "pareto store": ["pareto", "grid.zarr", f"device={PAPER}"],
    "pareto list json": ["pareto", "stacked.zarr", *ONE, "--format", "json"],
    "pareto plan csv": ["pareto", "grid.toml", *ONE, "--format", "csv"],
    "pareto max": [
        "pareto", "grid.zarr", f"device={PAPER}", "--objectives", "energy,occupancy:max"],
    "info store": ["info", "grid.zarr"],
    "info list": ["info", "stacked.zarr"],
    "info by": ["info", "grid.zarr", "--by", "kernel,device", "--format", "csv"],
    "info plan": ["info", "grid.toml", "--by", "kernel", "--format", "json"],
    "histogram store": ["histogram", "grid.zarr", "execution_time", "--bins", "6"],
    "histogram list json": ["histogram", "stacked.zarr", "bound", "--format", "json"],
    "histogram plan": ["histogram", "grid.toml", "energy", "--bins", "5", "--log", *ONE],
    "histogram range": ["histogram", "grid.zarr", "occupancy", "--range", "0:1", "--bins", "4",
                        "--by", "kernel", "--format", "csv"],
    "compare-models store": ["compare-models", "grid.zarr"],
    "compare-models list": ["compare-models", "stacked.zarr", f"device={PAPER}", "--format", "csv"],
    "compare-models plan": ["compare-models", "grid.toml", "--objective", "energy",
                            f"device={PAPER}", "--format", "json"],
    "compare same": ["compare", "grid.zarr", "stacked.zarr"],
    "compare changed": ["compare", "grid.zarr", "after.toml"],
    "compare changed csv": ["compare", "grid.zarr", "after.toml", "--format", "csv"],
    "compare list": ["compare", "grid.zarr", "after.toml", "--list", "2"],
    "compare energy": ["compare", "grid.zarr", "after.toml", "--objective", "energy",
                       "--tolerance", "0.5", "--format", "json"],
    "validate store": ["validate", "grid.zarr", "measured.csv", "--device", PAPER,
                       "kernel=transpose", "core_clock_ratio=1", "memory_clock_ratio=1"],
    "validate list json": ["validate", "stacked.zarr", "measured.csv", "--device", PAPER,
                           "kernel=transpose", "core_clock_ratio=1", "memory_clock_ratio=1",
                           "--format", "json", "--misses", "2"],
    "explain row": ["explain", "stacked.zarr", "kernel=matrixmul_shared", "device=gtx_280",
                    "model=hong_kim", "--row", "3"],
    "explain invalid": ["explain", "grid.toml", "kernel=transpose", "device=gtx_280",
                        "model=hong_kim", "tile=64", "block_rows=8", "padding=1",
                        "tiles_per_block=1", "core_clock_ratio=1", "memory_clock_ratio=1"],
    "explain json": ["explain", "grid.toml", *ONE, "--objective", "energy", "--format", "json"],
    "list models": ["list", "models", "--device", "rtx_2080_ti"],
    "list fields": ["list", "fields"],
}  # fmt: skip

# Worked out with every intermediate, not by what is compiled.
EXPLAINED: dict[str, tuple[str, dict[str, Any]]] = {
    f"explain {model}": ("corrected", {"kernel": "sepia", "model": model, "block_size": 256})
    for model in ("luo_suda", "zhang_owens", "lemeire", "combined")
}
REDUCTION = {
    f"explain cyclic_reduction {model} {variant}": (
        variant, {"kernel": "cyclic_reduction", "model": model, "padding": 1})
    for model in ("luo_suda", "zhang_owens", "combined")
    for variant in ("corrected", "printed")
}  # fmt: skip

EXPORTS = {
    f"export {form} {data}": ["export", data, form, *ONE, "-n", "8"]
    for form in ("kernel_tuner", "t1", "triton", "csv")
    for data in ("grid.zarr", "stacked.zarr", "grid.toml")
    if form == "csv" or data == "grid.zarr"
}

QUESTIONS = (*(f"asked {name}" for name in ASKED), *COMMANDS, *EXPORTS, *EXPLAINED, *REDUCTION)


def asked(question: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Return the answers to a question, each with the source that was asked."""
    if question in COMMANDS:
        yield "the command", normal(printed(COMMANDS[question]), folder)
    elif question in EXPORTS:
        text = printed([*EXPORTS[question], "-o", "exported"])
        yield "the command", normal(text + Path("exported").read_text("utf-8"), folder)
    elif question in EXPLAINED:
        yield "sweep.explain", normal(explained(*EXPLAINED[question]).to_text(), folder)
    elif question in REDUCTION:
        results = explained(*REDUCTION[question]).as_dict()["results"]
        yield "sweep.explain", normal(json.dumps(results, indent=1, default=str), folder)
    else:
        name, arguments, options = ASKED[question.removeprefix("asked ")]
        for layout in TABLES:
            for kind in ("store", "memory", "plan"):
                answer = getattr(sweep, name)(source(kind, layout), *arguments, **options)
                yield f"{kind}, {layout}", normal(answer.to_table(wide=True), folder)


def explained(variant: str, configuration: dict[str, Any]) -> Any:
    """Return the explanation of a shipped kernel's configuration at the nominal clocks."""
    model, kernel = configuration["model"], configuration["kernel"]
    one = sweep.Plan(kernels=[kernel], devices=["gtx_280"], models=[model], variant=variant)
    return sweep.explain(one, configuration)


def printed(arguments: list[str]) -> str:
    """Return the exit code of a command and what it printed."""
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        code = main(arguments)
    return f"exit code {code}\n{out.getvalue()}" + (wrong.getvalue() if code == 2 else "")


def normal(text: str, folder: Path) -> str:
    """Return a text without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER").replace(sweep.__version__, "VERSION")
    text = re.sub(r"\(python [^)]*\)", "(VERSIONS)", text)
    text = re.sub(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[.\d]*(Z| ?UTC|[+-]\d\d:?\d\d)?", "DATE", text
    )
    return "\n".join(line.rstrip() for line in text.splitlines())
