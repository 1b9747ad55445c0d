"""Extension of a store in a bucket: equal to the whole plan's store, and never incomplete."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.runs import plan
from support.store_samples import contents, digest

from sweep.cli import main
from sweep.errors import StoreError
from sweep.query import best
from sweep.runs import extending
from sweep.runs.extending import extend
from sweep.runs.record import layout_of
from sweep.runs.running import run, verify
from sweep.space import resolve
from sweep.store import buckets, extension_path, inspect, lock, open_or_create, open_store
from sweep.store.buckets import BucketFiles, ObjectPath
from sweep.store.lock import LOCK_KEY, this_process

SMALL = {
    "kernels": ["mat_tiled"],
    "outputs": ["execution_time", "occupancy"],
    "axes": {"tile": [8, 16], "core_clock_ratio": [0.9, 1.0]},
}
LARGE = SMALL | {"devices": ["gt_8800", "gtx_280", "gtx_980"]}
OTHER = SMALL | {"axes": {"tile": [4, 8, 16], "core_clock_ratio": [0.9, 1.0]}}
PLACE = "memory://bucket/a.zarr"


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """No bucket of an earlier test."""
    buckets._client.cache_clear()
    yield
    buckets._client.cache_clear()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("large") / "large.zarr"
    run(plan(**LARGE), path)
    return digest(path)


def beside(url: str = PLACE) -> dict[str, bytes]:
    return contents(str(extension_path(ObjectPath(url))))


def test_path_of_an_extension__is_beside():
    assert str(extension_path(ObjectPath("s3://b/x/a.zarr"))) == "s3://b/x/.a.zarr.sweep-extended"
    assert str(extension_path(ObjectPath("s3://b/a.zarr"))) == "s3://b/.a.zarr.sweep-extended"


def test_extended_store__is_that_of_the_whole_plan(large, monkeypatch, capsys):
    before = run(plan(**SMALL), PLACE)
    points: list[int] = []
    evaluate_box = extending.evaluate_box

    def counting(space, given, box, *rest, **options):
        points.append(box.n_points)
        return evaluate_box(space, given, box, *rest, **options)

    monkeypatch.setattr(extending, "evaluate_box", counting)
    monkeypatch.setattr("sweep.runs.job.evaluate_box", counting)
    finished = extend(PLACE, plan(**LARGE))
    assert (finished.computed, finished.resumed) == (sum(points), before.computed) == (4, 8)
    assert digest(PLACE) == large
    assert verify(PLACE) == []
    assert len(inspect(PLACE).run["history"]) == 1
    assert not beside()
    assert len(best(PLACE, by=["device"])) == 3
    assert extend(PLACE, plan(**LARGE)).computed == 0
    assert "chunk_index/lock" not in contents(PLACE)


def test_extension__over_a_network_that_fails(large, url, network):
    run(plan(**SMALL), url)
    count, lock = iter(range(10**9)), threading.Lock()

    def fault(method: str, path: str) -> str | None:
        with lock:
            return ("503", "late", "drop")[next(count) % 3] if next(count) % 7 == 0 else None

    network.fault = fault
    extend(url, plan(**LARGE))
    network.fault = lambda *_: None
    assert network.failed > 10
    assert digest(url) == large
    assert not beside(url)


def test_command(tmp_path, capsys):
    from support.runs import write_plan

    run(plan(**SMALL), PLACE)
    given = write_plan(tmp_path / "large.toml", **LARGE)
    assert main(["extend", PLACE, str(given), "--break-lock"]) == 0
    assert f"{PLACE}: 4 configurations x 1 model in" in capsys.readouterr().out


def test_interrupted_extension__leaves_the_store_and_continues(large):
    class Stop(BaseException):
        pass

    run(plan(**SMALL), PLACE)
    before = contents(PLACE)
    seen: list[int] = []

    def progress(done: int, *_: int) -> None:
        seen.append(done)
        if len(seen) in (3, 5):
            raise Stop

    for given in (OTHER, LARGE):  # another plan starts from scratch
        with pytest.raises(Stop):
            extend(PLACE, plan(**given), threads=1, progress=progress)
        assert contents(PLACE) == before
    extend(PLACE, plan(**LARGE))
    assert digest(PLACE) == large
    assert not beside()


def test_extension__excludes_other_writers():
    run(plan(**SMALL), PLACE)
    refused = []

    def progress(*_: int) -> None:
        if not refused:
            for write in (
                lambda: run(plan(**OTHER), PLACE, overwrite=True),
                lambda: extend(PLACE, plan(**OTHER)),
            ):
                with pytest.raises(StoreError, match=f"'{PLACE}' is being written by process"):
                    write()
                refused.append(write)

    extend(PLACE, plan(**LARGE), progress=progress)
    assert len(refused) == 2
    assert list(open_store(PLACE)["mat_tiled"].device.values) == LARGE["devices"]


# ------------------------------------------------------------------------------ kills


class Killed(BaseException):
    pass


class Deadly:
    """Allows a number of changes of a bucket and drops all later ones, like a killed process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at, self.count, self._lock = at, 0, threading.Lock()
        owner = {**this_process(), "pid": 2**22 + 1}
        monkeypatch.setattr(lock, "this_process", lambda: owner)
        for name in ("write", "copy", "remove"):
            monkeypatch.setattr(BucketFiles, name, self.counting(getattr(BucketFiles, name)))

    def counting(self, real):
        def change(files: BucketFiles, keys: str | list[str], *given, **named):
            with self._lock:
                if keys not in (LOCK_KEY, [LOCK_KEY]):
                    self.count += 1
                if self.count > self.at:
                    raise Killed
            return real(files, keys, *given, **named)

        return change


def but_lock() -> dict[str, str]:
    return {k: v for k, v in digest(PLACE).items() if k != "chunk_index/lock"}


def state(large: dict[str, str], before: dict[str, str]) -> str:
    """Return what a reader finds: one complete store, or none."""
    try:
        info = inspect(PLACE)
    except StoreError as error:
        assert "no store at" in str(error) and "`sweep extend` that was interr" in str(error)
        return "none"
    assert info.is_finished and verify(PLACE) == []
    found = but_lock()
    assert found in (large, before)
    return "old" if found == before else "new"


def test_killed_at_any_change__is_a_whole_store_or_none_and_continues(large, monkeypatch):
    at, seen, step = 0, [], 7
    while True:
        buckets._client.cache_clear()
        run(plan(**SMALL), PLACE)
        before = digest(PLACE)
        with monkeypatch.context() as patched:
            deadly = Deadly(patched, at)
            try:
                extend(PLACE, plan(**LARGE), threads=1)
            except Killed:
                pass
        seen.append(state(large, before))
        extend(PLACE, plan(**LARGE))
        assert but_lock() == large  # which stays, if it was all that was left to do
        assert not beside()
        if deadly.count <= at:
            break
        at += 1 if seen[-1] == "new" else step
    assert seen == sorted(seen, key=("old", "none", "new").index)  # and never back
    assert seen.count("old") > 10 and seen.count("none") > 3 and seen.count("new") > 1


@pytest.mark.parametrize("at", range(0, 24, 3))
def test_killed_overwriting__is_never_taken_for_a_finished_store(monkeypatch, at):
    """Its root record goes first and comes last; who reads in between is told that it is gone."""
    run(plan(**SMALL), PLACE)
    before = digest(PLACE)
    tree = open_store(PLACE)
    space = resolve(plan(**OTHER))
    with monkeypatch.context() as patched:
        deadly = Deadly(patched, at)
        with pytest.raises(Killed):
            open_or_create(PLACE, layout_of(space), overwrite=True)
            raise Killed
    found = but_lock()
    if at == 0:
        assert found == before
    else:
        with pytest.raises(StoreError, match="no store at"):
            inspect(PLACE)
        if "mat_tiled/execution_time/c.0.0.0.0" not in found:
            with pytest.raises(StoreError, match="is gone: deleted or moved"):
                tree["mat_tiled/execution_time"].load()
    assert deadly.count > at or at > 20
    run(plan(**OTHER), PLACE, overwrite=True)
    assert verify(PLACE) == []
