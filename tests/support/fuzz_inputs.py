"""The fuzzer's cases of input files: mutated files, and the commands that read them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from support.fuzz_worker import Case
from support.mutations import expression, mutated
from support.profile_texts import FOLDER as PROFILES
from support.profile_texts import MATRIX
from support.runs import ROOT, write_plan
from support.spec_texts import DEVICE, KERNEL
from support.tool_texts import MADE
from support.tuning_files import CACHE, CONVOLUTION_T1, GEMM, GEMM_T1, KTT, entry, unpacked

DATA = Path(__file__).parents[1] / "data"

MEASURED = (DATA / "specs" / "measured.toml.in").read_bytes()
FAMILY = (DATA / "specs" / "family.toml").read_bytes()


def spec_of(folder: str) -> Callable[[random.Random], bytes]:
    paths = sorted((ROOT / folder).glob("*.toml"))
    own = {"devices": DEVICE, "kernels_spec": KERNEL}[folder]
    return lambda chance: (
        own.encode() if chance.random() < 0.5 else chance.choice(paths).read_bytes()
    )


device_text, kernel_text = spec_of("devices"), spec_of("kernels_spec")


def plan(case: Case) -> None:
    shipped = sorted((ROOT / "sweep/plans").glob("*.toml"))
    small = case.chance.random() < 0.7
    if small:
        write_plan(Path("base.toml"))
        sound = case.chance.choice([FAMILY, Path("base.toml").read_bytes()])
    else:
        sound = case.chance.choice(shipped).read_bytes()
    Path("plan.toml").write_bytes(mutated(sound, case.chance))
    case.run("lint", "plan.toml")
    case.run("run", "plan.toml", "--dry-run", "--limit", "1GB")
    if case.chance.random() < 0.3:
        case.run("run", "plan.toml", "--limit", "100kB", "--no-report", "--store", "out.zarr",
                 targets=["out.zarr"])  # fmt: skip


def asking(case: Case, **changes: Any) -> None:
    """Explain a configuration of a plan that names the mutated file."""
    write_plan(Path("plan.toml"), axes={}, **changes)
    words = case.chance.choice([[], ["--row", "3"], ["--format", "json"]])
    case.run("explain", "plan.toml", *words)


def device(case: Case) -> None:
    Path("mine.toml").write_bytes(mutated(device_text(case.chance), case.chance))
    case.run("lint", "mine.toml")
    case.run("list", "models", "--device", "./mine.toml")
    if case.chance.random() < 0.4:
        asking(case, devices=["./mine.toml"], kernels=["sepia"], derive=True)


def kernel(case: Case) -> None:
    sound = kernel_text(case.chance)
    scaled = case.chance.random() < 0.2
    Path("mine.toml").write_bytes(mutated(sound + scaled * MEASURED, case.chance))
    case.run("lint", "mine.toml")
    if scaled:
        case.run("scale", "mine.toml", "--model", "hong_kim", "--core-clock", "900,1000",
                 "--memory-clock", "1753")  # fmt: skip
    elif case.chance.random() < 0.4:
        asking(case, kernels=["./mine.toml"], devices=["gtx_980_paper"])


def compiled(case: Case) -> None:
    """Read a kernel file and the table of a compiler's findings, one of them mutated."""
    chance = case.chance
    for name in ("compiled.toml", "compiled.csv"):
        sound = (DATA / "specs" / name).read_bytes()
        is_mutated = (name == "compiled.csv") == (chance.random() < 0.8)
        Path(name).write_bytes(mutated(sound, chance) if is_mutated else sound)
    case.run("lint", "compiled.toml")
    if chance.random() < 0.4:
        asking(case, kernels=["./compiled.toml"], devices=["gtx_980_paper"])


NOMINAL = {"core_clock_ratio": [1.0], "memory_clock_ratio": [1.0]}


def many_problems(case: Case) -> None:
    write_plan(Path("plan.toml"), kernels=["sepia"], devices=["gtx_980_paper"])
    sound = b"""width,block_size,kind,time_ms
4096,64,a,3.5
4096,128,a,2.5
8192,64,b,5.75
8192,128,b,error
"""
    Path("mine.csv").write_bytes(mutated(sound, case.chance))
    words = case.chance.choice([["--listed-within", "5"], ["--by-group", "width:2"],
                                ["--map", "width=width + 1"], ["--by", "kind"]])  # fmt: skip
    case.run("validate", "plan.toml", "mine.csv", "--format", "json", *words,
             "core_clock_ratio=1", "memory_clock_ratio=1")  # fmt: skip


@cache
def tuner_files() -> Mapping[str, list[bytes]]:
    """Sound files of each format, small ones mostly."""
    ktt, kept = json.loads(unpacked(KTT)), json.loads(unpacked(CACHE))
    ktt["Results"] = ktt["Results"][:2] + ktt["Results"][-1:]
    kept["cache"] = dict(list(kept["cache"].items())[:3])
    table = gzip.decompress(GEMM.read_bytes()).split(b"\n")[:4]
    t4 = {"results": [entry(1, 2.5), entry(2, 40, "us"), entry(3, 0, invalidity="timeout")]}
    return {
        "t1": [CONVOLUTION_T1.read_bytes(), GEMM_T1.read_bytes()],
        "t4": [json.dumps(t4).encode()],
        "kernel_tuner_cache": [json.dumps(kept).replace('}, "', '},\n"').encode()],
        "ktt": [json.dumps(ktt).encode()],
        "csv": [b"x,y,time_ms,n\n1,2,3.5,4\n2,2,4.5,4\n3,2,error,4\n", b"\n".join(table) + b"\n",
                b"device,block_size,time_us\ngtx_980,64,5\ngtx_980,128,4\n"],
    }  # fmt: skip


def importing(kind: str) -> Callable[[Case], None]:
    """Return the case of one format of tuners: as text or in an archive."""

    def run(case: Case) -> None:
        sound = case.chance.choice(tuner_files()[kind])
        ending = "csv" if kind == "csv" else "json"
        if case.chance.random() < 0.15:
            sound, ending = gzip.compress(sound, 1, mtime=0), f"{ending}.gz"
        name = f"mine.{ending}"
        Path(name).write_bytes(mutated(sound, case.chance))
        guarded = Path("out/mine.toml") if case.chance.random() < 0.1 else None
        if guarded:  # names of outputs come from the file: none that is there is overwritten
            guarded.parent.mkdir()
            guarded.write_text("the only copy")
        words = ["--device", "gtx_980_paper"] if case.chance.random() < 0.8 else []
        words += case.chance.choice([[], ["--layout", "stacked"], ["--kernel", "k"]])
        spaces = [str(CONVOLUTION_T1)] if kind != "t1" and case.chance.random() < 0.1 else []
        case.run("import", *spaces, name, "-o", "out", *words, targets=["out"])
        if guarded and guarded.read_text() != "the only copy":
            case.problems.append("a file was overwritten")

    return run


def measured(case: Case) -> None:
    write_plan(Path("plan.toml"), kernels=["sepia"], devices=["gtx_980_paper"], axes=NOMINAL)
    sound = b"block_size,time_ms\n64,3.5\n128,2.5\n192,2.75\n256,error\n"
    Path("mine.csv").write_bytes(mutated(sound, case.chance))
    case.run("validate", "plan.toml", "mine.csv", "--device", "gtx_980_paper", "--format", "json",
             "core_clock_ratio=1", "memory_clock_ratio=1", "-o", "figure.png",
             targets=["figure.png"])  # fmt: skip


@cache
def clock_times() -> bytes:
    return b"\n".join((DATA / "dvfs/applications.csv").read_bytes().split(b"\n")[:33]) + b"\n"


def clocks(case: Case) -> None:
    sound, name = clock_times(), "times.csv"
    if case.chance.random() < 0.2:
        sound, name = gzip.compress(sound, 1, mtime=0), "times.csv.gz"
    Path(name).write_bytes(mutated(sound, case.chance))
    case.run("validate-clocks", name, "--device", "gtx_titan_x", "--model", "hong_kim",
             "--given", "975/810", "--anchor", "975/3505",
             "--format", case.chance.choice(["table", "json"]))  # fmt: skip


def profile(case: Case) -> None:
    path = case.chance.choice(sorted(PROFILES.glob("*.csv")))
    Path("mine.csv").write_bytes(mutated(path.read_bytes(), case.chance))
    words = case.chance.choice([[], ["--kernel", MATRIX], ["--launch", "1"]])
    if "nvprof" in path.name and case.chance.random() < 0.7:
        other = "nvprof_trace" if path.stem != "nvprof_trace" else "nvprof_metrics"
        words = [*words, str(PROFILES / f"{other}.csv")]
    if case.chance.random() < 0.5:
        words = [*words, "--block", "32,32", "--grid", "8,8", "--device", "gtx_980_paper"]
    case.run("profile", "mine.csv", *words, "-o", "k.toml", targets=["k.toml"])


def ptx(case: Case) -> None:
    path = case.chance.choice(sorted((DATA / "ptx").glob("*.ptx")))
    Path("mine.ptx").write_bytes(mutated(path.read_bytes(), case.chance))
    words = ["--stages", case.chance.choice(["tasks", "barriers", "none"])]
    if case.chance.random() < 0.2:
        words += ["--device", "gtx_980_paper", "--block", "16,16"]
    case.run("ptx", "mine.ptx", *words, "-o", "k.toml", targets=["k.toml"])


def tools(case: Case) -> None:
    """Read what a micro-benchmark tool prints, with a sound file of the same GPU or alone."""
    whole = sorted((DATA / "calibration").glob("*.*"))
    texts = [*(path.read_text() for path in whole if path.suffix in (".json", ".txt")),
             *(make() for make in MADE)]  # fmt: skip
    Path("tool.txt").write_bytes(mutated(case.chance.choice(texts).encode(), case.chance))
    sound = [DATA / "calibration" / "mt4g_a100.json"] * (case.chance.random() < 0.5)
    case.run("calibrate", *sound, "tool.txt", "-o", "gpu.toml", targets=["gpu.toml"])
    if Path("gpu.toml").exists():
        case.run("lint", "gpu.toml", codes=[0])


NAMES = ["occupancy", "tile", "block_size", "core_clock", "execution_time", "regime", "model",
         "'hong_kim'", "device", "kernel", "kernel_0", "status", "512", "0.5"]  # fmt: skip


def where(case: Case) -> None:
    store = case.home / "finished/a.zarr"
    text = expression(NAMES, case.chance)
    if case.chance.random() < 0.3:
        text = mutated(text.encode("utf-8", "replace"), case.chance).decode("utf-8", "replace")
    case.run("top", store, "2", f"--where={text}")
    if case.chance.random() < 0.3:
        value = mutated(b"256", case.chance).decode("utf-8", "replace")
        case.run("best", store, f"{case.chance.choice(NAMES)}={value}")


KINDS: dict[str, Callable[[Case], None]] = {
    "plan": plan,
    "device": device,
    "kernel": kernel,
    "compiled": compiled,
    **{kind: importing(kind) for kind in ("t1", "t4", "kernel_tuner_cache", "ktt", "csv")},
    "measured": measured,
    "problems": many_problems,
    "clocks": clocks,
    "profile": profile,
    "ptx": ptx,
    "tools": tools,
    "where": where,
}
