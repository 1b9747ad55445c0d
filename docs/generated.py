"""What the site takes from the package, where a page has ``<!-- generated: NAME ARGUMENT -->``.

It replaces all lines up to ``<!-- end -->``, which a reader of the page's file sees instead.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import sweep
from sweep import plot
from sweep.cli.parser import build_parser
from sweep.explanation.formulas import symbol_text
from sweep.models.base import EquationInfo
from sweep.specs.schema import format_table

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
MARK = re.compile(r"<!-- generated: (\w+) ?(\w*) -->\n.*?<!-- end -->", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(c.replace('|', '&#124;') for c in line)} |" for line in lines)


def module_of(model: str) -> Any:
    """Return the module with a model's equations."""
    return import_module(sweep.get_model(model).bodies["corrected"].__module__)


def readme(_: str) -> str:
    """Return the README, with links from the site's folder."""
    text = re.sub(r"\]\((?!docs/|https?:|#)", "](../", README.read_text(encoding="utf-8"))
    return text.replace("](docs/", "](")


def scope(model: str) -> str:
    """Return the words of a model's module: reference, scope, errata with their reasons."""
    parts = []
    for part in inspect.getdoc(module_of(model)).split("\n\n")[1:]:
        for piece in re.split(r"\n(?=\S)(?=(?:[A-Z]{2}-\d+|CLK) )", part):
            words = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", " ".join(piece.split()))
            words = words.replace("``", "`").replace("|", r"\|")
            parts.append(re.sub(r"^([A-Z]{2}-\d+|CLK) ", r"**\1**: ", words))
    return "\n\n".join(parts)


def formula(function: Any) -> str:
    """Return an equation's formula in the paper's symbols, or nothing if it takes statements."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body
    if not isinstance(body[-1], ast.Return) or len(body) > 2:
        return ""
    for node in ast.walk(body[-1]):
        if isinstance(node, ast.Name) and node.id in function.info.symbols:
            node.id = symbol_text(function.info.symbols[node.id])
    text = re.sub(r"(?<=\d)\.0\b", "", ast.unparse(body[-1].value))
    return f"`{text.replace('np.', '')}`"


def equations(model: str) -> str:
    """Return a model's equations: number, symbol, formula, unit and meaning."""
    infos = (getattr(value, "info", None) for value in vars(module_of(model)).values())
    functions = next(info.functions for info in infos if isinstance(info, EquationInfo))
    rows = (
        (
            f"({f.info.number})",
            f"`{f.info.result.symbol}`" if f.info.kind == "equation" else "case",
            formula(f) or "several steps",
            "" if f.info.result.units == "1" else f.info.result.units,
            " ".join(f.__doc__.partition("\n\n")[0].split()),
        )
        for f in functions
    )
    return table(("number", "gives", "formula", "unit", "meaning"), rows)


def parameters(model: str) -> str:
    """Return what a model reads from device files."""
    found = sweep.get_model(model).parameters
    rows = ((f"`{p.key}`", f"`{p.symbol}`", p.units, p.long_name) for p in found)
    return table(("key", "symbol", "unit", "meaning"), rows)


def keys(kind: str) -> str:
    """Return the keys of device or kernel files."""
    return format_table(kind)


def cli(_: str) -> str:
    """Return the help of every command."""
    (commands,) = (a for a in build_parser()._actions if a.choices)
    helps = {name: command.format_help() for name, command in commands.choices.items()}
    return "\n\n".join(f"## {name}\n\n```text\n{text}```" for name, text in helps.items())


def api(_: str) -> str:
    """Return directives that document every public name."""
    public = [f"sweep.{name}" for name in sweep.__all__ if name != "__version__"]
    public += [f"sweep.plot.{name}" for name in plot.__all__]
    rows = []
    for path in sorted(public, key=str.lower):
        module, _, name = path.rpartition(".")
        thing = getattr(plot if module == "sweep.plot" else sweep, name)
        kind = "class" if inspect.isclass(thing) else "function"
        rows.append(f"```{{eval-rst}}\n.. auto{kind}:: {path}\n```")
    return "\n\n".join(rows)


MAKERS = {f.__name__: f for f in (readme, scope, equations, parameters, keys, cli, api)}


def completed(app: Any, page: str, source: list[str]) -> None:
    """Replace what is generated; links to the README lead to the first page, other files load."""
    text = MARK.sub(lambda found: MAKERS[found[1]](found[2]), source[0])
    here = (DOCS / page).parent

    def led(link: re.Match[str]) -> str:
        words, (path, sign, place) = link[1], link[2].partition("#")
        target = (here / path).resolve()
        if target == README:
            return f"[{words}](/index.md{sign}{place})"
        if not path or "://" in path or target.is_relative_to(DOCS):
            return link[0]
        return f"[{words}](path:{path})" if target.is_file() else words

    source[0] = LINK.sub(led, text)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", completed)
    return {"parallel_read_safe": True}
