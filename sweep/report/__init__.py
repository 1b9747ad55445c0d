"""A report: what results say, in one HTML file that needs no network and no server.

:func:`sweep.report.page.write_report` asks the questions that ``sweep best``, ``pareto``, ``info``
and ``compare-models`` ask, and embeds the answers with the library that draws them.
"""

from __future__ import annotations

from sweep.report.page import write_report

__all__ = ["write_report"]
