#!/bin/sh
# Compiles the sources in this folder again. Tests read the .ptx files only and need none of this:
# nvcc and ptxas 13.0, llvmlite and Numba, and, as NVRTC, the library of NVRTC 11.8 (for sm_35).
set -eu
cd "$(dirname "$0")"

# $1: text, $2: its name without .ptx, $3: what made it, $4: architecture for ptxas, or nothing
keep() {
    used="not known to ptxas 13.0"
    if [ -n "$4" ]; then
        used=$(ptxas -v -arch="$4" "$1" -o /dev/null 2>&1 |
            sed -n "s/.*Compiling entry function '\([^']*\)'.*/\1/p; s/.*Used \([0-9]* registers\).*/\1/p" |
            paste -sd' ')
    fi
    # Without the folders of source files, blanks at ends of lines and empty lines at the end.
    { echo "// $3. ptxas: $used."; sed "s#\"/[^\"]*/\([^\"/]*\)\"#\"\1\"#" "$1"; } |
        sed 's/[[:space:]]*$//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' > "$2.ptx"
}

cuda() { # $1: source, $2: architecture, $3: an option
    options="-arch=compute_$2${3:+ $3}"
    nvcc -ptx $options "$1.cu" -o "$work/text"
    keep "$work/text" "$1" "$1.cu, nvcc 13.0 (V13.0.88) $options" "sm_$2"
}

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cuda vector_add 75
cuda matrix_tiled 80
cuda reduction 90
cuda transpose 75
cuda option_prices 89
cuda daxpy 86
cuda fixed_loop 75
cuda vectors 100
cuda branches 75 -lineinfo
cuda modern 90

python - > "$work/text" <<'END'
import llvmlite.binding as llvm

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
machine = target.create_target_machine(cpu="sm_20", features="+ptx32", opt=2)
print(machine.emit_assembly(llvm.parse_assembly(open("saxpy_strided.ll").read())))
END
keep "$work/text" saxpy_strided "saxpy_strided.ll, LLVM 22.1 (llvmlite 0.50), sm_20 with PTX 3.2" ""

python - > "$work/text" <<'END'
from numba import cuda, float32, int32


def stencil(a, b, n):
    i = cuda.grid(1)
    if 0 < i < n - 1:
        b[i] = a[i - 1] + float32(2) * a[i] + a[i + 1]


print(cuda.compile_ptx(stencil, (float32[::1], float32[::1], int32), cc=(7, 5))[0])
END
keep "$work/text" stencil "make.sh, Numba 0.68.1 with NVVM 13.0, compute capability 7.5" sm_75

if [ -n "${NVRTC:-}" ]; then
    python - "$NVRTC" > "$work/text" <<'END'
import ctypes, sys

nvrtc = ctypes.CDLL(sys.argv[1])
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = open("matrix_tiled.cu", "rb").read()
nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"matrix_tiled.cu", 0, None, None)
options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_35")
assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
text = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetPTX(program, text)
print(text.value.decode())
END
    keep "$work/text" matrix_tiled_sm35 "matrix_tiled.cu, NVRTC 11.8 --gpu-architecture=compute_35" ""
fi
