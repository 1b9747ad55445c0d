"""The table of a compiler's findings: what it replaces, where it has no row, what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.spec_texts import spoilt

from sweep.errors import SpecError
from sweep.evaluation.launch import build_launch
from sweep.evaluation.planned import evaluate
from sweep.explanation.explaining import explain
from sweep.query import best
from sweep.runs.running import rerun, run
from sweep.space import Plan, resolve
from sweep.specs import lint, load_kernel, parse_kernel
from sweep.specs.compiled import MOST_COLUMNS, own_text

DATA = Path(__file__).parents[1] / "data" / "specs"
DEVICES = ("gtx_980_paper", "rtx_3090", "gtx_680", "rtx_4090")  # 5.2, 8.6, 3.0, 8.9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("compiled.toml", "compiled.csv"):
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


def plan(folder: Path, **options) -> Plan:
    return Plan((str(folder / "compiled.toml"),), DEVICES, ("combined",), layout="grid", **options)


def change(path: Path, old: str, new: str) -> None:
    path.write_text(spoilt(path.read_text(), old, new))


def columns(folder: Path) -> dict[str, np.ndarray]:
    """Return what depends on the table, over device, tile and mode."""
    (space,) = resolve(plan(folder)).kernels
    launch = build_launch(space)
    work = launch.workload
    found = {n: launch.values[n] for n in ("registers_per_thread", "shared_memory_bytes")}
    found |= {"fp32": work.instructions["fp32"]}
    for access in work.global_accesses:
        found |= {access.name: access.count, f"{access.name}_l1": access.l1_hit_rate}
    return {n: np.broadcast_to(a, (4, 3, 2, 1, 1))[..., 0, 0] for n, a in found.items()}


def test_rows_replace_formulas__and_only_where_they_are(folder):
    found = columns(folder)
    formula = [[18, 18], [20, 20], [32, 32]]
    assert found["registers_per_thread"].tolist() == [
        [[20, 18], [20, 20], [255, 128]],  # GTX 980: its own rows
        [[24, 18], [20, 20], [32, 32]],  # RTX 3090: the row for 8.6, no other
        formula,  # GTX 680 is older than any row
        [[24, 18], [20, 20], [32, 32]],  # RTX 4090: the nearest below
    ]
    assert found["shared_memory_bytes"][:, 0, 0].tolist() == [0, 1024, 0, 1024]
    assert found["fp32"][0].tolist() == [[5, 1], [200, 1], [6, 7]]
    assert found["spilled_stores"][:, 2, 0].tolist() == [200, 0, 0, 0]
    assert found["spilled_loads"][:, 2, 0].tolist() == [400, 0, 0, 0]


def test_spilled_registers_share_the_caches(folder):
    """800 bytes of each of 65536 / 255 threads; Maxwell caches local memory in L2 only."""
    change(folder / "compiled.csv", "5.2,8,fast,255,800,1600,0", "1.0,8,fast,255,800,1600,16384")
    devices = ("gtx_680", "gtx_980_paper", "gtx_1080", "v100")
    text = (folder / "compiled.csv").read_text()
    (folder / "compiled.csv").write_text(text.replace("\n5.2", "\n1.0").replace("\n8.6", "\n12.1"))
    (space,) = resolve(replace(plan(folder), devices=devices)).kernels
    stores, loads = (
        a for a in build_launch(space).workload.global_accesses if a.name.startswith("spilled_")
    )

    def at(rate):
        return np.broadcast_to(rate, (4, 3, 2, 1, 1))[:, 2, 0, 0, 0]

    resident = 65536 / 255
    l1 = [16 * 1024, 0, 48 * 1024, 128 * 1024 - 16384 * resident / 256]
    assert at(loads.l1_hit_rate) == pytest.approx(np.array(l1) / (800 * resident))
    l2 = [device.values["chip.l2"] / (800 * resident * device.values["chip.sm_count"])
          for device in space.devices]  # fmt: skip
    assert at(loads.l2_hit_rate) == pytest.approx(np.minimum(1, l2))
    assert (at(stores.l2_hit_rate) == at(loads.l2_hit_rate)).all()
    assert (at(stores.l1_hit_rate) == 0).all()


def test_spilled_registers_of_blocks_given_by_cases_share_them_too(folder):
    path = folder / "compiled.toml"
    change(path, "threads_per_block = 256", 'threads_per_block = ["64 if tile == 1", 256]')
    assert "(64 if tile == 1 else 256)" in load_kernel(path).derived["compiled_l1_hit_rate"].text


def test_file_says_itself_what_a_column_replaces(folder):
    path = folder / "compiled.toml"
    change(path, '"16 + 2 * tile"', '"compiled_registers + 1 if compiled else 10"')
    extra = """[[global_access]]
name = "own"
kind = "load"
count = "(compiled_spill_load_bytes + compiled_spill_store_bytes) / 4 if compiled else 0"
bytes = 4
pattern = "coalesced"

[compiled]"""
    change(path, "[compiled]", extra)
    found = columns(folder)
    assert found["registers_per_thread"][0].tolist() == [[21, 10], [10, 10], [256, 129]]
    assert found["own"][0, 2, 0] == 600
    assert "spilled_loads" not in found and "spilled_stores" not in found


def test_stages_keep_their_instructions(folder):
    path = folder / "compiled.toml"
    change(path, "[instructions]", '[[stage]]\nname = "all"')
    change(path, 'kind = "load"', 'kind = "load"\nstage = "all"')
    kernel = load_kernel(path)
    assert kernel.stages[0].expressions["fp32"].text.startswith("100 * tile")
    assert [access.name for access in kernel.global_accesses] == ["in"]
    assert kernel.expressions["resources.registers_per_thread"].text.startswith("compiled_")


def test_answers_and_explanations_say_so(folder):
    answer = best(evaluate(plan(folder)), by=("device",))
    assert any("compiled for 8.6, not 8.9" in note for note in answer.notes)
    change(
        folder / "compiled.csv", "# source: ", "# capabilities: 5.2, 8.6, 8.9 as 8.6\n# source: "
    )
    answer = best(evaluate(plan(folder)), by=("device",))
    assert not any("compiled for" in note for note in answer.notes)
    text = explain(plan(folder), {"device": "gtx_980_paper", "tile": 8, "mode": "fast"}).to_text()
    assert "compiled by NVRTC 12.9.86 from tiled.cu (SHA-256 0123456789ab...)" in text
    assert "compiled_registers" in text and "spilled_loads.count" in text
    assert "spilled_loads.l2_hit_rate" in text


def test_rows_under_another_capability_are_not_taken_for_compiled(folder):
    change(folder / "compiled.csv", "# source: ", "# capabilities: 6.1 as 5.2, 8.6\n# source: ")
    table = load_kernel(folder / "compiled.toml").compiled
    found = {device: table.compiled_for(device) for device in (3.5, 5.2, 6.1, 7.0, 8.6, 8.9)}
    assert found == {3.5: None, 5.2: 6.1, 6.1: 6.1, 7.0: 6.1, 8.6: 8.6, 8.9: 8.6}


def test_rows_that_nobody_compiled_are_counted(folder):
    assert load_kernel(folder / "compiled.toml").compiled.counted == "4 rows"
    text = (folder / "compiled.csv").read_text().replace("mode,", "mode,exact,")
    for mode, exact in (("fast", 1), ("slow", 0)):
        text = text.replace(f",{mode},", f",{mode},{exact},")
    (folder / "compiled.csv").write_text(text)
    counted = load_kernel(folder / "compiled.toml").compiled.counted
    assert counted == "4 rows, 1 of them not compiled: they follow from others (exact = 0)"
    (finding,) = lint([folder])
    assert (finding.path, finding.severity) == ("compiled.table", "note")
    assert str(finding).endswith(f'note: compiled.table = "compiled.csv": {counted}')


def test_rows_that_another_compiler_stood_in_for_are_counted_and_named(folder):
    head = "# derived: 5.2 compiled for 5.3 with 63 registers\n# source: "
    change(folder / "compiled.csv", "# source: ", head)
    table = load_kernel(folder / "compiled.toml").compiled
    assert [table.compiled_for(device) for device in (3.5, 5.2, 7.0, 8.6)] == [None, 5.3, 5.3, 8.6]
    assert table.counted == "4 rows, 3 of them of 5.2 compiled for 5.3"


def test_rerun_needs_only_the_store(folder, tmp_path):
    first, second = tmp_path / "a.zarr", tmp_path / "b.zarr"
    run(plan(folder), first)
    for name in ("compiled.toml", "compiled.csv"):
        (folder / name).unlink()
    rerun(first, second)
    rows = [best(store, by=("device", "tile", "mode")).rows for store in (first, second)]
    assert rows[0] == rows[1] and rows[0]


def test_hash_covers_the_table(folder):
    before = load_kernel(folder / "compiled.toml")
    assert own_text(before.text).rstrip() == (folder / "compiled.toml").read_text().rstrip()
    assert parse_kernel(before.text, "compiled") == before
    change(folder / "compiled.csv", "5.2,1,fast,20", "5.2,1,fast,21")
    assert load_kernel(folder / "compiled.toml").sha256 != before.sha256


REFUSED = {
    "no such file": ("compiled.toml", '"compiled.csv"', '"other.csv"', "no such file"),
    "outside": ("compiled.toml", '"compiled.csv"', '"../compiled.csv"', "must be a file beside"),
    "no table": ("compiled.toml", '"compiled.csv"', "3", "must be a text"),
    "column": ("compiled.csv", ",mode,", ",mood,", "line 4: column 'mood' is no parameter, size"),
    "twice": ("compiled.csv", ",mode,", ",tile,", "line 4: more than"),
    "capability": ("compiled.csv", "compute_capability,", "tile8,", "_capability is missing"),
    "cells": ("compiled.csv", "24,0,0", "24,0", "line 8: 7 cells under 8 columns"),
    "number": ("compiled.csv", "255,800", "nan,800", "line 6: registers = 'nan': must be a number"),
    "negative": ("compiled.csv", "255,800", "255,-1", "line 6: spill_store_bytes = '-1': must be"),
    "large": ("compiled.csv", "255,800", "255,1e300", "must be a number up to 2**53"),
    "same row": ("compiled.csv", "5.2,8,slow", "5.2,8,fast", "line 7: a second row"),
    "quotes": ("compiled.csv", "tiled.cu", "'''", "has control characters or '''"),
    "control": ("compiled.csv", "tiled.cu", "\x1b[2J", "has control characters or '''"),
    "many columns": ("compiled.csv", ",fp32", ",fp32" * MOST_COLUMNS, "more than 256 columns"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "error"), REFUSED.values(), ids=REFUSED)
def test_refused(folder, name, old, new, error):
    change(folder / name, old, new)
    with pytest.raises(SpecError) as caught:
        load_kernel(folder / "compiled.toml")
    assert str(caught.value).startswith(str(folder / "compiled.toml"))
    assert error in str(caught.value)
    assert any(error in str(finding) for finding in lint([folder / "compiled.toml"]))


def test_table_of_a_store_is_checked_too(folder):
    text = load_kernel(folder / "compiled.toml").text
    with pytest.raises(SpecError, match="line 5: registers = 'x'"):
        parse_kernel(spoilt(text, "5.2,1,fast,20", "5.2,1,fast,x"), "compiled")
    with pytest.raises(SpecError, match="its text is missing"):
        parse_kernel(own_text(text), "compiled")
    with pytest.raises(SpecError, match="more than 50000 rows"):
        rows = "".join(f"5.2,{n},slow,1,0,0,0,1\n" for n in range(50_001))
        parse_kernel(spoilt(text, "8.6,1,fast,24,0,0,1024,8\n", rows), "compiled")
