"""Mutated files of every kind, and mutated documents of stores: an answer or one clear line.

Each case ends within its limits of time and memory with an exit code that the command's contract
knows and at most one line that explains it, writes nothing outside its target, and leaves nothing
half-written. A mutated store is found by ``verify``, or all its answers are what they were.

``SWEEP_FUZZ=N`` takes N cases of each kind instead of a few, ``SWEEP_FUZZ=FIRST:LAST`` those of
these numbers. A case depends on its kind and number alone; a failed case's folder is kept.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fuzz_inputs import KINDS as INPUTS
from support.fuzz_stores import KINDS as STORES
from support.runs import ROOT, environment

FEW = {"measured": 4, "unfinished": 6, "finished": 12, "clocks": 6, "kernel": 25, "device": 25,
       "plan": 25, "kernel_tuner_cache": 25, "ktt": 25, "where": 40}  # fmt: skip
"""Cases of a kind by default, where it is not :data:`MANY`."""
MANY = 50
WALL_S = 180
"""Seconds until a case counts as hanging; its CPU time has a smaller limit."""
CASES_OF_A_PROCESS = 500
MOST_PROBLEMS = 5


class Worker:
    """A process that runs cases, replaced when it dies and after some hundred cases."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process: subprocess.Popen[str] | None = None
        self._count = 0

    def ask(self, kind: str, number: int) -> str | None:
        """Return what was wrong with a case."""
        if self._process is None or self._count == CASES_OF_A_PROCESS:
            self.end()
            self._start()
        assert self._process and self._process.stdin and self._process.stdout
        self._count += 1
        print(kind, number, file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], WALL_S)
        line = self._process.stdout.readline() if ready else ""
        if line:
            found: str | None = json.loads(line)
            return found
        self._process.kill()
        code = self._process.wait()
        self.end()
        return f"the process ended with {code}" if ready else f"no answer within {WALL_S} s"

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.fuzz_worker", str(self.home)],
            env=environment(PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'tests'}", MPLBACKEND="Agg"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._count = 0

    def end(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("fuzz"))
    yield worker
    worker.end()


def numbers(kind: str) -> range:
    """Return the numbers of the cases to run."""
    wanted = os.environ.get("SWEEP_FUZZ", str(FEW.get(kind, MANY)))
    first, colon, last = wanted.rpartition(":")
    return range(int(first or 0), int(last) + len(colon))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*INPUTS, *STORES])
def test_mutations__end_in_an_answer_or_one_line(worker: Worker, kind: str) -> None:
    problems: list[str] = []
    for number in numbers(kind):
        if found := worker.ask(kind, number):
            problems.append(f"{kind} {number} in {worker.home}/cases/{kind}-{number}: {found}")
        if len(problems) == MOST_PROBLEMS:
            break
    assert not problems, "\n\n".join(problems)
