# ruff: noqa: N803
"""Kernels in Triton: of its tutorials 06, 02, 05 and 03, FlexAttention, and the experts of vLLM."""

import triton
import triton.language as tl


@triton.jit
def described(x, shape, strides, tile: tl.constexpr):
    if isinstance(x, tl.tensor_descriptor):
        return x
    else:
        return tl.make_tensor_descriptor(x, shape, strides, tile)


@triton.jit
def over_keys(state, q, keys, values, at, begin, end, first_row, scale,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, masked: tl.constexpr,
              special: tl.constexpr):  # fmt: skip
    sums, total, top = state
    rows = first_row + tl.arange(0, BLOCK_M)
    for start in tl.range(begin, end, BLOCK_N, warp_specialize=special):
        start = tl.multiple_of(start, BLOCK_N)
        scores = tl.dot(q, keys.load([at + start, 0]).T)
        if masked:
            columns = start + tl.arange(0, BLOCK_N)
            seen = rows[:, None] >= columns[None, :]
            scores = scores * scale + tl.where(seen, 0, -1.0e6)
            higher = tl.maximum(top, tl.max(scores, 1))
            scores -= higher[:, None]
        else:
            higher = tl.maximum(top, tl.max(scores, 1) * scale)
            scores = scores * scale - higher[:, None]
        weights = tl.math.exp2(scores)
        shrunk = tl.math.exp2(top - higher)
        more = tl.sum(weights, 1)
        if special and BLOCK_M == 128 and sums.shape[1] == 128:
            left, right = sums.reshape([128, 2, 64]).permute(0, 2, 1).split()
            sums = tl.join(left * shrunk[:, None], right * shrunk[:, None])
            sums = sums.permute(0, 2, 1).reshape([128, 128])
        else:
            sums = sums * shrunk[:, None]
        if values.dtype == tl.float8e5:
            v = values.load([0, at + start]).T
        else:
            v = values.load([at + start, 0])
        sums = tl.dot(weights.to(v.dtype), v, sums)
        total = total * shrunk + more
        top = higher
    return sums, total, top


@triton.jit
def flash_attention(q, k, v, out, logs, scale, batch, heads, sequence,
                    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    causal: tl.constexpr, special: tl.constexpr):  # fmt: skip
    first_row = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    length = batch * heads * sequence
    q = described(q, [length, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    k = described(k, [length, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    if v.dtype == tl.float8e5:
        v = described(v, [HEAD, length], [sequence, 1], [HEAD, BLOCK_N])
    else:
        v = described(v, [length, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    out = described(out, [length, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    at = head // heads * (sequence * heads) + head % heads * sequence
    scale *= 1.44269504
    top = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], tl.float32) + 1.0
    state = tl.zeros([BLOCK_M, HEAD], tl.float32), total, top
    tile = q.load([at + first_row, 0])
    unmasked = first_row if causal else sequence
    state = over_keys(state, tile, k, v, at, 0, unmasked, first_row, scale, BLOCK_M, BLOCK_N,
                      False, special)  # fmt: skip
    if causal:
        begin = tl.multiple_of(first_row, BLOCK_M)
        end = first_row + BLOCK_M
        state = over_keys(state, tile, k, v, at, begin, end, first_row, scale, BLOCK_M, BLOCK_N,
                          True, special)  # fmt: skip
    sums, total, top = state
    tl.store(logs + head * sequence + first_row + tl.arange(0, BLOCK_M), top + tl.math.log2(total))
    out.store([at + first_row, 0], (sums / total[:, None]).to(out.dtype))


@triton.jit
def to_next_block(step, blocks, count, BLOCK: tl.constexpr, STEPS: tl.constexpr,
                  BLOCK_N: tl.constexpr):  # fmt: skip
    at = step // STEPS
    this = tl.load(blocks + at, eviction_policy="evict_last")
    following = tl.load(blocks + at + 1, eviction_policy="evict_last", mask=at + 1 < count)
    is_last = (step + 1) % STEPS == 0
    return ((following - this) * BLOCK - (STEPS - 1) * BLOCK_N) * is_last + (1 - is_last) * BLOCK_N


@triton.jit
def over_blocks(state, q, keys, values, first_row, counts, blocks, row, scale,
                SEQUENCE: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, masked: tl.constexpr):  # fmt: skip
    sums, total, top = state
    blocks += row * (SEQUENCE // BLOCK)
    begin, count = tl.load(blocks) * BLOCK, tl.load(counts + row)
    end = tl.minimum(count * (BLOCK // BLOCK_N), tl.maximum(tl.cdiv(SEQUENCE, BLOCK_N), 1))
    inner = tl.arange(0, HEAD)
    rows = (first_row + tl.arange(0, BLOCK_M))[:, None]
    columns = (begin + tl.arange(0, BLOCK_N))[None, :]
    moved = 0
    for step in range(0, end):
        at = begin + moved + tl.arange(0, BLOCK_N)
        k = tl.load(keys + at[:, None] * HEAD + inner[None, :])
        scores = tl.dot(q, tl.trans(k)) * scale
        if masked:
            scores = tl.where(rows >= columns, scores, float("-inf"))
        scores *= 1.44269504
        higher = tl.maximum(top, tl.max(scores, 1))
        finite = tl.where(higher == float("-inf"), 0, higher)
        shrunk = tl.math.exp2(top - finite)
        weights = tl.math.exp2(scores - finite[:, None])
        total = total * shrunk + tl.sum(weights, 1)
        sums = sums * shrunk[:, None]
        v = tl.load(values + at[:, None] * HEAD + inner[None, :])
        sums = tl.dot(weights.to(q.dtype), v, sums)
        top = higher
        offset = to_next_block(step, blocks, count, BLOCK, BLOCK // BLOCK_N, BLOCK_N)
        columns = columns + offset
        moved += offset
    return sums, total, top


@triton.jit
def flex_attention(q, k, v, out, counts, blocks, full_counts, full_blocks, scale,
                   HEADS: tl.constexpr, SEQUENCE: tl.constexpr, BLOCK: tl.constexpr,
                   HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   causal: tl.constexpr):  # fmt: skip
    at = (tl.program_id(1) * HEADS + tl.program_id(2)) * SEQUENCE * HEAD
    first_row = tl.program_id(0) * BLOCK_M
    rows, inner = first_row + tl.arange(0, BLOCK_M), tl.arange(0, HEAD)
    top = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], tl.float32)
    state = tl.zeros([BLOCK_M, HEAD], tl.float32), total, top
    tile = tl.load(q + at + rows[:, None] * HEAD + inner[None, :])
    row = tl.program_id(0) // (BLOCK // BLOCK_M) if causal else 0
    state = over_blocks(state, tile, k + at, v + at, first_row, counts, blocks, row, scale,
                        SEQUENCE, HEAD, BLOCK, BLOCK_M, BLOCK_N, causal)  # fmt: skip
    if causal:
        state = over_blocks(state, tile, k + at, v + at, first_row, full_counts, full_blocks, row,
                            scale, SEQUENCE, HEAD, BLOCK, BLOCK_M, BLOCK_N, False)  # fmt: skip
    sums, total, top = state
    sums = sums / tl.where(total == 0.0, 1, total)[:, None]
    tl.store(out + at + rows[:, None] * HEAD + inner[None, :], sums.to(out.dtype.element_ty))


@triton.jit
def softmax(y, x, x_stride, y_stride, rows, columns, BLOCK: tl.constexpr, stages: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=stages):
        given = lanes < columns
        values = tl.load(x + row * x_stride + lanes, mask=given, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(y + row * y_stride + lanes, powers / tl.sum(powers, axis=0), mask=given)


@triton.jit
def layer_norm(x, y, weights, bias, means, deviations, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    sums = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / n
    sums = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        value = tl.where(at < n, value - mean, 0.0)
        sums += value * value
    deviation = 1 / tl.sqrt(tl.sum(sums, axis=0) / n + eps)
    tl.store(means + row, mean)
    tl.store(deviations + row, deviation)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        w = tl.load(weights + at, mask=at < n)
        b = tl.load(bias + at, mask=at < n)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + at, (value - mean) * deviation * w + b, mask=at < n)


@triton.jit
def matmul(a, b, c, m, n, k, a_rows, a_columns, b_rows, b_columns, c_rows,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    columns = tl.cdiv(n, BLOCK_N)
    first = block // (GROUP_M * columns) * GROUP_M
    height = min(tl.cdiv(m, BLOCK_M) - first, GROUP_M)
    in_group = block % (GROUP_M * columns)
    row = (first + in_group % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = in_group // height * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a += (row % m)[:, None] * a_rows + inner[None, :] * a_columns
    b += inner[:, None] * b_rows + (column % n)[None, :] * b_columns
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else (
        tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32)  # fmt: skip
    sums = tl.zeros((BLOCK_M, BLOCK_N), kind)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        left = k - step * BLOCK_K
        x = tl.load(a, mask=inner[None, :] < left, other=0.0)
        y = tl.load(b, mask=inner[:, None] < left, other=0.0)
        sums = tl.dot(x, y, sums)
        a += BLOCK_K * a_columns
        b += BLOCK_K * b_rows
    given = (row < m)[:, None] & (column < n)[None, :]
    c += row[:, None] * c_rows + column[None, :]
    tl.store(c, sums.to(c.dtype.element_ty), mask=given)


@triton.jit
def moe(a, b, c, pair_of, expert_of, used, n, k, rows, pairs, a_rows, b_experts, b_columns, c_rows,
        a_scales, b_scales, a_scale_rows, b_scale_experts, b_scale_columns,
        TOPK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
        GROUP_M: tl.constexpr, QUANT: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    columns = tl.cdiv(n, BLOCK_N)
    first = block // (GROUP_M * columns) * GROUP_M
    height = min(tl.cdiv(rows, BLOCK_M) - first, GROUP_M)
    in_group = block % (GROUP_M * columns)
    row, at = first + in_group % height, in_group // height
    if row * BLOCK_M >= tl.load(used):
        return
    pair = tl.load(pair_of + row * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)).to(tl.int64)
    given = pair < pairs
    expert = tl.load(expert_of + row).to(tl.int64)
    c += c_rows * pair[:, None] + (at * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    given_c = given[:, None] & (at * BLOCK_N + tl.arange(0, BLOCK_N) < n)[None, :]
    if expert == -1:
        tl.store(c, tl.zeros((BLOCK_M, BLOCK_N), c.dtype.element_ty), mask=given_c)
        return
    column = (at * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % n
    inner = tl.arange(0, BLOCK_K)
    a += (pair // TOPK * a_rows)[:, None] + inner[None, :]
    b += expert * b_experts + (inner[:, None] + (column * b_columns)[None, :])
    if QUANT > 0:  # a scale for each token and each 128 x 128 weights
        a_scales += pair // TOPK * a_scale_rows
        b_scales += expert * b_scale_experts + column // QUANT * b_scale_columns
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        left = k - step * BLOCK_K
        x = tl.load(a, mask=given[:, None] & (inner[None, :] < left), other=0.0)
        y = tl.load(b, mask=inner[:, None] < left, other=0.0)
        if QUANT > 0:
            part = step * BLOCK_K // QUANT
            of_x = tl.load(a_scales + part, mask=given, other=0.0)
            sums += tl.dot(x, y) * of_x[:, None] * tl.load(b_scales + part)[None, :]
        elif x.dtype.primitive_bitwidth == 8:  # vLLM lets the units add up in 8 bits
            sums = tl.dot(x, y, acc=sums)
        else:
            sums += tl.dot(x, y)
        a += BLOCK_K
        b += BLOCK_K
    tl.store(c, sums.to(c.dtype.element_ty), mask=given_c)
