"""Numbers of variants that were not compiled, from the nearest one that was.

A count grows from there to here in the proportion in which the kernel file's own formula does;
what has no formula is the same. In this repository's tables, with every sixth row taken as known,
the others' counts are missed by (median of the kernels and compute capabilities)

=============  =============  =================  ====================
column         formula alone  nearest row as is  formula times ratio
=============  =============  =================  ====================
``registers``  22 %           13 %               9 %
``integer``    1.5 %          88 %               2 %
``move``       5 %            3 %                4 %
=============  =============  =================  ====================

and the worst tenth of registers by 52 %, 62 % and 42 %, so registers are filled likewise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sweep.cuda.variants import Variants
from sweep.evaluation.device_names import device_names
from sweep.hardware.occupancy_limits import limits_for
from sweep.specs.compiled import CAPABILITY, OF_AMD, TARGET, target_number
from sweep.specs.compiled_replaces import FORMULAS

MOST_REGISTERS = 255
"""Most registers of a thread where no device says."""


class Filling:
    """The kernel file's formulas over a source's variants, for one target.

    Parameters
    ----------
    variants : Variants
        The variants. Their first device with this target has what formulas read of a device.
    target : str
        A compute capability, or a target of AMD's compiler.
    """

    def __init__(self, variants: Variants, target: str) -> None:
        number = target_number(target)
        names: dict[str, Any] = {TARGET: number, CAPABILITY: number if number < OF_AMD else 0.0}
        self._most = MOST_REGISTERS
        if devices := tuple(device for device in variants.devices if device.target == target)[:1]:
            limits = limits_for([devices[0].limits], (1,))
            names |= device_names(devices, limits, 1)
            self._most = int(limits.max_regs_per_thread.item())
        found = variants.evaluated([*FORMULAS.values()], names)
        self._formulas = dict(zip(FORMULAS, found, strict=True))

    def numbers(self, number: int, near: int, finding: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of a variant by those that were found of another one.

        Parameters
        ----------
        number, near : int
            The variant, and the one that was compiled.
        finding : mapping
            What was found there.
        """
        own = dict(finding)
        for column, formula in self._formulas.items():
            here, there = float(formula[number]), float(formula[near])
            if column in own and there > 0 and 0 <= here < math.inf and here != there:
                own[column] = float(f"{own[column] * (here / there):.6g}")
        if own["registers"] != finding["registers"]:
            own["registers"] = min(self._most, max(1, round(own["registers"])))
        return own
