"""Profiles for tests: the fixtures' files and synthetic texts."""

import tomllib
from pathlib import Path

from sweep.importers.profiles.inputs import inputs_of
from sweep.importers.profiles.launches import chosen, read_profile

FOLDER = Path(__file__).parents[1] / "data" / "profiles"
MATRIX = "matrixMulCUDA"
HEADER = (
    '"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit",'
    '"Metric Value"\n'
)


def path(name):
    return str(FOLDER / f"{name}.csv")


def text(name):
    return Path(path(name)).read_text(encoding="utf-8")


def made(*rows, grid="(64, 1, 1)", block="(128, 1, 1)", kernel="k(int)"):
    """Return a profile of one launch with these counters (name, unit, value)."""
    lines = (
        f'"0","1","{kernel}","{block}","{grid}","{name}","{unit}","{value}"\n'
        for name, unit, value in rows
    )
    return HEADER + "".join(lines)


def of(*rows, **options):
    return inputs_of(chosen(read_profile(made(*rows, **options))))


INSTRUCTIONS = ("smsp__inst_executed.sum", "inst", "25,600")


def cases_of(name):
    """Return the cases of a TOML file by name."""
    folder = Path(__file__).parents[1] / "importers"
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


def bad_profiles():
    """Return content, arguments and message of wrong profiles by case."""
    cases = cases_of("profile_cases")
    words = {
        "HEADER\n": HEADER,
        "INSTRUCTIONS\n": made(INSTRUCTIONS).removeprefix(HEADER),
        "LAUNCH,": '"0","1","k(int)","(128, 1, 1)","(64, 1, 1)",',
        "DIGITS": "9" * 5000,
    }
    for case in cases.values():
        for word, line in words.items():
            case["content"] = case.get("content", "").replace(word, line)
    return cases
