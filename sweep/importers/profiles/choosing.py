"""Which kernel of a profile, and which of its launches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sweep.errors import ProfileError, nearest
from sweep.importers.profiles.launches import Launch

__all__ = ["bare_name", "chosen", "kernels_of"]

MOST_LISTED = 8


def kernels_of(launches: Sequence[Launch]) -> tuple[str, ...]:
    """Return the names of the kernels, in the order of the profile."""
    return tuple(dict.fromkeys(launch.kernel for launch in launches))


def bare_name(kernel: str) -> str:
    """Return a kernel's name without type, namespace, template arguments and parameters.

    >>> bare_name("void lib::gemm<float, 8>(int, float const*)")
    'gemm'
    """
    head = re.sub(r"\(anonymous namespace\)::", "", kernel)
    head = re.split(r"[(<]", head, maxsplit=1)[0].strip()
    return re.split(r"::|\s", head)[-1] or kernel


def chosen(
    launches: Sequence[Launch], kernel: str | None = None, number: int | None = None
) -> list[Launch]:
    """Return the launches that are meant.

    Parameters
    ----------
    launches : sequence of Launch
        Of one or several profiles of the same program.
    kernel : str, optional
        The kernel's name, in full, bare, or a part that only one has. Needed where there are
        several.
    number : int, optional
        Which of the kernel's launches, from 1 on; all by default.

    Raises
    ------
    ProfileError
        The choice is open, or there is no such kernel or launch.
    """
    name = _kernel(kernels_of(launches), kernel)
    own = [launch for launch in launches if launch.kernel == name]
    if number is None:
        return own
    single = [launch for launch in own if not launch.is_mean]
    means = [launch for launch in own if launch.is_mean and launch.invocations > 1]
    if means and len(single) != 1:
        raise ProfileError(
            f"--launch {number}: the counters of '{bare_name(name)}' are means over"
            f" {means[0].invocations} launches"
        )
    if not 1 <= number <= len(single):
        raise ProfileError(
            f"--launch {number}: '{bare_name(name)}' has {len(single)} launches in the profile"
        )
    return [single[number - 1], *(launch for launch in own if launch.is_mean)]


def _kernel(names: Sequence[str], wanted: str | None) -> str:
    bare = [bare_name(name) for name in names]
    shown = [b if bare.count(b) == 1 else name for b, name in zip(bare, names, strict=True)]
    listed = ", ".join(shown[:MOST_LISTED])
    listed += f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise ProfileError(f"{len(names)} kernels ({listed}): choose one with --kernel NAME")
    for matching in (
        [name for name in names if name == wanted],
        [name for name in names if bare_name(name) == wanted],
        [name for name in names if wanted in name],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise ProfileError(
                f"--kernel {wanted}: {len(matching)} kernels have that name: give one in full,"
                f" such as '{matching[0]}'"
            )
    hint = nearest(wanted, bare)
    raise ProfileError(f"--kernel {wanted}: there is no such kernel{hint} (there are {listed})")
