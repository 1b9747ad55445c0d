"""Results are, to the bit, those on record in ``data/fingerprints.json``.

Answers are those in ``data/answers.json``, line by line.

Run them alone: ``python -m pytest tests/test_fingerprints.py``. After a change that is meant to
change results, write the record anew and look at what its difference says:
``SWEEP_UPDATE_FINGERPRINTS=1 python -m pytest tests/test_fingerprints.py``.

Another processor or another compiler may round the last bit differently. There, what differs is
held against the numbers on record at seven digits instead.

Only the public interface is used, so that the record outlives what is behind it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import os
import platform
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import fingerprint_answers as answers
import llvmlite.binding
import numpy as np
import pytest
import xarray as xr

import sweep

RECORD = Path(__file__).parent / "data" / "fingerprints.json"
ANSWERS = RECORD.with_name("answers.json")
UPDATES = os.environ.get("SWEEP_UPDATE_FINGERPRINTS") == "1"

PLANS = ("quickstart", "papers", "million", "billion", "hong_kim_2009", "wang_chu_2017")
WHOLE = ("hong_kim_2009", "wang_chu_2017")
"""Plans that are evaluated as they are shipped, too."""
MODELS = ("hong_kim", "wang_chu", "luo_suda", "zhang_owens", "lemeire", "combined")
REVISED = ("hong_kim", "wang_chu", "luo_suda")  # `revised` of the others is `corrected`
SLOW = {"cyclic_reduction": ("hong_kim", "wang_chu", "lemeire")}
"""Kernels with which the other models take long to compile; the answers explain those instead."""
VARIANTS = ("corrected", "printed", "revised")
LAYOUTS = ("grid", "stacked")
DEVICES = ("gtx_280", "rtx_2080_ti", "mi100")
CLOCKS = {"core_clock_ratio": [0.8, 1.0], "memory_clock_ratio": [0.9, 1.0]}

MOST_CONFIGURATIONS = 2000
"""Combinations of a kernel's parameters: with more, axes keep two values instead of three."""
DIGITS, SAMPLES = 7, 3
HASH = 8
"""Hexadecimal digits of a SHA-256 that are kept."""

Results = Iterator[tuple[str, xr.Dataset]]


# ---------------------------------------------------------------------------- what is evaluated


def thinned(values: list[Any], most: int) -> list[Any]:
    """Return the first, the middle and the last of many values, or the first and the last."""
    if len(values) <= most:
        return values
    return [values[0], *values[len(values) // 2 :][: most - 2], values[-1]]


def axes_of(plan: sweep.Plan, kernel: str) -> dict[str, list[Any]]:
    """Return few values of every axis of a kernel."""
    lazy = sweep.open(replace(plan, layout="grid"))[kernel]
    named = [str(d) for d in lazy.dims if d not in ("model", "device")]
    axes = {name: thinned(lazy[name].values.tolist(), 3) for name in named}
    tuning = [name for name in axes if not name.startswith(("core_clock", "memory_clock"))]
    for name in reversed(tuning):
        if math.prod(len(axes[other]) for other in tuning) > MOST_CONFIGURATIONS:
            axes[name] = thinned(axes[name], 2)
    return axes


def thinly(plan: sweep.Plan, **changes: Any) -> Results:
    """Evaluate a changed plan over few values of its axes."""
    for kernel in plan.kernels:
        axes = {kernel: axes_of(plan, kernel)}
        few = replace(plan, kernels=(kernel,), axes={}, kernel_axes=axes, precision="float64",
                      outputs=None, store=False, **changes)  # fmt: skip
        yield kernel, sweep.evaluate(few)[kernel].to_dataset()


def models_of(variant: str, models: tuple[str, ...] = MODELS) -> tuple[str, ...]:
    """Return the models that have a variant of their own."""
    return tuple(model for model in models if variant != "revised" or model in REVISED)


def of_plan(name: str, variant: str, **changes: Any) -> Results:
    """Evaluate a shipped plan with all models of a variant."""
    plan = sweep.load_plan(name)
    return thinly(plan, models=models_of(variant), variant=variant, layout="grid", **changes)


def of_kernel(kernel: str, variant: str, layout: str) -> Results:
    """Evaluate a shipped kernel with all models of a variant on three devices."""
    models = models_of(variant, SLOW.get(kernel, MODELS))
    plan = sweep.Plan([kernel], DEVICES, models, axes=CLOCKS)
    return thinly(plan, variant=variant, layout=layout)


def as_it_is(name: str) -> Results:
    """Evaluate a whole plan, or in float32 the plan that questions are about."""
    plan = answers.plan(name) if name in LAYOUTS else sweep.load_plan(name)
    for kernel, results in sweep.evaluate(plan).children.items():
        yield kernel, results.to_dataset()


def all_cases() -> dict[str, Callable[[], Results]]:
    """Return what evaluates each case."""
    cases: dict[str, Callable[[], Results]] = {}
    for variant in VARIANTS:
        derived = partial(of_plan, "papers", variant, derive=True)
        cases[f"plan papers {variant} derived"] = derived
        cases |= {f"plan {name} {variant}": partial(of_plan, name, variant) for name in PLANS}
        cases |= {
            f"kernel {kernel} {variant} {layout}": partial(of_kernel, kernel, variant, layout)
            for kernel, layout in product(sweep.list_kernels(), LAYOUTS)
            if layout == "grid" or variant == "corrected"
        }
    cases |= {f"plan {name} as shipped": partial(as_it_is, name) for name in WHOLE}
    cases |= {f"questions {layout} float32": partial(as_it_is, layout) for layout in LAYOUTS}
    return cases


CASES = all_cases()


# ---------------------------------------------------------------------------- fingerprints


class Fingerprint(NamedTuple):
    """The hash of a variable, and a few numbers that stand for its values."""

    digest: str
    numbers: list[float]
    variable: str = ""


def fingerprint(variable: xr.DataArray, described: str) -> Fingerprint:
    """Return the fingerprint of values, type, shape, dimensions and the meaning of codes."""
    values = variable.values
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    is_number = values.dtype.kind in "fiub"
    about = (values.dtype.str if is_number else "text", values.shape, variable.dims)
    found = hashlib.sha256(repr((about, variable.attrs.get("flag_meanings"))).encode())
    found.update(values.tobytes() if is_number else repr(values.tolist()).encode())
    numbers = summarised(values) if is_number else []
    return Fingerprint(found.hexdigest()[:HASH], numbers, described)


def summarised(values: np.ndarray) -> list[float]:
    """Return how many values are valid, the smallest, largest and mean one, and samples."""
    valid = values.reshape(-1).astype(float)
    valid = valid[~np.isnan(valid)]
    if not len(valid):
        return [0]
    samples = valid[np.linspace(0, len(valid) - 1, SAMPLES).astype(int)]
    shown = [valid.min(), valid.max(), valid.mean(), *samples]
    shown = shown[:1] if shown[0] == shown[1] else shown
    return [len(valid), *(float(f"{number:.{DIGITS}g}") for number in shown)]


def evaluated(case: str) -> dict[str, Fingerprint]:
    """Evaluate a case and return a fingerprint of every variable of every kernel and model."""
    found = {}
    for kernel, results in CASES[case]():
        results = results.load()
        for name in sorted(map(str, results.variables)):
            parts = {"": results[name]}
            if "model" in results[name].dims and name != "model":
                models = enumerate(results["model"].values)
                parts = {f" by {model}": results[name].isel(model=[i]) for i, model in models}
            for i, (by, part) in enumerate(parts.items()):
                found[f"{kernel} {name} {i}"] = fingerprint(part, f"{name} of {kernel}{by}")
    return found


is_close = partial(math.isclose, rel_tol=2 * 10.0 ** (1 - DIGITS))


def are_close(found: list[float], recorded: list[float]) -> bool:
    """Whether as many values are valid, and they agree at seven digits."""
    is_alike = len(found) == len(recorded) and found[:1] == recorded[:1]
    return is_alike and bool(found) and all(map(is_close, found, recorded))


def machine() -> dict[str, str]:
    """Return what decides about the last bit of a number."""
    features = llvmlite.binding.get_host_cpu_features()
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "features": " ".join(sorted(name for name, has in features.items() if has)),
        "llvm": ".".join(map(str, llvmlite.binding.llvm_version_info)),
        "numpy": np.__version__,
        "libc": " ".join(platform.libc_ver()),
    }


# ---------------------------------------------------------------------------- the record


class Record:
    """What the two files hold.

    ``results`` has for each case and kernel the number of a line of ``names``, and the hashes in
    the order of these names, with commas between those of several models, or once and their number
    if all are equal. ``numbers`` has the numbers that stand for the values of one hash, or of
    several that share them.
    """

    def __init__(self) -> None:
        data, texts = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            for path in (RECORD, ANSWERS)
        )
        self.machine: dict[str, str] = data.get("machine", {})
        self.names: list[str] = data.get("names", [])
        self.results: dict[str, dict[str, list[Any]]] = data.get("results", {})
        self.answers = {name: "\n".join(text) for name, text in texts.items()}
        lines = data.get("numbers", [])
        self.numbers = {word: numbers for words, *numbers in lines for word in words.split()}

    @property
    def is_of_this_machine(self) -> bool:
        return self.machine == machine()

    def of(self, case: str) -> dict[str, Fingerprint]:
        """Return the fingerprints of a case."""
        found = {}
        for kernel, (line, words) in self.results.get(case, {}).items():
            names = self.names[line].split()
            for name, several in zip(names, words.split(), strict=True):
                one, _, models = several.partition("*")
                every = [one] * int(models) if models else several.split(",")
                for i, word in enumerate(every):
                    found[f"{kernel} {name} {i}"] = Fingerprint(word, self.numbers.get(word, []))
        return found

    def put(self, case: str, found: dict[str, Fingerprint]) -> None:
        """Replace a case."""
        words: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for key, one in found.items():
            kernel, name, _ = key.split()
            words[kernel][name].append(one.digest)
            self.numbers[one.digest] = one.numbers
        self.results[case] = {}
        for kernel, own in words.items():
            names = " ".join(own)
            if names not in self.names:
                self.names.append(names)
            joined = " ".join(map(in_a_word, own.values()))
            self.results[case][kernel] = [self.names.index(names), joined]

    def write(self) -> None:
        """Write the files, without what no case has any more."""
        results = {case: self.results[case] for case in CASES if case in self.results}
        texts = {name: self.answers[name] for name in answers.QUESTIONS if name in self.answers}
        shared: dict[tuple[float, ...], list[str]] = defaultdict(list)
        for word in sorted({one.digest for case in results for one in self.of(case).values()}):
            shared[tuple(self.numbers.get(word, []))].append(word)
        used = sorted({line for own in results.values() for line, _ in own.values()})
        data = {
            "machine": machine(),
            "names": [self.names[line] for line in used],
            "results": {
                case: {kernel: [used.index(line), words] for kernel, (line, words) in own.items()}
                for case, own in results.items()
            },
            "numbers": [[" ".join(words), *found] for found, words in shared.items() if found],
        }
        parts = [f"{json.dumps(key)}: {in_lines(value)}" for key, value in data.items()]
        RECORD.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
        lines = in_lines({name: text.split("\n") for name, text in texts.items()})
        ANSWERS.write_text(lines + "\n", encoding="utf-8")


def in_a_word(hashes: list[str]) -> str:
    """Return one hash and its number, or all with commas between them."""
    is_one = len(hashes) > 1 and len(set(hashes)) == 1
    return f"{hashes[0]}*{len(hashes)}" if is_one else ",".join(hashes)


def in_lines(value: Any) -> str:
    """Return JSON with a line for each entry."""

    def short(part: Any) -> str:
        text = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        return re.sub(r"\.0(?=[,\]])", "", text) if isinstance(value, list) else text

    if isinstance(value, list):
        return "[\n" + ",\n".join(map(short, value)) + "\n]"
    return "{\n" + ",\n".join(f"{short(k)}:{short(v)}" for k, v in value.items()) + "\n}"


@pytest.fixture(scope="module")
def record() -> Iterator[Record]:
    """The record, written anew at the end where that is asked for."""
    kept = Record()
    yield kept
    if UPDATES:
        kept.write()


# ---------------------------------------------------------------------------- results


def differences(case: str, record: Record) -> Iterator[str]:
    """Name the variables of a case that are not those on record."""
    found, recorded = evaluated(case), record.of(case)
    for name in sorted(found.keys() | recorded.keys()):
        if name not in found or name not in recorded:
            yield f"{name}: is {'new' if name in found else 'missing'}"
        elif found[name].digest != recorded[name].digest:
            before, after = recorded[name].numbers, found[name].numbers
            if record.is_of_this_machine or not are_close(after, before):
                change = f"number, smallest, largest, mean, samples {before} became {after}"
                if before == after:
                    change = f"differs beyond what {before} show"
                yield f"{found[name].variable}: {change}"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_on_record(case, record):
    if UPDATES:
        return record.put(case, evaluated(case))
    assert case in record.results, f"{case} is not on record; see this file's first lines"
    wrong = list(differences(case, record))
    assert not wrong, "\n  ".join([f"{case}: {len(wrong)} variables differ", *wrong])


# ---------------------------------------------------------------------------- answers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the plans, stores and measured times that questions are about."""
    path = tmp_path_factory.mktemp("fingerprints")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        answers.prepare()
        yield path


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
RULED = re.compile(r"[\s-]+")
"""Widths of columns follow the numbers."""


def are_alike(found: str, recorded: str) -> bool:
    """Whether two texts differ in nothing but the eighth digit of numbers."""
    first, second = (RULED.sub(" ", NUMBER.sub("#", text)) for text in (found, recorded))
    pairs = zip(NUMBER.findall(found), NUMBER.findall(recorded), strict=False)
    return first == second and all(is_close(float(a), float(b)) for a, b in pairs)


def difference(found: str, recorded: str) -> str:
    lines = recorded.splitlines(), found.splitlines()
    return "\n".join(difflib.unified_diff(*lines, "on record", "found", lineterm="", n=1))


@pytest.mark.slow
@pytest.mark.parametrize("question", answers.QUESTIONS)
def test_answers_are_those_on_record(question, record, folder):
    texts = dict(answers.asked(question, folder))
    if UPDATES:
        record.answers[question] = next(iter(texts.values()))
    assert question in record.answers, f"{question} is not on record; see this file's first lines"
    recorded = record.answers[question]
    for source, text in texts.items():
        is_same = text == recorded or (not record.is_of_this_machine and are_alike(text, recorded))
        assert is_same, f"{question}, asked of {source}\n{difference(text, recorded)}"


@pytest.mark.skipif(UPDATES, reason="the record is being written")
def test_nothing_else_is_on_record(record):
    assert set(record.results) <= set(CASES)
    assert set(record.answers) <= set(answers.QUESTIONS)
