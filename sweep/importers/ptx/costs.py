"""Costs of instructions on a device, after Luo & Suda (2011).

They come from the model's parameters in the device file (``[model.luo_suda]``):
``instruction_cost`` by opcode, kind of number and whether an operand is a constant
(``add.int_reg``), ``class_cost`` for instructions without a row, and ``t_mem_cycles`` for an access
to global memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sweep.errors import SweepError
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.stages import Cost, Stage
from sweep.specs import Device

__all__ = ["InstructionCosts", "Task", "computation_proportion", "instruction_costs"]


class Task(NamedTuple):
    """A computation task and the memory task after it.

    Attributes
    ----------
    computation, memory : float
        Costs in one execution [cycle].
    executions : float
        How often a thread executes it.
    """

    computation: float
    memory: float
    executions: float


@dataclass(frozen=True)
class InstructionCosts:
    """The instruction table of one device.

    Attributes
    ----------
    device : str
        The device's key.
    rows : mapping of str to float
        Cycles by ``OPCODE.KIND_OPERAND`` (``mul.float_const``).
    classes : mapping of str to float
        Cycles by class of instruction, for opcodes without a row.
    memory : float
        Cycles of an access to global memory.
    """

    device: str
    rows: Mapping[str, float]
    classes: Mapping[str, float]
    memory: float

    def cost_of(self, key: Cost) -> float:
        """Return the cost of one instruction [cycle].

        Raises
        ------
        SweepError
            The table has neither a row for the opcode nor a cost for its class.
        """
        if key.kind == "global":
            return self.memory
        kind, operand = "float" if key.is_float else "int", "const" if key.has_constant else "reg"
        row = f"{key.opcode}.{kind}_{operand}"
        if key.kind not in ("shared", "barrier") and row in self.rows:
            return self.rows[row]
        for name in (key.kind, "computation"):
            if name in self.classes:
                return self.classes[name]
        raise SweepError(
            f"device {self.device}: [model.luo_suda] instruction_cost has no row {row}, and"
            f" class_cost none for {key.kind}"
        )

    def task(
        self, analysis: Analysis, stage: Stage, sizes: Mapping[str, float] | None = None
    ) -> Task:
        """Return the tasks of one stage for values of the unknown trip counts."""
        graph, sizes = analysis.graph, analysis.sizes | dict(sizes or {})
        computation = memory = 0.0
        for (key, passage), number in stage.costs.items():
            cost = number * graph.value(passage, sizes) * self.cost_of(key)
            if key.kind == "global":
                memory += cost
            else:
                computation += cost
        executions = stage.share * graph.value(stage.passage, sizes)
        often = executions or 1.0
        return Task(computation / often, memory / often, executions)


def instruction_costs(device: Device) -> InstructionCosts:
    """Return the instruction table of a device.

    Parameters
    ----------
    device : Device
        A device with the parameters of ``luo_suda``.

    Raises
    ------
    SweepError
        The device file has no such table.
    """
    table = device.model_parameters.get("luo_suda", {})
    memory = table.get("t_mem_cycles")
    rows, classes = (_rows(table.get(name)) for name in ("instruction_cost", "class_cost"))
    if not isinstance(memory, float) or not (classes or rows):
        raise SweepError(
            f"device {device.key} has no table of instruction costs: its file needs t_mem_cycles"
            " and instruction_cost or class_cost in [model.luo_suda]"
        )
    return InstructionCosts(device.key, rows, classes, memory)


def _rows(table: object) -> dict[str, float]:
    """Return a table of names and cycles as a mapping."""
    rows = table if isinstance(table, tuple) else ()
    pairs = (row for row in rows if isinstance(row, tuple) and len(row) == 2)
    return {name: cycles for name, cycles in pairs if isinstance(cycles, float)}


def computation_proportion(tasks: Sequence[Task]) -> float:
    """Return P, the cost of computation over the cost of all instructions; NaN if that is 0.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks of a kernel.
    """
    computation = sum(task.computation * task.executions for task in tasks)
    memory = sum(task.memory * task.executions for task in tasks)
    return computation / (computation + memory) if computation + memory else float("nan")
