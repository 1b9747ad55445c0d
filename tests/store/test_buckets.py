"""Stores in buckets: the same as on a disk, over a network that fails, beside other writers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from support.buckets import BUCKET, KEYS, SECRET, entries_of
from support.runs import command, environment, plan, sweep, write_plan
from support.store_samples import (
    complete,
    contents,
    digest,
    fill,
    layout,
    reference,
    summaries,
    write_chunk,
)

from sweep.errors import StoreError
from sweep.query import best
from sweep.runs.running import rerun, run
from sweep.store import buckets, journal, open_store
from sweep.store.buckets import delete, files_of
from sweep.store.root import inspect
from sweep.store.writer import open_or_create

LONG = {
    "kernels": ["sepia"],
    "outputs": ["execution_time"],
    "chunk_points": 20,
    "axes": {"block_size": {"start": 1, "stop": 512, "step": 1}},
}
"""Some dozen chunks."""


@pytest.fixture
def impatient(monkeypatch):
    """Requests that are repeated twice and waited for a moment only."""
    monkeypatch.setattr(buckets, "TIMEOUTS", {"connect_timeout": "1s", "timeout": "1s"})
    monkeypatch.setattr(buckets, "RETRIES", {"max_retries": 2})
    buckets._client.cache_clear()


# The same


@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_store__is_that_of_a_disk(tmp_path, url, scheme):
    url = url.replace("s3://", f"{scheme}://")
    with open_or_create(url, layout()) as store:
        assert len(store.missing()) == 6
        fill(store)
    assert digest(url) == reference(tmp_path)
    assert inspect(url).is_finished
    assert set(summaries(url)) == {(f"kernel_{k}", i) for k in range(2) for i in range(3)}
    tree = open_store(url)
    assert float(tree["kernel_1"]["execution_time"].max()) == 1205.0


def test_run__has_the_bytes_of_a_local_run_and_no_secrets(tmp_path, url):
    axes = {"tile": [8, 16], "core_clock_ratio": [0.9, 1.0]}
    few = plan(kernels=["mat_tiled"], outputs=["execution_time"], axes=axes)
    run(few, tmp_path / "a.zarr")
    finished = run(few, url)
    assert (finished.computed, str(finished.path)) == (8, url)
    assert digest(url) == digest(tmp_path / "a.zarr")
    everything = b"".join(contents(url).values())
    for secret in (SECRET, KEYS["AWS_ACCESS_KEY_ID"], os.environ["AWS_ENDPOINT_URL"]):
        assert secret.encode() not in everything
    assert best(url).rows == best(tmp_path / "a.zarr").rows
    assert run(few, url).resumed == 8
    rerun(url, tmp_path / "b.zarr")
    assert digest(tmp_path / "b.zarr") == digest(tmp_path / "a.zarr")


def test_question__sees_a_store_that_was_replaced(url):
    complete(url)
    before = best(url, by=["kernel"]).rows
    complete(url, groups=1, overwrite=True)
    assert len(before) == 2 and len(best(url, by=["kernel"]).rows) == 1


@pytest.mark.slow
def test_command_line(tmp_path, network):
    """Run on two processes with a profile's keys; ask; run again into a file."""
    write_plan(tmp_path / "small.toml")
    (tmp_path / "keys").write_text(
        f"[physics]\naws_access_key_id = nobody\naws_secret_access_key = {SECRET}\n"
    )
    (tmp_path / "config").write_text("[profile physics]\nregion = us-east-1\n")
    profile = {"AWS_PROFILE": "physics"}
    profile |= {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys")}
    profile |= {"AWS_CONFIG_FILE": str(tmp_path / "config")}
    for name in KEYS:
        os.environ.pop(name)  # the fixture restores them
    url = f"s3://{BUCKET}/command/small.zarr"

    def ask(*arguments: str):
        done = sweep(*arguments, cwd=tmp_path, **profile)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    out = ask("run", "small.toml", "--store", url, "--workers", "2")
    assert f"{url}: 84 configurations x 1 model in " in out
    assert f"sweep best {url}" in out or "small.png" in out
    assert (tmp_path / "small.png").exists()
    assert "finished 2" in ask("info", url)
    table = ask("best", url)
    ask("rerun", url, "--store", "local.zarr", "--no-report")
    assert table == ask("best", "local.zarr")
    assert "Regime" in ask("explain", url, "kernel=sepia", "device=gtx_280")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s4://bucket/a.zarr", "stores are paths or s3://, gs://, az://, memory://; did you mean"),
        ("s3://bucket", "write s3://BUCKET/NAME"),
        ("s3:///a.zarr", "write s3://BUCKET/NAME"),
    ],
)
def test_url__that_cannot_be_meant(place, message):
    for action in (open_store, lambda path: open_or_create(path, layout())):
        with pytest.raises(StoreError, match=message):
            action(place)


def test_nothing_and_foreign_objects(url, network):
    with pytest.raises(StoreError, match=f"no store at '{url}'"):
        open_store(url)
    files_of(url).put("thesis.tex", b"years of work")
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="holds other objects, such as 'thesis.tex'"):
            open_or_create(url, layout(), overwrite=overwrite)
    assert contents(url) == {"thesis.tex": b"years of work"}
    with pytest.raises(StoreError, match="NoSuchBucket|no store|Not Found|not found"):
        open_or_create("s3://nowhere-at-all/a.zarr", layout())


# Faults


@pytest.mark.parametrize("wrong", ["500", "503", "late", "drop"])
def test_faults__of_every_third_request(tmp_path, url, network, wrong, monkeypatch):
    monkeypatch.setattr(journal, "LEAST_S", 0.0)  # as many journal objects as possible
    count = iter(range(10**9))
    network.fault = lambda method, path: wrong if next(count) % 3 == 0 else None
    complete(url)
    network.fault = lambda *_: None
    assert network.failed > 10
    assert digest(url) == reference(tmp_path)
    assert len(entries_of(url)) == len(set(entries_of(url))) == 6


def test_faults__a_server_that_hangs_or_stays_away(tmp_path, url, network, impatient):
    """One line, and the same command continues."""
    chance = random.Random(3)

    def hang(*_):
        return "hang" if chance.random() < 0.08 else None

    network.fault = hang
    store = open_or_create(url, layout())
    write_chunk(store, "kernel_0", 0)
    assert network.failed > 0
    network.fault = lambda *_: "503"
    with pytest.raises(StoreError, match=r"^cannot write 's3://[^\n]*; the same command continues"):
        write_chunk(store, "kernel_0", 1)
    with pytest.raises(StoreError, match=r"^cannot open 's3://[^\n]*$"):
        open_store(url)
    network.fault = hang
    store.close()
    with open_or_create(url, layout()) as store:
        assert len(store.finished) == 1
        fill(store)
    network.fault = lambda *_: None
    assert digest(url) == reference(tmp_path)


def test_deletion__of_objects_that_are_not_there(tmp_path):
    """Some providers refuse it, and stop at the first: as obstore does with files."""
    from obstore.store import LocalStore

    client = LocalStore(tmp_path)
    for name in "abc":
        (tmp_path / name).write_text(name)
    with pytest.raises(FileNotFoundError):
        client.delete(["missing"])
    delete(client, ["missing", "a", "other", "b", "third"])
    delete(client, ["missing"])
    assert os.listdir(tmp_path) == ["c"]


def test_deletion__without_an_answer_is_repeated(url, network, impatient):
    files = files_of(url)
    files.put("some", b"thing")
    answers = iter(["hang", "drop"])
    network.fault = lambda method, path: next(answers, None) if method == "POST" else None
    files.remove(["some"])
    assert network.failed == 2
    assert not files.exists("some")


def test_chunk__is_there_whole_or_not_at_all(url, network):
    """A connection that ends in the middle of the write leaves what was there before."""
    with open_or_create(url, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        before = contents(url)
        network.fault = lambda method, path: "drop" if method == "PUT" else None
        buckets._client.cache_clear()
        buckets.RETRIES, kept = {"max_retries": 0}, buckets.RETRIES
        try:
            with pytest.raises(OSError, match="error"):
                files_of(url).write("kernel_0/status/c.0", b"half of a chunk")
        finally:
            buckets.RETRIES = kept
            network.fault = lambda *_: None
        assert contents(url) == before


# Kills

CREATE = """
import itertools, os
from support.store_samples import layout
from sweep.store import buckets
from sweep.store.writer import open_or_create
write, count = buckets.BucketFiles.write, itertools.count(1)
def deadly(*args, **how):
    return os._exit(9) if next(count) == {at} else write(*args, **how)
buckets.BucketFiles.write = deadly
open_or_create({url!r}, layout(), overwrite={overwrite})
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 9, 22])
@pytest.mark.parametrize("overwrite", [False, True])
def test_kill__of_a_creation(tmp_path, url, at, overwrite):
    if overwrite:
        complete(url, groups=3)
    code = CREATE.format(at=at, url=url, overwrite=overwrite)
    assert subprocess.run([sys.executable, "-c", code], env=environment()).returncode == 9
    complete(url, overwrite=overwrite and at == 1)
    assert digest(url) == reference(tmp_path)


@pytest.fixture
def expected(tmp_path):
    """The bytes of a run on a disk that nothing disturbed."""
    write_plan(tmp_path / "long.toml", **LONG)
    assert sweep("run", "long.toml", "--no-report", cwd=tmp_path).returncode == 0
    return digest(tmp_path / "long.zarr")


@pytest.mark.slow
def test_kill__of_a_run_and_continued(tmp_path, url, network, expected):

    def written() -> int:
        puts = [path for method, path in network.requests if method == "PUT"]
        return sum("/journal-" in path for path in puts)

    code = "from sweep.store import journal; journal.LEAST_S = 0.0"
    arguments = ["run", "long.toml", "--no-report", "--store", url]
    *python, main = command()
    for _ in range(2):
        line = [*python, f"{code}; {main}", *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(line, cwd=tmp_path, env=environment(), **quiet)
        known = written()
        while process.poll() is None and written() < known + 1:
            time.sleep(0.01)
        process.kill()
        process.wait()
    before = set(entries_of(url))
    assert before and not inspect(url).is_finished
    done = sweep("run", "long.toml", "--no-report", "--store", url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept from an earlier run" in done.stdout
    entries = entries_of(url)
    assert len(entries) == len(set(entries))  # twice, if one were computed again
    assert digest(url) == expected


@pytest.mark.slow
def test_two_runs_at_once(tmp_path, url, expected):
    """One of them writes; the other is refused, or comes late and finds it finished."""
    line = command("run", "long.toml", "--no-report", "--store", url)
    given = {"cwd": tmp_path, "env": environment(), "text": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(line, **given, **pipes) for _ in range(2)]
    ended = [(*process.communicate(timeout=120), process.returncode) for process in both]
    assert 0 in {code for *_, code in ended}, ended
    for out, error, code in ended:
        if code:
            assert (code, error.count("\n")) == (2, 1)
            assert f"'{url}' is being written by process" in error
        else:
            assert f"{url}: " in out
    entries = entries_of(url)
    assert len(entries) == len(set(entries))
    assert digest(url) == expected
