"""The rules of the house: floors, sizes, names, docstrings, and what may not be imported."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import operator
import re
from pathlib import Path

import pytest
from support.runs import ROOT, python

PACKAGE = ROOT / "sweep"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = sorted(
    path for folder in ("sweep", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
MAX_LINES = 400
PAPER_LINES = 570  # a paper is one file, however many equations it has

# The compiled passes are generated from the package's own registry of models, nowhere else.
MAY_EXECUTE = {f"sweep/compiler/{name}.py" for name in ("arrays", "lowering", "passes")}

COMPILERS = {"numba", "llvmlite"}
HEAVY = COMPILERS | {"dask", "distributed", "matplotlib", "pandas", "xarray", "zarr"}

TINY_PLAN = """
schema = 1
name = "tiny"
kernels = ["sepia"]
devices = ["gtx_280"]
models = ["hong_kim"]
"""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=relative)


# ---------------------------------------------------------------------------- imports


def test_imports_keep_the_contracts(monkeypatch):
    from importlinter import cli

    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(no_cache=True) == cli.EXIT_STATUS_SUCCESS


def loaded(code: str, cwd: Path) -> set[str]:
    """Return the top-level packages that a new interpreter imports by running ``code``."""
    report = "import sys; print('\\n'.join(sorted({name.split('.')[0] for name in sys.modules})))"
    done = python("-W", "error", "-c", f"{code}\n{report}", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def command(*arguments: str) -> str:
    """Return the code of one call of the command line that ends well."""
    return (
        "from sweep.cli import main\n"
        "try:\n"
        f"    code = main({list(arguments)})\n"
        "except SystemExit as exit:\n"
        "    code = exit.code\n"
        "assert not code, code"
    )


def test_importing_the_package_is_light(tmp_path):
    assert loaded("import sweep", tmp_path) & HEAVY == set()


@pytest.mark.parametrize("words", ["--help", "run --help", "best --help", "plot --help"])
def test_help_is_light(tmp_path, words):
    assert loaded(command(*words.split()), tmp_path) & (HEAVY | {"numpy", "tqdm"}) == set()


@pytest.mark.slow
def test_run_without_a_report_is_light(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY_PLAN, encoding="utf-8")
    found = loaded(command("run", "tiny.toml", "--no-report"), tmp_path)
    assert found & HEAVY <= COMPILERS


@pytest.mark.slow
def test_reading_a_store_never_compiles(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY_PLAN, encoding="utf-8")
    assert loaded(command("run", "tiny.toml"), tmp_path) >= COMPILERS
    for question in ("info", "best"):
        assert loaded(command(question, "tiny.zarr"), tmp_path) & COMPILERS == set()


@pytest.mark.parametrize("module", ["models", "specs", "expressions", "store", "query", "plot"])
def test_reader_never_compiles(module, tmp_path):
    assert loaded(f"import sweep.{module}", tmp_path) & COMPILERS == set()


# ---------------------------------------------------------------------------- files


@each(SOURCES)
def test_file_is_short(path):
    n_lines = path.read_text(encoding="utf-8").count("\n")
    is_paper = re.fullmatch(r"sweep/models/\w+_\d{4}\.py", relative(path))
    assert n_lines <= (PAPER_LINES if is_paper else MAX_LINES)


def test_no_module_is_called_util():
    vague = re.compile(r"_?(utils?|helpers?|common|misc)\.py")
    assert [relative(path) for path in MODULES if vague.fullmatch(path.name)] == []


@each(MODULES)
def test_nothing_is_executed_from_text(path):
    calls = [
        f"line {node.lineno}: {node.func.id}("
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"eval", "exec"}
    ]
    assert not calls or relative(path) in MAY_EXECUTE


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_is_silent(check):
    done = python("-m", "ruff", *check, "--quiet", "--no-cache", ".", cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_types_agree(tmp_path):
    done = python("-m", "mypy", "--cache-dir", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_notebooks_carry_no_outputs_and_need_nothing_beside_them():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        assert "../" not in text and '\\"..\\"' not in text, path.name
        cells = json.loads(text)["cells"]
        ran = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
        assert ran == [], path.name


# ---------------------------------------------------------------------------- docstrings

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def public_definitions(tree: ast.Module):
    """Yield (qualified name, node) of public functions, classes and their public methods."""
    for node in tree.body:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name.startswith("_"):
            continue
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, FUNCTIONS) and not child.name.startswith("_"):
                    yield f"{node.name}.{child.name}", child


def documented_names(docstring: str) -> list[str] | None:
    """Return the names in the Parameters section of a NumPy docstring, None without one."""
    lines = docstring.splitlines()
    for start, line in enumerate(lines[:-1]):
        if line.strip() == "Parameters" and set(lines[start + 1].strip()) == {"-"}:
            break
    else:
        return None
    names: list[str] = []
    for line, following in zip(lines[start + 2 :], [*lines[start + 3 :], ""], strict=True):
        if following and set(following) == {"-"}:
            break  # the title of the next section
        if line and not line.startswith(" "):
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names


def signature_names(path: Path, name: str, node) -> list[str]:
    """Return the names of what a caller may pass to a function or class, in order."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    names = list(inspect.signature(operator.attrgetter(name)(module)).parameters)
    is_method = isinstance(node, FUNCTIONS) and "." in name
    return names[1:] if is_method and names[:1] == ["self"] else names


@each(MODULES)
def test_public_names_have_docstrings(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = [name for name, node in public_definitions(tree) if not ast.get_docstring(node)]
    assert bare == []


@each(MODULES)
def test_documented_parameters_are_those_of_the_signature(path):
    for name, node in public_definitions(ast.parse(path.read_text(encoding="utf-8"))):
        documented = documented_names(ast.get_docstring(node) or "")
        if documented is not None:
            assert documented == signature_names(path, name, node), name


def test_the_docstring_reader_reads():
    parts = ("a, b : float", "    First: and second.", "", "    More : about them.", "*rest",
             "    Others.", "", "Returns", "-------", "c : float", "    Third.")  # fmt: skip
    docstring = "\n".join(("Title.", "", "Parameters", "----------", *parts))
    assert documented_names(docstring) == ["a", "b", "rest"]
    assert documented_names("Title.\n\nParameters are good.") is None
