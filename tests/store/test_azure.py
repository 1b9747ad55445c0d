"""Stores in Azure's blob storage, as its emulator has it: ``npm install -g azurite``."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
from email.utils import formatdate

import pytest
from support.buckets import put, served
from support.clusters import free_address
from support.runs import FEW, plan
from support.store_samples import contents, digest

from sweep.errors import StoreError
from sweep.query import best
from sweep.runs.extending import extend
from sweep.runs.running import run, verify
from sweep.store import buckets, open_store, root
from sweep.store.buckets import files_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("azurite-blob") is None, reason="needs azurite"),
]

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""What the emulator's manual gives; a secret of nobody."""

LARGE = FEW | {"devices": ["gt_8800", "gtx_280", "gtx_980_paper"]}


def make_container(address: str, name):
    """Make a container, with the signature that the service asks for; return whether it worked."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    path = f"/{ACCOUNT}/{name}"
    text = "PUT" + 12 * "\n" + "".join(f"{k}:{v}\n" for k, v in headers.items())
    text += f"/{ACCOUNT}{path}\nrestype:container"
    signed = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}"
    return put(address, f"{path}?restype=container", **headers) == 201


@pytest.fixture
def url(monkeypatch):
    """A place in the emulator; credentials come from the environment alone."""
    address = free_address().removeprefix("tcp://")
    host, port = address.split(":")
    options = ["--blobHost", host, "--blobPort", port, "--inMemoryPersistence"]
    line = ["azurite-blob", *options, "--skipApiVersionCheck", "--disableTelemetry"]
    with served(line, lambda: make_container(address, "results")):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://{address}/{ACCOUNT}")
        monkeypatch.setattr(root, "LOOK_S", 0.0)
        buckets._client.cache_clear()
        yield "az://results/a.zarr"
        buckets._client.cache_clear()


def test_store__is_that_of_a_disk(url, tmp_path):
    """Run, continued, asked, damaged, mended, extended, overwritten and locked."""
    run(plan(**FEW), tmp_path / "small.zarr")
    assert run(plan(**FEW), url).computed == 8
    assert digest(url) == digest(tmp_path / "small.zarr")
    everything = b"".join(contents(url).values())
    assert KEY.encode() not in everything and ACCOUNT.encode() not in everything
    assert run(plan(**FEW), url).resumed == 8
    assert best(url, by=["device"]).rows == best(tmp_path / "small.zarr", by=["device"]).rows
    files, chunk = files_of(url), "mat_tiled/execution_time/c.0.0.0.0"
    files.put(chunk, files.get(chunk)[:-1] + b"x")
    assert [damage.key for damage in verify(url)] == [chunk]
    assert run(plan(**FEW), url).computed == 2
    assert verify(url) == []
    tree = open_store(url)
    assert extend(url, plan(**LARGE)).computed == 4
    run(plan(**LARGE), tmp_path / "large.zarr")
    assert digest(url) == digest(tmp_path / "large.zarr")
    with pytest.raises(StoreError, match="was replaced by another store meanwhile"):
        tree["mat_tiled/execution_time"].load()
    refused = []

    def progress(*_: int):
        if not refused:
            with pytest.raises(StoreError, match="is being written by process") as error:
                run(plan(**LARGE), url, overwrite=True)
            refused.append(error)

    run(plan(**FEW), url, overwrite=True, progress=progress)
    assert refused
    assert digest(url) == digest(tmp_path / "small.zarr")
