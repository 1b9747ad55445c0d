"""JSON Schema and a printed table of both file formats.

Editors with a TOML language server use the schema to explain keys and mark errors. Loading a file
also checks what a schema cannot express: cycles, names in expressions, sums over tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweep.errors import SpecError, nearest
from sweep.fields import Parameter
from sweep.hardware.occupancy import compute_capabilities
from sweep.specs.check import is_words
from sweep.specs.formats import (
    AFFINE_KEYS,
    DEVICE_NAMES,
    FORMATS,
    LARGEST_NUMBER,
    SCHEMA_VERSION,
    SOURCE_KINDS,
    Format,
    Key,
    Section,
)
from sweep.specs.names import NAME_PATTERN, RESERVED_DIMENSIONS, RESERVED_NAMES
from sweep.specs.reading import KEY_PATTERN

__all__ = ["format_table", "json_schema"]

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KINDS = "|".join(SOURCE_KINDS)
_SOURCE: Schema = {
    "type": "string",
    "pattern": rf"^\s*({_KINDS})\s*:\s*\S",
    "description": "KIND: REFERENCE",
}
_WORD: Schema = {"type": "string", "pattern": r"\S"}
_NUMBER: Schema = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
_VALUES: Schema = {  # of a tuning parameter
    **{"type": "array", "minItems": 1, "uniqueItems": True},
    "anyOf": [{"items": kind} for kind in (_NUMBER, _WORD, {"type": "boolean"})],
}
_FREE: dict[str, Schema] = {
    "size": {**_NUMBER, "minimum": 0},
    "values": _VALUES,
    "expression": {"type": ["number", "string"]},
}
_MODEL_VALUE: Schema = {"anyOf": [{"type": "number"}, _WORD, {"type": "array", "minItems": 1}]}


def json_schema(
    kind: str, model_parameters: Mapping[str, Sequence[Parameter]] | None = None
) -> Schema:
    """Return the JSON Schema of device or kernel files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``.
    model_parameters : mapping of str to sequence of Parameter, optional
        The declared parameters of each model. If given, the schema describes the ``[model.NAME]``
        tables in full and refuses other models.

    Returns
    -------
    dict
        A schema of draft 2020-12, ready for ``json.dump``.

    Raises
    ------
    SpecError
        There is no such kind of file.
    """
    sections = _format(kind)
    schema: Schema = {"$schema": _DIALECT, "title": f"{kind} file of sweep"} | _object(
        sections[""].keys
    )
    properties = schema["properties"]
    for name, section in sections.items():
        if name:
            properties[name] = _section(section, sections, model_parameters or {})
    properties["schema"] = {"const": SCHEMA_VERSION, "description": "version of the file format"}
    schema["required"] += [name for name, section in sections.items() if name and section.required]
    if kind == "device":
        properties["compute_capability"]["enum"] = list(compute_capabilities())
        schema["allOf"] = _sources_of_optional(sections)
        schema["oneOf"] = [{"required": ["compute_capability"]}, {"required": ["occupancy"]}]
    return schema


def _object(keys: Iterable[Key]) -> Schema:
    """Return the schema of a table of declared keys."""
    keys = list(keys)
    return {
        "type": "object",
        "properties": {key.name: _value(key) for key in keys},
        "required": [key.name for key in keys if key.required],
        "additionalProperties": False,
    }


def _format(kind: str) -> Format:
    if kind not in FORMATS:
        raise SpecError(f"no kind of file '{kind}'{nearest(kind, FORMATS)}: device or kernel")
    return FORMATS[kind]


def _section(
    section: Section, sections: Format, model_parameters: Mapping[str, Sequence[Parameter]]
) -> Schema:
    if section.values == "source":
        body = _sources(sections)
    elif section.values == "model":
        body = _models(model_parameters)
    elif section.values:
        dimension = frozenset() if section.values == "expression" else RESERVED_DIMENSIONS
        taken = {"enum": sorted(RESERVED_NAMES | dimension)}
        names = {"pattern": f"^{NAME_PATTERN}$", "not": taken}
        body = {"type": "object", "propertyNames": names}
        body["additionalProperties"] = _FREE[section.values]
    else:
        body = _keys(section)
    body["description"] = section.meaning
    return {"type": "array", "items": body, "minItems": 1} if section.repeated else body


# ---------------------------------------------------------------------------- tables


def _keys(section: Section) -> Schema:
    body = _object(section.keys)
    together = {key.name: [key.together] for key in section.keys if key.together}
    if together:
        body["dependentRequired"] = together
    if section.name == "instructions":  # all in one, or by class
        body["minProperties"] = 1
        body["if"] = {"required": ["computation"]}
        body["then"] = {"maxProperties": 1}
    if section.name.endswith("_access"):
        affine = _only_with("affine", AFFINE_KEYS) | {"then": {"required": ["x"]}}
        body["allOf"] = [affine, _only_with("measured", ["transactions"])]
    if section.name == "global_access":
        body["allOf"].insert(0, _only_with("strided", ["stride"]))
    if section.name == "shared_access":
        other = {"enum": ["affine", "measured"]}
        body["if"] = {"properties": {"pattern": other}, "required": ["pattern"]}
        body["then"] = {"properties": {"stride": False}}
    return body


def _only_with(pattern: str, keys: Sequence[str]) -> Schema:
    """Return the rule that keys belong to one access pattern, which requires the first of them."""
    return {
        "if": {"properties": {"pattern": {"const": pattern}}, "required": ["pattern"]},
        "then": {"required": [keys[0]]},
        "else": {"properties": {key: False for key in keys}},
    }


def _models(model_parameters: Mapping[str, Sequence[Parameter]]) -> Schema:
    if not model_parameters:
        table = {"type": "object", "additionalProperties": _MODEL_VALUE}
        names = {"pattern": f"^{KEY_PATTERN}$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": table}
    tables = {
        model: _object(replace(Key.from_parameter(p, ""), required=False) for p in parameters)
        for model, parameters in model_parameters.items()
    }
    return {"type": "object", "properties": tables, "additionalProperties": False}


def _sources(sections: Format) -> Schema:
    body: Schema = {"type": "object"}
    if "model" not in sections:  # the author of a kernel file chooses its names
        return body | {"required": ["default"], "additionalProperties": _SOURCE}
    places = [(key, section) for name, section in sections.items() if name for key in section.keys]
    body["properties"] = {path: _SOURCE for path in ("identity", *(key.path for key, _ in places))}
    body["required"] = ["identity"] + [
        key.path for key, section in places if key.required and section.required
    ]
    body["patternProperties"] = {rf"^model\.{KEY_PATTERN}\..+$": _SOURCE}
    body["additionalProperties"] = False
    return body


def _sources_of_optional(sections: Format) -> list[Schema]:
    """Return the rules that an optional value in a file must have a source."""
    return [
        {
            "if": {"properties": {name: {"required": [key.name]}}, "required": [name]},
            "then": {"properties": {"source": {"required": [key.path]}}},
        }
        for name, section in sections.items()
        for key in section.keys
        if name and not (key.required and section.required)
    ]


# ---------------------------------------------------------------------------- values


def _value(key: Key) -> Schema:
    unit = f" [{key.unit.symbol}]" if key.unit is not None else ""
    default = f"; default {key.default}" if key.default else ""
    described: Schema = {"description": f"{key.meaning}{unit}{default}"}
    if key.type in ("number", "integer", "expression"):
        kind = "integer" if key.type == "integer" else "number"
        number = _bounds({"type": kind}, key.minimum, key.maximum)
        other = {"const": 0} if key.zero else _WORD if key.type == "expression" else None
        return described | (number if other is None else {"anyOf": [number, other]})
    if key.type == "choice":
        return described | {"enum": list(key.choices)}
    if key.type == "conditions":
        return described | {"type": "array", "items": _WORD}
    return described | (_rows(key) if key.type == "rows" else _WORD)


def _rows(key: Key) -> Schema:
    cells = [
        {"type": "string"}
        if is_words(column)
        else _bounds({"type": "number", "description": column}, *bounds)
        for column, bounds in zip(key.columns, key.column_ranges, strict=True)
    ]
    row = {"type": "array", "prefixItems": cells, "items": False, "minItems": len(cells)}
    return {"type": "array", "items": row, "minItems": 1}


def _bounds(schema: Schema, minimum: float, maximum: float) -> Schema:
    """Add the finite limits of a range, because JSON has no infinity."""
    if minimum > -math.inf:
        schema["minimum"] = minimum
    if maximum < math.inf:
        schema["maximum"] = maximum
    return schema


# ---------------------------------------------------------------------------- printed

_CHOSEN = {
    "size": "names of your choice, each with a number",
    "values": "names of your choice, each with a list of numbers, words or booleans",
    "expression": "names of your choice, each with a number or an expression",
    "model": "one table [model.NAME] per model; see the models' parameters",
    "source": f'"KIND: REFERENCE" with KIND one of {", ".join(SOURCE_KINDS)}',
}


def format_table(kind: str) -> str:
    """Return a Markdown table of all keys of device or kernel files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``.

    Raises
    ------
    SpecError
        There is no such kind of file.
    """
    lines = ["| key | holds | range | meaning |", "|---|---|---|---|"]
    for section in _format(kind).values():
        lines += (f"| {' | '.join(cells)} |" for cells in _lines(section))
    if kind == "kernel":
        lines += ["", "Names of the device that expressions may use:", ""]
        lines += [f"- `{name}`: {meaning}" for name, meaning in DEVICE_NAMES.items()]
    return "\n".join(lines)


def _lines(section: Section) -> Iterator[tuple[str, str, str, str]]:
    if section.name:
        title = f"**[[{section.name}]]**" if section.repeated else f"**[{section.name}]**"
        need = "table" if section.required else "table, optional"
        chosen = f": {_CHOSEN[section.values]}" if section.values else ""
        yield title, need, "", f"{section.meaning}{chosen}"
    for key in section.keys:
        yield f"`{key.name}`", _holds(key), _range(key), key.meaning


def _holds(key: Key) -> str:
    special = {"integer": "whole number", "choice": "word", "conditions": "list of conditions"}
    text = special.get(key.type, key.type)
    if key.type == "rows":
        text = f"rows [{', '.join(key.columns)}]"
    if key.default:
        return f"{text}, default `{key.default}`"
    return text if key.required else f"{text}, optional"


def _range(key: Key) -> str:
    if key.type in ("number", "integer"):
        return key.range
    if key.type == "expression":
        if key.maximum < 2**50:
            return key.range
        return f"at least {key.minimum:g}" if key.minimum >= 0 else "any"
    return ", ".join(key.choices)
