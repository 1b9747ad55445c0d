"""Where the numbers of a report come from: plan, versions, models, and hashes of every file."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FILES = 60
"""Most device and kernel files whose hashes are listed; the plan names all of them."""


def provenance(record: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return HTML about how results were made.

    Parameters
    ----------
    record : mapping
        The root record of a store, or what a run of the plan would record.
    run : mapping
        When the store was ``created`` and ``finished``; empty for a plan that was not run.
    """
    if "measured" in record:
        return paragraph(f"Measured times, from {', '.join(map(str, record['measured']))}.")
    if not record:
        return paragraph("The results have no record of how they were made.")
    identity, plan = record["identity"], record["plan"]
    facts = [
        ("plan", str(plan["name"])),
        ("hash of the plan", str(identity["plan"])),
        ("variant of the models", str(plan["variant"])),
        ("sweep", str(identity["sweep_version"])),
        ("run", _when(run)),
        ("packages", ", ".join(f"{name} {v}" for name, v in record["versions"].items())),
    ]
    models = [
        (name, model["reference"], model["doi"], ", ".join(model["errata"]) or "none")
        for name, model in record["models"].items()
    ]
    files = [
        (kind.removesuffix("s"), key, sha256)
        for kind in ("kernels", "devices")
        for key, sha256 in identity[kind].items()
    ]
    more = len(files) - FILES
    text = json.dumps(plan, indent=1, default=str)
    return "\n".join(
        [
            rows_of((), facts),
            "<h3>Models</h3>",
            rows_of(("model", "reference", "DOI", "errata and revisions that act"), models),
            "<h3>Files</h3>",
            rows_of(("kind", "key", "SHA-256"), files[:FILES]),
            paragraph(f"{more:,} further files are in the store's record.") if more > 0 else "",
            f"<details><summary>The plan</summary><pre>{html.escape(text)}</pre></details>",
        ]
    )


def _when(run: Mapping[str, Any]) -> str:
    if not run:
        return "none: the plan was evaluated for this report"
    created, finished = f"created {run.get('created')}", run.get("finished")
    return f"{created}, finished {finished}" if finished else f"{created}, unfinished"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; nothing for an empty text."""
    opening = f'<p class="{kind}">' if kind else "<p>"
    return f"{opening}{html.escape(text)}</p>" if text else ""


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    lines = [_cells("th", heads)] if heads else []
    lines += [_cells("td", row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table>{body}</table></div>'


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(str(text))}</{tag}>" for text in texts)
