"""Completion in a real bash, and the protocol that zsh and fish speak too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.runs import write_plan

from sweep.models import model_names
from sweep.space import list_plans

BIN = Path(sys.executable).parent

BASH = """
eval "$(register-python-argcomplete sweep)"
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_python_argcomplete sweep
printf '%s\\n' "${COMPREPLY[@]}"
"""


def answer(script, line, *, cwd):
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script, "bash", line], capture_output=True, text=True,
                          cwd=cwd, env=environment, check=True)  # fmt: skip
    assert not done.stderr
    return {word.strip() for word in done.stdout.split()}


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize(("line", "expected"), [
    ("sweep hi", {"histogram"}),
    ("sweep explain papers --device rtx_a", {"rtx_a4000", "rtx_a5000", "rtx_a6000"}),
    ("sweep scale x.csv --model wang_chu,lu", {"wang_chu,luo_suda"}),
    ("sweep best papers device=gtx_98", {"gtx_980", "gtx_980_paper"}),  # bash splits at "="
    ("sweep show xge", {"xgemm"}),
    ("sweep explain --kernel mat_t", {"mat_tiled"}),
    ("sweep export papers trito", {"triton"}),
    ("sweep run --dry", {"--dry-run"}),
    ("sweep run min", {"mine.toml"}),
    ("sweep run ", {*list_plans(), "mine.toml"}),
    ("sweep plot papers --model ", {*model_names()}),
])  # fmt: skip
def test_bash(line, expected, tmp_path):
    write_plan(tmp_path / "mine.toml")
    words = answer(BASH, line, cwd=tmp_path)
    assert {word for word in words if not word.startswith("-") or word in expected} == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells__ask_the_same(shell, tmp_path):
    script = subprocess.run([BIN / "register-python-argcomplete", "--shell", shell, "sweep"],
                            capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "_ARGCOMPLETE" in script and "sweep" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", script], check=True)


def test_nothing_is_imported_where_no_shell_asks():
    script = "import sys; from sweep.cli.parser import parse; parse(['list']); " \
             "assert not {'argcomplete', 'numpy'} & set(sys.modules)"  # fmt: skip
    subprocess.run([sys.executable, "-c", script], check=True)
