"""Count what Triton makes of products and attention for AMD's GPUs and Blackwell.

``python make_targets.py [KERNEL ...]`` writes matmul_targets.csv, with 90 configurations for each
target, and flash_attention_targets.csv, with 70, drawn at random: resources, and machine
instructions of a warp in one step of the loop, of attention also along the diagonal. Pointers of
AMD's kernels reach 2 GiB at most, as Triton finds of PyTorch's smaller tensors. No GPU is needed.
"""

import csv
import random
import re
import sys
from collections import Counter

import make

TARGETS = ("gfx90a", "gfx942", "gfx1100", "sm_100", "sm_120")
COUNT = {"matmul": 90, "flash_attention": 70}
KINDS = {"gfx90a": "fp16 " * 8 + "int8", "gfx942": "fp16 " * 7 + "fp8 int8 tf32",
         "gfx1100": "fp16 " * 8 + "int8", "sm_100": "fp16 " * 6 + "fp8 tf32 int8",
         "sm_120": "fp16 " * 6 + "fp8 tf32 int8"}  # fmt: skip
BYTES = {"fp16": 2, "fp8": 1, "int8": 1, "tf32": 4}
BLOCK = ("num_warps", "num_stages")
GIVEN = {"matmul": ("kind", "a_column", "b_column", "BLOCK_M", "BLOCK_N", "BLOCK_K", *BLOCK),
         "flash_attention": ("bits", "head", "causal", "BLOCK_M", "BLOCK_N", *BLOCK)}  # fmt: skip
COUNTED = ("registers", "stack_bytes", "shared_bytes", "columns", "matrix", "copies",
           "shared_loads", "shared_stores", "step")  # fmt: skip
# AMD's names; what is none of these is other, vector or scalar.
CLASSES = {
    "matrix": r"v_(s?mfma|wmma)",
    "copies": r"(buffer|global|flat)_load",
    "shared_loads": r"ds_(read|load)",
    "shared_stores": r"ds_(write|store)",
    "special": r"v_exp",
}


def configurations(target):
    """Return configurations that somebody might try, always the same."""
    draw, found = random.Random(1), []
    is_amd, lanes = target.startswith("gfx"), 64 if target.startswith("gfx9") else 32
    most = 65536 * 1.2 if is_amd else {"sm_100": 232448, "sm_120": 101376}[target] * 1.1
    while len(found) < COUNT["matmul"]:
        given = {
            "kind": draw.choice(KINDS[target].split()),
            "a_column": draw.choice([0, 0, 0, 1]), "b_column": draw.choice([0, 0, 1]),
            "BLOCK_M": draw.choice([16, 32, 64, 64, 128, 128, 256]),
            "BLOCK_N": draw.choice([16, 32, 64, 64, 128, 128, 256]),
            "BLOCK_K": draw.choice([16, 32, 32, 64, 64, 128]),
            "num_warps": draw.choice([1, 2, 4, 4, 8]),
            "num_stages": draw.choice([1, 2, 2, 3, 4] if is_amd else [1, 2, 3, 3, 4]),
        }  # fmt: skip
        if not is_amd and given["kind"] in ("fp8", "fp16"):
            given["a_column"] = 0
        if not is_amd and given["kind"] == "fp8":
            given["b_column"] = 1
        size, tile = BYTES[given["kind"]], given["BLOCK_M"] * given["BLOCK_N"]
        sums = tile / (lanes * given["num_warps"])
        stages = max(1, given["num_stages"] - is_amd)
        shared = (given["BLOCK_M"] + given["BLOCK_N"]) * given["BLOCK_K"] * size * stages
        if tile > 32768 or sums > (320 if draw.random() < 0.1 else 256) or sums < 1:
            continue
        if shared <= most and not (size == 1 and given["BLOCK_K"] < 32) and given not in found:
            found.append(given)
    return found


def attentions(target):
    """Return configurations of attention, always the same."""
    draw, found = random.Random(1), []
    is_amd, lanes = target.startswith("gfx"), 64 if target.startswith("gfx9") else 32
    while len(found) < COUNT["flash_attention"]:
        given = {
            "bits": draw.choice([16] * 5 + [8]) if target == "sm_100" else 16,
            "head": draw.choice([32, 64, 64, 128, 128, 256]), "causal": draw.choice([0, 1]),
            "BLOCK_M": draw.choice([16, 32, 64, 64, 128, 128, 256]),
            "BLOCK_N": draw.choice([16, 32, 32, 64, 64, 128]),
            "num_warps": draw.choice([1, 2, 4, 4, 8, 8] if is_amd else [2, 4, 4, 8, 8]),
            "num_stages": draw.choice([1, 1, 2, 3] if is_amd else [1, 2, 2, 3, 4]),
        }  # fmt: skip
        rows, columns, head, warps = (given[n] for n in ("BLOCK_M", "BLOCK_N", "head", "num_warps"))
        if (given["bits"] == 8 and columns < 32) or columns > head:
            continue
        if (given["causal"] and columns > rows) or 4 * rows < 16 * warps:
            continue
        if rows * max(columns, head) > 256 * lanes * warps:
            continue
        if not (64 * warps < rows and draw.random() < 0.5) and given not in found:
            found.append(given)
    # LLVM needs many minutes for this one.
    slow = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 4, "num_stages": 3}
    return [g for g in found if not (target == "gfx1100" and slow.items() <= g.items())]


def compiled(kernel, target, given):
    """Return Triton's result for a configuration."""
    import kernels
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    is_amd = target.startswith("gfx")
    make.KINDS["fp8"] = ("*fp8e4b8" if is_amd else "*fp8e4nv", "*fp16")  # CDNA has its own type
    capability = {"compute_capability": 8.0 if is_amd else int(target[3:]) / 10}
    arguments, constants, aligned = make.types(kernel, given | capability)
    attributes = {}
    for i, (name, kind) in enumerate(arguments.items()):
        if name in aligned and not kind.startswith("tensordesc"):
            attributes[(i,)] = [["tt.divisibility", 16]]
            if is_amd and kind.startswith("*"):
                attributes[(i,)].append(["tt.pointer_range", 32])
    signature = arguments | dict.fromkeys(constants, "constexpr")
    source = ASTSource(getattr(kernels, kernel), signature, constants, attributes)
    name, lanes = (target, 64 if target[3] == "9" else 32) if is_amd else (int(target[3:]), 32)
    options = {key: given[key] for key in ("num_warps", "num_stages")}
    return compile(
        source, target=GPUTarget("hip" if is_amd else "cuda", name, lanes), options=options
    )


def count_amd(text):
    """Return resources of AMD's assembly, and the instructions of each loop by class."""
    code, labels = [], {}
    for line in text.splitlines():
        if label := re.match(r"(\.LBB\w+):", line):
            labels[label[1]] = len(code)
        words = "spill" if "Folded" in line else line.split(";")[0].strip()
        if words.startswith(".section") and code:
            break
        if words and not words.startswith(".") and not words.endswith(":"):
            code.append(words)
    loops = []
    for i, words in enumerate(code):
        branch = re.match(r"s_c?branch\w*\s+(\.LBB\w+)", words)
        if branch and labels.get(branch[1], len(code)) <= i:
            kinds = Counter(map(kind_of, code[labels[branch[1]] : i + 1]))
            if kinds["matrix"]:
                loops.append(kinds)
    numbers = {key: int(re.findall(rf"\.{key}:\s+(\d+)", text)[-1])
               for key in ("vgpr_count", "private_segment_fixed_size")}  # fmt: skip
    stack = numbers["private_segment_fixed_size"]
    return {"registers": numbers["vgpr_count"], "stack_bytes": stack}, loops


def kind_of(words):
    """Return the class of an instruction of AMD's."""
    return next((kind for kind, name in CLASSES.items() if re.match(name, words)), "other")


def count_nvidia(code, usage):
    """Return the same of NVIDIA's machine code."""
    of = make.CLASS_OF | dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA"), "matrix")
    of |= {"LDG": "copies", "LDSM": "shared_loads"}
    loops = {}
    for (*_, name, _), head in zip(code, make.loops(code), strict=True):
        if head is not None:
            loops.setdefault(head, Counter())[of.get(name, "integer")] += 1
    found = [loops[head] for head in sorted(loops) if loops[head]["matrix"]]
    return {"registers": usage["REG"], "stack_bytes": usage["STACK"]}, found


def row_of(kernel, target, given, done):
    """Return a row of the table; loops that are unrolled are divided by their copies of a step."""
    assembly = done.asm.get("amdgcn")
    row, loops = (
        count_amd(assembly) if assembly else count_nvidia(*make.instructions(done.asm["cubin"]))
    )
    is_product = kernel == "matmul"
    if is_product and assembly:
        loops = [min((kinds for kinds in loops if kinds["copies"]), key=Counter.total)]
    elif is_product:
        loops = [max(loops, key=lambda c: c["matrix"] + c["copies"] + c["shared_loads"])]
    step, last = (loops or [Counter()])[0], loops[-1].total() if len(loops) > 1 else 0
    turns = 1
    if is_product and assembly:
        threads = given["num_warps"] * (64 if target.startswith("gfx9") else 32)
        factors = [given[b] * given["BLOCK_K"] for b in ("BLOCK_M", "BLOCK_N")]
        each = [max(1, f * BYTES[given["kind"]] / 16 / threads) for f in factors]
        turns = step["copies"] / sum(each)
    row |= {name: step[name] / turns for name in (*COUNTED[4:-1], "special")}
    row |= {"shared_bytes": done.metadata.shared, "columns": getattr(done.metadata, "tmem_size", 0)}
    return {"target": target, **given, **row, "step": step.total() / turns, "last": last}


def main():
    """Write the tables of the kernels that are named, or of both."""
    for kernel in sys.argv[1:] or COUNT:
        rows = []
        for target in TARGETS:
            for given in (configurations if kernel == "matmul" else attentions)(target):
                rows.append(row_of(kernel, target, given, compiled(kernel, target, given)))
                print(rows[-1], flush=True)  # noqa: T201
        write(kernel, rows)


def write(kernel, rows):
    """Write the rows, sorted."""
    given = GIVEN[kernel]
    rows.sort(key=lambda row: (TARGETS.index(row["target"]), *(row[name] for name in given)))
    with (make.FOLDER / f"{kernel}_targets.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        names = ["target", *given, *COUNTED, *(("special", "last") if "head" in given else ())]
        out.writerow(names)
        out.writerows([f"{row[n]:.6g}" if isinstance(row[n], float) else row[n] for n in names]
                      for row in rows)  # fmt: skip


if __name__ == "__main__":
    main()
