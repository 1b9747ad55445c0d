"""A Triton kernel, its configurations and its signature: what there is to compile.

Triton is imported only where a kernel is read or compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.errors import SweepError, check_known
from sweep.importers.files import read_source
from sweep.importers.tuners.configurations import AMD

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_DEFAULTS: dict[str, Any] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
_NUMBER = r"[iu](?:1|8|16|32|64)|fp(?:16|32|64)|bf16|fp8e[45][a-z0-9]*"
_TYPE = re.compile(rf"((?:\*k?)?(?:{_NUMBER}))(?::(16|1))?")
MOST_WORDS = 160
Config = Mapping[str, Any]
"""A configuration's keyword arguments and `OPTIONS`."""


@dataclass(frozen=True)
class Job:
    """One configuration to compile.

    Attributes
    ----------
    place : str
        ``MODULE:KERNEL``.
    target : str
        Such as ``sm_80``.
    signature : mapping of str to str
        The type of each argument, ``constexpr`` for constants.
    constants : mapping
        Values of the constants.
    divisible : tuple of int
        Positions of the arguments that are multiples of 16.
    options : mapping
        `OPTIONS`.
    key : str
        The hash of all that and of the kernel's source.
    """

    place: str
    target: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any] = field(hash=False)
    divisible: tuple[int, ...]
    options: Mapping[str, Any]
    key: str


def import_triton() -> Any:
    """Return the package.

    Raises
    ------
    SweepError
        It is not installed, or too old.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = importlib.import_module("triton")
            if not hasattr(found, "__version__"):
                raise ImportError("a folder that is called so")
    except ImportError:
        raise SweepError("Triton is not installed: pip install 'kernel-sweep[compilers]'") from None
    if not hasattr(found, "knobs"):
        raise SweepError(f"Triton {found.__version__} is too old: 3.4 or later is needed")
    return found


def attribute_of(place: str) -> Any:
    """Return what ``MODULE:NAME`` names; the module may be a file, ``kernels.py:matmul``.

    Raises
    ------
    SweepError
        There is no such module, or it has no such name.
    """
    module_name, _, name = place.rpartition(":")
    if not (module_name and name):
        raise SweepError(f"'{place}': must be MODULE:NAME, such as kernels.py:matmul_kernel")
    path = Path(module_name)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # the screen is for the kernel file
            if path.suffix == ".py":
                sys.path.insert(0, str(path.parent.absolute()))
                spec = importlib.util.spec_from_file_location(path.stem, path)
                assert spec is not None and spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[path.stem] = module
                spec.loader.exec_module(module)
            else:
                sys.path.insert(0, os.getcwd())
                module = importlib.import_module(module_name)
    except SweepError:
        raise
    except (Exception, SystemExit) as error:
        raise SweepError(f"{module_name}: cannot be imported: {first_line(error)}") from None
    if not hasattr(module, name):
        check_known(name, vars(module), f"{module_name} has no '{name}'", "", SweepError)
    return getattr(module, name)


@dataclass(frozen=True)
class Kernel:
    """A Triton kernel without its decorators.

    Attributes
    ----------
    function : object
        The ``JITFunction``.
    configs : list
        Those of ``@triton.autotune``.
    heuristics : mapping of str to callable
        Those of ``@triton.heuristics``.
    """

    function: Any
    configs: list[Any]
    heuristics: Mapping[str, Callable[[Mapping[str, Any]], Any]]


def kernel_of(place: str) -> Kernel:
    """Return the kernel that ``MODULE:KERNEL`` names.

    Raises
    ------
    SweepError
        It is no kernel.
    """
    import_triton()
    found: Any = attribute_of(place)
    configs: list[Any] = []
    heuristics: dict[str, Any] = {}
    while not hasattr(found, "cache_key"):
        configs = configs or list(getattr(found, "configs", ()))
        if hasattr(found, "values") and isinstance(found.values, dict):
            heuristics |= found.values
        if not hasattr(found, "fn"):
            raise SweepError(f"{place}: is no kernel of @triton.jit")
        found = found.fn
    return Kernel(found, configs, heuristics)


def read_configs(kernel: Kernel, given: str | None) -> list[Config]:
    """Return the configurations: of a JSON file, a list ``MODULE:NAME``, or the kernel's own.

    Raises
    ------
    SweepError
        There are none, or one is no configuration.
    """
    where = given or "the kernel"
    if given and given.endswith(".json"):
        listed = read_source(Path(given)).document
    elif given:
        listed = attribute_of(given)
        listed = listed() if callable(listed) else listed
    else:
        listed = kernel.configs
    if not (isinstance(listed, list | tuple) and listed):
        lacks = "has no @triton.autotune: --configs FILE.json or MODULE:NAME"
        raise SweepError(f"{where} {lacks if not given else 'is no list of configurations'}")
    found: list[Config] = []
    for number, one in enumerate(listed, start=1):
        own = one.all_kwargs() if hasattr(one, "all_kwargs") else one
        if not isinstance(own, dict):
            raise SweepError(f"{where}: configuration {number} is neither an object nor a Config")
        own = {**{k: v for k, v in own.items() if k != "kwargs"}, **own.get("kwargs", {})}
        options = {name: own.get(name, default) for name, default in _DEFAULTS.items()}
        own = {**{k: v for k, v in own.items() if k not in options}, **options}
        if own not in found:
            found.append(own)
    return found


def jobs_of(
    place: str, kernel: Kernel, text: str, configs: Sequence[Config], target: str
) -> list[Job]:
    """Return what is to be compiled.

    Parameters
    ----------
    place : str
        ``MODULE:KERNEL``.
    kernel : Kernel
        The kernel.
    text : str
        The signature, as of Triton's own ``compile.py``: the types of the arguments that no
        configuration sets, in order, such as ``*fp16:16, i32:16, 1``, or each as ``NAME=TYPE``.
        ``:16`` says that a value is a multiple of 16; numbers are constants.
    configs : sequence of mapping
        The configurations.
    target : str
        Such as ``sm_80``.

    Raises
    ------
    SweepError
        The signature does not fit the kernel.
    """
    names = list(kernel.function.arg_names)
    _check(names, configs, target)
    words = _words(text, [n for n in names if n not in configs[0] and n not in kernel.heuristics])
    constexprs = {parameter.name for parameter in kernel.function.params if parameter.is_constexpr}
    types, constants, divisible = {}, {}, []
    for name, word in words.items():
        match = _TYPE.fullmatch(word)
        check_known(name, names, f"--signature {name}: no argument of the kernel", "", SweepError)
        if match is None or match[2] == "1" or name in constexprs:
            constants[name] = _literal(name, "1" if match and match[2] == "1" else word)
        else:
            types[name] = match[1]
            divisible += [names.index(name)] * (match[2] == "16")
    jobs = []
    for config in configs:
        own = {**constants, **{k: v for k, v in config.items() if k not in OPTIONS}}
        pointers = {name: kind for name, kind in types.items() if kind.startswith("*")}
        own |= _heuristics(kernel, {**pointers, **own, **config}, constants)
        lacks = [name for name in names if name not in types and name not in own]
        if lacks:
            what = "a value" if lacks[0] in constexprs else "a type, such as i32:16 or *fp16:16"
            raise SweepError(f"--signature: {lacks[0]} has no type or value: give it {what}")
        signature = {name: types.get(name, "constexpr") for name in names}
        options = {name: config[name] for name in OPTIONS if config[name] is not None}
        parts = [import_triton().__version__, kernel.function.cache_key, target, signature, options]
        parts += [divisible, {name: repr(value) for name, value in own.items()}]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
        jobs.append(Job(place, target, signature, own, tuple(divisible), options, key))
    return jobs


def _check(names: Sequence[str], configs: Sequence[Config], target: str) -> None:
    """Refuse a target that is not NVIDIA's, and configurations with other names than a kernel."""
    if not re.fullmatch(r"sm_[0-9]{2,3}", target):
        amd = "; AMD's machine code is not read, but kernel files such as triton_matmul know it"
        amd *= re.match("(hip:)?gfx", target) is not None
        raise SweepError(f"--target {target}: must be NVIDIA's, such as sm_80 or sm_90{amd}")
    for name in dict.fromkeys(name for config in configs for name in config):
        what = f"configuration: {name} is no argument of the kernel"
        what += f", but an option of AMD's compiler: leave it out for {target}" * (name in AMD)
        check_known(name, [*names, *OPTIONS], what, "", SweepError)


def _words(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the words of a signature by argument."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words and all("=" in word for word in words):
        return dict(tuple(map(str.strip, word.split("=", 1))) for word in words)  # type: ignore[misc]
    if len(words) != len(names):
        raise SweepError(
            f"--signature: {len(words)} words for {len(names)} arguments: {', '.join(names)}"
        )
    return dict(zip(names, words, strict=True))


def _literal(name: str, word: str) -> Any:
    """Return the constant that a word of a signature is."""
    known = {"True": True, "False": False, "None": None}
    if word in known:
        return known[word]
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(word)
    if re.fullmatch(r"[\"'].*[\"']", word):
        return word[1:-1]
    raise SweepError(f"--signature {name}={word}: must be a type such as *fp16:16, or a constant")


def _heuristics(
    kernel: Kernel, known: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what heuristics decide for a configuration; a pointer is its type, not ``None``."""
    found: dict[str, Any] = {}
    for name, decide in kernel.heuristics.items():
        try:
            found[name] = given[name] if name in given else decide({**known, **found})
        except KeyError as error:
            raise SweepError(
                f"--signature: the heuristic of {name} reads {error}: give it a constant"
            ) from None
        except Exception as error:
            why = f"the heuristic of {name} fails ({first_line(error)})"
            raise SweepError(f"--signature: {why}: give {name}=CONSTANT") from None
    return {name: value for name, value in found.items() if name not in OPTIONS}


def first_line(error: BaseException) -> str:
    """Return an error's kind and the first line of its text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:MOST_WORDS]
