"""What can be typed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from sweep import __version__
from sweep.cli.clocks import add_clocks_arguments
from sweep.cli.histogram import add_histogram_arguments
from sweep.cli.planning import add_plan_arguments
from sweep.cli.profile import add_profile_arguments
from sweep.cli.ptx import add_ptx_arguments
from sweep.cli.scaling import add_scale_arguments
from sweep.cli.tuning_arguments import (
    add_export_arguments,
    add_import_arguments,
    add_validate_arguments,
)

__all__ = ["build_parser", "parse"]

DATA = "a store, or a plan (its name or file), which is then evaluated as it is read"
SELECT = "NAME=VALUE, NAME=VALUE,VALUE or NAME=LOW:HIGH; clocks in MHz"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        self.exit(2, f"sweep: {message} (see `{self.prog} --help`)\n")


def _lazy(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    def command(arguments: argparse.Namespace) -> int:
        import importlib

        code: int = getattr(importlib.import_module(f"sweep.cli.{module}"), name)(arguments)
        return code

    return command


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed arguments; NAME=VALUE words may stand before and after options."""
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    words = [word for word in rest if "=" in word and not word.startswith("-")]
    if len(words) < len(rest) or (words and not hasattr(arguments, "select")):
        unknown = next((word for word in rest if word not in words), rest[0])
        parser.error(f"unrecognised argument '{unknown}'")
    if words:
        arguments.select = [*arguments.select, *words]
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="sweep", description="Sweep GPU kernels' design spaces without a GPU.",
                     epilog="Start with: sweep run quickstart")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"sweep {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Parser
    )

    def add(name: str, module: str, text: str, **defaults: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(
            command=_lazy(
                module, f"{name}_" if name in ("list", "import") else name.replace("-", "_")
            ),
            **defaults,
        )
        return sub

    _add_run(add("run", "running", "evaluate a plan into a store, or continue it"))
    _add_rerun(add("rerun", "running", "compute a store's results again from the store alone"))
    _add_extend(add("extend", "running", "grow a finished store to a larger plan"))
    _add_verify(add("verify", "verifying", "check every file of a store against its checksum"))
    add_plan_arguments(
        add("plan", "planning", "predict a run's time, bytes and memory, and what bounds it")
    )
    best = add("best", "asking", "show the best configuration of every group")
    _add_question(best)
    best.add_argument(
        "--objective",
        default="execution_time",
        metavar="VARIABLE",
        help="what to minimise or maximise (default: %(default)s)",
    )
    best.add_argument("--max", action="store_true", help="maximise instead of minimise")
    top = add("top", "asking", "show the N best configurations")
    top.add_argument("data", metavar="DATA", help=DATA)
    top.add_argument("n", type=int, metavar="N", help="how many, per group")
    _add_question(top, data=False)
    top.add_argument(
        "--objective",
        default="execution_time",
        metavar="VARIABLE",
        help="what to minimise or maximise (default: %(default)s)",
    )
    top.add_argument("--max", action="store_true", help="maximise instead of minimise")
    pareto = add("pareto", "asking", "show the configurations that no other beats in everything")
    _add_question(pareto)
    pareto.add_argument(
        "--objectives",
        default="execution_time,energy",
        metavar="A,B[,C]",
        help="two or three variables (default: %(default)s); VARIABLE:max maximises",
    )
    info = add("info", "asking", "show what results hold: points, statuses, regimes, minima")
    _add_question(info)
    shares = add("histogram", "histogram", "count configurations by a variable's values or codes")
    add_histogram_arguments(shares)
    _add_question(shares, data=False)
    for sub in (best, top, pareto, info, shares):
        _add_workers(sub.add_argument_group("to compute a plan, where DATA is one"))
    _add_compare(add("compare", "comparing", "show what changed between two results"))
    _add_compare_models(
        add("compare-models", "comparing", "show where the models agree and where they part")
    )
    _add_reproduce(
        add("reproduce", "reproducing", "compute a paper's tables and figures beside the printed")
    )
    _add_explain(add("explain", "asking", "show how a model arrives at one configuration's time"))
    _add_plot(add("plot", "plotting", "draw results"))
    _add_list(
        add(
            "list",
            "listing",
            "list kernels, devices, models, plans, fields, recipes for clusters, or counters",
        )
    )
    _add_show(add("show", "listing", "show a kernel, device, plan or model file"))
    _add_lint(add("lint", "listing", "check device, kernel and plan files"))
    add_import_arguments(
        add("import", "tuning", "turn tuners' files into kernel files, plans and measured stores")
    )
    add_validate_arguments(
        add("validate", "validating", "hold predictions against measured times, with a figure")
    )
    add_export_arguments(
        add("export", "exporting", "write the best configurations for auto-tuners, or as a table")
    )
    add_ptx_arguments(add("ptx", "ptx", "turn the PTX text of a kernel into a kernel file"))
    add_profile_arguments(
        add("profile", "profile", "turn a profile of a kernel into a kernel file")
    )
    add_clocks_arguments(
        add("validate-clocks", "clocks", "hold predictions at other clocks against measured times")
    )
    add_scale_arguments(add("scale", "scaling", "predict a measured time at other clocks"))
    return parser


def _add_break_lock(sub: Any) -> None:
    sub.add_argument(
        "--break-lock",
        action="store_true",
        help="take over the store's lock from a run elsewhere that is surely gone",
    )


def _add_workers(sub: Any) -> None:
    _add_break_lock(sub)
    sub.add_argument(
        "--threads", type=int, metavar="N", help="threads (default: all cores; one per --workers)"
    )
    sub.add_argument(
        "--workers", type=int, metavar="N", help="start N processes for the run, and use them"
    )
    sub.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on the Dask cluster of this scheduler, e.g. tcp://host:8786",
    )
    sub.add_argument(
        "--scheduler-file",
        metavar="FILE",
        help="... of the scheduler that wrote its address into this file",
    )


def _add_execution(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--overwrite", action="store_true", help="replace another run's store")
    _add_workers(sub)
    sub.add_argument(
        "--limit",
        metavar="SIZE",
        help="refuse more bytes of results (before compression), e.g. 10GB",
    )
    sub.add_argument(
        "--dry-run", action="store_true", help="print points, bytes and chunks; compute nothing"
    )
    sub.add_argument("--no-report", action="store_true", help="no answers and no figure at the end")


def _add_run(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("plan", metavar="PLAN", help="a plan's file, or the name of a shipped plan")
    sub.add_argument("--store", metavar="PLACE", help="path or URL (default: ./NAME.zarr)")
    _add_execution(sub)


def _add_rerun(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("source", metavar="STORE", help="a store, finished or not")
    sub.add_argument("--store", metavar="PLACE", help="the new store (default: STORE-rerun.zarr)")
    _add_execution(sub)


def _add_extend(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Grow a finished store to a plan that holds its values and more: devices, models, kernels, "
        "sizes, parameters, clocks. Only what is new is computed; the result is the plan's own "
        "store. Until the end the old store stays as it is."
    )
    sub.add_argument("target", metavar="STORE", help="a finished store")
    sub.add_argument("plan", metavar="PLAN", help="the larger plan: its file, or a shipped one")
    sub.add_argument("--threads", type=int, metavar="N", help="threads (default: all cores)")
    sub.add_argument("--limit", metavar="SIZE", help="refuse more bytes of results, e.g. 10GB")
    _add_break_lock(sub)


def _add_verify(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Check every file of a store against its checksum. Exit code 1, and a line for each file, "
        "if any is missing, truncated or changed; the next `sweep run` computes just those again."
    )
    sub.add_argument("store", metavar="STORE", help="a store, finished or not")
    sub.add_argument(
        "--repair", action="store_true", help="compute what is damaged again, from the store alone"
    )
    sub.add_argument("--threads", type=int, metavar="N", help="threads (default: all cores)")


def _add_question(sub: argparse.ArgumentParser, *, data: bool = True) -> None:
    if data:
        sub.add_argument("data", metavar="DATA", help=DATA)
    sub.add_argument("select", nargs="*", metavar="NAME=VALUE", help=SELECT)
    sub.add_argument(
        "--by", metavar="DIM,...", help="dimensions (and 'kernel') that form groups; '' for none"
    )
    sub.add_argument(
        "--where", metavar="CONDITION", help='e.g. "occupancy > 0.5 and block_size %% 64 == 0"'
    )
    sub.add_argument("--include", metavar="VARIABLE,...", help="further variables to show")
    sub.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="(default: %(default)s)"
    )


def _add_explain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", metavar="DATA", help="a store or a plan")
    sub.add_argument(
        "select",
        nargs="*",
        metavar="NAME=VALUE",
        help="the configuration; what is left open takes the best",
    )
    for name in ("kernel", "device", "model"):
        sub.add_argument(f"--{name}", metavar="NAME")
    sub.add_argument(
        "--row",
        type=int,
        default=1,
        metavar="N",
        help="the N-th best of what the selection leaves (default: the best)",
    )
    sub.add_argument(
        "--objective",
        default="execution_time",
        metavar="VARIABLE",
        help="what the best is the best of (default: %(default)s)",
    )
    sub.add_argument("--format", choices=("text", "json"), default="text")


def _add_compare(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Show what changed between two results. Exit code 1 if the best of any kernel, device and "
        "model became slower by more than the tolerance, or was lost."
    )
    sub.add_argument("before", metavar="BEFORE", help=DATA)
    sub.add_argument("after", metavar="AFTER", help=DATA)
    sub.add_argument(
        "--objective",
        default="execution_time",
        metavar="VARIABLE",
        help="what to compare, smaller is better (default: %(default)s)",
    )
    sub.add_argument(
        "--tolerance",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="relative change that is let pass (default: %(default)s)",
    )
    sub.add_argument(
        "-n",
        "--list",
        type=int,
        metavar="N",
        dest="n",
        help="name the configurations instead: the best, the N that changed most, and those that "
        "entered or left the front",
    )
    sub.add_argument("-o", "--output", metavar="FILE", help="a figure: png, svg or pdf")
    sub.add_argument("--format", choices=("table", "json", "csv"), default="table")


def _add_compare_models(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", metavar="DATA", help=DATA)
    sub.add_argument("select", nargs="*", metavar="NAME=VALUE", help=SELECT)
    sub.add_argument(
        "--objective",
        default="execution_time",
        metavar="VARIABLE",
        help="what the models rank by (default: %(default)s)",
    )
    sub.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the figure: png, svg or pdf (default: compare-models.png)",
    )
    sub.add_argument("--format", choices=("table", "json", "csv"), default="table")


def _add_reproduce(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "paper",
        metavar="PAPER",
        help="hong_kim_2009, luo_suda_2011, wang_chu_2017, zhang_owens_2011 or lemeire_2016",
    )
    sub.add_argument("-o", "--output", metavar="DIR", help="the folder (default: ./PAPER)")


def _add_plot(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", metavar="DATA", help=DATA)
    sub.add_argument("kind", choices=("heatmap", "pareto", "clocks", "occupancy"))
    sub.add_argument("select", nargs="*", metavar="NAME=VALUE", help=SELECT)
    for name in ("kernel", "device", "model"):
        sub.add_argument(f"--{name}", metavar="NAME")
    sub.add_argument("-x", metavar="DIM", help="horizontal axis (heatmap, occupancy)")
    sub.add_argument("-y", metavar="DIM", help="vertical axis (heatmap)")
    sub.add_argument("--variable", default="execution_time", help="(default: %(default)s)")
    sub.add_argument("-o", "--output", metavar="FILE", help="png, svg or pdf (default: KIND.png)")
    sub.add_argument("--show", action="store_true", help="open a window instead of writing a file")


def _add_list(sub: argparse.ArgumentParser) -> None:
    what = ("kernels", "devices", "models", "plans", "fields", "recipes", "counters")
    sub.add_argument("what", choices=what)
    sub.add_argument("--device", metavar="NAME", help="models: tell which can run on this device")
    sub.add_argument("--kernel", metavar="NAME", help="models: ... and with this kernel")
    sub.add_argument(
        "--no-derive",
        action="store_true",
        help="models: do not derive parameters that the device file lacks",
    )


def _add_show(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "name", metavar="NAME", nargs="?", help="a kernel, device, plan, model or recipe"
    )
    sub.add_argument(
        "--schema",
        choices=("device", "kernel"),
        help="print the JSON Schema of such files, for editors",
    )
    sub.add_argument(
        "--keys", choices=("device", "kernel"), help="print a table of all keys of such files"
    )


def _add_lint(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("files", nargs="+", metavar="FILE", help="TOML files or directories")
