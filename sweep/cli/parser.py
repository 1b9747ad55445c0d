"""The parser of the command line, described by ``commands.toml``."""

from __future__ import annotations

import argparse
import importlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from sweep import __version__
from sweep.errors import SweepError

__all__ = ["build_parser", "chosen", "parse", "two_numbers"]

TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float}

Described = str | Mapping[str, Any] | list[Any]
"""An argument's table, the name of a shared entry, or a list of these."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the mistake in one line and exit."""
        self.exit(2, f"sweep: {message} (see `{self.prog} --help`)\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed arguments; NAME=VALUE words may stand before and after options.

    Raises
    ------
    SweepError
        A number is outside its range. Other mistakes end the process, as argparse does.
    """
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    words = [word for word in rest if "=" in word and not word.startswith("-")]
    if len(words) < len(rest) or (words and not hasattr(arguments, "select")):
        unknown = next((word for word in rest if word not in words), rest[0])
        parser.error(f"unrecognised argument '{unknown}'")
    if words:
        arguments.select = [*arguments.select, *words]
    for option, (low, *more) in arguments.ranges.items():
        number = getattr(arguments, option.strip("-").replace("-", "_"))
        if number is not None and not low <= number <= (more[0] if more else number):
            shown = f"{number:g}" if isinstance(number, float) else number
            problem = f"outside the range {more[1]}" if more else f"at least {low}"
            raise SweepError(f"{option} {shown}: {problem}")
    return arguments


def chosen(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return some of the arguments by name, to pass on as keywords."""
    return {name: getattr(arguments, name) for name in names}


def two_numbers(text: str, separator: str, problem: str) -> tuple[float, float]:
    """Return two numbers with a separator between them.

    Raises
    ------
    SweepError
        The text is something else; the message is ``problem``.
    """
    try:
        first, second = map(float, text.split(separator))
    except ValueError:
        raise SweepError(problem) from None
    return first, second


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    table = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
    parser = _Parser(prog="sweep", description="Sweep GPU kernels' design spaces without a GPU.",
                     epilog="Start with: sweep run quickstart")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"sweep {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for name, command in table["commands"].items():
        text = command["text"]
        description = command.get("description", f"{text[0].upper()}{text[1:]}.")
        sub = commands.add_parser(name, help=text, description=description)
        sub.set_defaults(command=partial(_call, command["function"]), ranges={})
        _add(sub, _flattened(command["arguments"], table["shared"]))
        if computing := command.get("computing"):
            group = sub.add_argument_group("to compute a plan, where DATA is one")
            _add(group, _flattened(computing, table["shared"]))
    return parser


def _call(function: str, arguments: argparse.Namespace) -> int:
    """Run a command; import its module first."""
    module, _, name = function.partition(".")
    code: int = getattr(importlib.import_module(f"sweep.cli.{module}"), name)(arguments)
    return code


def _flattened(described: Described, shared: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of arguments, with shared entries instead of their names."""
    if isinstance(described, str):
        yield from _flattened(shared[described], shared)
    elif isinstance(described, list):
        for part in described:
            yield from _flattened(part, shared)
    else:
        yield described


def _add(parser: Any, described: Iterable[Mapping[str, Any]]) -> None:
    """Add arguments to a parser or to a group of one."""
    for argument in described:
        options = dict(argument)
        words = options.pop("usage").split()
        if bounds := options.pop("range", None):
            parser.get_default("ranges")[words[0]] = bounds
        flags = [word for word in words if word.startswith("-")]
        names = flags or words[:1]
        if placeholder := " ".join(words[len(names) :]):
            options["metavar"] = placeholder
        elif flags and set(options) <= {"help"}:
            options["action"] = "store_true"
        kind = options.pop("type", "int" if placeholder == "N" else None)
        if kind:
            options["type"] = TYPES[kind]
        parser.add_argument(*names, **options)
