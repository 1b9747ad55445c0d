"""The variant ``printed`` against a second reading of each paper, over many inputs and borders.

Each function is written from the paper's text alone, with arrays over the points, and calls nothing
of the package but the global benchmark of Zhang & Owens, which the paper has as a figure. A third
of the points are made of powers of two, so that cases meet at their borders exactly.
"""

import numpy as np
import pytest

from sweep.models import get_model
from sweep.models import zhang_owens_2011 as zo

POINTS = 900


@pytest.fixture
def draw():
    """Return a generator, and functions for columns of any and of whole numbers.

    A third of each column is made of the given numbers, powers of two as a rule.
    """
    rng = np.random.default_rng(2011)

    def number(low, high, exact):
        column = rng.uniform(low, high, POINTS)
        column[: POINTS // 3] = rng.choice(exact, POINTS // 3)
        return column

    def count(low, high, exact):
        return np.ceil(number(low - 1, high, exact))

    return rng, number, count


def of_model(name, points, sequences=()):
    """Return the results of a model as printed: a column for each, over points one by one."""
    model = get_model(name)
    rows = []
    for k in range(POINTS):
        own = {n: tuple(v[k]) if n in sequences else float(v[k]) for n, v in points.items()}
        rows.append(model.evaluate("printed", own))
    return {field: np.array([row[field] for row in rows], dtype=float) for field in rows[0]}


def same(found, expected):
    """Whether columns agree; a time that is undefined in one is undefined in the other."""
    found, expected = (np.where(np.isfinite(v), v, np.nan) for v in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=0)


def agrees(name, x, printed, *, regimes, ties):
    """Hold a model against a paper's equations; all regimes and enough ties occur."""
    expected, borders = printed(x)
    found = of_model(name, x)
    for field, column in expected.items():
        same(found[field], column)
    assert len(set(expected["regime"])) == regimes
    assert all(border.sum() >= ties for border in borders.values()), borders


def regimes(name, words):
    """Return the codes of a column of regimes' names."""
    codes = get_model(name).regimes
    return np.array([codes[f"{name}_{word}"] for word in words], dtype=float)


# --- Hong & Kim 2009: Section 3.4, (5) to (27) ----------------------------------------------------


def hong_kim(x):
    mem_insts = x["uncoal_mem_insts"] + x["coal_mem_insts"]
    weight_uncoal = x["uncoal_mem_insts"] / mem_insts  # (13)
    weight_coal = x["coal_mem_insts"] / mem_insts  # (14)
    latency_uncoal = x["mem_ld"] + (x["uncoal_per_mw"] - 1) * x["departure_del_uncoal"]  # (10)
    latency = latency_uncoal * weight_uncoal + x["mem_ld"] * weight_coal  # (11), (12)
    delay = (
        x["departure_del_uncoal"] * x["uncoal_per_mw"] * weight_uncoal
        + x["departure_del_coal"] * weight_coal
    )  # (15)
    warps = x["n"]
    per_warp = x["core_freq"] * x["load_bytes_per_warp"] / latency  # (7)
    peak = x["mem_bandwidth"] / (per_warp * x["active_sm"])  # (6)
    mwp = np.minimum.reduce([latency / delay, warps, peak])  # (5), (16), (17)
    memory = latency_uncoal * x["uncoal_mem_insts"] + x["mem_ld"] * x["coal_mem_insts"]  # (18)
    computation = x["issue_cycles"] * (x["comp_insts"] + mem_insts)  # (19)
    cwp = np.minimum((memory + computation) / computation, warps)  # (8), (9)
    rep = x["blocks"] / (x["active_blocks_per_sm"] * x["active_sm"])  # (21)
    period = computation / mem_insts
    first = (mwp == warps) & (cwp == warps)
    second = (cwp >= mwp) | (computation > memory)
    assert (mwp > cwp)[~first & ~second].all()  # the third condition is what the first two leave
    app = rep * np.select(
        [first, second],
        [memory + computation + period * (mwp - 1),  # (22)
         memory * (warps / mwp) + period * (mwp - 1)],  # (23)
        latency + computation * warps,  # (24)
    )  # fmt: skip
    warp_insts = (x["comp_insts"] + mem_insts) * x["threads_per_block"] / 32
    cpi = app / (warp_insts * x["blocks"] / x["active_sm"])  # (25)
    synch = delay * (mwp - 1) * x["synch_insts"] * x["active_blocks_per_sm"] * rep  # (26)
    return {
        "execution_cycles": app + synch,  # (27)
        "cycles_per_instruction": cpi,
        "memory_warp_parallelism": mwp,
        "computation_warp_parallelism": cwp,
        "rounds": rep,
        "synchronisation_cycles": synch,
        "regime": regimes("hong_kim", np.select([first, second], ["eq22", "eq23"], "eq24")),
    }, {"mwp is cwp": (mwp == cwp) & ~first, "only computation": ~first & second & (cwp < mwp),
        "equal cycles": (computation == memory) & ~first}  # fmt: skip


def test_hong_kim__equations_5_to_27(draw):
    rng, number, count = draw
    powers = 2.0 ** np.arange(8)
    sms, blocks = count(1, 130, powers), count(1, 5000, powers)
    active = count(1, 16, powers[:4])
    threads = 32 * count(1, 16, powers[:4])
    kind = rng.integers(0, 3, POINTS)  # coalesced, uncoalesced, both
    accesses = count(1, 50, powers[:5])
    x = {
        "n_sm": sms, "active_sm": np.minimum(sms, blocks), "blocks": blocks,
        "active_blocks_per_sm": active, "threads_per_block": threads, "n": active * threads / 32,
        "threads_per_warp": np.full(POINTS, 32.0),
        "uncoal_mem_insts": np.where(kind != 0, accesses, 0.0),
        "coal_mem_insts": np.where(kind != 1, accesses, 0.0),
        "synch_insts": count(1, 50, powers[:3]) - 1, "uncoal_per_mw": count(1, 32, powers[:6]),
        "load_bytes_per_warp": number(1, 512, powers), "core_freq": number(1e8, 3e9, [2.0**30]),
        "mem_bandwidth": number(1e9, 3e11, 2.0 ** np.arange(30, 38)),
        "mem_ld": number(50, 2000, [256.0, 512.0]),
        "departure_del_uncoal": number(0.1, 100, powers),
        "departure_del_coal": number(0.1, 100, powers), "issue_cycles": number(0.25, 32, [4.0]),
    }  # fmt: skip
    # Whole powers of two as instructions, so that computation and memory meet as well.
    mem = x["uncoal_mem_insts"] + x["coal_mem_insts"]
    few = number(0, 3, [0.0, 1.0, 3.0, 7.0]) * mem
    x["comp_insts"] = np.where(rng.random(POINTS) < 0.5, few, 63.0 * mem + 64.0 * few)
    # MWP = CWP = 9 by the bandwidth: computation of 32 cycles, a latency of 256.
    tie = np.arange(POINTS) < 40
    x["uncoal_mem_insts"] = np.where(tie, 0.0, x["uncoal_mem_insts"])
    per_warp = x["core_freq"] * x["load_bytes_per_warp"] / 256
    bandwidth = 9 * per_warp * x["active_sm"]
    for name, value in {
        "coal_mem_insts": 4.0, "comp_insts": 28.0, "mem_ld": 256.0, "issue_cycles": 4.0,
        "departure_del_coal": 1.0, "mem_bandwidth": bandwidth,
    }.items():  # fmt: skip
        x[name] = np.where(tie, value, x[name])
    agrees("hong_kim", x, hong_kim, regimes=3, ties=5)


# --- Luo & Suda 2011: (1) to (13), period by period -----------------------------------------------


def luo_suda(x):
    """Sum the calculate periods of kernels; c and m have a column for each period."""
    warps, t_mem = x["n_act"], x["t_mem_cycles"] / x["core_freq"]
    p, a, b, c, d, m = (x[name] for name in "pabcdm")
    cpd1 = (c - p) * (warps - b) + a  # (3)
    height = d * (p - c) ** 2  # (5)
    cpd2 = height / (m - 1) * np.sqrt((m - 1) ** 2 - (warps - m) ** 2) + a  # (4)
    cpd = np.minimum(cpd1, cpd2)
    total = np.zeros(POINTS)
    types = {kind: np.zeros(POINTS) for kind in (1, 2, 3, 4)}
    c_before = m_before = np.zeros(POINTS)
    for i in range(x["c_i"].shape[1]):
        c_i, m_i = x["c_i"][:, i], x["m_i"][:, i]
        bandwidth = 32 * x["d_mem"][:, i] / (x["n_trans"][:, i] * t_mem)  # (1)
        mpd = np.minimum(warps, np.floor(x["gpu_bw"] / (warps * x["n_sm"] * bandwidth)))  # (2)
        kind = np.select(
            [(c_before >= m_before) & (c_i >= m_i), (c_before >= m_before) & (c_i < m_i),
             (c_before < m_before) & (c_i >= m_i)], [1, 2, 3], 4,
        )  # fmt: skip
        busy = np.ceil(warps * c_i / cpd)  # (6)
        t_p = np.maximum(
            np.where(m_before > 0, m_before, 1) * np.floor(warps / mpd - 1) - (warps - 1) * c_i, 0
        )  # (10), (12)
        t_c = np.where(
            kind == 2,
            np.maximum(m_i - (warps - 1) * c_i, 0),  # (8), with N_act (LS-1)
            m_i - ((warps - 1) * c_i + t_p),  # (13), whose maximum has one argument
        )
        time = busy + np.where(kind >= 3, t_p, 0) + np.where(kind % 2 == 0, t_c, 0)
        for which, of in types.items():
            of += np.where(kind == which, time, 0)
        total = total + time
        c_before, m_before = c_i, m_i
    return total, cpd, mpd, types


def test_luo_suda__equations_1_to_13(draw):
    rng, number, count = draw
    periods = 3
    small = np.array([1.0, 2.0, 4.0, 64.0, 128.0])

    def columns(low, high, exact):
        return np.stack([number(low, high, exact) for _ in range(periods)], axis=1)

    c_i, m_i = columns(0, 400, small), columns(0, 800, small)
    zero = np.zeros((POINTS, 1))
    ones = np.ones((POINTS, periods))
    x = {
        "n_act": count(1, 66, 2.0 ** np.arange(6)), "n_sm": number(1, 30, [1.0, 8.0, 16.0]),
        "p": rng.uniform(0, 1, POINTS), "core_freq": number(5e8, 2e9, [2.0**30]),
        "gpu_bw": number(1e9, 1e12, 2.0 ** np.arange(30, 40)),
        "t_mem_cycles": number(50, 800, small),
        "c_i": c_i, "m_i": m_i, "c_previous": np.hstack([zero, c_i[:, :-1]]),
        "m_previous": np.hstack([zero, m_i[:, :-1]]), "weight": ones, "moved_previous": ones,
        "d_mem": columns(1, 16, [4.0, 8.0, 16.0]), "n_trans": np.ceil(columns(0, 32, [1.0, 2.0])),
    } | {name: np.full(POINTS, v) for name, v in dict(  # GTX 260, and one round of one SM
        a=3.0, b=11.0, c=0.5, d=80.0, m=32.0, n_thread=32.0, active_sm=1.0, warps_per_block=1.0,
        active_blocks_per_sm=1.0, blocks=1.0, instructions=1.0, warp_bytes=1.0, moved_last=0.0,
    ).items()}  # fmt: skip
    with np.errstate(all="ignore"):
        total, cpd, mpd, types = luo_suda(x)
    sequences = [i.symbol for i in get_model("luo_suda").inputs if i.sequence]
    found = of_model("luo_suda", x, sequences)
    same(found["execution_cycles"], total)
    same(found["computation_parallel_degree"], cpd)
    same(found["memory_parallel_degree"], mpd)
    # Every type occurs, each as the longest of some kernel; (4) has no value beyond 2m - 1 warps.
    longest = np.array([types[kind] for kind in types]).argmax(axis=0)
    defined = np.isfinite(total)
    assert set(longest[defined]) == {0, 1, 2, 3}
    assert (found["regime"] == 30 + longest)[defined].all()
    assert np.isnan(total[x["n_act"] > 63]).all() and (x["n_act"] > 63).any()
    assert (mpd == 0).any() and (total < 0).any()  # LS-2, LS-1: printed all the same
    assert (c_i == m_i).sum() > 50


# --- Wang & Chu 2017: (5) to (21) -----------------------------------------------------------------


def wang_chu(x):
    miss = 1 - x["l2_hr"]
    lat = x["l2_lat"] * x["l2_hr"] + x["dm_lat"] * x["frequency_ratio"] * miss  # (5a)
    delay = x["l2_del"] * x["l2_hr"] + x["dm_del"] * x["frequency_ratio"] * miss  # (5b)
    comp = x["inst_latency"] * (x["comp_inst"] / x["gld_trans"])  # (7)
    aw, wpb, itrs, sh = x["aw"], x["wpb"], x["o_itrs"], x["sh_lat"]
    dominated = (comp >= delay) & (comp * (aw - 1) >= lat)  # (8)
    memory = (comp <= delay) & (comp + lat >= delay * (aw - 1))  # (10)
    few_short = (comp <= delay) & (comp + lat <= delay * (aw - 1))  # (12)
    few_long = (comp >= delay) & (comp * (aw - 1) <= lat)  # (14)
    assert (dominated | memory | few_short | few_long).all()
    infrequent = (comp <= delay) & (comp + sh <= delay * (aw - wpb))  # (16)
    phase1 = comp * 2 + delay * x["gld_trans"] * aw + lat + sh  # (18)
    phase2 = comp * (wpb - 1) + (comp + sh) * x["i_itrs"]  # (19)
    phase3 = comp * 2 + delay * x["gld_trans"] * wpb + lat + sh  # (20)
    shared = x["uses_shared"] == 1
    cases = [
        ("eq17", shared & infrequent, comp + lat + delay * aw * x["gld_trans"]),
        ("eq21", shared, phase1 + (phase2 + phase3) * itrs),
        ("eq9", dominated, comp * aw * itrs + lat),
        ("eq11", memory, lat + comp + delay * wpb * itrs),
        ("eq13", few_short, delay * aw + lat + comp + (comp + lat) * (itrs - 1)),
        ("eq15", few_long, comp * (aw - 1) + (comp + lat) * itrs),
    ]  # the order of the paper decides where two conditions hold
    words, conditions, rounds = zip(*cases, strict=True)
    active = np.select(conditions, rounds)
    borders = {"two at once": dominated & memory, "memory and few": memory & few_short & ~dominated,
               "computation and few": dominated & few_long,
               "shared": shared & (comp + sh == delay * (aw - wpb))}  # fmt: skip
    return {
        "memory_latency": lat,
        "memory_delay": delay,
        "computation_period": comp,
        "round_cycles": active,
        "execution_cycles": active * (wpb * x["blocks"] / (aw * x["n_sm"])),  # (6)
        "regime": regimes("wang_chu", np.select(conditions, words, "")),
    }, borders


def test_wang_chu__equations_5_to_21(draw):
    rng, number, count = draw
    powers = 2.0 ** np.arange(7)
    wpb = count(1, 32, powers[:5])
    exact = np.arange(POINTS) < POINTS // 3
    x = {
        "aw": wpb * count(1, 16, [1.0, 2.0, 3.0, 5.0]), "wpb": wpb,
        "blocks": count(1, 5000, powers), "n_sm": count(1, 130, powers),
        "comp_inst": number(1, 300, [4.0, 16.0, 32.0, 64.0]),
        "gld_trans": number(0.5, 30, [4.0, 8.0]),
        "o_itrs": count(1, 100, [1.0, 4.0]), "i_itrs": count(1, 300, [16.0]),
        "transactions_per_request": count(1, 32, [4.0]), "l2_hr": number(0, 1, [0.0, 0.5, 1.0]),
        "uses_shared": rng.choice([0.0, 1.0], POINTS), "issue_cycles": number(0.2, 4, [1.0]),
        "inst_latency": number(1, 30, [1.0, 4.0]), "sh_lat": number(1, 100, [16.0, 28.0, 32.0]),
        "l2_lat": number(50, 300, [64.0, 128.0, 256.0]), "l2_del": number(0.1, 20, powers[:5]),
        "dm_lat": number(100, 600, [64.0, 128.0]), "dm_del": number(0.1, 60, powers[:6]),
        "dm_lat_slope": np.zeros(POINTS), "dm_lat_intercept": np.zeros(POINTS),
        "uses_fit": np.zeros(POINTS), "frequency_ratio": number(0.4, 2.5, [0.5, 1.0, 2.0]),
    }  # fmt: skip
    x["active_sm"] = np.minimum(x["n_sm"], x["blocks"])
    # Latencies on the borders of (8), (10), (12) and (14) for some of the exact points.
    comp = x["inst_latency"] * x["comp_inst"] / x["gld_trans"]
    for of, at in ((comp, np.arange(POINTS) % 4 == 0), (x["dm_del"], np.arange(POINTS) % 4 == 1)):
        place = exact & at & (x["aw"] > 1)
        x["l2_hr"][place] = 0.0
        x["frequency_ratio"][place] = 1.0
        lat = of * (x["aw"] - 1) - np.where(of is comp, 0.0, comp)
        x["dm_lat"][place] = np.where(lat > 0, lat, 64.0)[place]
    agrees("wang_chu", x, wang_chu, regimes=6, ties=3)


# --- Zhang & Owens 2011: Section 3 ----------------------------------------------------------------


def zhang_owens(x):
    """Return each configuration's time and that of each component, stage by stage where serial."""
    kinds, found = ("i", "ii", "iii", "iv"), []
    for k in range(POINTS):
        own = {name: v[k] for name, v in x.items()}
        warps = own["blocks"] * own["warps_per_block"]
        stages, since = [], np.zeros(4)
        serial = own["active_blocks_per_sm"] == 1
        last = len(own["barriers"]) - 1
        for i, barrier in enumerate(own["barriers"]):
            # "a linear combination of the time spent on each instruction type"
            pipeline = sum(own[f"n_{t}"][i] / own[f"throughput_{t}"][i] for t in kinds) * warps
            shared = own["shared_transactions"][i] * 32 * 4 * warps / own["shared_bandwidth"][i]
            # The benchmark makes as many transactions a thread as one pass of the stage.
            asked = own["global_transactions"][i] / (own["executions"][i] if serial else 1.0)
            since += [pipeline, shared, own["global_bytes"][i] * warps, asked]
            if i == last or (serial and barrier):
                reached = zo.global_bandwidth(
                    own["blocks"], own["threads_per_block"], since[3], own["global_latency"],
                    own["frequency"], own["cluster_count"], own["peak_global"],
                    own["global_share"],
                )  # fmt: skip
                stages.append([since[0], since[1], since[2] / reached])
                since = np.zeros(4)
        times = np.array(stages)
        bound = np.bincount(times.argmax(axis=1), times.max(axis=1), minlength=3).argmax()
        left = np.delete(times, bound, axis=1)  # "if this bottleneck is removed"
        others = [c for c in range(3) if c != bound]
        follows = np.bincount(left.argmax(axis=1), left.max(axis=1), minlength=2).argmax()
        total, rest = times.max(axis=1).sum(), left.max(axis=1).sum()
        found.append([total, *times.sum(axis=0), bound + 1, others[follows] + 1, total / rest,
                      40 + bound + (0 if serial else 3)])  # fmt: skip
    return np.array(found).T


def test_zhang_owens__section_3(draw):
    rng, number, count = draw
    stages = 4

    def columns(low, high):
        return rng.uniform(low, high, (POINTS, stages))

    blocks, warps = count(1, 5000, [30.0]), count(1, 32, [8.0])
    x = {
        "blocks": blocks, "active_blocks_per_sm": count(1, 3, [1.0]), "warps_per_block": warps,
        "active_sm": np.minimum(30, blocks), "number_sm": np.full(POINTS, 30.0),
        "threads_per_block": 32 * warps, "warp_size": np.full(POINTS, 32.0),
        "cluster_count": np.full(POINTS, 10.0), "global_share": np.full(POINTS, 0.85),
        "frequency_measured": np.full(POINTS, 1.48e9), "frequency": np.full(POINTS, 1.48e9),
        "core_clock": number(1e9, 2e9, [2.0**30]), "peak_global": np.full(POINTS, 158.976e9),
        "global_latency": number(50, 800, [512.0]),
        "shared_transactions": columns(0, 1e3), "shared_bandwidth": columns(3e11, 2e12),
        "global_bytes": columns(0, 3e4), "global_transactions": columns(0.1, 64),
        "executions": np.ceil(columns(0, 4)), "barriers": np.round(columns(0, 1)),
    }  # fmt: skip
    for kind, units in (("i", 10.0), ("ii", 8.0), ("iii", 4.0), ("iv", 1.0)):
        x[f"units_{kind}"] = np.full(POINTS, units)
        x[f"n_{kind}"] = columns(0, 300) * units / 8
        x[f"throughput_{kind}"] = columns(1e9, 1.1e10) * units / 8
    total, pipeline, shared, moved, bound, follows, speedup, regime = zhang_owens(x)
    sequences = [i.symbol for i in zo.MODEL.inputs if i.sequence]
    found = of_model("zhang_owens", x, sequences)
    same(found["execution_cycles"], total * x["core_clock"])
    same(found["instruction_pipeline_time"], pipeline)
    same(found["shared_memory_time"], shared)
    same(found["global_memory_time"], moved)
    same(found["bottleneck"], bound)
    same(found["next_bottleneck"], follows)
    same(found["speedup_if_removed"], speedup)
    same(found["regime"], regime)
    assert len(set(regime)) == 6
