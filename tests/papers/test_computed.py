"""Rows that claim to be computed follow from other numbers: they move when inputs change."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep.errors import SweepError
from sweep.hardware.memory_rules import BANK_RULES
from sweep.hardware.warp_simulation import bank_passes
from sweep.papers import PAPERS, report
from sweep.papers.report import KINDS, declared
from sweep.papers.zhang_owens_2011 import padded, workload
from sweep.specs import load_device
from sweep.specs.reading import data_root

# The files that a table's rows are computed from, those of which few numbers tell most first.
FILES = {
    ("luo_suda_2011", "proportions"): ("devices/gtx_260",),
    ("luo_suda_2011", "table_2"): ("devices/gtx_260",),
    ("wang_chu_2017", "table_2"): ("devices/gtx_980_paper",),
    ("wang_chu_2017", "table_3"): ("devices/gtx_980_paper",),
    ("wang_chu_2017", "l2"): ("kernels_spec/matrixmul_global",),
    ("zhang_owens_2011", "rates"): ("devices/gtx_285",),
    ("zhang_owens_2011", "matrix_multiply"): ("kernels_spec/dense_matmul", "devices/gtx_285"),
    ("zhang_owens_2011", "cyclic_reduction"): ("devices/gtx_285",),
    ("zhang_owens_2011", "reduction_times"): ("devices/gtx_285",),
    ("lemeire_2016", "table_3"): ("devices/quadro_k620",),
    ("lemeire_2016", "memory"): ("devices/quadro_k620",),
    ("lemeire_2016", "equations"): ("devices/gt_640", "devices/lemeire_tesla",
                                    "devices/lemeire_kepler"),
}  # fmt: skip
FACTORS = (2.0, 0.5, 16.0)
NUMBER = re.compile(r"(?<![\w.\"])\d+(?:\.\d+)?(?:e\d+)?(?![\w.])")
READ = re.compile(
    r"\[+(chip|clocks|model|sizes|derived|launch|resources|instructions|cache|\w+_access)"
)
LEFT_OUT = re.compile(r"(schema|name|compute_capability|\w*(min|max)_\w+Hz|memory_nominal_\w+) =|#")


def module_of(paper: str) -> Any:
    return importlib.import_module(f"sweep.papers.{paper}")


TABLES = [(paper, table) for paper in PAPERS for table in module_of(paper).NUMBERS]


def changed_files(paper: str, table: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Yield the place of each number of a table's files, with one of the factors applied to it."""
    for name in FILES.get((paper, table), ()):
        kind, key = name.split("/")
        lines = (data_root(kind) / f"{key}.toml").read_text(encoding="utf-8").splitlines()
        path = folder / kind / f"{key}.toml"
        path.parent.mkdir(exist_ok=True)
        sections = list(accumulate(lines, lambda own, line: line if line[:1] == "[" else own))
        # A model's own numbers first, which move most.
        for i in sorted(range(len(lines)), key=lambda i, of=sections: "model." not in of[i]):
            line = lines[i]
            if not READ.match(sections[i]) or LEFT_OUT.match(line):
                continue
            for match in NUMBER.finditer(line.partition("#")[0]):
                for factor in FACTORS:
                    value = f"{float(match[0]) * factor:g}"
                    text = f"{line[: match.start()]}{value}{line[match.end() :]}"
                    path.write_text("\n".join([*lines[:i], text, *lines[i + 1 :]]))
                    yield f"{name}:{i}:{match.start()}", factor
        path.unlink()


def scaled(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [scaled(value[0], factor), *value[1:]]
    return type(value)(value * factor)


def changed_inputs(paper: str, table: str, monkeypatch: Any) -> Iterator[tuple[str, float]]:
    """Yield the name of each input of a table in the paper's file, with one factor applied."""
    module, texts = module_of(paper), declared(paper)
    for group, own in texts.get("inputs", {}).items():
        if isinstance(own, dict) and group != table:
            continue
        holder = own if isinstance(own, dict) else texts["inputs"]
        for name in own if isinstance(own, dict) else (group,):
            value = holder[name]
            for factor in FACTORS:
                holder[name] = scaled(value, factor)
                with monkeypatch.context() as patch:
                    patch.setattr(module, "declared", lambda _: texts)
                    yield f"{group}.{name}", factor
            holder[name] = value


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_computed_rows_move__with_two_inputs_at_least(paper, table, tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_PATH", str(tmp_path))
    compute = module_of(paper).NUMBERS[table]
    quantities = declared(paper)["tables"][table]["quantities"]
    before = compute()
    # A number that is read back moves with itself alone.
    wanted = {
        i: 2 if row[3:] and row[3] else 1
        for i, row in enumerate(quantities)
        if row[2] == "computed"
    }
    movers: dict[int, set[str]] = {i: set() for i in wanted}
    sources = (changed_inputs(paper, table, monkeypatch), changed_files(paper, table, tmp_path))
    for place, _ in (change for source in sources for change in source):
        if all(len(movers[i]) >= least for i, least in wanted.items()):
            return
        try:
            after = compute()
        except (SweepError, ArithmeticError, ValueError, LookupError, TypeError):
            continue  # no longer a description that makes sense
        for i, found in movers.items():
            if not np.isclose(before[i], after[i], rtol=1e-9, equal_nan=True):
                found.add(place)
    assert {quantities[i][0]: movers[i] for i, n in wanted.items() if len(movers[i]) < n} == {}


def test_rows__have_a_known_kind_and_what_is_read_back_is_no_result():
    for paper, table in TABLES:
        for row in declared(paper)["tables"][table]["quantities"]:
            assert row[2] in KINDS, row
    row = report.Quantity("q", "1", 2.0, "2", kind="input")
    assert row.agrees is None and row.difference is None
    row = report.Quantity("q", "1", 2.0, "2", kind="calibrated")
    assert row.agrees is None and row.difference == 0.0


def test_printed_numbers__stand_in_the_papers_texts():
    """Each is in a quotation of its table, and none is read from a figure."""
    quoted = tomllib.loads(Path(__file__).with_name("quotations.toml").read_text(encoding="utf-8"))
    for paper in PAPERS:
        tables = declared(paper)["tables"]
        printed = {
            name: {row[3] for row in table["quantities"] if row[3:] and row[3]}
            for name, table in tables.items()
            if "quantities" in table
        }
        assert {name for name, of in printed.items() if of} == set(quoted[paper])
        for name, quotations in quoted[paper].items():
            numbers = {n for text in quotations for n in re.findall(r"\d+(?:\.\d+)?", text)}
            assert printed[name] <= numbers, (paper, name, printed[name] - numbers)


def test_cyclic_reduction__conflicts_by_the_simulator_and_in_the_kernel_file():
    texts = declared("zhang_owens_2011")
    names = [row[0] for row in texts["tables"]["cyclic_reduction"]["quantities"]]
    found = dict(
        zip(names, module_of("zhang_owens_2011").NUMBERS["cyclic_reduction"](), strict=True)
    )
    for every, suffix in ((0, ""), (16, ", padded")):
        stages = workload("cyclic_reduction", padding=int(every > 0)).stages[1:]
        for step, stage in enumerate(stages, 1):
            place = 2**step * np.arange(1, 512 // 2**step + 1) - 1
            lanes = 4 * padded(place, every)[None, :32]
            one = np.array([4]), np.array([BANK_RULES.index("half_warp")])
            _, _, worst = bank_passes(lanes, np.ones_like(lanes, bool), *one)[0]
            degree = stage.shared_accesses[0].degree.item()
            assert found[f"bank conflicts of step {step}{suffix}"] == worst == degree


def test_lemeire__what_the_rounding_of_lambda_explains():
    """Notes say where two printed digits of lambda explain a difference, and where they do not."""
    module, texts = module_of("lemeire_2016"), declared("lemeire_2016")["tables"]
    own = load_device("quadro_k620").model_parameters["lemeire"]
    issue = [row[2] for row in own["latencies"]]
    memory = [row[1] for kind in ("global", "local", "constant") for row in own[f"{kind}_memory"]]
    for table, latencies in (("table_3", issue), ("memory", memory)):
        rows = texts[table]["quantities"]
        for row, here, cycles in zip(rows, module.NUMBERS[table](), latencies, strict=False):
            half = 0.05 if 3 < cycles < 5 else 0.005  # 4.0, 3.9; the others have two decimals
            low, high = (here * cycles / (cycles + sign * half) for sign in (1, -1))
            margin = 0.5 * 10.0 ** -len(row[3].partition(".")[2])
            explained = low <= float(row[3]) + margin and float(row[3]) - margin <= high
            noted = len(row) < 5 or "explains it" in row[4]
            assert explained == noted, row
