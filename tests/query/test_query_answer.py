"""Answers as tables, JSON, CSV, HTML and data frames; and as the ticket to an explanation."""

from __future__ import annotations

import csv
import io
import json
import math
import re

import pytest
from support import synthetic

from sweep.query import Answer, Row, best, pareto, summary, texts, top

TREE = synthetic.three_kernels()
ONE = synthetic.dataset()


def made_up(**columns: list) -> Answer:
    rows = [Row(dict(zip(columns, v, strict=True)), ["x"]) for v in zip(*columns.values())]  # noqa: B905
    return Answer("", tuple(columns), rows, {"execution_time": "s", "x": "MHz"}, ("x",))


TABLE = """\
smallest execution_time by kernel, device, model=hong_kim
all rows: core_clock_ratio=1.1
                                                      core_  memory_  execution_
                                                      clock    clock        time    power   energy
kernel           device   configuration               [MHz]    [MHz]        [µs]      [W]     [mJ]
---------------  -------  -------------------------  ------  -------  ----------  -------  -------
black_scholes    gtx_280  block_size=192              662.2    885.6     50.002*       -        -
black_scholes    gtx_980  block_size=128             1238.6     3505     10.384   181.38*  1.8835*
matrix_multiply  gtx_280  n=512 tile=16               662.2    885.6     333.35*       -        -
matrix_multiply  gtx_980  n=512 tile=16              1238.6     3505     62.319   181.38*  11.303*
transpose        gtx_280  block_size=128 layout=row   662.2    885.6      55.39*       -        -
transpose        gtx_980  block_size=256 layout=row  1238.6     3505     10.364   181.38*  1.8797*
* rests on assumed values (gtx_280: clocks.core_min; gtx_980: power.static_W, power.core_voltage)
columns left out: memory_clock_ratio, occupancy, regime, bound, runner_up (all: to_table(wide=True))
"""
WIDE = """\
smallest execution_time by kernel, device, model=hong_kim
all rows: core_clock_ratio=1.1
                                                     memory_   core_  memory_  execution_
                                                      clock_   clock    clock        time    power   energy
kernel           device   configuration                ratio   [MHz]    [MHz]        [µs]      [W]     [mJ]  occupancy  regime         bound    runner_up
---------------  -------  -------------------------  -------  ------  -------  ----------  -------  -------  ---------  -------------  -------  ---------
black_scholes    gtx_280  block_size=192                 0.8   662.2    885.6     50.002*       -        -      0.9375  hong_kim_eq22  compute    0.054 %
black_scholes    gtx_980  block_size=128                   1  1238.6     3505     10.384   181.38*  1.8835*        0.5  hong_kim_eq24  memory     0.022 %
matrix_multiply  gtx_280  n=512 tile=16                  0.8   662.2    885.6     333.35*       -        -           1  hong_kim_eq22  compute    0.054 %
matrix_multiply  gtx_980  n=512 tile=16                    1  1238.6     3505     62.319   181.38*  11.303*        0.5  hong_kim_eq24  memory       5.1 %
transpose        gtx_280  block_size=128 layout=row      0.8   662.2    885.6      55.39*       -        -           1  hong_kim_eq22  compute     0.62 %
transpose        gtx_980  block_size=256 layout=row        1  1238.6     3505     10.364   181.38*  1.8797*        0.5  hong_kim_eq24  memory       0.2 %
* rests on assumed values (gtx_280: clocks.core_min; gtx_980: power.static_W, power.core_voltage)
"""  # noqa: E501


def test_table__of_three_kernels(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    found = best(TREE, by=("kernel", "device"), select={"model": "hong_kim"})
    assert repr(found) == found.to_table() == TABLE.rstrip("\n")
    assert found.to_table(wide=True) == found.to_table(400) == WIDE.rstrip("\n")


def test_table__prefixes_suit_a_column_or_are_left_out():
    near = made_up(execution_time=[2e-5, 3e-4, None]).to_table()
    assert "[µs]" in near and "300" in near
    far = made_up(execution_time=[2e-5, 3e4]).to_table()
    assert "[s]" in far and "2e-05" in far
    assert "0 " not in made_up(execution_time=[0.0, 0.0]).to_table().splitlines()[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (256.0, "256"), (0.1, "0.1"), (1 / 3, "0.33333"), (math.inf, "inf"),
     (1e20, "1e+20"), (True, "True"), (["a", "b"], "a, b"), ([], "-"),
     ({"eq24": 0.125, "eq22": 3}, "eq24 12.5 %, eq22 3")],
)  # fmt: skip
def test_number__is_written_as_people_write_it(value, text):
    assert texts.number(value) == text


@pytest.mark.parametrize(("distance", "text"), [
    (None, "-"), (0.0, "tie"), (0.123, "12 %"), (0.996, "100 %"), (3.2, "320 %")])  # fmt: skip
def test_table__runner_up_is_a_percentage(distance, text):
    table = made_up(execution_time=[1.0], runner_up=[distance]).to_table()
    assert text in table.splitlines()[-1] or distance is None
    assert "%" not in Answer.of("t", [{"change": 2}, {"change": 4}], ("change",)).to_table()


def test_json__has_units_rows_and_notes():
    answer = best(TREE)
    found = json.loads(answer.to_json())
    assert [column["name"] for column in found["columns"]] == list(answer.columns)
    units = {column["name"]: column["units"] for column in found["columns"]}
    assert units["execution_time"] == "s" and units["core_clock"] == "MHz"
    assert units["kernel"] == units["regime"] == "" and units["runner_up"] == "1"
    assert found["rows"] == [dict(row) for row in answer]
    assert found["notes"] == list(answer.notes) and "assumed" in found["notes"][0]
    assert json.loads(top(ONE, 1, where="False").to_json())["rows"] == []
    infinite = made_up(execution_time=[math.inf], regimes=[{"a": math.inf}])
    assert json.loads(infinite.to_json())["rows"] == [
        {"execution_time": None, "regimes": {"a": None}}
    ]


def test_csv__reads_back():
    answer = best(TREE, by=("block_size",))
    rows = list(csv.DictReader(io.StringIO(answer.to_csv())))
    assert len(rows) == len(answer)
    assert rows[0]["execution_time"] == repr(answer[0]["execution_time"])
    assert rows[-1]["execution_time"] == "" and rows[-1]["status"] == "block_too_large"
    assert "block_too_large=" in summary(ONE).to_csv()


def test_html__is_escaped():
    page = made_up(x=["<b>"], execution_time=[1.0])._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "<br>[s]" in page
    assert "(no rows)" in Answer("nothing", (), [])._repr_html_()
    assert "all rows" in best(TREE)._repr_html_()


def test_html__has_a_table_for_each_kernel_with_parameters_of_its_own():
    tables = best(TREE, by=("kernel", "block_size"))._repr_html_().split("<table>")[1:]
    heads = [re.findall("<th>(.*?)</th>", table) for table in tables]
    assert len(heads) > 1 and all("block_size" in head for head in heads)
    assert not any("configuration" in head or "kernel" in head for head in heads)


def test_dataframe__has_units():
    pytest.importorskip("pandas")
    answer = best(TREE)
    frame = answer.to_dataframe()
    assert list(frame.columns) == list(answer.columns) and len(frame) == len(answer)
    assert frame.attrs["units"]["energy"] == "J"


def test_answer__is_a_sequence_of_rows():
    answer = best(ONE)
    assert len(answer) == 4 and answer[0] is answer.rows[0] and list(answer) == answer.rows
    assert answer[-1:] == answer.rows[-1:]
    assert answer.column("device") == [row["device"] for row in answer]


def test_configuration__leads_back_to_the_row():
    for row in [*best(TREE), *pareto(TREE), *top(TREE, 5)]:
        configuration = row.configuration
        assert None not in configuration.values()
        dims = {k: v for k, v in configuration.items() if k not in ("core_clock", "memory_clock")}
        (again,) = top(TREE, 1, select=dims)
        assert again["execution_time"] == row["execution_time"]
        assert again.configuration == configuration
    absent = best(ONE, by=("block_size",))[-1]
    assert absent.configuration == {"kernel": "matrix_multiply", "block_size": 2000}
