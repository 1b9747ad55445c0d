"""How commands end: interrupts at awkward moments, and errors that nobody foresaw."""

import os
import re

import pytest
from support.runs import python

from sweep.cli import inspecting, main

AWKWARD = {
    "a callback drops it": """
import ctypes
callback = ctypes.CFUNCTYPE(None)(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.1)))
callback()
""",
    "a library converts it": """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    raise RuntimeError("event loop stopped")
""",
    "somebody swallows it": """
ending.GRACE_S = 0.5
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    pass
""",
    "it comes twice, among messages": """
import logging, threading
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
finally:
    logging.error("task exception was never retrieved")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    os.kill(os.getpid(), signal.SIGINT)
""",
}

COMMAND = """
import os, signal, sys, time
from sweep.cli import ending, inspecting, main

def command(*_):
{body}
    time.sleep(20)

inspecting.list_ = command
sys.exit(main())
"""


@pytest.mark.parametrize("how", AWKWARD)
def test_an_interrupt_always_ends_a_command_with_one_line(tmp_path, how):
    body = "\n".join(f"    {line}" for line in AWKWARD[how].splitlines())
    code = COMMAND.format(body=body)
    done = python("-c", code, "list", "plans", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "\nsweep: interrupted\n")


LOADED = """
import os, signal, sys

class Finder:
    def find_spec(name, *_):
        if name == "sweep.cli.values":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
from sweep.__main__ import main
sys.exit(main())
"""


def test_an_interrupt_while_the_command_line_is_loaded_is_one_line(tmp_path):
    done = python("-c", LOADED, "list", "plans", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "\nsweep: interrupted\n")


def test_a_missing_package_is_named(monkeypatch, capsys):
    def broken(*_):
        raise ModuleNotFoundError("No module named 'llvmlite.ir'", name="llvmlite.ir")

    monkeypatch.setattr(inspecting, "list_", broken)
    assert main(["list", "plans"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("sweep: this needs the Python package 'llvmlite', which is not")


def test_an_unforeseen_error_is_one_line_and_a_file(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("a \x1b[31mdefect\nof two lines")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(inspecting, "list_", broken)
    assert main(["list", "plans"]) == 2
    line = capsys.readouterr().err
    found = re.fullmatch(
        r"sweep: unforeseen ZeroDivisionError: a \\x1b\[31mdefect of two lines; please report it "
        r"to the issue tracker of sweep, with the trace in '(.*)'\n",
        line,
    )
    assert found
    (trace,) = tmp_path.iterdir()
    assert trace.samefile(found[1]) and os.stat(trace).st_mode & 0o077 == 0
    assert "in broken" in trace.read_text()
