"""The fuzzer's cases of stores: a document or a chunk of a sound store is mutated.

Either ``verify`` finds the change, or all answers are what they were.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from support.fuzz_worker import Case, call
from support.mutations import mutated
from support.runs import write_plan

QUESTIONS = (
    ("best", "a.zarr"),
    ("top", "a.zarr", "3", "--where", "occupancy > 0.3", "--include", "regime"),
    ("info", "a.zarr"),
    ("pareto", "a.zarr"),
)
PLAN = {
    "name": "small",
    "kernels": ["sepia"],
    "axes": {"block_size": [64, 128, 2000], "core_clock_ratio": [0.9, 1.0]},
}
LOCKS = [
    b'{"host": "elsewhere", "pid": 4, "boot": "x", "since": "2024-01-01T00:00:00+00:00"}',
    b'{"host": "h", "pid": 1, "boot": null, "since": null, "token": "0"}',
]
NOTE = "a.zarr/chunk_index/damaged.json"
"""The one file that ``verify`` may write."""


class _StopError(Exception):
    pass


def _stop(done: int, total: int, before: int) -> None:
    if 2 * done > total:
        raise _StopError


def prepare(home: Path) -> list[str]:
    """Make a finished and an unfinished store; return the answers of the finished one."""
    from sweep.runs.running import run
    from sweep.space import load_plan, resolve

    space = resolve(load_plan(str(write_plan(home / "small.toml", **PLAN))))
    for kind, progress in (("finished", None), ("unfinished", _stop)):
        (home / kind).mkdir(exist_ok=True)
        if not (home / kind / "a.zarr").exists():
            with contextlib.suppress(_StopError):
                run(space, home / kind / "a.zarr", progress=progress)
    os.chdir(home / "finished")
    found = [call([*question]) for question in QUESTIONS]
    assert all(code == 0 and not err for code, _, err, _ in found), found
    return [without_time(out) for _, out, _, _ in found]


def without_time(answer: str) -> str:
    """Return an answer without the moment when a run ended."""
    return re.sub(r"finished \S+", "", answer)


def spoil(chance: random.Random) -> str:
    """Change a file of the store, a document more often than a chunk; return its name."""
    store = Path("a.zarr")
    paths = sorted(path for path in store.rglob("*") if path.is_file())
    documents = [path for path in paths if path.suffix in (".json", ".jsonl")]
    roots = [store / "zarr.json", store / "chunk_index/journal.jsonl"]
    path = chance.choice(chance.choice([paths, documents, roots, roots[1:]]))
    how, sound = chance.random(), path.read_bytes()
    if how < 0.04:
        path.unlink()
    elif how < 0.08:
        other = chance.choice(paths)
        path.write_bytes(other.read_bytes())
    elif how < 0.3:
        flipped = bytearray(sound)
        flipped[chance.randrange(len(sound))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
    else:
        path.write_bytes(mutated(sound, chance, 2))
    return f"{path}{' as it was' if path.exists() and path.read_bytes() == sound else ''}"


def check_answers(case: Case) -> None:
    """Ask the questions; after a ``verify`` that found nothing all answers are the known ones."""
    verified, _ = case.run("verify", "a.zarr", codes=(0, 1, 2), targets=[NOTE], any_code=True)
    for question, expected in zip(QUESTIONS, case.answers, strict=True):
        if verified and case.chance.random() < 0.5:
            continue
        code, out = case.run(*question)
        if not verified and (code, without_time(out)) != (0, expected):
            case.problems.append(f"verify: sound, but {question} -> {code}:\n{out}")


def finished(case: Case) -> None:
    shutil.copytree(case.home / "finished/a.zarr", "a.zarr")
    case.told = spoil(case.chance)
    check_answers(case)
    if case.chance.random() < 0.3:
        code, _ = case.run("explain", "a.zarr")
        code, _ = case.run("verify", "a.zarr", "--repair", targets=["a.zarr"], any_code=True)
        if code == 0:
            code, out = case.run("verify", "a.zarr", codes=[0])
            check_answers(case)


def unfinished(case: Case) -> None:
    shutil.copytree(case.home / "unfinished/a.zarr", "a.zarr")
    shutil.copy(case.home / "small.toml", "small.toml")
    if case.chance.random() < 0.15:
        lock = mutated(case.chance.choice(LOCKS), case.chance, 2)
        Path("a.zarr/chunk_index/lock").write_bytes(lock)
        case.told = f"lock {lock!r:.300}"
    else:
        case.told = spoil(case.chance)
    code, _ = case.run("run", "small.toml", "--store", "a.zarr", "--no-report",
                       targets=["a.zarr"], any_code=True)  # fmt: skip
    if code == 0:
        check_answers(case)


KINDS: dict[str, Callable[[Case], None]] = {"finished": finished, "unfinished": unfinished}
