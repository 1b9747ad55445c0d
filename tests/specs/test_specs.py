"""Device and kernel files: reading, finding, describing."""

import hashlib
import pickle
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from support.spec_texts import DEVICE, KERNEL, spoilt

from sweep import specs
from sweep.errors import SpecError
from sweep.specs.formats import FORMATS

KERNEL_FILES = sorted(specs.data_root("kernel").glob("*.toml"))
DEVICE_VALUES = {name: 4.0 for name in specs.DEVICE_NAMES} | {
    "warp_size": 32, "l2_bytes": 2**20, "compute_capability": 9.0,
}  # fmt: skip


@pytest.fixture
def device():
    return specs.parse_device(DEVICE, "test_gpu")


@pytest.fixture
def kernel():
    return specs.parse_kernel(KERNEL, "test_kernel")


def test_device__values_in_base_units(device):
    assert (device.key, device.name, device.vendor) == ("test_gpu", "Test GPU", "ACME")
    assert (device.architecture, device.compute_capability) == ("Test", "5.2")
    assert device.path is None
    assert device.values == {
        **{"clocks.core_nominal": 1e9, "clocks.core_min": 0.5e9, "clocks.core_max": 1.2e9},
        **{"clocks.memory_nominal": 2e9, "chip.sm_count": 4, "chip.lanes_per_sm": 128},
        **{"chip.warp_size": 32, "chip.memory_bandwidth": 128e9, "chip.memory_bus_width": 256},
        **{"chip.l2": 2**20, "power.static": 20, "power.core": 50e-9, "power.memory": 3e-9},
    }
    volts = {"core": ((0.5e9, 0.8), (1.2e9, 1.1)), "memory": ((2e9, 1.5),)}
    assert device.tables == {f"power.{domain}_voltage": rows for domain, rows in volts.items()}
    # Parameters of models keep their units.
    text = spoilt(DEVICE, "issue_cycles = 0.25", 'issue_cycles = 0.25\nrows = [[1, 2], ["x", 3]]')
    read = specs.parse_device(text + '"model.hong_kim.rows" = "derived: x"\n', "test_gpu")
    expected = {"issue_cycles": 0.25, "rows": ((1, 2), ("x", 3)), "mem_ld_cycles": 400}
    assert read.model_parameters == {"hong_kim": expected}


def test_device__sources_and_assumptions(device):
    assert device.sources["clocks.core_min_MHz"] == specs.Source("assumed", "half")
    assert str(device.sources["chip.l2_KiB"]) == "datasheet: page 2"
    for prefixes, assumed in (
        (["clocks"], ["clocks.core_min_MHz"]),
        (["clocks.core_min"], ["clocks.core_min_MHz"]),
        (["clocks.core_min_MHz", "power.static"], ["clocks.core_min_MHz", "power.static_W"]),
        (["model.hong_kim", "clocks.core"], []),
    ):
        assert list(device.assumed(prefixes)) == assumed
    assert len(device.assumed(["power"])) == 5


def test_spec__is_its_text(device, kernel):
    of_device, of_kernel = (
        (device, DEVICE, specs.parse_device),
        (kernel, KERNEL, specs.parse_kernel),
    )
    for spec, text, parse in (of_device, of_kernel):
        assert spec.text == text and text not in repr(spec)
        assert spec.sha256 == hashlib.sha256(text.encode()).hexdigest()
        assert parse(text, spec.key) == spec == pickle.loads(pickle.dumps(spec))
    assert {device: 1, kernel: 2}[specs.parse_device(DEVICE, "test_gpu")] == 1


def test_kernel__names_and_values(kernel):
    assert kernel.sizes == {"n": 1024}
    assert list(kernel.parameters) == ["tile", "layout", "unroll"]
    assert list(kernel.parameters.values()) == [(4, 8, 16), ("row", "column"), (True, False)]
    assert [e.text for e in kernel.constraints] == ["tile * tile <= 512"]
    assert list(kernel.derived) == ["tiles", "cost"]
    text = spoilt(KERNEL, '"Does nothing in particular."', '"""Does\n  nothing."""')
    assert specs.parse_kernel(text, "test_kernel").description == "Does nothing."
    chain = "\n".join(f'd{i} = "d{i + 1} + 1"' for i in range(3000))
    text = spoilt(KERNEL, "[derived]", f'[derived]\n{chain}\nd3000 = "n"')
    order = list(specs.parse_kernel(text, "test_kernel").derived)
    assert order.index("d3000") < order.index("d1500") < order.index("d0")


def test_kernel__expressions_and_defaults(kernel):
    assert {path: expression.text for path, expression in kernel.all_expressions()} == {
        **{"derived.tiles": "ceil(n / tile)", "derived.cost": "tiles * (2 if unroll else 3)"},
        **{"constraints[0]": "tile * tile <= 512", "launch.threads_per_block": "tile * tile"},
        **{"launch.blocks": "tiles ** 2", "launch.block_x": "tile * tile", "launch.block_y": "1"},
        **{"launch.launches": "1", "launch.specialized": "0"},
        **{f"matrix.{key}": "0" for key in (*specs.MATRIX_TYPES, "single_warp", "half_rate")},
        "matrix.asynchronous": "0",
        **{f"tile_order.{key}": "1" for key in ("rows", "columns", "group", "row_share")},
        **{f"tile_order.{key}": "0" for key in ("row_bytes", "column_bytes", "shared")},
        "tile_order.column_share": "1",
        **{"resources.registers_per_thread": "18", "resources.shared_memory_bytes": "0"},
        "resources.tensor_memory_columns": "0",
        **{"instructions.fp32": "2 * n", "instructions.control": "cost"},
        **{"synchronisation.barriers": "2 * tiles", "loops.outer": "1", "loops.inner": "1"},
        **{"parallelism.instruction": "1", "parallelism.memory": "1", "cache.l2_hit_rate": "0"},
        "parallelism.matrix": "1e6",
        **{"global_access.a.count": "n", "global_access.a.bytes": "4"},
        **{"global_access.a.stride": "1 if layout == 'row' else n"},
        **{"global_access.a.l1_hit_rate": "0", "global_access.c.count": "1"},
        **{"global_access.c.bytes": "4", "global_access.c.l1_hit_rate": "0"},
        **{f"global_access.{n}.read_only": "0" for n in "ac"},
        **{"shared_access.tile_load.count": "tile", "shared_access.tile_load.bytes": "4"},
        **{"shared_access.tile_load.stride": "1"},
    }
    paths = [path for path, _ in kernel.all_expressions()]
    assert paths[:3] == ["derived.tiles", "derived.cost", "constraints[0]"]
    assert paths[3:-12] == list(kernel.expressions)
    assert [p.split(".")[0] for p in paths[-10:]] == ["global_access"] * 7 + ["shared_access"] * 3
    a, c = kernel.global_accesses
    assert (a.name, a.kind, a.pattern) == ("a", "load", "strided")
    assert (c.pattern, c.stride) == ("coalesced", None)
    for side, other in (("block_x", "block_y"), ("block_y", "block_x")):  # one gives the other
        text = spoilt(KERNEL, 'blocks = "tiles ** 2"', f'blocks = 1\n{side} = "tile"')
        expressions = specs.parse_kernel(text, "test_kernel").expressions
        assert expressions[f"launch.{other}"].evaluate({"tile": 8.0})[0] == 8.0


def test_kernel__cases_are_one_expression(kernel):
    cases = '["3 * tile if n < 10", "2 * tile if tile > 4 and unroll", 7]'
    text = spoilt(KERNEL, 'blocks = "tiles ** 2"', f"blocks = {cases}")
    blocks = specs.parse_kernel(text, "test_kernel").expressions["launch.blocks"]
    values = {"n": np.array([9, 10, 10, 10]), "tile": np.array([8, 8, 4, 8])}
    unroll = np.array([True, True, True, False])
    assert blocks.evaluate(values | {"unroll": unroll})[0].tolist() == [24, 16, 7, 7]


def test_kernel__sources(kernel):
    assert kernel.source_of("sizes.n").kind == kernel.source_of("constraints[0]").kind == "paper"
    assert kernel.source_of("resources.shared_memory_bytes").reference == "compiled"
    assert kernel.source_of("resources.registers_per_thread").kind == "assumed"
    assert kernel.assumed() == ("resources.registers_per_thread",)


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_shipped_kernel__is_valid_and_has_a_configuration_that_meets_its_constraints(path):
    assert [str(f) for f in specs.lint([path]) if f.severity != "note"] == []
    kernel = specs.load_kernel(path.stem)
    assert kernel == specs.load_kernel(path)
    jsonschema.validate(tomllib.loads(kernel.text), specs.json_schema("kernel"))
    some = [v[:: -(-len(v) // 4)] for v in kernel.parameters.values()]  # four of each at most
    axes = np.meshgrid(*(np.array(v) for v in some), indexing="ij")
    values = {**DEVICE_VALUES, **kernel.sizes, **dict(zip(kernel.parameters, axes, strict=True))}
    good, faults = np.array(True), {}
    for path_, expression in kernel.all_expressions():
        value, fault = expression.evaluate(values, faults)
        if path_.startswith("derived."):  # at fault matters only where it is used
            name = path_.removeprefix("derived.")
            values[name], faults[name] = value, fault
            continue
        good = good & ~fault & (value if path_.startswith("constraints") else True)
    assert good.any()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return a user's directory, which is searched first."""
    for folder in ("devices", "kernels_spec"):
        (tmp_path / folder).mkdir()
    (tmp_path / "devices" / "test_gpu.toml").write_text(DEVICE)
    (tmp_path / "devices" / "gtx_280.toml").write_text(DEVICE)
    (tmp_path / "kernels_spec" / "test_kernel.toml").write_text(KERNEL)
    monkeypatch.setenv("SWEEP_PATH", f"/nonexistent:{tmp_path}")
    return tmp_path


def test_search__own_directories_come_first(own):
    assert specs.load_device("test_gpu").path == own / "devices" / "test_gpu.toml"
    assert specs.load_device("gtx_280").name == "Test GPU"
    assert specs.load_kernel("test_kernel").key == "test_kernel"
    assert (
        specs.load_device("gtx_980_paper").path == specs.data_root("device") / "gtx_980_paper.toml"
    )
    devices = specs.list_devices()
    assert {"test_gpu", "gtx_280", "gtx_980_paper"} <= set(devices) and len(set(devices)) == len(
        devices
    )
    assert "test_kernel" in specs.list_kernels()


def test_search__explicit_path_and_data_root(own, monkeypatch):
    monkeypatch.chdir(own)
    for name in ("devices/test_gpu.toml", Path("devices/test_gpu.toml")):
        assert specs.load_device(name).key == "test_gpu"
    monkeypatch.delenv("SWEEP_PATH")
    monkeypatch.chdir(own / "devices")
    assert specs.load_device("test_gpu.toml").key == "test_gpu"
    with pytest.raises(SpecError, match="no device 'test_gpu'"):  # only as a path
        specs.load_device("test_gpu")
    assert specs.data_root("device") == specs.data_root("devices")
    with pytest.raises(SpecError, match="lacks its folder nonsense"):
        specs.data_root("nonsense")


@pytest.mark.parametrize("kind", FORMATS)
def test_format__is_consistent_and_described(kind):
    schema, table = specs.json_schema(kind), specs.format_table(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads({"device": DEVICE, "kernel": KERNEL}[kind]), schema)
    for key in [key for section in FORMATS[kind].values() for key in section.keys]:
        assert key.minimum <= key.maximum and not (key.default and key.required)
        assert all(column.minimum <= column.maximum for column in key.columns)
        assert key.meaning and f"| `{key.name}` |" in table and key.meaning in table
    assert all(f"[{name}]" in table for name in FORMATS[kind] if name)
    assert all(f"`{name}`" in table for name in specs.DEVICE_NAMES) == (kind == "kernel")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {5}


def test_format__unknown_kind():
    for function in (specs.json_schema, specs.format_table):
        with pytest.raises(SpecError, match="did you mean 'device'"):
            function("devise")
