"""The charts of a report, as Vega-Lite specifications with their data.

Colours of texts and lines are the page's. Every chart says in its title what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.fields import PARAMETER
from sweep.fronts import spread
from sweep.plot import draw
from sweep.plot.maps import Map
from sweep.query import Answer
from sweep.query.pairing import Paired
from sweep.query.texts import scaled

Chart = dict[str, Any]

GROUPS = 40
"""Most groups that a chart of shares shows."""
PAIRS = 12
"""Most kernels and devices for which models are compared side by side."""
DOTS = 1500
"""Most pairs of predicted and measured times that are drawn."""
CELL = 18.0  # pixels, where there is room
WIDE, HIGH = 420.0, 300.0


def map_chart(shown: Map) -> Chart:
    """Return a heat map with the best marked, invalid cells grey, and the regimes beside it."""
    values = shown.values[np.isfinite(shown.values)].tolist()
    factor, unit = scaled(values, shown.subject.grid.units(shown.variable))
    is_wide = bool(values) and min(values) > 0 and max(values) / min(values) > 10
    scale = {"scheme": "viridis", "reverse": True, "type": "log" if is_wide else "linear"}
    colour = _number("value", f"{draw.words(shown.variable)} [{unit}]", scale=scale)
    best = {
        "transform": [{"filter": "datum.best"}],
        "mark": {"type": "text", "text": "\N{BLACK STAR}", "size": 16, "color": "black"},
    }
    over = [f"smallest over {', '.join(shown.over)}" if shown.over else "nothing else varies"]
    regimes = {str(regime) for regime in shown.regimes.flat if regime}
    if shown.variable != "execution_time":
        regimes = set()
    elif len(regimes) == 1:
        over.append(f"regime {draw.regime_label(min(regimes), shown.subject.model)} everywhere")
    title = f"{draw.words(shown.variable).capitalize()}: {shown.subject.place()}"
    layers = [_cells("isValid(datum.value)", colour), _invalid(), best]
    charts = [_over_axes(shown, title, over, layers)]
    if len(regimes) > 1:
        scale = {"range": list(draw.PALETTE)}
        colour = _name("regime", "regime", scale=scale)
        layers = [_cells("datum.regime != ''", colour), _invalid()]
        charts.append(_over_axes(shown, "Regime of the best", [], layers))
    return {
        "data": {"values": _values(shown, factor)},
        "hconcat": charts,
        "resolve": {"scale": {"color": "independent"}},
    }


def _values(shown: Map, factor: float) -> list[dict[str, Any]]:
    """Return a map's cells; numbers with the digits that colours and tooltips need."""
    model = shown.subject.model
    cells = []
    for (i, j), value in np.ndenumerate(shown.values):
        cell: dict[str, Any] = {"x": shown.x.shown[j], "y": shown.y.shown[i]}
        regime = str(shown.regimes[i, j])
        if np.isfinite(value):
            cell["value"] = float(f"{value / factor:.5g}")
        cell["regime"] = draw.regime_label(regime, model) if regime else ""
        cell["status"] = shown.statuses[i, j]
        if (i, j) == shown.best:
            cell["best"] = True
        cells.append(cell)
    return cells


def _over_axes(shown: Map, title: str, subtitle: list[str], layers: list[Any]) -> Chart:
    """Return layers over a map's two axes."""
    encoding = {
        name: {
            "field": name,
            "type": "ordinal",
            "title": axis.label.removeprefix(f"{PARAMETER} ").split("\n"),
            "scale": {"domain": axis.shown[:: 1 if name == "x" else -1]},
            "axis": {"labelOverlap": True, "labelAngle": 0},
        }
        for name, axis in (("x", shown.x), ("y", shown.y))
    }
    titles = {"x": shown.x.dim, "y": shown.y.dim, "value": shown.variable}
    names = ("x", "y", "value", "regime", "status")
    tooltip = [{"field": name, "title": titles.get(name, name)} for name in names]
    return {
        "title": {"text": title, "subtitle": subtitle},
        "width": min(WIDE, max(CELL * len(shown.x.shown), 160.0)),
        "height": min(HIGH, max(CELL * len(shown.y.shown), 80.0)),
        "encoding": encoding | {"tooltip": tooltip},
        "layer": layers,
    }


def _name(field: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a channel that shows words of the data."""
    return {"field": field, "type": "nominal", "title": title, **more}


def _number(field: str, title: str | None, **more: Any) -> dict[str, Any]:
    """Return a channel that shows numbers of the data."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def _cells(condition: str, colour: Mapping[str, Any]) -> dict[str, Any]:
    encoding = {"color": dict(colour)}
    return {"transform": [{"filter": condition}], "mark": "rect", "encoding": encoding}


def _invalid() -> dict[str, Any]:
    mark = {"type": "rect", "color": draw.GREY, "opacity": 0.35}
    condition = "datum.status != 'valid' && datum.status != ''"
    return {"transform": [{"filter": condition}], "mark": mark}


# ---------------------------------------------------------------------------- shares


def share_chart(summary: Answer, name: str, title: str) -> Chart | None:
    """Return bars of regimes' or statuses' shares for each group of a summary."""
    values = []
    for row in summary.rows[:GROUPS]:
        group = " ".join(str(row[dim]) for dim in summary.coordinates)
        shares = row[name] or {}
        if name == "statuses" and row["points"]:
            shares = {why: count / row["points"] for why, count in shares.items()}
        values += [{"group": group, "what": what, "share": share} for what, share in shares.items()]
    if not values:
        return None
    order = list(dict.fromkeys(value["group"] for value in values))
    kinds = list(dict.fromkeys(value["what"] for value in values))
    is_few = len(kinds) <= len(draw.PALETTE)
    scale = {"range": list(draw.PALETTE)} if is_few else {"scheme": "tableau20"}
    return {
        "title": {"text": title, "subtitle": _first(len(summary), GROUPS, "groups")},
        "width": 480,
        "height": {"step": 18},
        "data": {"values": values},
        "mark": "bar",
        "encoding": {
            "y": _name("group", sort=order, axis={"labelLimit": 260}),
            "x": _number("share", None, axis={"format": "%"}, scale={"domainMax": 1.0}),
            "color": _name("what", legend={"labelLimit": 220}, scale=scale),
            "tooltip": [{"field": "group"}, {"field": "what"},
                        {"field": "share", "format": ".3%"}],
        },
    }  # fmt: skip


def agreement_chart(agreement: Answer) -> Chart:
    """Return the rank correlation of each pair of models, by kernel and device."""
    pairs = list(dict.fromkeys(_place(row) for row in agreement))
    values = [
        {"place": _place(row), "first": row["first"], "second": row["second"],
         "correlation": row["rank_correlation"]}
        for row in agreement if _place(row) in pairs[:PAIRS]
    ]  # fmt: skip
    axes = {"x": _name("second", axis={"labelAngle": 0}), "y": _name("first")}
    colour = _number("correlation", "Spearman", scale={"scheme": "redblue", "domain": [-1, 1]})
    text = {"field": "correlation", "type": "quantitative", "format": ".2f"}
    on_dark = {"test": "abs(datum.correlation) > 0.6", "value": "white"}
    letters = {"text": text, "color": {"condition": on_dark, "value": "black"}}
    layers = [
        {"mark": "rect", "encoding": {"color": colour}},
        {"mark": "text", "encoding": letters},
    ]
    subtitle = _first(len(pairs), PAIRS, "pairs of kernel and device")
    return {
        "title": {"text": "Rank correlation of two models' times", "subtitle": subtitle},
        "data": {"values": values},
        "columns": 3,
        "facet": _name("place", sort=pairs),
        "spec": {"width": {"step": 72}, "height": {"step": 28}, "encoding": axes, "layer": layers},
    }


def sensitivity_chart(sensitivity: Answer) -> Chart:
    """Return how much an unfortunate value of each axis costs, by kernel."""
    values = [
        {"kernel": row["kernel"], "axis": row["axis"], "cost": row["cost_of_worst"],
         "best": row["best_value"], "worst": row["worst_value"]}
        for row in sensitivity if row["cost_of_worst"] is not None
    ]  # fmt: skip
    return {
        "title": "What an axis decides: the best with its worst value, relative to the best of all",
        "data": {"values": values},
        "mark": {"type": "bar", "color": draw.PALETTE[0]},
        "width": 420,
        "height": {"step": 16},
        "encoding": {
            "row": _name("kernel", header={"labelAngle": 0, "labelAlign": "left"}),
            "y": _name("axis", sort="-x"),
            "x": _number("cost", "slower by", axis={"format": "%", "labelSeparation": 6},
                         scale={"type": "symlog", "constant": 0.01}),
            "tooltip": [{"field": name} for name in ("kernel", "axis", "cost", "best", "worst")],
        },
        "resolve": {"scale": {"y": "independent"}},
    }  # fmt: skip


def validation_chart(pairs: Sequence[Paired]) -> Chart:
    """Return predicted against measured times."""
    share = max(1, DOTS // max(len(pairs), 1))
    values: list[dict[str, Any]] = []
    for one in pairs:
        timed = spread(np.flatnonzero(np.isfinite(one.predicted)), share)
        times = zip(one.predicted[timed].tolist(), one.measured[timed].tolist(), strict=True)
        place = f"{one.kernel} {one.device}"
        values += ({"place": place, "model": one.model, "predicted": p, "measured": m}
                   for p, m in times)  # fmt: skip
    scale = {"type": "log", "nice": True}
    axes = {
        channel: _number(name, f"{name} time [s]", scale=scale, axis={"format": "~s"})
        for channel, name in (("x", "measured"), ("y", "predicted"))
    }
    colour = _name("model", "model", scale={"range": list(draw.PALETTE)})
    mark = {"type": "point", "filled": True, "size": 12, "opacity": 0.5}
    spec = {"width": 300, "height": 260, "mark": mark, "encoding": axes | {"color": colour}}
    return {
        "title": f"Predicted against measured times: at most {share} of each model",
        "data": {"values": values},
        "columns": 3,
        "facet": _name("place"),
        "spec": spec,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['kernel']} {row['device']}"


def _first(total: int, most: int, what: str) -> str:
    return f"the first {most} of {total:,} {what}" if total > most else ""
