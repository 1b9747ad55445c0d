"""Clang for AMD's GPUs, which needs neither a GPU nor ROCm, and what its machine code shows.

The compiler comes with the wheel ``ziglang`` (0.12.1 has clang 17, as ROCm 6.0 does) or from the
search path: ``hipcc`` and ``clang`` with the target amdgcn. It writes the text of the machine code,
in which :mod:`sweep.cuda.wave` follows wavefronts of one block amid the grid.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sweep.cuda.findings import Block, named_kernel
from sweep.cuda.machine_code import LOADS, Code, Instruction, is_scratch, registers
from sweep.cuda.nvrtc import CompileError, first_error
from sweep.cuda.wave import Wave, first_state
from sweep.cuda.wave_arithmetic import MASK
from sweep.errors import SweepError
from sweep.specs.formats import INSTRUCTION_CLASSES

PREFIX = "gfx"
TARGETS = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1031", "gfx1032",
    "gfx1100", "gfx1101", "gfx1102",
)  # fmt: skip
"""The targets that are known here, GCN 5 to CDNA 3 and RDNA 3."""

FROM_CDNA_2 = ("gfx90a", "gfx942")
"""One file of registers, places of work-items packed into one, fast integer multiplications."""

SECONDS = 600
AMID = (3, 3, 0)
"""The block whose wavefronts are followed: one that the grid's edges do not cut."""

MOST_WAVES = 4
"""Wavefronts of the block that are followed, spread over it; the counts are their mean."""

_NO_COMPILER = (
    "no compiler for AMD's GPUs is installed: `pip install ziglang==0.12.1`, or clang on the path"
)
_OPTIONS = ("-nogpulib", "-O3", "-S", "-w", "-mcode-object-version=5")
"""From version 5 on the size of a block stands behind the arguments."""

_HIP = (
    "-x", "hip", "--offload-device-only", "-nogpuinc", "-nostdinc", "-nostdinc++",
    "-target", "x86_64-linux-gnu", "-include", "hip/hip_runtime.h",
)  # fmt: skip
_OPENCL = (
    "-x", "cl", "-target", "amdgcn-amd-amdhsa", "-cl-no-stdinc", "-include", "opencl-c-base.h",
    "-include", "hip/opencl.h",
)  # fmt: skip
_USER = {  # scalar registers that the launch fills, in order, with their number
    "private_segment_buffer": 4, "dispatch_ptr": 2, "queue_ptr": 2, "kernarg_segment_ptr": 2,
    "dispatch_id": 2, "flat_scratch_init": 2, "private_segment_size": 1,
}  # fmt: skip
_SPECIAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)\w*_(f16|f32)|v_(mul_(lo|hi)|mad_[ui]64)")
_ARGUMENT = re.compile(r"\.offset: +(\d+)(?:\s+\.(?!value_kind)\w+: .*)*\s+\.value_kind: +(\w+)")
_MOVE = re.compile(r"v_(mov|accvgpr|readlane|writelane|readfirstlane|swap|nop)")
_FREE = ("s_waitcnt", "s_nop", "s_delay", "s_clause", "s_barrier", "s_endpgm", "s_inst", "s_code")


@dataclass(frozen=True)
class Clang:
    """A compiler.

    Attributes
    ----------
    command : tuple of str
        How it is called.
    version : str
        Its name and version: ``clang 17.0.6``.
    """

    command: tuple[str, ...]
    version: str
    capabilities: tuple[str, ...] = TARGETS

    def compile(self, source: str, name: str, target: str, options: Sequence[str]) -> str:
        """Return the text of the machine code for one target.

        Raises
        ------
        CompileError
            It does not compile.
        """
        headers = Path(__file__).parent
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            is_opencl, zig = name.endswith(".cl"), _zig()
            path = Path(folder, Path(name).stem + (".cl" if is_opencl else ".hip"))
            out = Path(folder, "code.s")
            path.write_text(source, encoding="utf-8")
            words = [*self.command, *_OPTIONS, *(_OPENCL if is_opencl else _HIP), f"-I{headers}"]
            words.append(f"-mcpu={target}" if is_opencl else f"--offload-arch={target}")
            if is_opencl and zig and "ziglang" in self.command:  # it does not search its own folder
                words.append(f"-isystem{zig / 'lib' / 'include'}")
            words += [*options, "-o", str(out), str(path)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise CompileError(f"{name}: not compiled after {SECONDS} s") from None
            if done.returncode or not out.exists():
                raise CompileError(first_error(done.stderr.replace(f"{folder}/", ""), name))
            return out.read_text(encoding="utf-8")


def _zig() -> Path | None:
    """Return the folder of the wheel with the compiler, if it is installed."""
    found = importlib.util.find_spec("ziglang")
    return Path(found.origin).parent if found and found.origin else None


@cache
def load() -> Clang:
    """Return the compiler that is installed.

    Raises
    ------
    SweepError
        There is none.
    """
    commands: list[tuple[str, ...]] = []
    if _zig():
        commands.append((sys.executable, "-m", "ziglang", "clang"))
    commands += [(found,) for name in ("hipcc", "clang") if (found := shutil.which(name))]
    for command in commands:
        words = [*command, "--print-targets"]
        listed = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        words = [*command, "--version"]
        told = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        version = re.search(r"clang version (\d+(?:\.\d+)*)", told.stdout)
        if version and (listed.returncode or "amdgcn" in listed.stdout):
            return Clang(command, f"clang {version[1]}")
    raise SweepError(_NO_COMPILER)


@dataclass(frozen=True)
class Kernel:
    """One kernel in the text of machine code.

    Attributes
    ----------
    name, target : str
        Its name, and what it was compiled for.
    code : Code
        Its instructions.
    facts : mapping of str to int
        Numbers of its descriptor (``.amdhsa_...``) and of the compiler's remarks.
    arguments : tuple of tuple
        Offset [byte] and kind of each argument.
    """

    name: str
    target: str
    code: Code
    facts: Mapping[str, int]
    arguments: tuple[tuple[int, str], ...]

    @property
    def lanes(self) -> int:
        """Lanes of a wavefront."""
        return 32 if self.facts.get("wavefront_size32") else 64


def kernel_in(text: str, entry: str = "") -> Kernel:
    """Return the one kernel of a text, or that of the given name.

    Raises
    ------
    CompileError
        There is no such kernel, or there are several.
    """
    name = named_kernel(re.findall(r"^\s*\.amdhsa_kernel (\S+)", text, re.MULTILINE), entry)
    body = text[text.index(f"\n{name}:") :]
    rest = body[body.index(f".amdhsa_kernel {name}") :]
    facts = {
        k: int(v) for k, v in re.findall(r"\.amdhsa_(\w+) (\d+)", rest.split(".end_amdhsa")[0])
    }
    remarks = rest[: rest.find("COMPUTE_PGM_RSRC2")]
    told = re.findall(r"^; (\w+): (\d+)|^; (codeLenInByte) = (\d+)", remarks, re.MULTILINE)
    facts |= {name or length: int(value or n_bytes) for name, value, length, n_bytes in told}
    metadata = text[text.index(".amdgpu_metadata") :]
    mine = next(p for p in metadata.split("  - .agpr_count")[1:] or metadata.split("  - .args")[1:]
                if re.search(rf"\.name: +{re.escape(name)}\s", p))  # fmt: skip
    found = _ARGUMENT.findall(mine)
    target = re.search(r"amdgcn-amd-amdhsa--(gfx\w+)", text)
    lines = body[: body.index(".section")].splitlines()[2:]
    is_gfx9 = target is None or target[1].startswith("gfx9")
    code = Code.of(lines, stores_apart=not is_gfx9)
    return Kernel(name, target[1] if target else "", code, facts,
                  tuple((int(offset), kind) for offset, kind in found))  # fmt: skip


def findings(
    kernel: Kernel, block: Block | None, arguments: Mapping[str, float], *, count: bool
) -> dict[str, float]:
    """Return what machine code shows of a kernel: registers, shared memory, spills, instructions.

    Arguments have their position, and ``blocks`` is how many blocks the grid has, if this is known.
    Without counts, spilled words are those of each instruction once.

    Raises
    ------
    CompileError
        A branch cannot be followed, or the block is unknown.
    """
    facts = kernel.facts
    found: dict[str, float] = {
        "registers": facts.get("NumVgprs", facts["next_free_vgpr"]),
        "shared_bytes": facts["group_segment_fixed_size"],
        "code_bytes": facts.get("codeLenInByte", 0),
    }
    if any(kind == "dynamic_shared_pointer" for _, kind in kernel.arguments):
        del found["shared_bytes"]  # of which the host chooses a part
    if kernel.target in FROM_CDNA_2:  # one file holds both kinds of registers
        found["registers"] = facts.get("TotalNumVgprs", found["registers"])
    if count:
        if block is None:
            raise CompileError("the macros do not determine the size of a block")
        executed, found["load_waits"] = executions(kernel, block, arguments)
    else:
        executed = np.ones(len(kernel.code.lines))
    return found | counted(kernel, executed, all_classes=count)


def executions(
    kernel: Kernel, block: Block, arguments: Mapping[str, float]
) -> tuple[np.ndarray, float]:
    """Return how often a wavefront executes each line, and waits for loads: means over a block."""
    if any(line[0].name == "s_swappc_b64" for line in kernel.code.lines):
        raise CompileError("the kernel calls a function that is not part of it")
    user = _first_scalars(kernel)
    kernarg = user.index("kernarg_segment_ptr") if "kernarg_segment_ptr" in user else 0
    words = _argument_words(kernel, block, arguments, is_flat="block_y" not in user)
    lanes, n_threads = kernel.lanes, block[0] * block[1] * block[2]
    n_waves = -(-n_threads // lanes)
    chosen = sorted({i * n_waves // MOST_WAVES for i in range(MOST_WAVES)})
    packed = kernel.target in FROM_CDNA_2 or kernel.target.startswith("gfx11")
    total, waits = np.zeros(len(kernel.code.lines)), 0
    for number in chosen:
        thread = np.arange(number * lanes, (number + 1) * lanes)
        places = thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1])
        scalars, vectors = first_state(user, places, AMID, packed=packed)
        active = sum(1 << lane for lane in range(lanes) if thread[lane] < n_threads)
        scalars |= {"exec_lo": active & MASK, "exec_hi": active >> 32, "vcc_lo": 0, "vcc_hi": 0,
                    "scc": 0, "m0": 0}  # fmt: skip
        wave = Wave(lanes, scalars, vectors, (f"s{kernarg}", f"s{kernarg + 1}"), words)
        total += wave.run(kernel.code)
        waits += wave.waits
    return total / len(chosen), waits / len(chosen)


def _first_scalars(kernel: Kernel) -> list[str]:
    """Return what the scalar registers hold at the start, in order; two of an address."""
    user = [name for name, n in _USER.items() if kernel.facts.get(f"user_sgpr_{name}")
            for _ in range(n)]  # fmt: skip
    user += ["other"] * (kernel.facts["user_sgpr_count"] - len(user))
    return user + [f"block_{d}" for d in "xyz" if kernel.facts.get(f"system_sgpr_workgroup_id_{d}")]


def _argument_words(
    kernel: Kernel, block: Block, arguments: Mapping[str, float], *, is_flat: bool
) -> dict[int, int]:
    """Return the known words of a kernel's arguments by offset [byte]."""
    words: dict[int, int] = {}
    for position, (offset, kind) in enumerate(kernel.arguments):
        if str(position) in arguments:
            value = int(arguments[str(position)])  # the next argument may have its high word
            words |= {offset: value & MASK, offset + 4: value >> 32 & MASK}
        elif kind.startswith("hidden_group_size_"):  # two share a word
            place, bits = offset // 4 * 4, 8 * (offset % 4)
            words[place] = words.get(place, 0) | block["xyz".index(kind[-1])] << bits
        elif kind.startswith("hidden_global_offset_"):
            words |= {offset: 0, offset + 4: 0}
        elif kind == "hidden_block_count_x" and is_flat and "blocks" in arguments:
            words[offset] = int(arguments["blocks"])
    return words


def counted(kernel: Kernel, executed: np.ndarray, *, all_classes: bool) -> dict[str, float]:
    """Return spilled bytes and, if wanted, instructions by class and barriers."""
    found = dict.fromkeys(("spill_store_bytes", "spill_load_bytes"), 0.0)
    classes = dict.fromkeys((*INSTRUCTION_CLASSES, "barriers"), 0.0)
    for line, times in zip(kernel.code.lines, executed, strict=True):
        one = line[0]
        is_load = one.name.startswith(LOADS)
        if is_scratch(one.text):
            data = one.operands[-1] if one.name.startswith("scratch_store") else one.operands[0]
            words = len(registers(data) or registers(one.operands[1]))
            found[f"spill_{'load' if is_load else 'store'}_bytes"] += 4 * words * times
        if one.name == "s_barrier":
            classes["barriers"] += times
        elif kind := class_of(line, kernel.target):
            classes[kind] += times
    return found | (classes if all_classes else {})


def class_of(line: Sequence[Instruction], target: str) -> str | None:
    """Return the class of an instruction; None for accesses and what takes no issue of its own.

    A pair of RDNA 3 counts once. Integer multiplications are as slow as special functions, but
    from CDNA 2 on (LLVM, SISchedule.td: WriteIntMul).
    """
    name = line[0].name
    if name.startswith("s_"):
        return None if name.startswith(_FREE) else "control"
    if not name.startswith("v_"):
        return None
    names = [one.name for one in line]
    if any("_f64" in n for n in names):
        return "fp64"
    if _SPECIAL.match(name) and not (target in FROM_CDNA_2 and "_mul_" in name + "_"):
        return "special"
    if name.startswith("v_cvt"):
        return "conversion"
    if any(re.search(r"_(f16|f32)$", n) and not n.startswith("v_cmp") for n in names):
        return "fp32"
    return "move" if all(_MOVE.match(n) for n in names) else "integer"
