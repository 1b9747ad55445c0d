"""JSON Schema of both file formats, generated from the definitions that validate them.

Editors with a TOML language server show from it what a key means and mark what is wrong. What no
schema can say (cycles, names that an expression uses, sums over tables) only loading checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.errors import SpecError, nearest
from sweep.fields import Parameter
from sweep.hardware.occupancy import compute_capabilities
from sweep.specs.formats import AFFINE_KEYS, FORMATS, LARGEST_NUMBER, SCHEMA_VERSION, SOURCE_KINDS
from sweep.specs.keys import Key, Section
from sweep.specs.names import NAME_PATTERN, RESERVED_DIMENSIONS, RESERVED_NAMES
from sweep.specs.toml import KEY_PATTERN

__all__ = ["json_schema"]

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SOURCE: Schema = {
    "type": "string",
    "pattern": rf"^\s*({'|'.join(SOURCE_KINDS)})\s*:\s*\S",
    "description": "KIND: REFERENCE",
}
_MODEL_VALUE: Schema = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"\S"},
        {"type": "array", "minItems": 1},
    ]
}


def json_schema(
    kind: str, model_parameters: Mapping[str, Sequence[Parameter]] | None = None
) -> Schema:
    """Return the JSON Schema of device or kernel files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``.
    model_parameters : mapping of str to sequence of Parameter, optional
        Per model, the parameters that it declares; a device's ``[model.NAME]`` tables are then
        described in full, and other models refused.

    Returns
    -------
    dict
        A schema of draft 2020-12, ready for ``json.dump``.

    Raises
    ------
    SpecError
        There is no such kind of file.
    """
    if kind not in FORMATS:
        raise SpecError(f"no kind of file '{kind}'{nearest(kind, FORMATS)}: device or kernel")
    sections = FORMATS[kind]
    properties: Schema = {key.name: _value(key) for key in sections[0].keys}
    for section in sections[1:]:
        properties[section.name] = _section(section, sections, model_parameters or {})
    properties["schema"] = {"const": SCHEMA_VERSION, "description": "version of the file format"}
    if kind == "device":
        properties["compute_capability"]["enum"] = list(compute_capabilities())
    required = [key.name for key in sections[0].keys if key.required]
    required += [section.name for section in sections[1:] if section.required]
    schema: Schema = {
        "$schema": _DIALECT,
        "title": f"{kind} file of sweep",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    if kind == "device":
        schema["allOf"] = _sources_of_optional(sections)
        schema["oneOf"] = [{"required": ["compute_capability"]}, {"required": ["occupancy"]}]
    return schema


def _section(
    section: Section,
    sections: tuple[Section, ...],
    model_parameters: Mapping[str, Sequence[Parameter]],
) -> Schema:
    if section.values == "source":
        body = _sources(sections)
    elif section.values == "model":
        body = _models(model_parameters)
    elif section.values:
        body = _free(section.values)
    else:
        body = _keys(section)
    body["description"] = section.meaning
    if section.repeated:
        return {"type": "array", "items": body, "minItems": 1}
    return body


# ---------------------------------------------------------------------------- tables


def _keys(section: Section) -> Schema:
    body: Schema = {
        "type": "object",
        "properties": {key.name: _value(key) for key in section.keys},
        "required": [key.name for key in section.keys if key.required],
        "additionalProperties": False,
    }
    together = {key.name: [key.together] for key in section.keys if key.together}
    if together:
        body["dependentRequired"] = together
    if section.name == "instructions":  # all in one, or by class
        body["minProperties"] = 1
        body["if"] = {"required": ["computation"]}
        body["then"] = {"maxProperties": 1}
    if section.name == "global_access":
        body["allOf"] = [_only_with("strided", ("stride",), "stride"), _affine(), _measured()]
    if section.name == "shared_access":
        body["allOf"] = [_affine(), _measured()]
        other = {"enum": ["affine", "measured"]}
        body["if"] = {"properties": {"pattern": other}, "required": ["pattern"]}
        body["then"] = {"properties": {"stride": False}}
    return body


def _only_with(pattern: str, keys: Sequence[str], needed: str) -> Schema:
    """Return the rule that keys of an access stand with one pattern only, which needs one."""
    return {
        "if": {"properties": {"pattern": {"const": pattern}}, "required": ["pattern"]},
        "then": {"required": [needed]},
        "else": {"properties": {key: False for key in keys}},
    }


def _affine() -> Schema:
    return _only_with("affine", AFFINE_KEYS, "x")


def _measured() -> Schema:
    return _only_with("measured", ("transactions",), "transactions")


def _free(values: str) -> Schema:
    """Return the schema of a table whose names the author of the file chooses."""
    taken = RESERVED_NAMES if values == "expression" else RESERVED_NAMES | RESERVED_DIMENSIONS
    number: Schema = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
    word: Schema = {"type": "string", "pattern": r"\S"}
    kinds: list[Schema] = [number, word, {"type": "boolean"}]
    item = {
        "size": {**number, "minimum": 0},
        "values": {
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "anyOf": [{"items": kind} for kind in kinds],
        },
        "expression": {"type": ["number", "string"]},
    }[values]
    names = {"pattern": f"^{NAME_PATTERN}$", "not": {"enum": sorted(taken)}}
    return {"type": "object", "propertyNames": names, "additionalProperties": item}


def _models(model_parameters: Mapping[str, Sequence[Parameter]]) -> Schema:
    if not model_parameters:
        table = {"type": "object", "additionalProperties": _MODEL_VALUE}
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{KEY_PATTERN}$"},
            "additionalProperties": table,
        }
    tables: Schema = {}
    for model, parameters in model_parameters.items():
        keys = [Key.from_parameter(parameter, f"model.{model}") for parameter in parameters]
        tables[model] = {
            "type": "object",
            "properties": {key.name: _value(key) for key in keys},
            "additionalProperties": False,
        }
    return {"type": "object", "properties": tables, "additionalProperties": False}


def _sources(sections: tuple[Section, ...]) -> Schema:
    body: Schema = {"type": "object"}
    paths = [(key.path, key, section) for section in sections[1:] for key in section.keys]
    if not any(section.values == "model" for section in sections):  # a kernel's names are free
        return body | {"required": ["default"], "additionalProperties": _SOURCE}
    body["properties"] = {path: _SOURCE for path in ("identity", *(path for path, *_ in paths))}
    body["required"] = ["identity"] + [
        path for path, key, section in paths if key.required and section.required
    ]
    body["patternProperties"] = {rf"^model\.{KEY_PATTERN}\..+$": _SOURCE}
    body["additionalProperties"] = False
    return body


def _sources_of_optional(sections: tuple[Section, ...]) -> list[Schema]:
    """Return the rules by which an optional value, where it is given, must have its source."""
    return [
        {
            "if": {
                "properties": {section.name: {"required": [key.name]}},
                "required": [section.name],
            },
            "then": {"properties": {"source": {"required": [key.path]}}},
        }
        for section in sections[1:]
        for key in section.keys
        if not (key.required and section.required)
    ]


# ---------------------------------------------------------------------------- values


def _value(key: Key) -> Schema:
    unit = f" [{key.unit.symbol}]" if key.unit is not None else ""
    default = f"; default {key.default}" if key.default else ""
    described: Schema = {"description": f"{key.meaning}{unit}{default}"}
    if key.type in ("number", "integer", "expression"):
        number = _bounds({"type": "number" if key.type != "integer" else "integer"},
                         key.minimum, key.maximum)  # fmt: skip
        if key.zero:
            return described | {"anyOf": [{"const": 0}, number]}
        if key.type == "expression":
            return described | {"anyOf": [number, {"type": "string", "pattern": r"\S"}]}
        return described | number
    if key.type == "choice":
        return described | {"enum": list(key.choices)}
    if key.type == "conditions":
        return described | {"type": "array", "items": {"type": "string", "pattern": r"\S"}}
    if key.type == "rows":
        return described | _rows(key)
    return described | {"type": "string", "pattern": r"\S"}


def _rows(key: Key) -> Schema:
    cells = [
        {"type": "string"}
        if column == "name" or column.endswith("_name")
        else _bounds({"type": "number", "description": column}, *bounds)
        for column, bounds in zip(key.columns, key.column_ranges, strict=True)
    ]
    row = {"type": "array", "prefixItems": cells, "items": False, "minItems": len(cells)}
    return {"type": "array", "items": row, "minItems": 1}


def _bounds(schema: Schema, minimum: float, maximum: float) -> Schema:
    """Add the limits of a range; JSON has no infinity."""
    if minimum > -math.inf:
        schema["minimum"] = minimum
    if maximum < math.inf:
        schema["maximum"] = maximum
    return schema
