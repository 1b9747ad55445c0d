"""The kernel file of a profile: what was counted, in the format that all models read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweep.errors import ProfileError, SpecError
from sweep.importers.profiles.choosing import bare_name
from sweep.importers.profiles.inputs import Access, Inputs
from sweep.specs import Measured, parse_kernel
from sweep.specs.writing import key_of, plain, quoted

__all__ = ["kernel_text"]

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
        What the profile tells.
    sources : sequence of str
        The names of the profile's files, for the record.
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
        A number is beyond what a kernel file can hold.
    """
    text = "\n".join(_lines(inputs, sources, measured, measured_sources)) + "\n"
    try:
        parse_kernel(text, key_of(bare_name(inputs.kernel)))  # what is written here can be read
    except SpecError as error:
        raise ProfileError(f"no kernel file can be made: {error}") from None
    return text


def _lines(
    inputs: Inputs,
    sources: Sequence[str],
    measured: Measured | None,
    measured_sources: Sequence[tuple[str, str]],
) -> Iterator[str]:
    files = plain(", ".join(sources)) or "a profile"
    mean = f"mean of {inputs.launches} launches" if inputs.launches > 1 else "one launch"
    yield f"# Written by `sweep profile` from {files}: {mean}, {inputs.warps} warps."
    yield "#"
    yield "# Counts are those of a warp, as the mean over all warps. Transactions are what the L1"
    yield "# cache has left to L2."
    if inputs.occupancy is not None:
        yield f"# Achieved occupancy: {inputs.occupancy:.3g}; models take what the launch allows."
    for remark in inputs.remarks:
        yield f"# Note: {plain(remark)}."
    yield "schema = 1"
    yield f"name = {quoted(bare_name(inputs.kernel))}"
    yield f"description = {quoted(f'{inputs.kernel}: one launch, as profiled')}"
    yield ""
    yield "[source]"
    yield f"default = {quoted(f'derived: profile {files}')}"
    listed = [*inputs.sources.items(), *((f"measured.{k}", text) for k, text in measured_sources)]
    yield from (f"{quoted(path)} = {quoted(text)}" for path, text in listed)
    yield from ("", "[launch]", f"threads_per_block = {inputs.threads}")
    yield f"blocks = {inputs.blocks}"
    yield from ("", "[resources]", f"registers_per_thread = {inputs.registers}")
    yield f"shared_memory_bytes = {inputs.shared_memory}"
    yield from ("", "[instructions]", f"computation = {_number(inputs.computation)}")
    for access in inputs.global_accesses:
        yield from _access("global_access", access)
    for access in inputs.shared_accesses:
        yield from _access("shared_access", access)
    if inputs.shared_accesses:
        yield from ("", "[synchronisation]", "barriers = 0")
    yield from ("", "[loops]", f"outer = {_number(inputs.outer)}")
    local = sum(access.count for access in inputs.shared_accesses if access.kind == "load")
    if local:
        yield f"inner = {_number(max(1.0, local / inputs.outer))} # loads of shared memory / outer"
    yield from ("", "[cache]", f"l2_hit_rate = {_number(inputs.l2_hit_rate)}")
    if measured is not None:
        yield from ("", "[measured]", f"time_ms = {_number(measured.time * 1e3)}")
        yield f"device = {quoted(measured.device)}"
        yield f"core_clock_MHz = {_number(measured.core_clock)}"
        yield f"memory_clock_MHz = {_number(measured.memory_clock)}"


def _access(table: str, access: Access) -> Iterator[str]:
    yield from ("", f"[[{table}]]", f'name = "{access.name}"', f'kind = "{access.kind}"')
    yield f"count = {_number(access.count)}"
    if table == "global_access":
        yield f"bytes = {WORD}"
    yield 'pattern = "measured"'
    yield f"transactions = {_number(access.transactions)}"


def _number(value: float) -> str:
    """Return a number to nine digits, as TOML writes it."""
    text = f"{value:.9g}"
    return text if "e" not in text or "." in text else text.replace("e", ".0e")
