"""Golden intermediates of both papers' equations, in exact rational arithmetic.

The formulas are written out here a second time, from the papers and their documented errata alone:
nothing of the package is imported. Each case is one column of ``hong_kim_2009.csv`` or
``wang_chu_2017.csv``, each quantity one row; a quantity that a case does not have is empty.

    python tests/support/golden/make_golden.py

writes both files again; a test holds them to this program.
"""

import csv
import io
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path

DIGITS = Context(prec=20)
HERE = Path(__file__).parent
VARIANTS = ("printed", "corrected", "revised")


# --- Hong & Kim 2009 ------------------------------------------------------------------------------

# Table 3 and Table 6.
FX5600 = {"n_sm": 16, "core_freq": "1.35e9", "mem_bandwidth": "76.8e9", "mem_ld": 420,
          "departure_del_uncoal": 10, "departure_del_coal": 4}  # fmt: skip
GTX280 = {"n_sm": 30, "core_freq": "1.3e9", "mem_bandwidth": "141.7e9", "mem_ld": 450,
          "departure_del_uncoal": 40, "departure_del_coal": 4}  # fmt: skip
WARP = {"threads_per_warp": 32, "issue_cycles": 4, "load_bytes_per_warp": 128}


def launch(threads, blocks, active, **counts):
    """Return a launch; counts left out are zero, an uncoalesced access is 32 transactions."""
    given = {"threads_per_block": threads, "blocks": blocks, "active_blocks_per_sm": active}
    zero = {"uncoal_mem_insts": 0, "coal_mem_insts": 0, "synch_insts": 0, "uncoal_per_mw": 32}
    return WARP | zero | given | counts


HONG_KIM = {
    # Table 2: Figure 12 on an invented GPU.
    "figure12": FX5600 | {"core_freq": "1e9", "mem_bandwidth": "80e9"}
    | launch(128, 80, 5, comp_insts=27, uncoal_mem_insts=6, synch_insts=6),
    # Table 5 at 128 threads a block on the FX 5600; active blocks by registers or warps.
    "sepia": FX5600 | launch(128, ceil(7000 * 7000 / 128), 6, comp_insts=71, uncoal_mem_insts=6),
    "linear": FX5600
    | launch(128, ceil(10000 * 10000 / 128), 4, comp_insts=111, uncoal_mem_insts=30),
    "svm": FX5600 | launch(128, ceil(736 * 992 / 128), 6, comp_insts=10871, coal_mem_insts=819),
    "mat_naive": FX5600
    | launch(128, ceil(2000 * 2000 / 128), 6, comp_insts=12043, uncoal_mem_insts=4001),
    "blackscholes": FX5600
    | launch(128, ceil(9000000 / 128), 5, comp_insts=137, uncoal_mem_insts=7),
    # Table 4, 1000 iterations: no memory instructions, and both kinds of loads.
    "mb1": FX5600 | launch(128, 1920, 6, comp_insts=23000),
    "mb6_c": FX5600 | launch(128, 1920, 6, comp_insts=47000, coal_mem_insts=4000),
    "mb6_uc": FX5600 | launch(128, 1920, 6, comp_insts=47000, uncoal_mem_insts=4000),
    "mixed": FX5600
    | launch(192, 1024, 4, comp_insts=300, uncoal_mem_insts=3, coal_mem_insts=9, synch_insts=2,
             uncoal_per_mw=16),
    # (22): two warps; a grid of 20 blocks on 16 SMs (HK-5); MWP below 1 (HK-4).
    "few_warps": FX5600 | launch(64, 48, 1, comp_insts=40, coal_mem_insts=10),
    "part_round": FX5600 | launch(64, 20, 2, comp_insts=40, coal_mem_insts=10),
    "narrow": FX5600 | {"mem_bandwidth": "4e9"}
    | launch(128, 960, 6, comp_insts=40, coal_mem_insts=10, synch_insts=2),
    # HK-1 and HK-3 as models of what goes wrong.
    "hk1": FX5600 | {"core_freq": "1e9", "mem_bandwidth": "80e9"}
    | launch(128, 32, 2, comp_insts=2490, coal_mem_insts=10),
    # MWP below N by the bandwidth (HK-7); barriers that outweigh one access (HK-8).
    "hk7": FX5600 | {"mem_bandwidth": "13e9"}
    | launch(64, 48, 1, comp_insts=40, coal_mem_insts=10),
    "hk8": FX5600 | {"core_freq": "1e9", "mem_bandwidth": "10e9", "departure_del_coal": 40}
    | launch(256, 80, 1, comp_insts=9, coal_mem_insts=1, synch_insts=500),
    "hk3": GTX280 | launch(128, 60, 2, comp_insts=2495, uncoal_mem_insts=5),
}  # fmt: skip


def hong_kim(inputs):
    """Return every quantity of Hong & Kim 2009 for one case."""
    q = {name: Fraction(value) for name, value in inputs.items()}
    q["active_sm"] = min(q["n_sm"], q["blocks"])
    u, c = q["uncoal_mem_insts"], q["coal_mem_insts"]
    q["mem_insts"], q["total_insts"] = u + c, q["comp_insts"] + u + c
    q["comp_cycles"] = q["issue_cycles"] * q["total_insts"]
    q["n"] = q["active_blocks_per_sm"] * ceil(q["threads_per_block"] / q["threads_per_warp"])
    q["rep"] = q["blocks"] / q["active_blocks_per_sm"] / q["active_sm"]
    lone = q["mem_ld"] + q["departure_del_uncoal"] * (q["uncoal_per_mw"] - 1)
    q["mem_l_uncoal"], q["mem_l_coal"] = lone, q["mem_ld"]
    q["mem_cycles"] = lone * u + q["mem_ld"] * c
    if u + c == 0:
        for variant in VARIANTS:
            rep = q["rep"] if variant == "printed" else max(q["rep"], Fraction(1))
            _hong_kim_end(q, variant, 13, q["comp_cycles"] * q["n"] * rep, Fraction(0))
        q["exec_cycles_app_no_memory"] = q["exec_cycles_app"]
        return q
    q["weight_uncoal"], q["weight_coal"] = u / (u + c), c / (u + c)
    q["mem_l"] = q["mem_cycles"] / (u + c)
    q["departure_delay"] = (
        q["departure_del_uncoal"] * q["uncoal_per_mw"] * u + q["departure_del_coal"] * c
    ) / (u + c)
    q["mwp_without_bw_full"] = q["mem_l"] / q["departure_delay"]
    q["mwp_without_bw"] = min(q["mwp_without_bw_full"], q["n"])
    q["bw_per_warp"] = q["core_freq"] * q["load_bytes_per_warp"] / q["mem_l"]
    q["mwp_peak_bw"] = q["mem_bandwidth"] / q["active_sm"] / q["bw_per_warp"]
    q["mwp"] = min(q["mwp_without_bw"], q["mwp_peak_bw"], q["n"])
    q["cwp_full"] = 1 + q["mem_cycles"] / q["comp_cycles"]
    q["cwp"] = min(q["cwp_full"], q["n"])
    q["comp_p"], q["mem_p"] = q["comp_cycles"] / q["mem_insts"], q["mem_l"]
    turns = q["n"] / q["mwp"]
    q["exec_cycles_cwp_greater"] = q["mem_cycles"] * turns + q["comp_p"] * q["mwp"]
    q["exec_cycles_mwp_greater"] = q["mem_p"] + q["comp_cycles"] * q["n"]
    q["exec_cycles_few_warps"] = (q["mem_cycles"] + q["comp_cycles"]) * turns + q["comp_p"] * (
        q["mwp"] - 1
    )
    for variant in VARIANTS:
        _hong_kim_total(q, variant, turns)
    return q


def _hong_kim_total(q, variant, turns):
    corrected = variant != "printed"
    rep = max(q["rep"], Fraction(1)) if corrected else q["rep"]
    overlapped = max(q["mwp"] - 1, Fraction(0)) if corrected else q["mwp"] - 1
    times = {
        10: (q["mem_cycles"] + q["comp_cycles"] + q["comp_p"] * overlapped) * rep,
        11: (q["mem_cycles"] * turns + q["comp_p"] * overlapped) * rep,
        12: (q["mem_l"] + q["comp_cycles"] * q["n"]) * rep,
    }
    if not corrected:  # as printed, what the single equations are held to
        q["overlapped"] = overlapped
        for regime, time in times.items():
            q[f"exec_cycles_app_{regime + 12}"] = time
    if variant == "revised":
        return _hong_kim_revised(q, times, turns, rep)
    if q["mwp"] == q["n"] and q["cwp"] == q["n"]:
        regime = 10
    elif corrected:
        regime = 11 if times[11] >= times[12] else 12
    else:
        regime = 11 if q["cwp"] >= q["mwp"] or q["comp_cycles"] > q["mem_cycles"] else 12
    synch = q["departure_delay"] * overlapped * q["synch_insts"] * q["active_blocks_per_sm"] * rep
    _hong_kim_end(q, variant, regime, times[regime], synch)


def _hong_kim_revised(q, times, turns, rep):
    few = q["cwp"] == q["n"]  # HK-7: whatever MWP is
    times[10] = (q["mem_cycles"] + q["comp_cycles"] + q["comp_p"] * (q["n"] - 1)) * rep
    least = 10 if few else 12
    regime = 11 if times[11] >= times[least] else least
    # HK-8: no less than without the bandwidth's limit.
    barrier = q["departure_delay"] * q["synch_insts"] * q["active_blocks_per_sm"] * rep
    synch = barrier * max(q["mwp"] - 1, Fraction(0))
    mwp = q["mwp_without_bw"]
    free = (q["mem_cycles"] * q["n"] / mwp + q["comp_p"] * max(mwp - 1, Fraction(0))) * rep
    unlimited = max(free, times[least]) + barrier * max(mwp - 1, Fraction(0))
    _hong_kim_end(q, "revised", regime, times[regime], max(synch, unlimited - times[regime]))


def _hong_kim_end(q, variant, regime, time, synch):
    warps = q["threads_per_block"] / q["threads_per_warp"] * q["blocks"] / q["active_sm"]
    if variant == "printed":  # what the single equations are held to
        q["exec_cycles_app"], q["synch_cost"] = time, synch
        q["exec_cycles_with_synch"] = time + synch
        q["cpi"] = time / q["total_insts"] / warps
    q[f"{variant}_regime"] = Fraction(regime)
    q[f"{variant}_synch_cost"] = synch
    q[f"{variant}_total"] = time + synch
    # HK-6: (25) as printed leaves the barriers out.
    timed = time if variant == "printed" else time + synch
    q[f"{variant}_cpi"] = timed / q["total_insts"] / warps


# --- Wang & Chu 2017 ------------------------------------------------------------------------------

GTX980 = {"n_sm": 16, "issue_cycles": "0.25", "inst_latency": 4, "sh_lat": 28, "l2_lat": 222,
          "l2_del": 1, "dm_lat": "500.1", "dm_lat_slope": "222.78",
          "dm_lat_intercept": "277.32"}  # fmt: skip
TABLE_III = {400: "10.06", 500: "9.76", 600: "9.54", 700: "9.31", 800: "9.19", 900: "9.06",
             1000: "9.0"}  # fmt: skip


def kernel(core, memory, aw, wpb, blocks, comp, sectors, outer, *, inner=0, k=4, hits=0):
    """Return one case: clocks [MHz] of Table III, launch, and counts of a warp."""
    return GTX980 | {
        "core_MHz": core, "dm_del": TABLE_III[memory], "frequency_ratio": Fraction(core, memory),
        "aw": aw, "wpb": wpb, "blocks": blocks, "active_sm": min(16, blocks), "comp_inst": comp,
        "gld_trans": sectors, "o_itrs": outer, "i_itrs": inner, "transactions_per_request": k,
        "l2_hr": hits, "uses_shared": int(inner > 0),
    }  # fmt: skip


WANG_CHU = {
    "compute": kernel(700, 700, 32, 4, 1024, 12000, 4, 10),
    "compute_slow": kernel(400, 1000, 32, 4, 1024, 12000, 4, 10),
    "memory": kernel(700, 700, 64, 8, 65536, 40, 12, 1),
    "memory_fast": kernel(1000, 400, 64, 8, 65536, 40, 12, 1),
    "memory_cached": kernel(1000, 500, 64, 8, 4096, 400, 8, 64, hits="0.9"),
    "few_short": kernel(700, 700, 4, 2, 512, 8, 4, 3),
    "few_long": kernel(700, 700, 4, 4, 256, 2000, 4, 5),
    "uncoalesced": kernel(900, 600, 48, 8, 2048, 500, 64, 2, k=32),
    "shared_infrequent": kernel(700, 700, 64, 8, 16384, 60, 32, 1, inner=1),
    "shared_between": kernel(700, 700, 64, 8, 16384, 600, 32, 1, inner=1),
    "shared_intensive": kernel(800, 600, 32, 8, 4096, 60000, 8, 32, inner=64, hits="0.5"),
    "shared_phases": kernel(700, 700, 16, 8, 4096, 6000, 8, 32, inner=64, hits="0.5"),
    "part_round": kernel(700, 700, 16, 8, 20, 32, 4, 4),
    "no_memory": kernel(700, 700, 32, 4, 64, 1000, 0, 1),
}


def wang_chu(inputs):
    """Return every quantity of Wang & Chu 2017 for one case and both variants."""
    q = {name: Fraction(value) for name, value in inputs.items()}
    misses, ratio = 1 - q["l2_hr"], q["frequency_ratio"]
    q["dm_lat_fit"] = q["dm_lat_slope"] * ratio + q["dm_lat_intercept"]
    q["printed_agl_lat"] = q["l2_lat"] * q["l2_hr"] + q["dm_lat"] * ratio * misses
    q["corrected_agl_lat"] = q["l2_lat"] * q["l2_hr"] + q["dm_lat_fit"] * misses
    q["agl_del"] = q["l2_del"] * q["l2_hr"] + q["dm_del"] * ratio * misses
    q["rounds"] = q["wpb"] * q["blocks"] / q["aw"] / q["n_sm"]
    if q["gld_trans"] == 0:
        for variant in ("corrected", "revised"):
            _wang_chu_end(q, variant, 26, q["issue_cycles"] * q["comp_inst"] * q["aw"])
        return q
    _wang_chu_printed(q)
    _wang_chu_corrected(q)
    return q


def _wang_chu_printed(q):
    lat, delay, aw, outer = q["printed_agl_lat"], q["agl_del"], q["aw"], q["o_itrs"]
    comp = q["inst_latency"] * q["comp_inst"] / q["gld_trans"]
    q["printed_avr_comp"] = comp
    if q["uses_shared"]:
        infrequent = comp <= delay and comp + q["sh_lat"] <= delay * (aw - q["wpb"])
        phase2 = comp * (q["wpb"] - 1) + (comp + q["sh_lat"]) * q["i_itrs"]
        phases = _phases(q, lat, comp, delay, phase2)
        time = comp + lat + delay * aw * q["gld_trans"] if infrequent else phases
        return _wang_chu_end(q, "printed", 24 if infrequent else 25, time)
    if comp >= delay and comp * (aw - 1) >= lat:
        return _wang_chu_end(q, "printed", 20, comp * aw * outer + lat)
    if comp <= delay and comp + lat >= delay * (aw - 1):
        return _wang_chu_end(q, "printed", 21, lat + comp + delay * q["wpb"] * outer)
    if comp <= delay:
        first = delay * aw + lat + comp
        return _wang_chu_end(q, "printed", 22, first + (comp + lat) * (outer - 1))
    return _wang_chu_end(q, "printed", 23, comp * (aw - 1) + (comp + lat) * outer)


def _wang_chu_corrected(q):
    lat, aw, k = q["corrected_agl_lat"], q["aw"], q["transactions_per_request"]
    sectors = q["gld_trans"] * q["o_itrs"]
    p, d = sectors / k, k * q["agl_del"]
    c, cl = (q[name] * q["comp_inst"] / p for name in ("issue_cycles", "inst_latency"))
    q["corrected_periods"], q["corrected_d"] = p, d
    q["corrected_avr_comp"], q["corrected_latency_comp"] = c, cl
    times = {20: c * aw * p + lat}
    if q["uses_shared"]:
        times[24] = cl + lat + q["agl_del"] * aw * sectors
        phase2 = c * (q["wpb"] - 1) + (cl + q["sh_lat"]) * q["i_itrs"]
        infrequent = c <= d and c + q["sh_lat"] <= d * (aw - q["wpb"])
        regime = 24 if infrequent else 25
        corrected = times | {25: _phases(q, lat, c, d / k, phase2)}
        # WC-9, WC-11. (16) holds from the border on; aw > wpb in every case.
        border = max(c, (c + q["sh_lat"]) / (aw - q["wpb"]))
        busy = c * (q["wpb"] - 1) + cl * p / q["o_itrs"] + q["sh_lat"] * q["i_itrs"]
        times[25] = _phases(q, lat, c, min(d, border) / k, busy)
    else:
        times[21] = lat + cl + d * aw * p
        times[22] = d * aw + (cl + lat) * p
        times[23] = c * (aw - 1) + (cl + lat) * p
        corrected, covered = times, d * (aw - 1)
        if c >= d:
            regime = 20 if c * (aw - 1) >= lat else 23
        else:
            regime = 21 if cl + lat <= covered else 22
    _wang_chu_end(q, "corrected", regime, corrected[regime])
    time = max(times.values())
    _wang_chu_end(q, "revised", min(r for r, t in times.items() if t == time), time)


def _phases(q, lat, c, delay, phase2):
    load = delay * q["gld_trans"]
    phase1 = c * 2 + load * q["aw"] + lat + q["sh_lat"]
    phase3 = c * 2 + load * q["wpb"] + lat + q["sh_lat"]
    return phase1 + (phase2 + phase3) * q["o_itrs"]


def _wang_chu_end(q, variant, regime, time):
    rounds = q["rounds"] if variant == "printed" else max(q["rounds"], Fraction(1))
    q[f"{variant}_regime"] = Fraction(regime)
    q[f"{variant}_t_active"] = time
    q[f"{variant}_t_exec"] = time * rounds


# --- Files ----------------------------------------------------------------------------------------


def _decimal(value):
    quotient = DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{quotient.normalize(DIGITS):f}" if quotient else "0"


def golden():
    """Return the text of every golden file by its name."""
    texts = {}
    papers = {"hong_kim_2009": (HONG_KIM, hong_kim), "wang_chu_2017": (WANG_CHU, wang_chu)}
    for paper, (cases, compute) in papers.items():
        columns = {case: compute(inputs) for case, inputs in cases.items()}
        names = list(dict.fromkeys(name for column in columns.values() for name in column))
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["quantity", *columns])
        for name in names:
            values = (column.get(name) for column in columns.values())
            rows.writerow([name, *("" if v is None else _decimal(v) for v in values)])
        texts[f"{paper}.csv"] = text.getvalue()
    return texts


if __name__ == "__main__":
    for file_name, text in golden().items():
        (HERE / file_name).write_text(text, encoding="utf-8")
