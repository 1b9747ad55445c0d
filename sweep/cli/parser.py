"""The parser of the command line, described by ``commands.toml``."""

from __future__ import annotations

import argparse
import importlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

from sweep import __version__
from sweep.cli import values
from sweep.cli.completion import add_names, complete
from sweep.errors import SweepError, nearest

FOLDERS = ("DIR", "PATH")
"""Placeholders of outputs that may be folders, which the commands create."""

TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the mistake in one line, with the nearest choice or option, and exit."""
        if wrong := re.search(r"invalid choice: '(.*?)'|unrecognised argument '(.*?)=?'", message):
            choices = re.findall(r"'([\w.-]+)'", message[wrong.end() :])
            hint = nearest(wrong[1] or wrong[2] or "", choices or self._option_string_actions)
            message = message.replace(wrong[0], f"{wrong[0]}{hint}", 1)
        self.exit(2, f"sweep: {message} (see `{self.prog} --help`)\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed arguments; NAME=VALUE words may stand before and after options.

    Raises
    ------
    SweepError
        A number is outside its range. Other mistakes end the process, as argparse does.
    """
    parser = build_parser()
    complete(parser)
    arguments, rest = parser.parse_known_args(argv)
    words = [word for word in rest if "=" in word and not word.startswith("-")]
    if len(words) < len(rest) or (words and not hasattr(arguments, "select")):
        unknown = next((word for word in rest if word not in words), rest[0])
        arguments.parser.error(f"unrecognised argument '{unknown}'")
    if words:
        arguments.select = [*arguments.select, *words]
    given = {n for n, v in vars(arguments).items() if v != arguments.parser.get_default(n)}
    for name, (option, needed) in arguments.needs.items():
        if name in given and needed.strip("-") not in given:
            arguments.parser.error(f"{option}: only with {needed}")
    for name, (convert, *details) in arguments.converters.items():
        if (given := getattr(arguments, name)) is not None:
            setattr(arguments, name, convert(given, *details))
    return arguments


def call_with(
    function: Callable[..., Any], arguments: argparse.Namespace, *given: Any, **more: Any
) -> Any:
    """Call a function with the arguments of its parameters' names, where they have a value.

    ``given`` are its first parameters, and ``more`` take precedence over the arguments.
    """
    wanted = list(signature(function).parameters)[len(given) :]
    named = {name: value for name, value in vars(arguments).items() if name in wanted}
    return function(*given, **{k: v for k, v in named.items() if v is not None} | more)


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
        about = command.get("description", f"{text[0].upper()}{text[1:]}.")
        sub = commands.add_parser(name, help=text, description=about, epilog=command.get("example"))
        sub.set_defaults(command=partial(_call, command["function"]), parser=sub)
        sub.set_defaults(converters={}, needs={})
        _add(sub, command["arguments"], table["shared"])
        if computing := command.get("computing"):
            group = sub.add_argument_group("to compute a plan, where DATA is one")
            _add(group, computing, table["shared"])
    return parser


def _call(function: str, arguments: argparse.Namespace) -> int:
    """Run a command; import its module first. It does not begin where it may not write."""
    made = {action.dest for action in arguments.parser._actions if action.metavar in FOLDERS}
    for name in ("output", "figure"):
        output = getattr(arguments, name, None)
        if output and not Path(output).is_dir():
            from sweep.importers.files import check_free

            check_free(Path(output), overwrite=arguments.overwrite)
            if name not in made and not Path(output).parent.is_dir():
                reason = f"there is no directory '{Path(output).parent}'"
                raise SweepError(f"{output}: cannot be written: {reason}")
    module, _, name = function.partition(".")
    return getattr(importlib.import_module(f"sweep.cli.{module}"), name)(arguments)


def _add(parser: Any, described: Sequence[Any], shared: Mapping[str, Any]) -> None:
    """Add arguments, or the shared ones of these names, to a parser or to a group of one."""
    for argument in described:
        if isinstance(argument, str):
            _add(parser, shared[argument], shared)
            continue
        options = dict(argument)
        words = options.pop("usage").split()
        convert, bounds = options.pop("convert", ""), options.pop("range", ())
        needed = options.pop("needs", "")
        flags = [word for word in words if word.startswith("-")]
        names = flags or words[:1]
        if placeholder := " ".join(words[len(names) :]):
            options["metavar"] = placeholder
        elif flags and set(options) <= {"help"}:
            options["action"] = "store_true"
        kind = options.pop("type", "int" if placeholder == "N" else None)
        if kind:
            options["type"] = TYPES[kind]
        if not flags and options.get("nargs") == "*":
            options["default"] = []  # without one, argparse says that it is required
        action = parser.add_argument(*names, **options)
        add_names(action)
        if needed:
            parser.get_default("needs")[action.dest] = words[0], needed
        if convert or bounds:
            details = getattr(values, convert or "within"), words[0], *bounds
            parser.get_default("converters")[action.dest] = details
