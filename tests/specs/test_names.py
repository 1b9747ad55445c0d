"""Names and words from untrusted files: identifiers of bounded length, printable text."""

from __future__ import annotations

import pytest

from sweep import specs
from sweep.errors import SpecError, StoreError
from sweep.specs.names import MAX_NAME, check_name, is_word


@pytest.mark.parametrize("name", ["gtx_980", "_x", "Tile", "a" * MAX_NAME])
def test_check_name__accepts_identifiers(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "1x", "a-b", "a.b", "a b", "a\n", "a\0", "é", "\ud800", "__import__('os')",
     "a" * (MAX_NAME + 1), None, 3, b"x", ["x"], 10**30],
)  # fmt: skip
def test_check_name__refuses_everything_else(name):
    with pytest.raises(StoreError, match="^a.zarr: .*: a dimension is a letter, then") as caught:
        check_name(name, "dimension", "a.zarr", StoreError)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("word", "fits"), [("x", True), ("x y", True), ("x\0", False), ("\ud800", False), (" ", False)]
)
def test_word(word, fits):
    assert is_word(word) == fits


@pytest.mark.parametrize("load", [specs.load_device, specs.load_kernel])
@pytest.mark.parametrize("name", ["~nosuchuser/x.toml", "a\0.toml", "/\ud800/x.toml"])
def test_path_that_no_file_can_have(load, name):
    with pytest.raises(SpecError) as caught:
        load(name)
    assert str(caught.value).isprintable()
