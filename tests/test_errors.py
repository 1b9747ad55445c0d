"""Error messages: one line, without control characters."""

import pickle

import pytest

from sweep.errors import StoreError, nearest, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain µ²", "plain µ²"),
        ("a\x1b]0;owned\x07b", "a\\x1b]0;owned\\x07b"),
        ("a\rb\x9b2J", "a\\rb\\x9b2J"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters__are_escaped(text, shown):
    assert printable(text) == shown == printable(shown)
    assert str(StoreError(text)) == shown or "\r" in text


def test_kept_characters():
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_error__is_one_line_and_crosses_processes():
    error = StoreError("no store\nat 'x\x1b'")
    assert str(error) == "no store at 'x\\x1b'"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("A100", ["v100", "a100_40gb", "gtx_1080"], "a100_40gb"),
        ("RTX 4090", ["rtx_4090"], "rtx_4090"),
        ("time", ["tile", "execution_time"], "execution_time"),
        ("setp", ["stop", "step"], "step"),
        ("gtx_908", ["gtx_980", "gtx_280"], "gtx_980"),
    ],
)
def test_nearest__knows_parts_of_names(word, known, meant):
    assert nearest(word, known) == f"; did you mean '{meant}'?"
    assert nearest("x", known) == ""
