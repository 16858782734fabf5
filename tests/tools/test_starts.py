"""What engines start: the reader on small packages of the same shapes, and the committed facts."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from advisor.engines.registries import Backend, Facts, Kernel, Method, ShapeSupport, StartsFile, read_facts
from tools.starts import common, others, vllm
from tools.starts.__main__ import dump, put
from tools.starts.devices import DEVICES, UNKNOWN
from tools.starts.evaluate import Evaluator, Stop, Symbol, Thing
from tools.starts.package import ClassOf, Package

RULES = Path(__file__).resolve().parents[2] / "rules/starts"
FILES = sorted(RULES.glob("*.yaml"))
CARD = {d.name: d for d in DEVICES}

PLATFORM = """
import torch
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from shop.none import Nothing
_NAME = _get_gcn_arch()
_ON_CDNA = any(word in _NAME for word in ["gfx942", "gfx950"])
def on_gfx9(): return _ON_CDNA
class Base:
    dtypes = [torch.float16, torch.bfloat16]
    @classmethod
    def sizes(cls): return []
    @classmethod
    def takes_size(cls, size):
        sizes = cls.sizes()
        return (not sizes) or size in sizes
    @classmethod
    def takes_card(cls, capability): return True
    @classmethod
    def mends(cls): raise NotImplementedError
class Quick(Base):
    @classmethod
    def sizes(cls): return [64, 128]
    @classmethod
    def takes_card(cls, capability): return capability >= DeviceCapability(8, 0)
class Newest(Quick):
    @classmethod
    def takes_card(cls, capability): return capability.major in [9, 10]
class Odd(Base):
    @classmethod
    def takes_card(cls, capability): return super().takes_card(capability) and ask_the_driver()
"""
MAKING = """
from shop.platform import current_platform, on_gfx9
from shop import envs
def choose(latent, cache=None):
    found = []
    if on_gfx9():
        found.append("first")
    if latent:
        return [*found, "latent"]
    elif current_platform.has_device_capability(90):
        found.insert(0, "new")
    if envs.EAGER:
        found.append("eager")
    if ask_the_driver():
        found = ["driver"]
    return [*found, "plain"]
class Maker:
    def __init__(self, cache, depth=None):
        if depth is not None and depth > unknown_limit():
            raise ValueError("too deep")
        self.cache = cache
        if self.cache.startswith("fp8") and not current_platform.has_device_capability(89):
            raise ValueError(f"no {cache} below 8.9, use another")
        assert self.cache != "int1", "a bit is too little"
    def forward(self, cache):
        if current_platform.is_cuda():
            raise ValueError("this is no matter of a start")
def check(cache):
    from shop.platform import on_gfx9
    if cache == "auto":
        return
    if not on_gfx9():
        raise RuntimeError("only there")
"""
ENVS = """
if TYPE_CHECKING:
    EAGER: bool = False
"""


def wheel(folder: Path, files: dict[str, str], version: str = "1.0") -> Path:
    """A wheel with these sources."""
    path = folder / f"shop-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
        file.writestr("shop-1.0.dist-info/METADATA", f"Name: shop\nVersion: {version}\nRequires-Dist: torch>=2\n\ntext")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Package:
    files = {"shop/__init__.py": "", "shop/platform.py": PLATFORM, "shop/making.py": MAKING, "shop/envs.py": ENVS}
    return Package(wheel(tmp_path, files))


def evaluator(shop: Package, device: str) -> Evaluator:
    return Evaluator(shop, CARD[device], {"current_platform": Thing({"device": "ask"})})


def class_of(shop: Package, name: str, device: str = "sm90") -> ClassOf:
    found = evaluator(shop, device).name(shop.module("shop/platform.py"), name)
    assert isinstance(found, ClassOf)
    return found


def test_a_package_is_read_inside_its_file(shop: Package, tmp_path: Path) -> None:
    assert shop.metadata("Version") == ["1.0"]
    assert shop.find("shop.making") is shop.module("shop/making.py")
    assert shop.find("shop.none") is None
    odd = Package(wheel(tmp_path, {"../evil.py": "x = 1", "/root.py": "x = 1", "shop/data.txt": "x"}, "2.0"))
    assert odd.paths("") == []


@pytest.mark.parametrize(
    ("name", "yes"),
    [("Base", "sm61 sm75 sm80 sm90 sm120"), ("Quick", "sm80 sm90 sm120"), ("Newest", "sm90"), ("Odd", "")],
)
def test_capabilities_are_worked_out(shop: Package, name: str, yes: str) -> None:
    found = []
    for device in ("sm61", "sm75", "sm80", "sm90", "sm120"):
        answer = evaluator(shop, device).ask(
            class_of(shop, name), "takes_card", {"capability": CARD[device].capability}
        )
        assert answer in (True, False, UNKNOWN)
        found += [device] if answer is True else []
    assert " ".join(found) == yes


def test_what_cannot_be_worked_out_is_unknown_and_never_yes(shop: Package) -> None:
    own = evaluator(shop, "sm90")
    assert own.ask(class_of(shop, "Odd"), "takes_card", {"capability": CARD["sm90"].capability}) is UNKNOWN
    assert own.ask(class_of(shop, "Base"), "mends") is UNKNOWN  # an abstract method
    assert own.ask(class_of(shop, "Base"), "nothing of this name") is UNKNOWN
    yes, unknown = common.ask_all(lambda d: UNKNOWN if d.platform == "cuda" else d.platform == "rocm")
    assert (yes, unknown) == (("rocm",), ("cuda",))


def test_methods_of_bases_ask_the_class_they_are_called_on(shop: Package) -> None:
    own = evaluator(shop, "sm90")
    assert [own.ask(class_of(shop, "Newest"), "takes_size", {"size": n}) for n in (64, 80)] == [True, False]
    assert own.ask(class_of(shop, "Base"), "takes_size", {"size": 80}) is True
    assert own.attribute(class_of(shop, "Newest"), "dtypes") == [Symbol("torch.float16"), Symbol("torch.bfloat16")]


@pytest.mark.parametrize(
    ("device", "latent", "order"),
    [("gfx942", True, ["first", "latent"]), ("sm90", True, ["latent"]), ("gfx1100", True, ["latent"])],
)
def test_lists_are_followed(shop: Package, device: str, latent: bool, order: list[str]) -> None:
    own = evaluator(shop, device)
    assert own.call(own.name(shop.module("shop/making.py"), "choose"), {"latent": latent}) == order


def test_two_ways_that_differ_are_unknown(shop: Package) -> None:
    own = evaluator(shop, "sm90")
    assert own.call(own.name(shop.module("shop/making.py"), "choose"), {"latent": False}) is UNKNOWN


@pytest.mark.parametrize(
    ("device", "cache", "says"),
    [("sm86", "fp8", "no {cache} below 8.9, use another"), ("sm89", "fp8", None), ("sm86", "auto", None),
     ("sm89", "int1", "a bit is too little")],
)  # fmt: skip
def test_what_a_constructor_refuses_is_said_in_its_own_words(
    shop: Package, device: str, cache: str, says: str | None
) -> None:
    own = evaluator(shop, device)
    maker = own.name(shop.module("shop/making.py"), "Maker")
    result = own.call(own.method(maker, "__init__"), {"self": Thing({"class": maker}), "cache": cache})
    assert (str(result) if isinstance(result, Stop) else result) == says


def test_sites_that_raise(shop: Package) -> None:
    found = common.find_refusals(shop, ["shop/making.py"], {"current_platform": Thing({"device": "ask"})})
    by_text = {r.says: r for r in found.values()}
    assert set(by_text) == {"no {cache} below 8.9, use another", "only there"}  # none of `forward`, none of depth
    assert by_text["only there"].when == "not cache == 'auto' and (not on_gfx9())"
    assert "gfx942" not in by_text["only there"].unknown
    assert by_text["only there"].yes == ()
    below = by_text["no {cache} below 8.9, use another"]
    assert "sm86" in below.unknown  # the cache is not known here
    assert "sm90" not in (*below.yes, *below.unknown)


def test_the_reader_of_max(tmp_path: Path) -> None:
    enums = '_SUPPORTED_DEVICES = {"bfloat16": ("gpu",), "q4": ("cpu",)}'
    config = 'class OwnConfig:\n    SUPPORTED: ClassVar[set[str]] = {"bfloat16", "q4"}\n'
    arch = (
        "from max.pipelines.lib import SupportedArchitecture\nfrom .model_config import OwnConfig\n"
        'own = SupportedArchitecture(name="OwnForCausalLM", supported_encodings=OwnConfig.SUPPORTED, '
        "multi_gpu_supported=True)\n"
    )
    folder = "max/pipelines/architectures/own"
    files = {"max/pipelines/modeling/config_enums.py": enums, f"{folder}/arch.py": arch}
    facts = others.read_max(Package(wheel(tmp_path, {**files, f"{folder}/model_config.py": config})))
    assert facts.architectures == {"OwnForCausalLM": ("bfloat16", "q4", "multi-gpu")}
    assert facts.methods["bfloat16"].yes == ("cuda", "rocm", "metal")


def test_the_reader_of_lmdeploy(tmp_path: Path) -> None:
    files = {
        "lmdeploy/turbomind/supported_models.py": "SUPPORTED_ARCHS = dict(OwnForCausalLM='own')",
        "lmdeploy/pytorch/models/module_map.py": "MODULE_MAP = dict()\nASCEND_MODULE_MAP = dict()\n"
        "REMOVED_MODEL_MAP = {'OldForCausalLM': 'Old'}\nMODULE_MAP.update({'OwnForCausalLM': 'a'})\n"
        "MODULE_MAP.update({'NewForCausalLM': 'b'})\n"
        "ASCEND_MODULE_MAP.update({'NewForCausalLM': 'c'})",
        "lmdeploy/turbomind/converter.py": "_SUPPORTED_GROUP_SIZES = {'awq': frozenset({128})}",
        "lmdeploy/pytorch/config.py": "def from_config(quant_method):\n    if quant_method == 'fp8':\n        pass\n",
        "lmdeploy/messages.py": "def check(self):\n    assert self.device_type in ['cuda', 'ascend']\n",
    }
    facts = others.read_lmdeploy(Package(wheel(tmp_path, files)))
    assert facts.architectures == {
        "NewForCausalLM": ("pytorch", "pytorch-ascend"),
        "OwnForCausalLM": ("turbomind", "pytorch"),
    }
    assert facts.removed == {"OldForCausalLM": "Old"}
    assert {n: m.yes for n, m in facts.methods.items()} == {
        "turbomind/awq": ("cuda",),
        "pytorch/fp8": ("cuda", "ascend"),
    }


def facts(*architectures: str, least: int = 80) -> Facts:
    return Facts(
        architectures=dict.fromkeys(architectures, ("text",)),
        methods={"fp8": Method(config="Own", least=least, yes=("cuda",))},
        backends={"ONE": Backend(file="a.py", config="One", accepts=(ShapeSupport(shapes=("s",), cache=("auto",)),))},
        kernels={"K": Kernel(file="b.py", unknown=("sm90",))},
    )


def test_older_releases_are_differences_and_come_back_whole() -> None:
    releases = {"1.0": facts("A", "B"), "1.1": facts("B", "C", least=75), "1.2": facts("B", "C", "D", least=75)}
    file = None
    for version in ("1.1", "1.2", "1.0"):  # in any order
        file = put(file, "vllm", version, releases[version], "2026-01-01")
    assert file is not None
    assert (file.version, [o.version for o in file.older]) == ("1.2", ["1.1", "1.0"])
    assert file.older[0].lacks == {"architectures": ("D",)}
    assert {v: read_facts(file, v) for v in releases} == releases
    assert read_facts(file, "0.9") is None
    text = dump(file)
    again = msgspec.convert(yaml.safe_load(text), StartsFile)
    assert again == file
    assert dump(put(again, "vllm", "1.1", releases["1.1"], "2027-01-01")) == text  # nothing changes the second time


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def committed(request: pytest.FixtureRequest) -> StartsFile:
    return msgspec.convert(yaml.safe_load(request.param.read_text()), StartsFile)


def test_committed_facts_are_whole(committed: StartsFile) -> None:
    assert committed.devices == tuple(d.name for d in DEVICES)
    for version in (committed.version, *(o.version for o in committed.older)):
        found = read_facts(committed, version)
        assert found is not None
        assert len(found.architectures) >= 20 or len(found.files) >= 20
        if version == committed.version:  # without a wheel: architectures alone
            assert found.methods or found.configs or not committed.package
        assert all(kinds for kinds in found.architectures.values())
        known = {*committed.devices, "all", "cuda", "rocm", "metal", "ascend", "maca", "camb"}
        accepted = (a for b in found.backends.values() for a in b.accepts)
        rows: list[Any] = [*found.methods.values(), *found.kernels.values(), *found.refusals.values(), *accepted]
        for row in rows:
            assert {*row.yes, *row.unknown} <= known
            assert not {*row.yes} & {*row.unknown}
        for backend in found.backends.values():
            assert {s for a in backend.accepts for s in a.shapes} <= set(committed.shapes)


@pytest.mark.slow
def test_committed_files_are_as_the_command_writes_them() -> None:
    for path in FILES:
        text = path.read_text()
        assert dump(msgspec.convert(yaml.safe_load(text), StartsFile)) == text


def devices(found: Facts, backends: tuple[str, ...], shape: str, cache: str = "auto") -> set[str]:
    """Devices on which one of these backends takes a shape."""
    rows = (a for name in backends for a in found.backends[name].accepts if shape in a.shapes and cache in a.cache)
    names = {n for a in rows for n in a.yes}
    return {d.name for d in DEVICES if {d.name, d.platform, "all"} & names}


def test_results_that_were_read_by_hand() -> None:
    """Of vLLM 0.33.0, read in its sources on 2026-11-26 by people who did not have this reader."""
    file = msgspec.convert(yaml.safe_load((RULES / "vllm.yaml").read_text()), StartsFile)
    found = read_facts(file, "0.33.0")
    assert found is not None
    cuda = {d.name for d in DEVICES if d.platform == "cuda"}
    every = tuple(found.backends)
    assert devices(found, every, "sparse-mla") & cuda == {"sm90", "sm100", "sm103", "sm120", "sm121"}
    assert devices(found, every, "compressed-sparse", "fp8") & cuda == {"sm90", "sm100", "sm103", "sm120", "sm121"}
    assert devices(found, ("FLASHMLA_SPARSE_DSV4",), "compressed-sparse") == {"sm90", "sm100", "sm103"}
    tried = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")
    assert "sm75" not in devices(found, tried, "dense-128", "fp8")
    assert {"sm80", "sm86"} <= devices(found, ("FLASHINFER",), "dense-128", "fp8")
    assert not {"sm80", "sm86"} & devices(found, ("FLASH_ATTN", "TRITON_ATTN"), "dense-128", "fp8")
    assert not {"sm80", "sm86"} & devices(found, every, "dense-192", "fp8")
    assert not {"sm80", "sm86"} & devices(found, every, "sinks-64", "fp8")
    assert not {"sm80", "sm86"} & devices(found, every, "mla", "fp8")
    assert {"sm89", "sm90", "sm100", "sm120"} <= devices(found, tried, "dense-128", "fp8")
    assert [found.methods[n].least for n in ("fp8", "modelopt_fp4", "mxfp4")] == [75, 75, 80]
    assert (len(found.tool_parsers), len(found.reasoning_parsers)) == (58, 42)
    assert "MiniMaxM1ForCausalLM" in found.removed
    oldest = read_facts(file, "0.29.0")
    assert oldest is not None
    assert (len(oldest.tool_parsers), len(oldest.reasoning_parsers)) == (49, 32)
    assert "FLASHINFER_MLA_SPARSE_SM90" not in oldest.backends


def test_texts_are_cut_with_a_mark_of_what_follows() -> None:
    long = ast.parse("x = " + " + ".join(f"number_{i}" for i in range(200)))
    other = ast.parse("x = " + " + ".join(f"number_{i}" for i in range(199)))
    assert common.shorten(long)[:300] == common.shorten(other)[:300]
    assert common.shorten(long) != common.shorten(other)


@pytest.mark.parametrize("home", ["vllm/v1/attention/backend.py", "vllm/attention/backends/abstract.py"])
@pytest.mark.parametrize("base", ["Enum", "object"])
def test_what_a_decoder_is_called(home: str, base: str, tmp_path: Path) -> None:
    """A member of an enumeration, before 0.14 a word: both are what the engine's own expressions compare with."""
    text = f"from enum import Enum\nclass AttentionType({base}):\n    DECODER = 'decoder'\n"
    package = Package(wheel(tmp_path, {"vllm/__init__.py": "", home: text}))
    evaluator = Evaluator(package, DEVICES[0])
    own = evaluator.expression(ast.parse("AttentionType.DECODER", mode="eval").body, package.module(home))
    assert vllm._name_decoder(evaluator) == own
    assert own == (Symbol("DECODER") if base == "Enum" else "decoder")
