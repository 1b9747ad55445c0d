"""Which NVRTC compiles for a compute capability, beside libraries that only pretend."""

from __future__ import annotations

from sweep.cuda import nvrtc


class Library:
    """Pretends to be a library of NVRTC; it keeps the last compilation's source and options."""

    def __init__(self, *capabilities: int) -> None:
        self.own, self.options, self.source = capabilities, [], ""

    def __getattr__(self, name: str):
        return {"nvrtcGetNumSupportedArchs": self.count, "nvrtcGetSupportedArchs": self.numbers,
                "nvrtcCreateProgram": self.create, "nvrtcCompileProgram": self.program,
                }.get(name, lambda *_: 0)  # fmt: skip

    def count(self, found) -> None:
        found._obj.value = len(self.own)

    def numbers(self, found) -> None:
        found[:] = self.own

    def create(self, program, source, *_) -> None:
        self.source = source.decode()

    def program(self, program, count, words) -> None:
        self.options = [word.decode() for word in words]


def test_library__is_the_first_that_compiles_for_the_capability(monkeypatch):
    libraries = {"new": Library(50, 86, 90), "old": Library(35, 86)}
    monkeypatch.setattr(nvrtc, "_libraries", lambda: ((name, name) for name in libraries))
    monkeypatch.setattr(nvrtc.ctypes, "CDLL", libraries.get)
    for capability, name in (("", "new"), ("8.6", "new"), ("3.5", "old"), ("3.0", "old"),
                             ("9.9", "new")):  # fmt: skip
        assert nvrtc.load.__wrapped__(capability).version == f"NVRTC {name}"


def test_capability_that_no_library_knows__the_next_one_stands_in(monkeypatch):
    library = Library(35, 86)
    old = nvrtc.Compiler(library, "11.8")
    assert old.capabilities == ("3.0", "3.5", "8.6")
    for used, limit in (("63", []), ("64", ["--maxrregcount=63"])):
        monkeypatch.setattr(
            old, "_text", lambda _, what, n=used: f"ptxas info : Used {n} registers"
        )
        old.compile("x", "x.cu", "3.0", ["-Dtile=1", "-D", "N=2", "-DT"])
        assert library.options[:1] == ["--gpu-architecture=sm_35"]
        assert library.options[2:] == [*limit, "-D", "N=2"]
        # Not as options: NVRTC's own header, which stands before the source, has a name `pad`.
        assert library.source == "#define tile 1\n#define T 1\n#line 1\nx"
    old.compile("", "x.cu", "3.5", [])
    assert library.options == ["--gpu-architecture=sm_35", "--ptxas-options=-v"]
    assert nvrtc.Compiler(Library(50, 86), "12.9").capabilities == ("5.0", "8.6")
