"""The lock of a store in a bucket: an object that its owner renews as long as it lives.

Nothing there notices that a process died. So a lock whose content has not changed for a while is
taken over; nobody's clock is compared with another's, each counts its own seconds. Taking, renewing
and taking over are writes on condition, of which the bucket lets one succeed.

An owner that was cut off for too long stops before it enters anything more in the journal. Chunks
that its workers still write do no harm: they are the same bytes, and where another store has been
put in the place of theirs, they stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

from sweep.errors import StoreError
from sweep.store.buckets import ChangedError, Mark, ObjectPath
from sweep.store.local_files import explained
from sweep.store.lock import is_alive_here, parsed_owner, refusal, this_process

LEASE_S = 60.0
"""How long a lock must stay unchanged to be taken for abandoned [s]."""


class Lease:
    """The held lock of one store; made by :meth:`acquire`."""

    def __init__(self, path: ObjectPath, store: str) -> None:
        self.path = path
        self._store = store
        self._pid = os.getpid()
        self._owner = {**this_process(), "token": secrets.token_hex(8)}
        self._renewals = 0
        self._mark: Mark = {}
        self._sound = time.monotonic()  # when it was surely ours
        self._lost = False
        self._stop = Event()

    @classmethod
    def acquire(cls, path: ObjectPath, store: str, *, force: bool = False) -> Lease:
        """Take the lock at ``path``; wait to see whether one that is held is still renewed.

        Parameters
        ----------
        path : ObjectPath
            The lock's object.
        store : str
            Name of the store, for the message.
        force : bool
            Take it over without waiting. An owner that is alive here keeps it.

        Raises
        ------
        StoreError
            If another run holds it, or if it cannot be written.
        """
        lease = cls(path, store)
        seen: Mark | None = None
        since = 0.0
        with explained(f"lock '{store}'"):
            while not lease._create():
                with contextlib.suppress(FileNotFoundError, ChangedError):  # try again
                    owner, mark = lease._read()
                    if owner.get("token") == lease._owner["token"]:
                        lease._mark = mark  # a request of ours that was repeated
                        break
                    lives = is_alive_here(owner)
                    if lives or (not force and seen is not None and mark != seen):
                        raise refusal(store, owner, "--break-lock takes it over")
                    if mark != seen:
                        seen, since = mark, time.monotonic()
                    if force or lives is False or time.monotonic() - since > LEASE_S:
                        lease._write(over=mark)
                        break
                    time.sleep(LEASE_S / 50)
        Thread(target=lease._renew, name="sweep-lease", daemon=True).start()
        return lease

    def check(self) -> None:
        """Make sure that the lock is still ours.

        Raises
        ------
        StoreError
            It was taken over, or could not be renewed for too long.
        """
        if self._lost or time.monotonic() - self._sound > 0.8 * LEASE_S:
            self._lost = True
            raise StoreError(
                f"'{self._store}': this run was cut off too long and lost the store's lock; "
                "the same command continues"
            )

    def release(self) -> None:
        """Remove the lock, if it is still ours, and let go; releasing twice does no harm."""
        if not self._stop.is_set() and os.getpid() == self._pid:
            self.forget()
            with contextlib.suppress(OSError):
                if self._read()[0].get("token") == self._owner["token"]:
                    self.path.unlink()

    def forget(self) -> None:
        """Stop renewing the lock and leave it where it is."""
        self._stop.set()

    def _renew(self) -> None:
        while not self._stop.wait(LEASE_S / 4):
            try:
                self._write(over=self._mark)
            except (ChangedError, FileNotFoundError):
                try:
                    owner, mark = self._read()
                except OSError:
                    owner, mark = {}, {}
                if owner.get("token") != self._owner["token"]:
                    self._lost = True
                    return
                self._mark = mark  # a request of ours that was repeated
            except OSError:
                pass  # the next one may succeed; check() knows when it is too late

    def _create(self) -> bool:
        try:
            self._write()
        except FileExistsError:
            return False
        return True

    def _write(self, over: Mark | None = None) -> None:
        started = time.monotonic()
        content = json.dumps({**self._owner, "renewals": self._renewals}).encode()
        self._renewals += 1
        self._mark = self.path.write(content, over=over, new=over is None)
        self._sound = started

    def _read(self) -> tuple[Mapping[str, Any], Mark]:
        content, mark = self.path.read()
        return parsed_owner(content), mark
