"""The process that runs the fuzzer's cases: ``sweep`` in place, watched and within limits.

It reads a line ``KIND NUMBER`` for each case and answers with one line of JSON: what was wrong,
or null. A case depends on nothing but these two, so each can be repeated alone.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CPU_S = 15
"""CPU seconds that a command may take (a compilation included)."""
MEMORY = 2 << 30
"""Bytes of address space that the cases may take beyond what the imports take."""


class TooLong(BaseException):
    """A command's time is over."""


class Watch:
    """Notes what a case writes outside its own folder, and programs that it starts."""

    WRITES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink",
              "os.truncate", "os.chmod")  # fmt: skip
    PROGRAMS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")

    def __init__(self) -> None:
        self._allowed: tuple[str, ...] = ()
        self._active = False
        self._found: list[str] = []

    def allow(self, *places: Path | str) -> None:
        """Begin to watch; below these places anything may be written."""
        self._allowed = tuple(os.path.realpath(place) for place in places)
        sys.addaudithook(self._look)

    def start(self) -> None:
        self._found, self._active = [], True

    def stop(self) -> list[str]:
        self._active = False
        return self._found

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event == "open":
            path, mode, flags = arguments
            if (mode and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
                self._note(event, path)
        elif event in self.WRITES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                self._note(event, path)
        elif event in self.PROGRAMS:
            self._found.append(f"{event} {arguments!r:.200}")

    def _note(self, event: str, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(path))
            if not name.startswith(self._allowed) and "__pycache__" not in name:
                self._found.append(f"{event} of {name}")


WATCH = Watch()
TRACES = Path("traces")


class Case:
    """One case: a folder, its commands, and the problems that they had.

    ``home`` is the folder of the worker, ``answers`` are those of the questions to the sound store;
    ``chance`` decides everything that is random, and ``told`` says what was mutated.
    """

    def __init__(self, folder: Path, name: str, home: Path, answers: list[str]) -> None:
        self.folder, self.home, self.answers = folder, home, answers
        self.chance = random.Random(name)
        self.told = ""
        self.problems: list[str] = []

    def run(
        self,
        *words: str | Path,
        codes: Sequence[int] = (0, 2),
        targets: Sequence[str] = (),
        any_code: bool = False,
    ) -> tuple[Any, str]:
        """Run a command; check how it ends and what it leaves; return exit code and output.

        ``codes`` are the exit codes that it may have. It may write paths that begin with one of
        ``targets``, with exit code 0 or, if ``any_code`` is set, with any.
        """
        before = contents(self.folder)
        WATCH.start()
        code, out, err, seconds = call([str(word) for word in words])
        wrong = [f"wrote elsewhere: {found}" for found in WATCH.stop()[:3]]
        if seconds > CPU_S:
            wrong.append(f"took {seconds:.0f} s of CPU time")
        if code not in codes:
            wrong.append(f"exit code {code}")
        lines = err.splitlines()
        if not all(line.startswith(("sweep: ", "figure: ")) for line in lines):
            wrong.append("a line of the error stream does not begin with 'sweep: '")
        if code != 0 and len(lines) > 1:
            wrong.append("several lines of the error stream")
        if "Traceback" in err or "unforeseen" in err:
            wrong.append("an error that nobody foresaw")
        if any(c < " " and c not in "\n\t" for c in out):
            wrong.append("control characters in the output")
        allowed = tuple(targets) if code == 0 or any_code else ()
        after = contents(self.folder)
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name) and not name.startswith(allowed or "\0"):
                wrong.append(f"changed {name}")
        traces = [path.read_text() for path in sorted(TRACES.iterdir())]
        if wrong:
            self.problems.append(
                f"{[*map(str, words)]} -> {code}: {'; '.join(wrong)}\n{self.told}\n{err[:2000]}"
                + "".join(trace[-3000:] for trace in traces)
            )
        for path in TRACES.iterdir():
            path.unlink()
        return code, out


def call(arguments: list[str]) -> tuple[Any, str, str, float]:
    """Run a command in this process; return code, output, error stream and CPU seconds."""
    from sweep.cli import main

    out, err = io.StringIO(), io.StringIO()
    started = time.process_time()
    code: Any = None
    signal.setitimer(signal.ITIMER_PROF, CPU_S + 1)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    except BaseException as error:
        code = "".join(traceback.format_exception(error))[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return code, out.getvalue(), err.getvalue(), time.process_time() - started


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content."""
    return {
        os.path.relpath(os.path.join(where, name), folder): Path(where, name).read_bytes()
        for where, _, names in os.walk(folder)
        for name in names
    }


def _time_is_over(*_: object) -> None:
    raise TooLong


def _limit_memory() -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))


def work(home: Path) -> None:
    """Answer requests until the input ends."""
    global TRACES
    # Whatever a command prints past `sys.stdout` must not look like an answer.
    answers_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    inputs, stores = (
        importlib.import_module(f"support.fuzz_{name}") for name in ("inputs", "stores")
    )
    kinds = {**inputs.KINDS, **stores.KINDS}
    TRACES, scratch = home / "traces", home / "cases"
    for folder in (TRACES, scratch):
        folder.mkdir(exist_ok=True)
    tempfile.tempdir = str(TRACES)
    signal.signal(signal.SIGPROF, _time_is_over)
    answers = stores.prepare(home)
    WATCH.allow(os.environ["SWEEP_CACHE_DIR"], TRACES, scratch, os.devnull)
    platform.processor()  # once for a process; it asks another program
    _limit_memory()
    for line in sys.stdin:
        kind, number = line.split()
        folder = scratch / f"{kind}-{number}"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
        folder.mkdir()
        os.chdir(folder)
        case = Case(folder, f"{kind} {number}", home, answers)
        kinds[kind](case)
        os.chdir(home)
        if not case.problems:
            shutil.rmtree(folder)
        print(json.dumps("\n".join(case.problems) or None), file=answers_to, flush=True)


if __name__ == "__main__":
    # Under its own name, so that the kinds share its state.
    importlib.import_module("support.fuzz_worker").work(Path(sys.argv[1]).resolve())
