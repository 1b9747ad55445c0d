"""Count again what Triton and ptxas make of kernels.py: ``python make.py [KERNEL ...]``.

Tests read the .csv files, whose configurations were drawn at random from grids of those that
somebody might try; one compiles some of their rows again. This needs ``pip install -e
'.[compilers]'`` (Triton brings ptxas and cuobjdump along) and no GPU. Every row has the resources
of a configuration and the machine instructions of a warp, by class, in each loop and outside.
"""

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
FOLDER = Path(__file__).parent
# Types of a product's factors and result.
KINDS = {"fp16": ("*fp16", "*fp16"), "tf32": ("*fp32", "*fp32"), "fp8": ("*fp8e4nv", "*fp16"),
         "fp32": ("*fp32",) * 2, "int8": ("*i8", "*i32"), "fp64": ("*fp64", "*fp64")}  # fmt: skip
KERNELS = ("matmul", "moe", "flash_attention", "softmax", "layer_norm")
CLASSES = {
    "matrix": "HMMA HGMMA QMMA QGMMA IMMA IGMMA DMMA", "ldmatrix": "LDSM",
    "copies": "LDGSTS UTMALDG",
    "loads": "LDG", "stores": "STG UTMASTG", "shared": "LDS STS STSM", "spills": "LDL STL",
    "fp32": "FADD FMUL FFMA FMNMX FSETP FSEL FCHK HADD2 HMUL2 HFMA2", "special": "MUFU",
    "conversion": "F2F F2FP I2F I2FP F2I FRND",
    "control": "BRA EXIT BAR BSSY BSYNC WARPSYNC DEPBAR LDGDEPBAR SYNCS WARPGROUP NOP MEMBAR FENCE "
    "CALL RET BREAK UTMACMDFLUSH DEPBAR ARRIVES ERRBAR ELECT",
    "move": "MOV MOV32I SHFL PRMT SEL S2R CS2R R2UR UMOV S2UR R2P P2R USEL UPRMT WARPGROUPSET VOTE",
}  # fmt: skip
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names.split()}
WAITS = {"BAR": "barriers", "SHFL": "shuffles"}
"""Classes of attention's tables alone. A wait for a copy (mbarrier) counts as a barrier."""
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?(U?P\w+)\s+)?([A-Z0-9]+)([^;/]*)")


def types(kernel, given):
    """Return each argument's type, the constants, and which arguments are multiples of 16."""
    if kernel == "flash_attention":
        element, d = ("fp16" if given["bits"] == 16 else "fp8e5"), given["head"]
        tensors = {n: "*" + element for n in ("q", "k", "v", "out")}
        if given["compute_capability"] >= 9:  # the host describes tensors for TMA
            m, n = (f"[{given[b]},{d}]>" for b in ("BLOCK_M", "BLOCK_N"))
            v = n if given["bits"] == 16 else f"[{d},{given['BLOCK_N']}]>"
            tiles = {"q": m, "k": n, "v": v, "out": m}
            tensors = {name: f"tensordesc<{element}{tile}" for name, tile in tiles.items()}
        rest = {"logs": "*fp32", "scale": "fp32", "batch": "i32", "heads": "i32", "sequence": "i32"}
        constants = {"HEAD": d} | {n: given[n] for n in ("BLOCK_M", "BLOCK_N", "causal")}
        constants["special"] = bool(given.get("warp_specialize", 0))
        return tensors | rest, constants, ["q", "k", "v", "out", "logs", "sequence"]
    if kernel == "flex_attention":
        tensors = dict.fromkeys(("q", "k", "v", "out"), "*bf16")
        tensors |= dict.fromkeys(("counts", "blocks", "full_counts", "full_blocks"), "*i32")
        constants = {"HEADS": 16, "SEQUENCE": 4096, "BLOCK": 128 if given["causal"] else 2**30}
        constants |= {"HEAD": given["head"]}
        constants |= {n: given[n] for n in ("BLOCK_M", "BLOCK_N", "causal")}
        return tensors | {"scale": "fp32"}, constants, list(tensors)
    if kernel == "matmul":
        element, result = KINDS[given["kind"]]
        strides = ["a_rows", "a_columns", "b_rows", "b_columns", "c_rows"]
        arguments = {"a": element, "b": element, "c": result} | dict.fromkeys("mnk", "i32")
        ones = ["a_rows" if given["a_column"] else "a_columns"]
        ones.append("b_rows" if given["b_column"] else "b_columns")
        arguments |= {name: "i32" for name in strides if name not in ones}
        blocks = {name: given[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
        of_rows = {"k": ("k", "a_rows", "b_columns"), "n": ("n", "b_rows", "c_rows")}  # row by row
        odd = {name for size in given.get("odd", "") for name in of_rows[size]}
        aligned = [name for name in arguments if name not in odd]
        return arguments, dict.fromkeys(ones, 1) | blocks | {"GROUP_M": 8}, aligned
    if kernel == "moe":  # sizes and strides are multiples of 16
        element = KINDS["fp8"][0] if given.get("kind") == "fp8" else "*bf16"
        arguments = {"a": element, "b": element, "c": "*bf16"}
        arguments |= dict.fromkeys(("pair_of", "expert_of", "used"), "*i32")
        integers = ("n", "k", "rows", "pairs", "a_rows", "b_experts", "b_columns", "c_rows")
        arguments |= dict.fromkeys(integers, "i32")
        aligned, quant = list(arguments), given.get("quant", 0)
        scales = dict.fromkeys(("a_scales", "b_scales"), "*fp32")
        scales |= dict.fromkeys(("a_scale_rows", "b_scale_experts", "b_scale_columns"), "i32")
        blocks = {name: given[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
        constants = {"TOPK": 8, "GROUP_M": 8, "QUANT": quant} | blocks
        constants |= {} if quant else dict.fromkeys(scales)
        aligned += ["a_scales", "b_scales"] * (quant > 0)
        return arguments | (scales if quant else {}), constants, aligned
    element = "*fp16" if given["bits"] == 16 else "*fp32"
    of_length = ["x_stride", "y_stride", "columns", "stride", "n"] * given["aligned"]
    if kernel == "softmax":
        types = dict.fromkeys(("y", "x"), element)
        types |= dict.fromkeys(("x_stride", "y_stride", "rows", "columns"), "i32")
        constants = {"BLOCK": given["BLOCK"], "stages": given["num_stages"]}
        return types, constants, ["x", "y", *of_length]
    tensors = dict.fromkeys(("x", "y", "weights", "bias"), element)
    tensors |= dict.fromkeys(("means", "deviations"), "*fp32")
    types = tensors | {"stride": "i32", "n": "i32", "eps": "fp32"}
    return types, {"BLOCK": given["BLOCK"]}, [*tensors, *of_length]


def source_of(kernel, given, of_pointers=()):
    """Return a configuration's source for Triton, with further attributes of its pointers."""
    sys.path.insert(0, str(FOLDER))
    import kernels
    from triton.compiler import ASTSource

    arguments, constants, aligned = types(kernel, given)
    function = getattr(kernels, kernel)
    kinds = arguments | dict.fromkeys(constants, "constexpr")
    signature = {name: kinds[name] for name in function.arg_names if name in kinds}
    attributes = {
        (i,): [["tt.divisibility", 16], *(of_pointers if kinds[name].startswith("*") else ())]
        for i, name in enumerate(function.arg_names)
        if name in aligned and not kinds[name].startswith("tensordesc")
    }
    return ASTSource(function, signature, constants, attributes)


def compiled(kernel, given):
    """Return Triton's result for a configuration; None if it or ptxas refuses."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import CompilationError, compile
    from triton.runtime.errors import PTXASError

    target = GPUTarget("cuda", int(10 * given["compute_capability"]), 32)
    options = {key: given[key] for key in ("num_warps", "num_stages") if key in given}
    try:
        return compile(source_of(kernel, given), target=target, options=options)
    except (CompilationError, PTXASError, RuntimeError):
        return None


def instructions(cubin):
    """Return the machine code: address, whether conditional, name and operands; and REG, STACK."""
    from triton import knobs

    tool = Path(knobs.nvidia.ptxas.path).with_name("cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = [subprocess.run([tool, option, file.name], capture_output=True, text=True).stdout
               for option in ("-sass", "-res-usage")]  # fmt: skip
    found = LINE.findall(run[0])
    code = [(int(at, 16), bool(predicate), name, rest) for at, predicate, name, rest in found]
    usage = {key: int(value) for key, value in re.findall(r"(REG|STACK):(\d+)", run[1])}
    return code, usage


def class_of(kernel, name, rest):
    """Return the class of an instruction of NVIDIA's in a kernel's tables."""
    own = WAITS if "attention" in kernel else {}
    if own and name == "SYNCS" and "PHASECHK" in rest:
        return "barriers"
    return own.get(name) or CLASS_OF.get(name, "integer")


def loops(code):
    """Return for each instruction the head of its innermost natural loop, or None."""
    index = {at: i for i, (at, *_) in enumerate(code)}
    after = []
    for i, (_, conditional, name, rest) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)\s*$", rest) if name == "BRA" else None
        found = [index[int(target[1], 16)]] if target else []
        ends = name in ("EXIT", "BRA", "RET") and not conditional and "P" not in rest.split("0x")[0]
        after.append(found if ends else [*found, i + 1] if i + 1 < len(code) else found)
    before = [[] for _ in code]
    for i, following in enumerate(after):
        for j in following:
            before[j].append(i)
    inside = [None] * len(code)
    bodies = []
    for tail, following in enumerate(after):
        for head in following:
            if head < tail or (head == tail and code[tail + 1 : tail + 2] and code[tail][1]):
                body, left = {head, tail}, [tail] if tail != head else []
                while left:
                    for i in before[left.pop()]:
                        if i not in body:
                            body.add(i)
                            left.append(i)
                if 0 not in body:  # else the head does not dominate: a wait out of line
                    bodies.append((len(body), head, body))
    for _, head, body in sorted(bodies, key=lambda b: -b[0]):
        for i in body:
            inside[i] = head
    return inside


def counts(kernel, given):
    """Return a row: the configuration, its resources, and the classes of each loop and outside."""
    done = compiled(kernel, given)
    if done is None:
        return None
    code, usage = instructions(done.asm["cubin"])
    inside = loops(code)
    sizes = Counter(head for head in inside if head is not None)
    heads = sorted(head for head, size in sizes.items() if size > 12)  # less only waits
    kinds = {head: Counter() for head in [*heads, None]}
    last = max(i for i, (*_, name, _) in enumerate(code) if name == "EXIT")
    for (_, _, name, rest), head in list(zip(code, inside, strict=True))[: last + 1]:
        if head in kinds:
            kinds[head][class_of(kernel, name, rest)] += 1
    names = [*CLASSES, *(WAITS.values() if "attention" in kernel else ()), "integer"]
    row = dict(given) | {
        "registers": usage["REG"], "stack_bytes": usage["STACK"],
        "shared_bytes": done.metadata.shared,
    }  # fmt: skip
    for i in range({"flash_attention": 1 + given.get("causal", 0), "layer_norm": 3}.get(kernel, 1)):
        found = kinds[heads[i]] if i < len(heads) else Counter()
        row |= {f"{kind}_{i + 1}": found[kind] for kind in names}
    row |= {f"{kind}_outside": kinds[None][kind] for kind in names}
    return row | {"loops": len(heads)}


def configurations(path):
    """Return the configurations of a table: its columns before the registers."""
    with path.open(encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    names = names[: names.index("registers")]
    return [
        {name: as_given(value) for name, value in zip(names, row, strict=False)} for row in rows
    ]


def as_given(text):
    """Return a number, or a word."""
    return int(text) if text.isdecimal() else float(text) if "." in text else text


def main():
    """Write the counts of the kernels that are named, or of all."""
    for kernel in sys.argv[1:] or KERNELS:
        rows, path = [], FOLDER / f"{kernel}.csv"
        for given in configurations(path):
            rows.append(counts(kernel, given) or given | {"registers": 0})
            print(kernel, len(rows), rows[-1]["registers"], flush=True)  # noqa: T201
        whole = max(rows, key=len)
        names = [n for n in whole if n in given or any(row.get(n) for row in rows)]
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, names, "", "ignore", lineterminator="\n")
            out.writeheader()
            out.writerows(rows)


if __name__ == "__main__":
    main()
