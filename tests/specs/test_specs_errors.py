"""Errors in a file are one line with the file, the key and the expected value."""

from __future__ import annotations

import math
import os
import time
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spec_texts import DEVICE, KERNEL, spoilt

from sweep import specs
from sweep.errors import SpecError, StoreError
from sweep.fields import Parameter
from sweep.specs.formats import Key
from sweep.specs.names import MAX_NAME, check_name, is_word
from sweep.specs.reading import MAX_ERRORS, load_toml

CASES = tomllib.loads((Path(__file__).parent / "bad_specs.toml").read_text(encoding="utf-8"))
BASES = {"device": (DEVICE, specs.parse_device), "kernel": (KERNEL, specs.parse_kernel)}
FOLDERS = {"device": "devices", "kernel": "kernels_spec"}
DECLARED = [
    Parameter("issue_cycles", "", "cycle", "issue cycles", minimum=0.1, maximum=64),
    Parameter("mem_ld_cycles", "", "cycle", "latency", minimum=1),
    Parameter("mode", "", "", "a word", choices=("fast", "slow")),
    Parameter("table", "", "", "rows", columns=("memory_clock_MHz", "cycles"), minimum=1),
    Parameter("costs", "", "", "rows", columns=("instruction_name", "cycles"), required=False),
]
SCHEMAS = {
    kind: jsonschema.Draft202012Validator(specs.json_schema(kind, {"hong_kim": DECLARED}))
    for kind in BASES
}


def message(function, *arguments) -> str:
    """Return the error message of a function, which must be one line."""
    with pytest.raises(SpecError) as caught:
        function(*arguments)
    text = str(caught.value)
    assert text.isprintable(), text
    return text


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for kind in BASES for case in CASES[kind]],
    ids=lambda value: value if isinstance(value, str) else value["new"][:40] or "-",
)
def test_bad_file(kind, case):
    base, parse = BASES[kind]
    text = spoilt(base, case["old"], case["new"])
    assert message(parse, text, "foo") == f"{FOLDERS[kind]}/foo.toml: {case['error']}"
    if "not TOML" not in case["error"]:
        accepts = case.get("schema_accepts", False)
        assert SCHEMAS[kind].is_valid(tomllib.loads(text)) == accepts


def test_monstrous_numbers_and_texts():
    texts = ["x = " + "[" * 5000, "\0", "a = '\x07'", "'''"]
    for old in ("core_nominal_MHz = 1000", "sm_count = 4", "static_W = 20"):
        for value in ("9" * 5000, "0x" + "f" * 5000, "1e400", "-inf"):
            texts.append(spoilt(DEVICE, old, f"{old.split(' = ')[0]} = {value}"))
    for text in texts:
        assert len(message(specs.parse_device, text, "foo")) < 200
        assert len(message(specs.parse_kernel, text, "foo")) < 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" + ".a" * 20_000 + " = 1", "a key of 20001 parts in line 1, more than 8"),
        ("[x" + " . 'a'" * 200 + "]", "a key of 201 parts"),
        ("".join(f"a{i}.b = 1\n" for i in range(20_001)), "more than 20000 keys"),
        ("x = " + "{a=" * 2000, "nested too deeply"),
        ('name = "\ud800"', "not UTF-8 text"),
    ],
)
def test_text_beyond_the_limits(text, reason):
    started = time.process_time()
    assert f"not TOML: {reason}" in message(specs.parse_kernel, text, "foo")
    assert time.process_time() - started < 2


def test_text_within_the_limits():
    deep = "a.b.c.d.e.f.g.h.i.j"
    text = f'x = """\n\\""" {deep}"""\ny = "{deep}" # {deep}'
    assert load_toml(text) == tomllib.loads(text)


def test_file_name_is_a_key():
    for key in ("Foo", "foo-bar", "1foo", "", "foo/bar", "foo\nbar", "f" * 101):
        for base, parse in BASES.values():
            assert "the file's name must be" in message(parse, base, key)


@pytest.mark.parametrize("kind", BASES)
@given(data=st.data())
def test_damaged_file_is_accepted_or_refused_in_one_line(kind, data):
    base, parse = BASES[kind]
    lines = base.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        junk = data.draw(st.sampled_from([*lines, "", "x = 1", "[x]", "[[x]]", '"" = []', "= 3"]))
        lines[at : at + data.draw(st.integers(0, 2))] = [junk]
    try:
        parse("\n".join(lines), "foo")
    except SpecError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(("bounds", "text"), [
    ((0, 5), "0 to 5"), ((1, 2**53), "1 to 2**53"), ((0.5, math.inf), "at least 0.5"),
    ((-math.inf, 3), "at most 3"), ((-math.inf, math.inf), "any finite number"),
])  # fmt: skip
def test_range_text(bounds, text):
    assert Key("x", "number", "", *bounds).range == text
    assert Key("x", "number", "", *bounds, zero=True).range == f"0 or {text}"


@pytest.mark.parametrize("case", CASES["model"], ids=lambda case: case["line"])
def test_model_parameter(case):
    line, error = case["line"], case["error"]
    key = line.split(" = ")[0]
    text = DEVICE.replace("mem_ld_cycles", key) if key != "mem_ld_cycles" else DEVICE
    text = spoilt(text, f"{key} = 400", line)
    device = specs.parse_device(text, "foo")
    refusal = message(specs.check_model_parameters, device, "hong_kim", DECLARED)
    assert refusal.startswith(f"devices/foo.toml: model.hong_kim.{key} = ")
    assert error in refusal
    assert SCHEMAS["device"].is_valid(tomllib.loads(text)) == ("rising order" in error)


def test_model_parameter__what_is_missing_is_a_status_and_no_error():
    device = specs.parse_device(DEVICE, "foo")
    for model in ("hong_kim", "another"):
        specs.check_model_parameters(device, model, DECLARED)
    assert SCHEMAS["device"].is_valid(tomllib.loads(DEVICE))
    assert not SCHEMAS["device"].is_valid(tomllib.loads(DEVICE.replace("hong_kim", "hong_kin")))


WRONG_NAMES = ("", "1x", "a-b", "a.b", "a b", "a\n", "a\0", "é", "\ud800", "__import__('os')",
               "a" * (MAX_NAME + 1), None, 3, b"x", ["x"], 10**30)  # fmt: skip


def test_names_and_words__are_identifiers_and_printable():
    for name in ("gtx_980_paper", "_x", "Tile", "a" * MAX_NAME):
        assert check_name(name) == name
    for name in WRONG_NAMES:
        with pytest.raises(StoreError, match="^a.zarr: .*: a dimension is a letter, then") as error:
            check_name(name, "dimension", "a.zarr", StoreError)
        assert str(error.value).isprintable() and len(str(error.value)) < 250
    fits = {"x": True, "x y": True, "x\0": False, "\ud800": False, " ": False}
    assert {word: is_word(word) for word in fits} == fits


def test_no_such_device_and_no_such_search_path(monkeypatch):
    assert message(specs.load_device, "gtx_981") == "no device 'gtx_981'; did you mean 'gtx_980'?"
    assert "did you mean 'gtx_980'" in message(specs.load_device, "GTX_980")
    many = "no device 'zzz'; `sweep list devices` names the "
    assert message(specs.load_device, "zzz").startswith(many)
    assert message(specs.load_kernel, "sepai").startswith("no kernel 'sepai'; did you mean ")
    assert message(specs.load_kernel, "a\nb\0" + "c" * 100).startswith("no kernel 'a?b?ccc")
    monkeypatch.setenv("SWEEP_PATH", "/nonexistent")
    text = message(specs.load_device, "zzz")
    assert text.endswith("(SWEEP_PATH names /nonexistent, which is no directory)")
    assert specs.load_device("gtx_280").key == "gtx_280"


@pytest.mark.parametrize("load", [specs.load_device, specs.load_kernel])
def test_unreadable_file(load, tmp_path):
    for name in ("~nosuchuser/x.toml", "a\0.toml", "/\ud800/x.toml"):
        message(load, name)
    missing = tmp_path / "foo.toml"
    assert message(load, missing) == f"{missing}: no such file"
    assert message(load, tmp_path) == f"{tmp_path}: is a directory"
    missing.write_bytes(b'schema = 1\nname = "\xff"\n')
    assert message(load, missing) == f"{missing}: not UTF-8 text (byte 19)"
    os.mkfifo(tmp_path / "pipe.toml")  # reading it must not block
    assert message(load, tmp_path / "pipe.toml").endswith("pipe.toml: not a regular file")


def test_file_of_a_mebibyte_byte_order_mark_and_carriage_returns(tmp_path):
    path = tmp_path / "foo.toml"
    path.write_text(DEVICE + "#" * (2**20 - len(DEVICE)))
    assert specs.load_device(path).key == "foo"
    path.write_text(path.read_text() + "#")
    assert message(specs.load_device, path).startswith(f"{path}: larger than 1048576 bytes")
    path.write_bytes(b"\xef\xbb\xbf" + DEVICE.replace("\n", "\r\n").encode())
    assert specs.load_device(path).name == "Test GPU"


@pytest.fixture
def folder(tmp_path):
    """Return a directory with a good and a bad file of each kind."""
    for name, text in (("device", DEVICE), ("kernel", KERNEL)):
        (tmp_path / f"good_{name}.toml").write_text(text)
    text = spoilt(DEVICE, "sm_count = 4", "sm_cuont = 4")
    text = spoilt(text, "core_nominal_MHz = 1000", "core_nominal_GHz = 1")
    (tmp_path / "bad_device.toml").write_text(spoilt(text, "[model.hong_kim]", "[model.hk]"))
    text = spoilt(KERNEL, 'blocks = "tiles ** 2"', 'blocks = "tilse ** 2"')
    text = spoilt(text, 'count = "tile"', 'count = "tile"\n"" = []')
    (tmp_path / "bad_kernel.toml").write_text(spoilt(text, "n = 1024", "n = -1024"))
    return tmp_path


def test_lint__reports_everything(folder):
    found = [(Path(f.file).name, f.path) for f in specs.lint([folder])]
    assert found == [
        ("bad_device.toml", "clocks.core_nominal_GHz"),
        ("bad_device.toml", "chip.sm_cuont"),
        ("bad_device.toml", 'source."model.hong_kim.issue_cycles"'),
        ("bad_device.toml", 'source."model.hong_kim.mem_ld_cycles"'),
        ("bad_kernel.toml", "sizes.n"),
        ("bad_kernel.toml", "launch.blocks"),
        ("bad_kernel.toml", "shared_access.tile_load."),
    ]
    assert {f.severity for f in specs.lint([folder])} == {"error"}


def test_lint__of_thousands_of_errors_ends(tmp_path):
    derived = "\n".join(f'name_{i} = "nmae_{i} + 1"' for i in range(3000))
    path = tmp_path / "foo.toml"
    path.write_text(KERNEL.replace("[derived]", f"[derived]\n{derived}"))
    started = time.process_time()
    assert len(specs.lint([path])) == MAX_ERRORS
    assert time.process_time() - started < 5


def test_lint__models(folder):
    good = folder / "good_device.toml"
    assert specs.lint([good], {"hong_kim": DECLARED}) == []
    (finding,) = specs.lint([good], {"hong_kim_2": DECLARED})
    assert str(finding) == f"{good}: model.hong_kim: no such model; did you mean 'hong_kim_2'?"
    (finding,) = specs.lint([good], {"hong_kim": DECLARED[:1]})
    assert finding.path == "model.hong_kim.mem_ld_cycles"


def test_lint__warns(tmp_path):
    device, kernel = tmp_path / "foo.toml", tmp_path / "bar.toml"
    device.write_text(spoilt(DEVICE, "_GBps = 128", "_GBps = 100"))
    kernel.write_text(spoilt(KERNEL, "n = 1024", "n = 1024\nm = 3"))
    warnings = [str(finding) for finding in specs.lint([device, kernel])]
    assert warnings == [
        f"{device}: warning: chip.memory_bandwidth_GBps = 100: memory clock and bus width make"
        " this 1.56 transfers a clock, not 1, 2, 4, 8 or 16",
        f"{kernel}: warning: sizes.m: no prediction depends on it",
    ]
    assert specs.load_device(device).key == "foo" and specs.load_kernel(kernel).key == "bar"


@pytest.mark.parametrize(("text", "error"), [
    ("", "schema: missing"), ("schema = 1\nkernels = []", "neither a device file"),
    ("x = ", "not TOML"), (None, "no such file"),
])  # fmt: skip
def test_lint__not_a_spec(tmp_path, text, error):
    path = tmp_path / "foo.toml"
    (finding,) = specs.lint([tmp_path])
    assert finding.message == "a directory without .toml files"
    if text is not None:
        path.write_text(text)
    (finding,) = specs.lint([path])
    assert error in finding.message
