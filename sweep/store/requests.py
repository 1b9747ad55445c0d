"""What becomes of requests to a bucket: errors as the operating system names them, and deletion."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ChangedError", "as_os_errors", "delete"]


class ChangedError(OSError):
    """An object is not, or no longer, what a write rested on."""


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Turn obstore's errors into the operating system's, with the first line of the reason."""
    from obstore import exceptions

    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, _reason(error)) from error
    except OSError:
        raise
    except exceptions.AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, _reason(error)) from error
    except exceptions.PreconditionError as error:
        raise ChangedError(errno.EAGAIN, _reason(error)) from error
    except denied as error:
        raise PermissionError(errno.EACCES, _reason(error)) from error
    except exceptions.BaseError as error:
        raise OSError(errno.EIO, _reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def delete(client: Any, keys: list[str]) -> None:
    """Delete objects, none of which need be there.

    Where no answer comes the request is repeated, which does no harm; obstore cannot know that.

    Parameters
    ----------
    client : obstore.store.ObjectStore
        The bucket.
    keys : list of str
        Keys within it; as many as one request takes.
    """
    import obstore
    from obstore.exceptions import GenericError

    for left in (2, 1, 0):
        try:
            obstore.delete(client, keys)
            return
        except FileNotFoundError:  # said of one, by Azure and Google; the rest may still be there
            for key in keys if len(keys) > 1 else ():
                delete(client, [key])
            return
        except GenericError:
            if not left:
                raise
