"""Device and kernel files: reading, finding, describing."""

from __future__ import annotations

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
from sweep.fields import Parameter
from sweep.specs.formats import FORMATS, keys_of

KERNEL_FILES = sorted(specs.data_root("kernel").glob("*.toml"))
DEVICE_VALUES = {name: 4.0 for name in specs.DEVICE_NAMES} | {"warp_size": 32, "l2_bytes": 2**20}


@pytest.fixture
def device():
    return specs.parse_device(DEVICE, "test_gpu")


@pytest.fixture
def kernel():
    return specs.parse_kernel(KERNEL, "test_kernel")


# ---------------------------------------------------------------------------- devices


def test_device__identity(device):
    assert (device.key, device.name, device.vendor) == ("test_gpu", "Test GPU", "ACME")
    assert (device.architecture, device.compute_capability) == ("Test", "5.2")
    assert device.path is None


def test_device__values_in_base_units(device):
    assert device.values == {
        "clocks.core_nominal": 1e9,
        "clocks.core_min": 0.5e9,
        "clocks.core_max": 1.2e9,
        "clocks.memory_nominal": 2e9,
        "chip.sm_count": 4,
        "chip.lanes_per_sm": 128,
        "chip.warp_size": 32,
        "chip.memory_bandwidth": 128e9,
        "chip.memory_bus_width": 256,
        "chip.l2": 2**20,
        "power.static": 20,
        "power.core": 50e-9,
        "power.memory": 3e-9,
    }


def test_device__tables_in_base_units(device):
    assert device.tables == {
        "power.core_voltage": ((0.5e9, 0.8), (1.2e9, 1.1)),
        "power.memory_voltage": ((2e9, 1.5),),
    }


def test_device__model_parameters_keep_their_units():
    text = spoilt(DEVICE, "issue_cycles = 0.25", 'issue_cycles = 0.25\nrows = [[1, 2], ["x", 3]]')
    text += '"model.hong_kim.rows" = "derived: x"\n'
    read = specs.parse_device(text, "test_gpu").model_parameters
    assert read == {
        "hong_kim": {"issue_cycles": 0.25, "rows": ((1, 2), ("x", 3)), "mem_ld_cycles": 400}
    }


def test_device__sources_and_assumptions(device):
    assert device.sources["clocks.core_min_MHz"] == specs.Source("assumed", "half")
    assert str(device.sources["chip.l2_KiB"]) == "datasheet: page 2"
    assert device.assumed(["clocks"]) == ("clocks.core_min_MHz",)
    assert device.assumed(["clocks.core_min"]) == ("clocks.core_min_MHz",)
    assert device.assumed(["clocks.core_min_MHz", "power.static"]) == (
        "clocks.core_min_MHz",
        "power.static_W",
    )
    assert device.assumed(["model.hong_kim", "clocks.core"]) == ()
    assert len(device.assumed(["power"])) == 5


def test_spec__keeps_its_text(device, kernel):
    for spec, text in ((device, DEVICE), (kernel, KERNEL)):
        assert spec.text == text
        assert spec.sha256 == hashlib.sha256(text.encode()).hexdigest()
        assert text not in repr(spec)


def test_spec__same_text_same_spec(device, kernel):
    assert specs.parse_device(device.text, device.key) == device
    assert specs.parse_kernel(kernel.text, kernel.key) == kernel
    assert {device: 1, kernel: 2}[specs.parse_device(DEVICE, "test_gpu")] == 1


def test_spec__crosses_process_borders(device, kernel):
    assert pickle.loads(pickle.dumps(device)) == device
    assert pickle.loads(pickle.dumps(kernel)) == kernel


# ---------------------------------------------------------------------------- kernels


def test_kernel__names_and_values(kernel):
    assert kernel.sizes == {"n": 1024}
    assert kernel.parameters == {
        "tile": (4, 8, 16),
        "layout": ("row", "column"),
        "unroll": (True, False),
    }
    assert [e.text for e in kernel.constraints] == ["tile * tile <= 512"]


def test_kernel__derived_names_come_in_order_of_use(kernel):
    assert list(kernel.derived) == ["tiles", "cost"]


def test_kernel__long_chain_of_derived_names():
    chain = "\n".join(f'd{i} = "d{i + 1} + 1"' for i in range(3000))
    text = spoilt(KERNEL, "[derived]", f'[derived]\n{chain}\nd3000 = "n"')
    order = list(specs.parse_kernel(text, "test_kernel").derived)
    assert order.index("d3000") < order.index("d1500") < order.index("d0")


def test_kernel__defaults(kernel):
    read = {path: expression.text for path, expression in kernel.expressions.items()}
    assert read == {
        "launch.threads_per_block": "tile * tile",
        "launch.blocks": "tiles ** 2",
        "launch.block_x": "tile * tile",
        "launch.block_y": "1",
        "resources.registers_per_thread": "18",
        "resources.shared_memory_bytes": "0",
        "instructions.fp32": "2 * n",
        "instructions.control": "cost",
        "synchronisation.barriers": "2 * tiles",
        "loops.outer": "1",
        "parallelism.instruction": "1",
        "parallelism.memory": "1",
        "loops.inner": "1",
        "cache.l2_hit_rate": "0",
    }


@pytest.mark.parametrize("given, other", [("block_x", "block_y"), ("block_y", "block_x")])
def test_kernel__one_side_of_a_block_gives_the_other(given, other):
    text = spoilt(KERNEL, 'blocks = "tiles ** 2"', f'blocks = 1\n{given} = "tile"')
    expressions = specs.parse_kernel(text, "test_kernel").expressions
    assert expressions[f"launch.{other}"].evaluate({"tile": 8.0})[0] == 8.0


def test_kernel__accesses(kernel):
    a, c = kernel.global_accesses
    assert (a.name, a.kind, a.count.text, a.bytes.text, a.pattern) == (
        *("a", "load", "n", "4"),
        "strided",
    )
    assert a.stride is not None and a.stride.text == "1 if layout == 'row' else n"
    assert (c.pattern, c.stride) == ("coalesced", None)
    (shared,) = kernel.shared_accesses
    assert (shared.bytes.text, shared.stride and shared.stride.text) == ("4", "1")


def test_kernel__all_expressions(kernel):
    paths = [path for path, _ in kernel.all_expressions()]
    assert paths[:3] == ["derived.tiles", "derived.cost", "constraints[0]"]
    assert paths[3:-10] == list(kernel.expressions)
    assert paths[-10:] == [
        *("global_access.a.count", "global_access.a.bytes", "global_access.a.stride"),
        "global_access.a.l1_hit_rate",
        *("global_access.c.count", "global_access.c.bytes", "global_access.c.l1_hit_rate"),
        *("shared_access.tile_load.count", "shared_access.tile_load.bytes"),
        "shared_access.tile_load.stride",
    ]


def test_kernel__sources(kernel):
    assert kernel.source_of("sizes.n").kind == "paper"
    assert kernel.source_of("constraints[0]").kind == "paper"
    assert kernel.source_of("resources.shared_memory_bytes").reference == "compiled"
    assert kernel.source_of("resources.registers_per_thread").kind == "assumed"
    assert kernel.assumed() == ("resources.registers_per_thread",)


def test_kernel__description_on_several_lines():
    text = spoilt(KERNEL, '"Does nothing in particular."', '"""Does\n  nothing."""')
    assert specs.parse_kernel(text, "test_kernel").description == "Does nothing."


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
class TestShippedKernel:
    """Every kernel in the repository."""

    def test_loads_without_findings(self, path):
        assert [str(finding) for finding in specs.lint([path])] == []
        assert specs.load_kernel(path.stem) == specs.load_kernel(path)

    def test_fits_the_json_schema(self, path):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(table, specs.json_schema("kernel"))

    def test_has_a_configuration_that_meets_its_constraints(self, path):
        kernel = specs.load_kernel(path)
        some = [v[:: -(-len(v) // 4)] for v in kernel.parameters.values()]  # four of each at most
        axes = np.meshgrid(*(np.array(v) for v in some), indexing="ij")
        chosen = dict(zip(kernel.parameters, axes, strict=True))
        values = {**DEVICE_VALUES, **kernel.sizes, **chosen}
        good = np.array(True)
        for path_, expression in kernel.all_expressions():
            value, fault = expression.evaluate(values)
            if path_.startswith("derived."):
                values[path_.removeprefix("derived.")] = value
            good = good & ~fault & (value if path_.startswith("constraints") else True)
        assert good.any()


# ---------------------------------------------------------------------------- finding files


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
    assert specs.load_device("gtx_980").path == specs.data_root("device") / "gtx_980.toml"


def test_search__lists_name_all(own):
    assert {"test_gpu", "gtx_280", "gtx_980"} <= set(specs.list_devices())
    assert len(set(specs.list_devices())) == len(specs.list_devices())
    assert "test_kernel" in specs.list_kernels()


def test_search__explicit_path(own, monkeypatch):
    monkeypatch.chdir(own)
    for name in ("devices/test_gpu.toml", Path("devices/test_gpu.toml")):
        assert specs.load_device(name).key == "test_gpu"
    monkeypatch.chdir(own / "devices")
    assert specs.load_device("test_gpu.toml").key == "test_gpu"


def test_search__nothing_of_the_working_directory_is_found(own, monkeypatch):
    monkeypatch.delenv("SWEEP_PATH")
    monkeypatch.chdir(own)
    with pytest.raises(SpecError, match="no device 'test_gpu'"):
        specs.load_device("test_gpu")


def test_search__data_root_by_kind_or_folder():
    assert specs.data_root("device") == specs.data_root("devices")
    with pytest.raises(SpecError, match="lacks its folder nonsense"):
        specs.data_root("nonsense")


# ---------------------------------------------------------------------------- JSON Schema

HONG_KIM = [
    Parameter("issue_cycles", "", "cycle", "", minimum=0.1, maximum=64),
    Parameter("mem_ld_cycles", "", "cycle", "", minimum=1),
]
SCHEMAS = {
    "device": specs.json_schema("device", {"hong_kim": HONG_KIM}),
    "kernel": specs.json_schema("kernel"),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema__is_one(kind):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])
    text = {"device": DEVICE, "kernel": KERNEL}[kind]
    jsonschema.validate(tomllib.loads(text), SCHEMAS[kind])


@pytest.mark.parametrize(
    "kind, old, new",
    [
        ("device", "schema = 1", "schema = 2"),
        ("device", '"5.2"', '"5.4"'),
        ("device", "sm_count = 4", "sm_cuont = 4"),
        ("device", "sm_count = 4", "sm_count = 4.5"),
        ("device", "core_nominal_MHz = 1000", "core_nominal_MHz = 1.3"),
        ("device", "core_max_MHz = 1200\n", ""),
        ("device", "l2_KiB = 1024", "l2_KiB = 2"),
        ("device", "static_W = 20\n", ""),
        ("device", "[[500, 0.8]", "[[500, 800]"),
        ("device", "[model.hong_kim]", "[model.hong_kin]"),
        ("device", "mem_ld_cycles = 400", "mem_ld_cycles = 0"),
        ("device", '"chip.l2_KiB" = "datasheet: page 2"\n', ""),
        ("device", '"power.static_W" = "assumed: a guess"\n', ""),
        ("device", '"datasheet: page 1"\n"clocks.core_min', '"rumour: page 1"\n"clocks.core_min'),
        ("device", '"clocks.core_min_MHz" =', '"clocks.core_mni_MHz" ='),
        ("kernel", "schema = 1\n", ""),
        ("kernel", "n = 1024", "n = -1"),
        ("kernel", "n = 1024", "warp_size = 1024"),
        ("kernel", "tile = [4, 8, 16]", "tile = []"),
        ("kernel", "tile = [4, 8, 16]", 'tile = [4, "x"]'),
        ("kernel", "registers_per_thread = 18", "registers_per_thread = 0"),
        ("kernel", 'fp32 = "2 * n"', 'computation = "2 * n"'),
        ("kernel", 'kind = "store"', 'kind = "write"'),
        ("kernel", 'pattern = "coalesced"', 'pattern = "strided"'),
        ("kernel", 'pattern = "strided"', 'pattern = "coalesced"'),
        ("kernel", 'pattern = "coalesced"', 'pattern = "measured"'),
        ("kernel", 'pattern = "coalesced"', 'pattern = "coalesced"\ntransactions = 4'),
        ("kernel", 'count = "tile"', 'count = "tile"\npattern = "measured"\nstride = 2'),
        ("kernel", "[synchronisation]", "[measured]\ntime_ms = 1.5\n[synchronisation]"),
        ("kernel", 'default = "paper: Nobody 2020, Table 1"\n', ""),
    ],
)
def test_schema__refuses_what_loading_refuses(kind, old, new):
    text = spoilt({"device": DEVICE, "kernel": KERNEL}[kind], old, new)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), SCHEMAS[kind])
    with pytest.raises(SpecError):
        if kind == "kernel":
            specs.parse_kernel(text, "test_kernel")
        else:
            specs.check_model_parameters(specs.parse_device(text, "test_gpu"), "hong_kim", HONG_KIM)


def test_schema__unknown_kind():
    for function in (specs.json_schema, specs.format_table):
        with pytest.raises(SpecError, match="did you mean 'device'"):
            function("devise")


# ---------------------------------------------------------------------------- documentation


@pytest.mark.parametrize("kind", FORMATS)
def test_format_table__names_every_key(kind):
    table = specs.format_table(kind)
    for key in keys_of(FORMATS[kind]):
        assert f"| `{key.name}` |" in table and key.meaning in table
    for name in FORMATS[kind]:
        assert not name or f"[{name}]" in table
    assert all(f"`{name}`" in table for name in specs.DEVICE_NAMES) == (kind == "kernel")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {5}


@pytest.mark.parametrize("kind", FORMATS)
def test_definition__is_consistent(kind):
    for key in keys_of(FORMATS[kind]):
        assert key.minimum <= key.maximum and key.meaning
        assert all(low <= high for low, high in key.columns.values())
        assert not key.default or not key.required
