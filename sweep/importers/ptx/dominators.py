"""Dominators by the algorithm of Lengauer & Tarjan (1979), without recursion."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["dominator_tree"]


def dominator_tree(
    order: Sequence[int],
    rank: Sequence[int],
    successors: Sequence[Sequence[int]],
    predecessors: Sequence[Sequence[int]],
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the immediate dominator of every node, and its interval in the dominator tree.

    Parameters
    ----------
    order : sequence of int
        The nodes that can be reached; the first is the root.
    rank : sequence of int
        -1 for nodes that cannot be reached.
    successors, predecessors : sequence of sequence of int
        The edges, by node.

    Returns
    -------
    idom : list of int
        Immediate dominators; -1 for the root and for what cannot be reached.
    spans : list of (int, int)
        One node dominates another if its interval holds the begin of the other's; (-1, -1) for
        what cannot be reached.
    """
    root = order[0]
    vertex, parent = _depth_first(root, successors, len(rank))
    number = [-1] * len(rank)
    for place, node in enumerate(vertex):
        number[node] = place
    idom = _immediate(vertex, parent, number, rank, predecessors)
    return idom, _spans(root, vertex, idom)


def _depth_first(
    root: int, successors: Sequence[Sequence[int]], size: int
) -> tuple[list[int], list[int]]:
    """Return the nodes in depth-first preorder and their parents in that tree."""
    parent = [-1] * size
    seen = [False] * size
    seen[root] = True
    vertex = [root]
    stack = [(root, iter(successors[root]))]
    while stack:
        node, rest = stack[-1]
        for following in rest:
            if not seen[following]:
                seen[following] = True
                parent[following] = node
                vertex.append(following)
                stack.append((following, iter(successors[following])))
                break
        else:
            stack.pop()
    return vertex, parent


def _immediate(
    vertex: Sequence[int],
    parent: Sequence[int],
    number: Sequence[int],
    rank: Sequence[int],
    predecessors: Sequence[Sequence[int]],
) -> list[int]:
    size = len(rank)
    semi = list(number)
    ancestor = [-1] * size
    best = list(range(size))
    idom = [-1] * size
    bucket: dict[int, list[int]] = {}

    def evaluate(node: int) -> int:
        """Return the node of least semidominator on the way up to the root of its tree."""
        path = []
        while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
            path.append(node)
            node = ancestor[node]
        top = ancestor[node] if ancestor[node] >= 0 else node
        previous = node
        for lower in reversed(path):  # compress
            if semi[best[previous]] < semi[best[lower]]:
                best[lower] = best[previous]
            ancestor[lower] = top
            previous = lower
        return best[previous]

    for node in reversed(vertex[1:]):
        for before in predecessors[node]:
            if rank[before] >= 0:
                semi[node] = min(semi[node], semi[evaluate(before)])
        bucket.setdefault(vertex[semi[node]], []).append(node)
        above = parent[node]
        ancestor[node] = above
        for other in bucket.pop(above, ()):
            found = evaluate(other)
            idom[other] = found if semi[found] < semi[other] else above
    for node in vertex[1:]:
        if idom[node] != vertex[semi[node]]:
            idom[node] = idom[idom[node]]
    return idom


def _spans(root: int, vertex: Sequence[int], idom: Sequence[int]) -> list[tuple[int, int]]:
    """Return the interval of each node in a preorder of the dominator tree."""
    size = len(idom)
    weight = [1] * size
    for node in reversed(vertex[1:]):  # a dominator comes before what it dominates
        weight[idom[node]] += weight[node]
    begin = [-1] * size
    free = [0] * size
    begin[root], free[root] = 0, 1
    for node in vertex[1:]:
        above = idom[node]
        begin[node] = free[above]
        free[above] += weight[node]
        free[node] = begin[node] + 1
    return [(b, b + w) if b >= 0 else (-1, -1) for b, w in zip(begin, weight, strict=True)]
