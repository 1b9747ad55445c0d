"""What the rules of :mod:`sweep.hardware.derived` read of a device, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping

from sweep.hardware.derived import DeviceFacts, Rule, Value


def read_by(rule: Rule, device: DeviceFacts) -> tuple[tuple[str, ...], bool]:
    """Return the paths of a device's file that a rule's value rests on, in the order of reading.

    And whether the file has the micro-benchmark that the rule asks for first: without it, what it
    reads then stands in for it.
    """
    seen: dict[str, None] = {}
    measured: list[bool] = []

    class Watched(DeviceFacts):
        def number(self, *paths: str) -> float | None:
            found = [path for path in paths if path in self.values][:1]
            seen.update(dict.fromkeys(found))
            if any(path.startswith("microbenchmark.") for path in paths[:1]):
                measured.append(bool(found))
            return super().number(*found) if found else None

    rule(Watched(device.values, device.compute_capability, device.vendor, device.stated,
                 device.measured))  # fmt: skip
    return tuple(seen), measured[:1] == [True]


def lacked_by(rule: Rule, device: DeviceFacts) -> tuple[str, ...]:
    """Return the paths that a device's file would need for a rule to give a value."""
    asked: dict[str, float] = {}

    class Asking(DeviceFacts):
        def number(self, *paths: str) -> float | None:
            found = super().number(*paths)
            if found is None and paths:
                asked[paths[0]] = 1.0
            return found

    def given(values: Mapping[str, float], kind: type[DeviceFacts] = DeviceFacts) -> Value | None:
        facts = {**device.values, **values}
        return rule(kind(facts, device.compute_capability, device.vendor, device.stated))

    supplied: dict[str, float] = {}
    while given(supplied, Asking) is None and asked.keys() - supplied.keys():
        supplied = dict(asked)
    return tuple(
        path for path in supplied if given({p: 1.0 for p in supplied if p != path}) is None
    )
