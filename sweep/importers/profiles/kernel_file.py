"""Write the counts of a profile as a kernel file."""

from __future__ import annotations

from collections.abc import Sequence

from sweep.errors import ProfileError, SpecError
from sweep.importers.profiles.inputs import Inputs
from sweep.importers.profiles.launches import bare_name
from sweep.specs import Measured
from sweep.specs.kernel import KernelFile

WORD = 4


def kernel_text(
    inputs: Inputs,
    *,
    sources: Sequence[str] = (),
    measured: Measured | None = None,
    measured_sources: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the kernel file of a profile.

    Parameters
    ----------
    inputs : Inputs
        The contents of the profile.
    sources : sequence of str
        The names of the profile's files, which the kernel file records.
    measured : Measured, optional
        A measured time of the launch.
    measured_sources : sequence of (str, str)
        Keys of ``[measured]`` and their sources.

    Returns
    -------
    str
        The text, which :func:`sweep.specs.parse_kernel` accepts.

    Raises
    ------
    ProfileError
        A number is too large for a kernel file.
    """
    name = bare_name(inputs.kernel)
    files = ", ".join(sources) or "a profile"
    mean = f"mean of {inputs.launches} launches" if inputs.launches > 1 else "one launch"
    file = KernelFile(
        name,
        f"{inputs.kernel}: one launch, as profiled",
        f"derived: profile {files}",
        comments=[
            f"Written by `sweep profile` from {files}: {mean}, {inputs.warps} warps.",
            "",
            "Counts are those of a warp, as the mean over all warps. Transactions are those that",
            "the L1 cache passes on to L2.",
        ],
        sources=inputs.sources | {f"measured.{key}": text for key, text in measured_sources},
    )
    if inputs.occupancy is not None:
        share = f"{inputs.occupancy:.3g}"
        file.comments.append(f"Achieved occupancy: {share}; models take what the launch allows.")
    file.comments += [f"Note: {remark}." for remark in inputs.remarks]
    values: dict[str, float | str]
    file.table("[launch]", {"threads_per_block": inputs.threads, "blocks": inputs.blocks})
    file.table("[resources]", {"registers_per_thread": inputs.registers,
                               "shared_memory_bytes": inputs.shared_memory})  # fmt: skip
    file.table("[instructions]", {"computation": _rounded(inputs.computation)})
    for access in (*inputs.global_accesses, *inputs.shared_accesses):
        is_global = access in inputs.global_accesses
        values = {"name": access.name, "kind": access.kind, "count": _rounded(access.count)}
        values |= {"bytes": WORD} if is_global else {}
        values |= {"pattern": "measured", "transactions": _rounded(access.transactions)}
        file.table("[[global_access]]" if is_global else "[[shared_access]]", values)
    if inputs.shared_accesses:
        file.table("[synchronisation]", {"barriers": 0})
    loops = {"outer": _rounded(inputs.outer)}
    loads = sum(access.count for access in inputs.shared_accesses if access.kind == "load")
    if loads:
        loops["inner"] = _rounded(max(1.0, loads / inputs.outer))
    comment = ["inner: loads of shared memory / outer."] if loads else []
    file.table("[loops]", loops, comment)
    file.table("[cache]", {"l2_hit_rate": _rounded(inputs.l2_hit_rate)})
    if measured is not None:
        values = {
            "time_ms": _rounded(measured.time * 1e3),
            "device": measured.device,
            "core_clock_MHz": _rounded(measured.core_clock),
            "memory_clock_MHz": _rounded(measured.memory_clock),
        }
        file.table("[measured]", values)
    try:
        return file.text()
    except SpecError as error:
        raise ProfileError(f"no kernel file can be made: {error}") from None


def _rounded(value: float) -> float:
    """Return a number rounded to nine digits."""
    return float(f"{value:.9g}")
