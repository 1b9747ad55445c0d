"""What instructions cost on a device, and the computation instruction proportion P.

The table is that of Luo & Suda 2011, which a device file holds in ``[model.luo_suda]``:
``instruction_cost`` by opcode, kind of number and whether an operand is a constant
(``add.int_reg``), ``class_cost`` for what it has no row for, and ``t_mem_cycles`` for an access to
global memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweep.errors import SweepError
from sweep.importers.ptx.counts import Amount, Counts
from sweep.importers.ptx.tasks import CostKey, Stage
from sweep.specs import Device

__all__ = ["InstructionCosts", "Task", "computation_proportion", "instruction_costs", "tasks_of"]


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

    def cost_of(
        self,
        opcode: str,
        *,
        kind: str = "computation",
        is_float: bool = False,
        has_constant: bool = False,
    ) -> float:
        """Return the cost of one instruction [cycle].

        Parameters
        ----------
        opcode : str
            The first word of the instruction: ``add``.
        kind : str
            Its class, ``shared``, ``barrier`` or ``global``: what counts where there is no row.
        is_float : bool
            Whether it computes with floating-point numbers.
        has_constant : bool
            Whether one of its operands is a constant.

        Raises
        ------
        SweepError
            If the table has neither a row for the opcode nor a cost for its class.
        """
        if kind == "global":
            return self.memory
        row = f"{opcode}.{'float' if is_float else 'int'}_{'const' if has_constant else 'reg'}"
        if kind not in ("shared", "barrier") and row in self.rows:
            return self.rows[row]
        for name in (kind, "computation"):
            if name in self.classes:
                return self.classes[name]
        raise SweepError(
            f"device {self.device}: [model.luo_suda] instruction_cost has no row {row}, and"
            f" class_cost none for {kind}"
        )


@dataclass(frozen=True)
class Task:
    """A computation task and the memory task after it, with their costs in one execution.

    Attributes
    ----------
    computation, memory : float
        Costs [cycle].
    executions : float
        How often a thread passes it.
    """

    computation: float
    memory: float
    executions: float


def instruction_costs(device: Device) -> InstructionCosts:
    """Return the instruction table of a device.

    Parameters
    ----------
    device : Device
        With the parameters of luo_suda.

    Raises
    ------
    SweepError
        If its file has none.
    """
    table = device.model_parameters.get("luo_suda", {})
    memory = table.get("t_mem_cycles")
    classes = _rows(table.get("class_cost"))
    rows = _rows(table.get("instruction_cost"))
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


def _total(counts: Counts, amount: Amount, sizes: Mapping[str, float]) -> float:
    return sum(number * counts.value(passage, sizes) for passage, number in amount.items())


def tasks_of(
    counts: Counts, stage: Stage, costs: InstructionCosts, sizes: Mapping[str, float]
) -> Task:
    """Return what the tasks of one stage cost.

    Parameters
    ----------
    counts : Counts
        How often each block is passed.
    stage : Stage
        The stage.
    costs : InstructionCosts
        The device's table.
    sizes : mapping of str to float
        Values of the open trip counts.
    """
    computation = memory = 0.0
    for key, amount in stage.costs.items():
        total = _total(counts, amount, sizes)
        cost = total * cost_of(costs, key)
        if key.kind == "global":
            memory += cost
        else:
            computation += cost
    executions = stage.share * counts.value(stage.passage, sizes)
    often = executions or 1.0
    return Task(computation / often, memory / often, executions)


def cost_of(costs: InstructionCosts, key: CostKey) -> float:
    """Return the cost of an instruction by its key [cycle]."""
    return costs.cost_of(
        key.opcode, kind=key.kind, is_float=key.is_float, has_constant=key.has_constant
    )


def computation_proportion(tasks: list[Task]) -> float:
    """Return P, the cost of computation over the cost of all instructions; NaN without any.

    Parameters
    ----------
    tasks : list of Task
        The tasks of a kernel.
    """
    computation = sum(task.computation * task.executions for task in tasks)
    memory = sum(task.memory * task.executions for task in tasks)
    return computation / (computation + memory) if computation + memory else float("nan")
