"""Count again what Triton makes of products and attention for AMD's GPUs and Blackwell.

``python make_targets.py [TABLE ...]`` compiles the configurations of matmul_targets.csv, 90 for
each target and 441 with AMD's options, of matmul_odd_targets.csv, whose sizes `odd` are no
multiples of 16, matmul_ieee_targets.csv, without tf32 or units for fp64, moe_targets.csv, and
flash_attention_targets.csv, 70, which were drawn at random: resources, and machine instructions of
a warp in one step of the loop, of attention also along the diagonal, and of each kind of warps
where they specialise (flash_attention_special_targets.csv). Pointers of AMD's kernels reach 2 GiB
at most, as Triton finds of PyTorch's smaller tensors. No GPU is needed.
"""

import csv
import os
import re
import sys
from collections import Counter

import make

BYTES = {"fp16": 2, "fp8": 1, "int8": 1, "tf32": 4, "fp32": 4, "fp64": 8}
COUNTED = ("registers", "stack_bytes", "shared_bytes", "columns", "matrix", "copies",
           "shared_loads", "shared_stores", "step")  # fmt: skip
OF_ATTENTION = ("special", "barriers", "shuffles")
"""Barriers and shuffles are not counted of flex_attention, nor shuffles of AMD's."""
OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")
"""Those of AMD's compiler alone."""
TABLES = (
    "matmul matmul_odd matmul_fp64 matmul_ieee moe moe_quant flash_attention "
    "flash_attention_special flex_attention".split()
)
# AMD's names; what is none of these is other, vector or scalar.
CLASSES = {
    "matrix": r"v_(s?mfma|wmma)",
    "copies": r"(buffer|global|flat)_load",
    "shared_loads": r"ds_(read|load)",
    "shared_stores": r"ds_(write|store)",
    "special": r"v_exp",
    "barriers": r"s_barrier",
}


def compiled(kernel, target, given):
    """Return Triton's result for a configuration."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compile

    os.environ["TRITON_F32_DEFAULT"] = "ieee" if given.get("kind") == "fp32" else ""
    is_amd = target.startswith("gfx")
    make.KINDS["fp8"] = ("*fp8e4b8" if is_amd else "*fp8e4nv", "*fp16")  # CDNA has its own type
    capability = {"compute_capability": 8.0 if is_amd else int(target[3:]) / 10}
    source = make.source_of(kernel, given | capability, [["tt.pointer_range", 32]] * is_amd)
    name, lanes = (target, 64 if target[3] == "9" else 32) if is_amd else (int(target[3:]), 32)
    names = ("num_warps", "num_stages", "maxnreg", *(OPTIONS if is_amd else ()))
    options = {key: given[key] for key in names if key in given}
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


def count_nvidia(kernel, code, usage, word="copies"):
    """Return the same of NVIDIA's machine code, with the class of loads of fewer than 16 bytes."""
    of = dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA"), "matrix")
    of |= {"LDG": "copies", "LDSM": "shared_loads"}
    every = make.CLASS_OF | of
    if not any(every.get(name) == "matrix" for *_, name, _ in code):  # products of lanes
        of |= {"FFMA": "matrix", "DFMA": "matrix", "LDS": "shared_loads", "STS": "shared_stores"}
    loops, is_special = {}, any(name == "BRX" for *_, name, _ in code)  # kinds of warps part
    for (*_, name, rest), head in zip(code, make.loops(code), strict=True):
        if head is not None:
            kind = of.get(name) or make.class_of(kernel, name, rest)
            kind = word if name == "LDG" and ".128" not in rest else kind
            loops.setdefault(head, Counter())[kind] += 1
    found = [loops[head] for head in sorted(loops) if loops[head]["matrix"] or is_special]
    return {"registers": usage["REG"], "stack_bytes": usage["STACK"]}, found


def of_partitions(loops):
    """Return the counts of warps with scores, and a step's of those with sums, products, copies."""
    scores = [kinds for kinds in loops if kinds["special"] > 4]
    sums = next(kinds for kinds in loops if kinds["special"] <= 4 and kinds["fp32"] > 8)
    products, copies = (max(loops, key=lambda c: c[kind]) for kind in ("matrix", "copies"))
    row = {"matrix": products["matrix"], "step": scores[0].total()}
    row |= {name: scores[0][name] for name in OF_ATTENTION}
    for name, kinds in (("sums", sums), ("products", products), ("copies", copies)):
        row |= {f"{name}_step": kinds.total(), f"{name}_barriers": kinds["barriers"]}
    return row | {"last": scores[-1].total() if len(scores) > 1 else 0}


def row_of(kernel, target, given, done):
    """Return a row of the table; loops that are unrolled are divided by their copies of a step."""
    assembly = done.asm.get("amdgcn")
    is_flex = kernel == "flex_attention"  # loads numbers of blocks; the loop with a mask is longer
    word = "loads" if is_flex or "quant" in given else "copies"
    if assembly:
        row, loops = count_amd(assembly)
    else:
        code = make.instructions(done.asm["cubin"])
        row, loops = count_nvidia(kernel, *code, word)
    row |= {"shared_bytes": done.metadata.shared, "columns": getattr(done.metadata, "tmem_size", 0)}
    if "warp_specialize" in given:
        row |= {"warps": done.metadata.num_warps} | of_partitions(loops)
        return {"target": target, **given, **row}
    loops = sorted(loops, key=Counter.total) if is_flex else loops
    is_product, turns = "attention" not in kernel, 1
    if is_product and assembly:
        threads = given["num_warps"] * (64 if target.startswith("gfx9") else 32)
        factors = [given[b] * given["BLOCK_K"] for b in ("BLOCK_M", "BLOCK_N")]
        size = BYTES[given.get("kind", "fp16")]
        odd = given.get("odd", "")  # such factors are loaded element by element
        along = ("k", "k" if given.get("b_column", 1) else "n")
        at_once = [1 if name in odd else 16 / size for name in along]
        each = sum(max(1, f / n / threads) for f, n in zip(factors, at_once, strict=True))
        loops = [min((kinds for kinds in loops if kinds["copies"] >= each), key=Counter.total)]
        turns = loops[0]["copies"] / each if not given.get("quant") else 1  # with loads of scales
    elif is_product:
        loops = [max(loops, key=lambda c: c["matrix"] + c["copies"] + c["shared_loads"])]
    step, last = (loops or [Counter()])[0], loops[-1].total() if len(loops) > 1 else 0
    row |= {name: step[name] / turns for name in (*COUNTED[4:-1], *OF_ATTENTION)}
    return {"target": target, **given, **row, "step": step.total() / turns, "last": last}


def main():
    """Write the tables of the kernels that are named, or of all."""
    for table in sys.argv[1:] or TABLES:
        rows, path = [], make.FOLDER / f"{table}_targets.csv"
        kernel = re.sub("_(odd|fp64|ieee|quant|special)$", "", table)
        for given in make.configurations(path):
            target = given.pop("target")
            rows.append(row_of(kernel, target, given, compiled(kernel, target, given)))
            print(rows[-1], flush=True)  # noqa: T201
        more = OF_ATTENTION[: 1 if "flex" in table else 3] if "head" in given else ()
        names = ["target", *given, *COUNTED, *more, *(("last",) if more else ())]
        names = list(rows[0]) if "warp_specialize" in given else names
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(names)
            out.writerows([f"{row[n]:.6g}" if isinstance(row[n], float) else row[n] for n in names]
                          for row in rows)  # fmt: skip


if __name__ == "__main__":
    main()
