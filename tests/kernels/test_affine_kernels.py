"""Kernel files that give affine addresses: the counts follow from block shape and device."""

import tomllib

import jsonschema
import numpy as np
import pytest
from support.launches import launched, space_of
from support.spec_texts import AFFINE, KERNEL, spoilt
from support.warps import affine_bank_conflicts

from sweep import specs
from sweep.evaluation.chunk import evaluate_box
from sweep.fields import STATUS
from sweep.hardware.affine_accesses import Affine, affine_transactions, distinct_blocks
from sweep.hardware.memory_rules import LINE_BYTES, bank_rule_of, rule_of
from sweep.space import Box, Plan

DEVICES = ("gtx_8800", "gtx_280", "gtx_980_paper")
CAPABILITIES = ("1.0", "1.3", "5.2")

FLAT = 'pattern = "affine"\nx = 1\ny = "width"'


def text_of(access=FLAT, shared=FLAT):
    return AFFINE.replace("GLOBAL", access).replace("SHARED", shared)


def launch_of(text):
    return launched("affine", *DEVICES, text=text)


def accesses_of(text):
    workload = launch_of(text).workload
    return workload.global_accesses[0], workload.shared_accesses[0]


def full(array):
    """Return an array over devices, widths, heights and steps."""
    return np.broadcast_to(array, (len(DEVICES), 4, 3, 3, 1, 1))[..., 0, 0]


# Blocks of whole warps, in one row: the words then say all.
ROW = spoilt(text_of("GLOBAL", "SHARED"), "width = [8, 16, 32, 64]", "width = [32, 64, 256]")
ROW = spoilt(spoilt(ROW, "height = [1, 4, 8]\n", ""), "width * height", "width").replace(
    'block_x = "width"\n', ""
)


@pytest.mark.parametrize(("where", "words", "affine"), [
    ("GLOBAL", 'pattern = "coalesced"', "x = 1"), ("GLOBAL", 'pattern = "broadcast"', "x = 0"),
    ("GLOBAL", 'pattern = "strided"\nstride = "step"', 'x = "step"'),
    ("GLOBAL", 'pattern = "uncoalesced"', 'x = "n"'),
    ("GLOBAL", 'pattern = "coalesced"', 'base = "32 * n"\nx = 1'),
    ("GLOBAL", 'pattern = "coalesced"', 'x = "1 if n > 1 else 1 / (n - n)"\nz = "-n"'),
    *(("SHARED", f"stride = {stride}", f"x = {stride}")
      for stride in ("0", "1", '"step"', '"4 * step"', "16", "32", "33")),
])  # fmt: skip
def test_access__as_with_the_words(where, words, affine):
    other = {"GLOBAL": ("SHARED", "stride = 1"), "SHARED": ("GLOBAL", 'pattern = "coalesced"')}
    affine = f'pattern = "affine"\n{affine}'
    left, right = (
        accesses_of(ROW.replace(where, keys).replace(*other[where])) for keys in (words, affine)
    )
    for one, two, names in (
        (left[0], right[0], ("transactions", "sectors", "moved_bytes", "coalesced", "count")),
        (left[1], right[1], ("degree", "count")),
    ):
        for name in names:
            numbers = (np.broadcast_to(getattr(a, name), (3, 3, 3, 1, 1)) for a in (one, two))
            np.testing.assert_array_equal(*numbers, err_msg=name)


def test_global_access__misaligned_is_the_mean_over_bases():
    words = accesses_of(ROW.replace("GLOBAL", 'pattern = "misaligned"').replace("SHARED", ""))[0]
    found = []
    for base in [base for base in range(1, 32) if base != 16]:
        keys = f'pattern = "affine"\nbase = {base}\nx = 1'
        access = accesses_of(ROW.replace("GLOBAL", keys).replace("SHARED", ""))[0]
        found.append(np.broadcast_arrays(access.transactions, access.sectors))
    mean = np.mean(found, axis=0)
    expected = np.broadcast_arrays(words.transactions, words.sectors)
    np.testing.assert_allclose(mean, np.broadcast_to(expected, mean.shape))


def test_affine__counts_follow_from_block_shape_and_device():
    keys = 'pattern = "affine"\nx = "step"\ny = "n"'
    access, shared = accesses_of(text_of(keys, keys))
    for i, j, k, m in np.ndindex(3, 4, 3, 3):
        width, height, step = (8, 16, 32, 64)[j], (1, 4, 8)[k], m + 1
        affine = Affine(0, step, 1000, 0, width, height, width * height)
        cost = affine_transactions(affine, 4, rule_of(CAPABILITIES[i]))
        assert full(access.transactions)[i, j, k, m] == cost.transactions
        assert full(access.moved_bytes)[i, j, k, m] == cost.bytes
        assert full(access.sectors)[i, j, k, m] == cost.sectors
        degree = affine_bank_conflicts(affine, 4, bank_rule_of(CAPABILITIES[i]))
        assert full(shared.degree)[i, j, k, m] == degree


def test_affine__coalesced_is_what_costs_as_much_as_consecutive_words():
    rows = 'pattern = "affine"\nx = "step"\ny = 1024'
    coalesced = full(accesses_of(text_of(rows))[0].coalesced)
    assert not coalesced[:, :, 2, 1:].any()  # steps of 2 and 3, in blocks of whole warps
    by_width = coalesced[:, :, 2, 0]
    # Rows of 8 fill no half-warp; sectors do not care.
    assert by_width.tolist() == [[False, True, True, True]] * 2 + [[True] * 4]


def test_affine__width_of_words():
    wide = text_of(FLAT, 'bytes = 8\npattern = "affine"\nx = 1\ny = "width"')
    degree = full(accesses_of(wide)[1].degree)
    warps = degree[:, 2]
    assert (warps[:2] == 2).all() and (warps[2] == 1).all()


def test_affine__only_blocks_that_some_access_needs_are_cut():
    # 100 threads are no multiple of a width of 16: that matters to affine accesses only.
    text = spoilt(text_of(), 'threads_per_block = "width * height"', "threads_per_block = 100")
    text = spoilt(text, 'block_x = "width"', 'block_x = "width"\nblock_y = "height"')
    failed = launch_of(text).status == STATUS["kernel_expression"]
    assert failed.all()
    words = text.replace(FLAT, 'pattern = "coalesced"', 1).replace(FLAT, "stride = 1")
    assert not (launch_of(words).status == STATUS["kernel_expression"]).any()


@pytest.mark.parametrize(("key", "bad"), [
    ('x = "step / 2"', [True, False, True]), ('x = "1 / (step - 2)"', [False, True, False]),
    ('x = "2.0 ** (40 * step)"', [False, True, True]),
    ('x = 1\nbase = "-step"', [False, False, False]),
])  # fmt: skip
def test_affine__an_access_that_no_hardware_has_is_a_status(key, bad):
    space = space_of("affine", *DEVICES, text=text_of(f'pattern = "affine"\ny = 0\n{key}'))
    plan = Plan(("affine",), DEVICES, ("hong_kim",))
    whole = evaluate_box(space, plan, Box(space.grid.whole.start, space.grid.whole.stop))
    status = whole["status"][0, :, 1, 1]
    assert ((status == STATUS["kernel_expression"]) == bad).all()
    assert ((status == STATUS["valid"]) == ~np.array(bad)).all()
    assert np.isnan(whole["execution_time"][0, :, 1, 1][status != 0]).all()
    never = text_of(f'pattern = "affine"\ny = 0\n{key}').replace("count = 2", "count = 0")
    status = launch_of(never).status
    if "/ (" not in key:  # an expression that fails is a fault even so
        assert not (status == STATUS["kernel_expression"]).any()


def test_affine__matrices_of_other_widths_are_one_form():
    """Rows that share no line cost what they cost, whatever lies between them."""
    columns = np.arange(2, 200) * 32
    blocks = np.array([[0, 1, n, 0, 16, 4, 64, 32, 4, 3] for n in columns], np.int64)
    forms, place = distinct_blocks(blocks, LINE_BYTES)
    assert len(forms) == 1 and not place.any()
    blocks[:, 2] += columns // 32 % 2  # every second one starts its rows elsewhere
    assert len(distinct_blocks(blocks, LINE_BYTES)[0]) == 2


def test_affine__large_tables_are_cut_into_parts(monkeypatch):
    strides = np.arange(600)
    affine = Affine(0, strides, 1, 0, 16, 4, 64)
    whole = affine_transactions(affine, 4, [["strict"], ["sector"]])
    monkeypatch.setattr("sweep.hardware.affine_accesses.WARPS_AT_ONCE", 7)
    cut = affine_transactions(affine, 4, [["strict"], ["sector"]])
    np.testing.assert_array_equal(np.stack(cut), np.stack(whole))


def test_file__expressions_and_defaults():
    kernel = specs.parse_kernel(text_of('pattern = "affine"\nx = 1\ny = "width"\nbase = "-n"'), "k")
    (access,) = kernel.global_accesses
    assert [e.text for e in access.affine] == ["-n", "1", "width", "0"]
    assert (access.pattern, access.stride) == ("affine", None)
    assert dict(kernel.all_expressions())["global_access.a.base"].text == "-n"
    (shared,) = kernel.shared_accesses
    assert (shared.pattern, shared.stride, len(shared.affine)) == ("affine", None, 4)
    plain = specs.parse_kernel(KERNEL, "k").shared_accesses[0]
    assert (plain.pattern, plain.affine) == ("strided", ())
    keys = 'pattern = "affine"\nx = 1'  # y may be left out in a row of threads
    flat = spoilt(text_of(keys, keys), 'block_x = "width"\n', "")
    (access,) = specs.parse_kernel(flat, "k").global_accesses
    assert access.y is not None and access.y.text == "0"


@pytest.mark.parametrize("text", [
    text_of(), text_of('pattern = "affine"\nx = 1\ny = 2\nz = 3\nbase = -4'),
    text_of(shared='pattern = "strided"\nstride = 2'), text_of(shared="stride = 2"),
])  # fmt: skip
def test_file__schema_accepts_what_loading_accepts_and_the_table_names_the_keys(text):
    jsonschema.validate(tomllib.loads(text), specs.json_schema("kernel"))
    specs.parse_kernel(text, "k")
    table = specs.format_table("kernel")
    assert table.count("distance of the words of two threads that are neighbours in x") == 2
    assert "word, default `strided`" in table
