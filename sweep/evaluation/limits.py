"""Sizes at which evaluation changes its ways, each with the measurement that chose it.

Times are CPU time of one thread on a busy machine of two cores; differences below 10 % are noise.
"""

from __future__ import annotations

WHOLE_TABLES = 500_000
"""Launches, and clock pairs, up to which the tables of the whole grid are made once."""
# A question with 300 groups takes 0.2 s with them and 1.8 s with tables for each group.

LAUNCHES = 1 << 20
"""Launches, at most, whose tables are made together: bounds the memory of tables."""
# Chunks of vector_add at nominal clocks: a quarter of it takes 20 % longer, four times it 10 %.

BLOCK = 1 << 18
"""Configurations of one call of a pass: bounds the memory of tables spread along inner loops."""
# The time is the same from 2**16 to 2**20; the tables of a block then take 60 MB and not 240.

CLOCKS_FORM = 32
"""Clock pairs from which on the inner loop of a pass runs over the clocks alone."""
# With 9 pairs the loop over clocks takes 1.8 times as long as rows, with 14,641 pairs 0.35 times.

ROW, SHORT_ROW = 2048, 16
"""Inner rows take in whole axes up to ``ROW`` points, and more only if below ``SHORT_ROW``."""
# Thirty tables of 2,048 points are 0.5 MB, which the second level cache holds; eight times as long
# rows take the same time. Below 16 points the loop over rows costs more than the points.

MAX_CHUNKS = 1_000_000
"""Most chunks of a run or a lazy dataset: each has files, and is a task in a scheduler's memory."""

FEW_LAUNCHES, MOST_BOXES = 1000, 64
"""Launches that are looked at first for one that is valid, and how many boxes before giving up."""
# A thousand launches take 24 ms; the number of boxes bounds the wait to seconds (not measured).

LISTED = 1 << 14
"""Single launches whose tables are made together."""
# Of 32,768 best configurations of a product a table each took minutes, lists of them a second.

PIECE = 1 << 24
"""Configurations of a piece of a question over clocks."""
# A piece takes 50 ms, so that threads end together; a quarter as large, the total is the same.

SIZES = 64
"""Values of an axis that decides only the number of blocks, for it to be the inner loop."""
# Over 13,000 sizes that loop takes 0.6 of the time of rows. Any axis as long comes behind one that
# is shorter than SHORT_ROW: with 64 values last in place of 2, NumPy's operations on tables of
# fewer axes take a fifth to a third of the time.

FEW = 1 << 14
"""Configurations of a group below which results are evaluated and sorted, not reduced."""
# A pass costs a group 0.5 ms besides its points; to sort 16,384 numbers takes 0.7 ms.

MOST_KEPT = 10_000
"""Most configurations of a group that a sorted list keeps; more are sorted once."""
# Not measured: an insertion moves half of the list, which is short as long as this fits the cache.

UNCOMPILED = 1 << 22
"""Points of a kernel up to which NumPy evaluates the models, without compilation."""
# A million points of xgemm take 1.4 s of CPU either way, most of it for launches, and compilation 1
# to 2 s before; those of a kernel with one launch 0.4 s and not 0.15. The ten stages of
# cyclic_reduction take 1.8 s, and their compilation 9 s.

ARRAYS = 1 << 15
"""Points that NumPy evaluates at once."""
# Half and twice as many take the same time, an eighth and four times as many up to 1.8 times.

MOST_BYTES = 16 << 30
"""Most bytes of results of one read of a plan; who wants more has forgotten to select."""
