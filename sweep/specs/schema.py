"""JSON Schema and a printed table of the file formats.

Editors with a TOML language server use the schema to explain keys and mark errors. Loading a file
also checks what a schema cannot express: cycles, names in expressions, sums over tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sweep.errors import SpecError, nearest
from sweep.fields import Parameter
from sweep.hardware.occupancy_limits import compute_capabilities
from sweep.specs.formats import (
    DEVICE_NAMES,
    FORMATS,
    LARGEST_NUMBER,
    PLAN,
    SCHEMA_VERSION,
    SOURCE_KINDS,
    Format,
    Key,
    Section,
)
from sweep.specs.names import NAME_PATTERN, RESERVED_DIMENSIONS, RESERVED_NAMES
from sweep.specs.reading import KEY_PATTERN

Schema = dict[str, Any]

_SOURCE: Schema = {
    "type": "string",
    "pattern": rf"^\s*({'|'.join(SOURCE_KINDS)})\s*:\s*\S",
    "description": "KIND: REFERENCE",
}
_WORD: Schema = {"type": "string", "pattern": r"\S"}
_NUMBER: Schema = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
_LIST: Schema = {"type": "array", "minItems": 1}
_CASES: Schema = _LIST | {"minItems": 2, "items": {"type": ["number", "string"]}}
_VALUES = [{"items": kind} for kind in (_NUMBER, _WORD, {"type": "boolean"})]
_FREE: dict[str, Schema] = {
    "size": {**_NUMBER, "minimum": 0},
    "values": {**_LIST, "uniqueItems": True, "anyOf": _VALUES},
    "expression": {"anyOf": [{"type": ["number", "string"]}, _CASES]},
}
_AXIS: Schema = {
    "anyOf": [
        _FREE["values"],
        _NUMBER,
        _WORD,
        {"type": "boolean"},
        {
            "type": "object",
            "properties": dict.fromkeys(("start", "stop", "step"), _NUMBER),
            "required": ["start", "stop", "step"],
            "additionalProperties": False,
        },
    ]
}
_ROW: Schema = {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean"]}}
_OF_PLAN: dict[str, Schema] = {
    "axis": _AXIS,
    "axes": {"type": "object", "additionalProperties": _AXIS},
    "columns": {**_LIST, "anyOf": _VALUES},
    "options": {"type": "object", "additionalProperties": _WORD},
}
_MODEL_VALUE: Schema = {"anyOf": [{"type": "number"}, _WORD, _LIST]}


def json_schema(
    kind: str, model_parameters: Mapping[str, Sequence[Parameter]] | None = None
) -> Schema:
    """Return the JSON Schema of device files, kernel files or plans.

    Parameters
    ----------
    kind : str
        ``device``, ``kernel`` or ``plan``.
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
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema: Schema = {"$schema": dialect, "title": f"{kind} file of sweep"}
    schema |= _object(sections[""].keys)
    properties = schema["properties"]
    for name, section in list(sections.items())[1:]:
        properties[name] = _section(section, sections, model_parameters or {})
        schema["required"] += [name] * section.required
    properties["schema"] = {"const": SCHEMA_VERSION, "description": "version of the file format"}
    if kind == "device":
        properties["compute_capability"]["enum"] = list(compute_capabilities())
        schema["allOf"] = _sources_of_optional(sections)
        schema["oneOf"] = [{"required": ["compute_capability"]}, {"required": ["occupancy"]}]
    return schema


def _format(kind: str) -> Format:
    formats = {**FORMATS, "plan": PLAN}
    if kind not in formats:
        raise SpecError(f"no kind of file '{kind}'{nearest(kind, formats)}: {', '.join(formats)}")
    return formats[kind]


def _object(keys: Iterable[Key]) -> Schema:
    """Return the schema of a table of declared keys."""
    keys = list(keys)
    return {
        "type": "object",
        "properties": {key.name: _value(key) for key in keys},
        "required": [key.name for key in keys if key.required],
        "additionalProperties": False,
    }


# ---------------------------------------------------------------------------- tables


def _section(
    section: Section, sections: Format, model_parameters: Mapping[str, Sequence[Parameter]]
) -> Schema:
    if section.values == "source":
        body = _sources(section, sections)
    elif section.values == "deviation":
        body = _mapping({"type": "number", "minimum": 0})
    elif section.values == "model":
        body = _models(model_parameters)
    elif section.values in _OF_PLAN:
        body = _mapping(_OF_PLAN[section.values])
        if section.values == "columns":  # or rows, or a path
            body = {"anyOf": [body, _LIST | {"items": _ROW}, _WORD]}
    elif section.values:
        dimension = frozenset() if section.values == "expression" else RESERVED_DIMENSIONS
        taken = {"enum": sorted(RESERVED_NAMES | dimension)}
        names = {"pattern": f"^{NAME_PATTERN}$", "not": taken}
        body = _mapping(_FREE[section.values], propertyNames=names)
    else:
        together = {key.name: [key.together] for key in section.keys if key.together}
        body = _object(section.keys) | {"dependentRequired": together}
        body |= {"allOf": rules} if (rules := _patterns(section)) else {}
    if section.name == "instructions":  # one number, or a number by class
        body |= {"minProperties": 1, "if": {"required": ["computation"]}}
        body["then"] = {"maxProperties": 1}
    body["description"] = section.meaning
    return _LIST | {"items": body} if section.repeated else body


def _mapping(values: Any, **more: Any) -> Schema:
    """Return the schema of a table whose names are its author's."""
    return {"type": "object", "additionalProperties": values, **more}


def _patterns(section: Section) -> list[Schema]:
    """Return the rule for each access pattern that keys belong to."""
    rules = []
    chosen = next((key.default for key in section.keys if key.name == "pattern"), "")
    for pattern in dict.fromkeys(key.pattern for key in section.keys if key.pattern):
        own = [key for key in section.keys if key.pattern == pattern]
        written = [] if pattern == chosen else ["pattern"]
        condition = {"properties": {"pattern": {"const": pattern}}, "required": written}
        needed = {"required": [key.name for key in own if key.needed]}
        others = {"properties": {key.name: False for key in own}}
        rules.append({"if": condition, "then": needed, "else": others})
    return rules


def _models(model_parameters: Mapping[str, Sequence[Parameter]]) -> Schema:
    if not model_parameters:
        return _mapping(_mapping(_MODEL_VALUE), propertyNames={"pattern": f"^{KEY_PATTERN}$"})
    tables = {
        model: _object(Key.from_parameter(parameter, "") for parameter in parameters)
        for model, parameters in model_parameters.items()
    }
    return _mapping(False, properties=tables)


def _sources(section: Section, sections: Format) -> Schema:
    if "model" not in sections:  # the author of a kernel file chooses its names
        return _mapping(_SOURCE, required=[section.whole])
    keys = [key for table in sections.values() if table.name for key in table.keys]
    always = [key.path for key in keys if key.required and sections[key.section].required]
    return _mapping(
        False,
        properties=dict.fromkeys([section.whole, *(key.path for key in keys)], _SOURCE),
        required=[section.whole, *always],
        patternProperties={rf"^model\.{KEY_PATTERN}\..+$": _SOURCE},
    )


def _sources_of_optional(sections: Format) -> list[Schema]:
    """Return the rules that an optional value in a file must have a source."""
    rules = []
    for name, section in list(sections.items())[1:]:
        for key in section.keys:
            written = {"properties": {name: {"required": [key.name]}}, "required": [name]}
            sourced = {"properties": {"source": {"required": [key.path]}}}
            if not (key.required and section.required):
                rules.append({"if": written, "then": sourced})
    return rules


# ---------------------------------------------------------------------------- values


def _value(key: Key) -> Schema:
    unit = f" [{key.unit.symbol}]" if key.unit is not None else ""
    default = f"; default {key.default}" if key.default else ""
    described: Schema = {"description": f"{key.meaning}{unit}{default}"}
    if key.type in ("number", "integer", "expression"):
        number = _bounds(key, {"type": "integer" if key.type == "integer" else "number"})
        others = [_WORD, _CASES] if key.type == "expression" else []
        others = [{"const": 0}] if key.zero else others
        return described | ({"anyOf": [number, *others]} if others else number)
    if key.type == "choice":
        return described | {"enum": list(key.choices)}
    if key.type != "rows":
        kinds: dict[str, Schema] = {
            "conditions": {"type": "array", "items": _WORD},
            "names": _LIST | {"items": _WORD, "uniqueItems": True},
            "switch": {"type": "boolean"},
            "place": {"anyOf": [_WORD, {"const": False}]},
        }
        return described | kinds.get(key.type, _WORD)
    cells = [
        {"type": "string"}
        if column.type == "text"
        else _bounds(column, {"type": "number", "description": column.name})
        for column in key.columns
    ]
    row = {"type": "array", "prefixItems": cells, "items": False, "minItems": len(cells)}
    return described | _LIST | {"items": row}


def _bounds(key: Key, schema: Schema) -> Schema:
    """Add the finite limits of a range, because JSON has no infinity."""
    limits = {"minimum": key.minimum, "maximum": key.maximum}
    return schema | {name: limit for name, limit in limits.items() if math.isfinite(limit)}


# ---------------------------------------------------------------------------- printed

_CHOSEN = {
    "size": "names of your choice, each with a number",
    "values": "names of your choice, each with a list of numbers, words or booleans",
    "expression": "names of your choice, each with a number, an expression or a list of cases",
    "model": "one table [model.NAME] per model; see the models' parameters",
    "axis": "names of the kernels' sizes and parameters, and clocks, each with a list, one value or"
    " { start, stop, step } with both ends",
    "axes": "a table of axes by the kernel's name",
    "columns": "names of the kernels' sizes and parameters, each with a list, a value for each row",
    "options": "a table of options by the model's name",
    "deviation": "a number each, in the unit of the value",
    "source": f'"KIND: REFERENCE" with KIND one of {", ".join(SOURCE_KINDS)}',
}
_TYPES = {
    "integer": "whole number",
    "choice": "word",
    "conditions": "list of conditions",
    "names": "list of words",
    "switch": "true or false",
    "place": "path or false",
}


def format_table(kind: str) -> str:
    """Return a Markdown table of all keys of device files, kernel files or plans.

    Parameters
    ----------
    kind : str
        ``device``, ``kernel`` or ``plan``.

    Raises
    ------
    SpecError
        There is no such kind of file.
    """
    lines = ["| key | holds | range | meaning |", "|---|---|---|---|"]
    for section in _format(kind).values():
        lines += (f"| {' | '.join(cells)} |" for cells in _lines(section))
    if kind == "kernel":
        lines += ["", 'An expression may be a list of cases: `["12 if tile < 16", 4]`.']
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
        kind = _TYPES.get(key.type, key.type)
        kind += f" [{', '.join(column.name for column in key.columns)}]" if key.columns else ""
        need = "" if key.required else ", optional"
        need = f", default `{key.default}`" if key.default else need
        yield f"`{key.name}`", f"{kind}{need}", _range(key), key.meaning


def _range(key: Key) -> str:
    if key.type == "expression" and key.maximum >= 2**50:
        return f"at least {key.minimum:g}" if key.minimum >= 0 else "any"
    is_number = key.type in ("number", "integer", "expression")
    return key.range if is_number else ", ".join(key.choices)
