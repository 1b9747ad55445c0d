"""Damaged files of tuners give the right answer or an error in one line, and write nothing."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from support.fuzz_inputs import tuner_files
from support.mutations import mutated
from support.refusals import contents, refused
from support.tuning_files import CACHE, measured, unpacked

from sweep.errors import SweepError, TuningError
from sweep.importers.files import read_source
from sweep.importers.tuners.formats import read_measurements, recognise
from sweep.importers.tuners.measurements import MEASURED, measured_dataset
from sweep.importers.tuners.search_space import read_t1
from sweep.importers.tuners.skeleton import kernel_text

pytestmark = pytest.mark.usefixtures("folder")


def test_a_cache_without_an_end_is_read_up_to_the_last_whole_entry():
    text, whole = unpacked(CACHE), measured(CACHE)
    Path("open.json").write_text(text.rstrip().removesuffix("}\n}") + ",\n")
    Path("torn.json").write_text(text[: len(text) // 2])
    found, torn = measured(Path("open.json")), measured(Path("torn.json"))
    assert len(found) == len(whole) == 4362
    assert found.notes == ("the file was never closed: all its entries were read",)
    assert 1000 < len(torn) < len(whole) and "truncated" in torn.notes[0]
    np.testing.assert_array_equal(torn.seconds, whole.seconds[: len(torn)])


def with_time(*times) -> str:
    cache = {f"{i}": {"x": i, "time": time} for i, time in enumerate(times)}
    head = {"device_name": "gtx_980_paper", "kernel_name": "k", "tune_params_keys": ["x"]}
    return json.dumps({**head, "tune_params": {"x": [0]}, "cache": cache})


def test_times_that_are_none_are_no_times():
    words = ["InvalidConfig", "error", math.nan, math.inf, -1.0, 0.0, 1e20, None, True, 3.0]
    Path("odd.json").write_text(with_time(*words))
    found = measured(Path("odd.json"))
    assert found.valid.tolist() == [False] * 9 + [True]
    assert MEASURED.meaning(int(found.status[0])) == "constraint"
    assert np.isnan(found.seconds[:9]).all()


def t1(**changes) -> str:
    names = {"x": "[1, 2]", "y": [1, 2]}
    parameters = [{"Name": n, "Type": "int", "Values": values} for n, values in names.items()]
    conditions = [{"Expression": "x <= y", "Parameters": ["x", "y"]}]
    space = {"TuningParameters": parameters, "Conditions": conditions}
    return json.dumps({"General": {"BenchmarkName": "t"}, "ConfigurationSpace": space | changes})


def parameter(values: object, name: str = "x") -> str:
    return t1(TuningParameters=[{"Name": name, "Values": values}])


def spoilt_text(case: dict) -> str:
    """Return the text of a file of ``bad_tuning.toml``."""
    if "condition" in case:
        return t1(Conditions=[{"Expression": case["condition"], "Parameters": ["x"]}])
    if "parameter" in case:
        return t1(TuningParameters=[case["parameter"]], Conditions=[])
    return with_time(*case["times"]) if "times" in case else case["text"]


CLEAN_GZIP = gzip.compress(b"x,time_ms\n1,2\n" * 1000)
BAD = tomllib.loads((Path(__file__).parent / "bad_tuning.toml").read_text("utf-8"))
SPOILT: dict[str, tuple[str | bytes, str]] = {
    **{name: (spoilt_text(case), case["message"]) for name, case in BAD.items()},
    "half an archive": (CLEAN_GZIP[:-9], "the gzip archive is truncated"),
    "archive with a wrong byte": (CLEAN_GZIP[:30] + b"\0\0\0\0" + CLEAN_GZIP[34:],
                                  "the gzip archive is damaged"),
    "no text": (b"\xff\xfe\x00", "no text in UTF-8"),
    "deep JSON": ("[" * 100_000, "nested too deeply"),
    "conditions without end": (
        t1(Conditions=[{"Expression": "x + " * 490 + "x", "Parameters": []}] * 103),
        "Conditions: .* more than 200000 characters together"),
    "values without end": (parameter(f"[{'i+' * 300}i for i in range(99999)]"),
                           r"TuningParameters\[0\].Values = .*needs a list"),
    "half a character in a name": (parameter("[1]", "x\ud800"), "x.ud800"),
    "half a character in a word": (parameter(["\ud800"]), "neither a number"),
    "half a character in the name of a device": (
        with_time(1.0).replace("gtx_980_paper", "\\ud800"), "cannot be the name of a kernel"),
    "number of 5,000 digits": (parameter([10**4000]), "beyond 2"),
    "no parameters": (t1(TuningParameters=[]), "TuningParameters is empty"),
    "cache without a value": (with_time(1.0).replace('"x": 0', '"y": 0'),
                              "cache entry '0' has no value for the parameter 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_files_are_refused_in_one_line(name, folder, capsys):
    content, pattern = SPOILT[name]
    Path("a.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = contents(folder)
    message = refused(capsys, "import", "a.json")
    assert "a.json" in message or "kernel 'a'" in message
    assert re.search(pattern, message), message
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [({"t.json": t1(), "t.csv": "x,yy,time_ms\n1,2,3\n"}, ["--device", "gtx_980_paper"],
      "has no parameter 'yy'; did you mean 'y'?"),
     ({"m.csv": "device,x,time_ms\na,1,2\nb,1,3\n"}, ["--device", "gtx_980_paper"],
      "rows of several devices (a, b)"),
     ({"m.csv": 'x,time_us\n1,"1,300"\n2,310\n'}, ["--device", "gtx_980_paper"],
      "time_us = '1,300': write '.' in numbers, and nothing between thousands"),
     ({"m.csv": "x,time_us\n1,1.3 ms\n2,310\n"}, ["--device", "gtx_980_paper"],
      "m.csv: time_us = '1.3 ms': write the unit in the column's name, not here"),
     ({"m.csv": "x,time_us\n1,1.3E-5s\n2,310\n"}, ["--device", "gtx_980_paper"],
      "m.csv: time_us = '1.3E-5s': write the unit in the column's name, not here"),
     ({"m.csv": "x,time_us\n1,13 µs\n2,310\n"}, ["--device", "gtx_980_paper"],
      "m.csv: time_us = '13 µs': write the unit in the column's name, not here"),
     ({}, ["nowhere.json"], "nowhere.json: cannot be read")],
)  # fmt: skip
def test_what_does_not_fit_together_is_named(files, arguments, message, capsys):
    for name, text in files.items():
        Path(name).write_text(text)
    assert message in refused(capsys, "import", *files, *arguments)


def test_a_small_archive_of_a_large_file_is_refused_before_it_is_unpacked():
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"0" * 64_000_000))  # 62 kB
    tracemalloc.start()
    with pytest.raises(TuningError, match="unpacks to more than 200 times its size"):
        read_source("bomb.csv.gz")
    assert tracemalloc.get_traced_memory()[1] < 48e6
    tracemalloc.stop()
    with pytest.raises(TuningError, match="larger than 1000 bytes"):
        read_source(CACHE, most=1000)
    os.mkfifo("pipe")
    with pytest.raises(TuningError, match="pipe: cannot be read: not a regular file"):
        read_source("pipe")


def test_a_grid_of_too_many_points_is_refused():
    names = [f"x{i}" for i in range(20)]
    rows = [",".join([str(i)] * 20 + ["2"]) for i in range(20)]
    Path("wide.csv").write_text("\n".join([",".join([*names, "time_ms"]), *rows]))
    found = measured(Path("wide.csv"))
    assert measured_dataset(found, devices={"": "d"}).sizes["configuration"] == 20
    with pytest.raises(TuningError, match="a grid has at most 268,435,456 points"):
        measured_dataset(found, devices={"": "d"}, layout="grid")


# ---------------------------------------------------------------------------- any damage

FILES = {**tuner_files(), "gzip": [gzip.compress(b"x,time_ms\n1,2\n" * 30)]}


@pytest.mark.parametrize("kind", FILES)
def test_any_damage_is_read_or_refused_never_a_traceback(kind):
    chance = random.Random(kind)
    refusals = 0
    for _ in range(150):
        Path("damaged").write_bytes(mutated(chance.choice(FILES[kind]), chance))
        try:
            source = read_source("damaged")
            if recognise(source) == "t1":
                kernel_text(read_t1(source))
            else:
                measured_dataset(read_measurements(source), devices={"": "d"})
        except SweepError as error:
            refusals += 1
            assert str(error).strip()
    assert 0 < refusals < 150 or kind == "gzip"
