"""Models read from GGUF files against the same models read from their config.json, and against published counts.

The tensor tables are written after llama.cpp's conversion (names from the `gguf` package); published counts are
the element counts that the repositories state (Hugging Face metadata in llmfit 1.1.17).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf_files as g
import pytest

from advisor.catalog import catalog
from advisor.errors import AdvisorError, BadFile
from advisor.models.gguf import read_gguf
from advisor.models.gguf_model import model_from_gguf
from advisor.models.hf_config import model_from_config
from advisor.models.parameters import text_params
from advisor.models.types import Encoder, Model

ARCHITECTURES, CONFIGS = catalog().gguf_architectures, Path(__file__).parent / "configs"
Spec = tuple[str, dict[str, Any], g.Tensors]


def llama8b() -> Spec:
    d, t = 4096, g.ends(4096, 128256)
    for i in range(32):
        t += g.attention(i, d, 32, 8, 128) + g.mlp(i, d, 14336)
    return "llama", g.base(32, d, 32, 8, rope__dimension_count=128), [*t, ("rope_freqs.weight", (64,))]


def gemma3() -> Spec:
    d, t = 640, g.ends(640, 262144, tied=True)
    for i in range(18):
        t += g.attention(i, d, 4, 1, 256, norms=True) + g.mlp(i, d, 2048)
        t += [(f"blk.{i}.post_attention_norm.weight", (d,)), (f"blk.{i}.post_ffw_norm.weight", (d,))]
    return "gemma3", g.base(18, d, 4, 1, attention__sliding_window=512, attention__key_length=256), t


def gpt_oss() -> Spec:
    d, t = 2880, g.ends(2880, 201088)
    for i in range(24):
        b = f"blk.{i}."
        t += [*g.attention(i, d, 64, 8, 64, biases=("q", "k", "v", "output")), (b + "attn_sinks.weight", (64,))]
        t += g.experts(i, d, 2880, 32)
        t += [(b + "ffn_gate_inp.bias", (32,))]
        t += [(f"{b}ffn_{n}_exps.bias", (2880, 32)) for n in ("gate", "up", "down")]
    return "gpt-oss", g.base(24, d, 64, 8, attention__sliding_window=128, expert_used_count=4, expert_count=32), t


def deepseek2() -> Spec:
    d, t = 2048, g.ends(2048, 102400)
    for i in range(27):
        b = f"blk.{i}."
        t += [
            (b + "attn_norm.weight", (d,)),
            (b + "attn_q.weight", (d, 16 * 192)),
            (b + "attn_kv_a_mqa.weight", (d, 576)),
            (b + "attn_kv_a_norm.weight", (512,)),
            (b + "attn_k_b.weight", (128, 512, 16)),
            (b + "attn_v_b.weight", (512, 128, 16)),
            (b + "attn_output.weight", (16 * 128, d)),
        ]
        t += g.mlp(i, d, 10944) if i == 0 else g.experts(i, d, 1408, 64, shared=2816)
    mla = {"attention__kv_lora_rank": 512, "attention__key_length_mla": 192, "attention__value_length_mla": 128}
    return "deepseek2", g.base(27, d, 16, 1, expert_used_count=6, expert_shared_count=2, **mla), t


def qwen3next() -> Spec:
    d, t = 2048, g.ends(2048, 151936)
    for i in range(48):
        b = f"blk.{i}."
        if (i + 1) % 4 == 0:
            t += [
                (b + "attn_norm.weight", (d,)),
                (b + "attn_q.weight", (d, 2 * 16 * 256)),
                (b + "attn_k.weight", (d, 512)),
                (b + "attn_v.weight", (d, 512)),
                (b + "attn_output.weight", (4096, d)),
                (b + "attn_q_norm.weight", (256,)),
                (b + "attn_k_norm.weight", (256,)),
            ]
        else:
            t += [
                (b + "attn_norm.weight", (d,)),
                (b + "attn_qkv.weight", (d, 8192)),
                (b + "attn_gate.weight", (d, 4096)),
                (b + "ssm_ba.weight", (d, 64)),
                (b + "ssm_conv1d.weight", (4, 8192)),
                (b + "ssm_dt.bias", (32,)),
                (b + "ssm_a", (32,)),
                (b + "ssm_norm.weight", (128,)),
                (b + "ssm_out.weight", (4096, d)),
            ]
        t += [*g.experts(i, d, 512, 512, shared=512), (b + "ffn_gate_inp_shexp.weight", (d,))]
    keys = g.base(48, d, 16, 2, expert_used_count=10, ssm__state_size=128, ssm__time_step_rank=32, ssm__group_count=16)
    return "qwen3next", keys, t


def falcon_h1() -> Spec:
    d, t = 1024, g.ends(1024, 32784)
    for i in range(36):
        t += g.attention(i, d, 8, 2, 64) + _mamba2(i, d, 24, 64, 128, 1, norm=False)[1:] + g.mlp(i, d, 2048)
    return "falcon-h1", g.base(36, d, 8, 2, ssm__state_size=128), t


def _mamba2(i: int, d: int, heads: int, hd: int, state: int, groups: int, norm: bool = True) -> g.Tensors:
    b, inner = f"blk.{i}.", heads * hd
    conv = inner + 2 * groups * state
    out: g.Tensors = [
        (b + "attn_norm.weight", (d,)),
        (b + "ssm_in.weight", (d, inner + conv + heads)),
        (b + "ssm_conv1d.weight", (4, conv)),
        (b + "ssm_conv1d.bias", (conv,)),
        (b + "ssm_dt.bias", (heads,)),
        (b + "ssm_a", (1, heads)),
        (b + "ssm_d", (1, heads)),
        (b + "ssm_out.weight", (inner, d)),
    ]
    return [*out, (b + "ssm_norm.weight", (inner // groups, groups))] if norm else out


def granite() -> Spec:
    d, t = 4096, g.ends(4096, 100352, tied=True)
    kv = [8 if i in (5, 15, 25, 35) else 0 for i in range(40)]
    for i in range(40):
        t += g.attention(i, d, 32, 8, 128) if kv[i] else _mamba2(i, d, 128, 64, 128, 1)
        t += g.experts(i, d, 768, 72, shared=1536)
    return "granitehybrid", g.base(40, d, 32, kv, expert_used_count=10, ssm__state_size=128), t


def nemotron() -> Spec:
    pattern = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
    d, t = 4480, g.ends(4480, 131072)
    for i, kind in enumerate(pattern):
        if kind == "M":
            t += _mamba2(i, d, 128, 80, 128, 8)
        elif kind == "*":
            t += g.attention(i, d, 40, 8, 128)
        else:
            up, down = (d, 15680), (15680, d)
            t += [
                (f"blk.{i}.attn_norm.weight", (d,)),
                (f"blk.{i}.ffn_up.weight", up),
                (f"blk.{i}.ffn_down.weight", down),
            ]
    kv = [8 if k == "*" else 0 for k in pattern]
    return "nemotron_h", g.base(56, d, 40, kv, ssm__state_size=128), t


def lfm2() -> Spec:
    d, t = 1024, g.ends(1024, 65536, tied=True)
    for i in range(16):
        b = f"blk.{i}."
        if i in (2, 5, 8, 10, 12, 14):
            t += g.attention(i, d, 16, 8, 64, norms=True)
        else:
            t += [
                (b + "attn_norm.weight", (d,)),
                (b + "shortconv.conv.weight", (3, d)),
                (b + "shortconv.in_proj.weight", (d, 3 * d)),
                (b + "shortconv.out_proj.weight", (d, d)),
            ]
        t += g.mlp(i, d, 4608)
    return "lfm2", g.base(16, d, 16, [8] * 16, shortconv__l_cache=3), t


def mamba() -> Spec:
    d, inner, t = 4096, 8192, g.ends(4096, 65024)
    for i in range(64):
        b = f"blk.{i}."
        t += [
            (b + "attn_norm.weight", (d,)),
            (b + "ssm_in.weight", (d, 2 * inner)),
            (b + "ssm_conv1d.weight", (4, inner)),
            (b + "ssm_conv1d.bias", (inner,)),
            (b + "ssm_x.weight", (inner, 256 + 32)),
            (b + "ssm_dt.weight", (256, inner)),
            (b + "ssm_dt.bias", (inner,)),
            (b + "ssm_a", (16, inner)),
            (b + "ssm_d", (inner,)),
            (b + "ssm_out.weight", (inner, d)),
        ]
    return "mamba", g.base(64, d, 0, 0, ssm__state_size=16, ssm__inner_size=inner), t


def glm_air() -> Spec:
    d, t = 4096, g.ends(4096, 151552)
    for i in range(47):
        t += g.attention(i, d, 96, 8, 128, biases=("q", "k", "v"))
        t += g.mlp(i, d, 10944) if i == 0 else g.experts(i, d, 1408, 128, shared=1408, bias=True)
    b = "blk.46.nextn."
    t += [(b + "eh_proj.weight", (2 * d, d)), (b + "embed_tokens.weight", (d, 151552))]
    t += [(b + "shared_head_head.weight", (d, 151552)), (b + "enorm.weight", (d,)), (b + "hnorm.weight", (d,))]
    t += [(b + "shared_head_norm.weight", (d,))]
    keys = g.base(47, d, 96, 8, expert_used_count=8, nextn_predict_layers=1, expert_shared_count=1, context=131072)
    return "glm4moe", keys, t


def phi3() -> Spec:
    d, t = 5120, g.ends(5120, 32064)
    for i in range(40):
        b = f"blk.{i}."
        t += [
            (b + "attn_norm.weight", (d,)),
            (b + "attn_qkv.weight", (d, 60 * 128)),
            (b + "attn_output.weight", (d, d)),
            (b + "ffn_norm.weight", (d,)),
            (b + "ffn_up.weight", (d, 2 * 17920)),
            (b + "ffn_down.weight", (17920, d)),
        ]
    return "phi3", g.base(40, d, 40, 10, attention__sliding_window=2047), t


def gemma4() -> Spec:
    d, t = 2816, g.ends(2816, 262144, tied=True)
    windowed = [(i + 1) % 6 != 0 for i in range(30)]
    for i in range(30):
        b = f"blk.{i}."
        hd, kv = (256, 8) if windowed[i] else (512, 2)
        layer = g.attention(i, d, 16, kv, hd, norms=True)
        t += layer if windowed[i] else [x for x in layer if "attn_v" not in x[0]]
        t += g.experts(i, d, 704, 128) + g.mlp(i, d, 2112)[1:]
        t += [
            (b + "ffn_gate_inp.scale", (d,)),
            (b + "ffn_down_exps.scale", (128,)),
            (b + "layer_output_scale.weight", (1,)),
        ]
        names = ("post_attention_norm", "post_ffw_norm", "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
        t += [(f"{b}{n}.weight", (d,)) for n in names]
    keys = g.base(30, d, 16, [8 if w else 2 for w in windowed], expert_used_count=8, attention__sliding_window=1024)
    return "gemma4", {**keys, ".attention.sliding_window_pattern": windowed}, t


# config, writer, text elements that the repository states without what GGUF leaves out
CASES: list[tuple[str, Callable[[], Spec], int]] = [
    ("meta-llama--Llama-3.1-8B-Instruct", llama8b, 8030261248),
    ("google--gemma-3-270m-it", gemma3, 268098176),
    ("openai--gpt-oss-20b", gpt_oss, 20914757184),
    ("deepseek-ai--DeepSeek-V2-Lite-Chat", deepseek2, 15706484224),
    ("Qwen--Qwen3-Coder-Next", qwen3next, 79674391296),
    ("tiiuae--Falcon-H1-0.5B-Instruct", falcon_h1, 521411104),
    ("ibm-granite--granite-4.0-h-small", granite, 32207337984),
    ("nvidia--NVIDIA-Nemotron-Nano-9B-v2", nemotron, 8888227328),
    ("LiquidAI--LFM2-350M", lfm2, 354483968),
    ("tiiuae--falcon-mamba-7b-instruct", mamba, 7272665088),
    ("zai-org--GLM-4.5-Air", glm_air, 106852251264),
    ("microsoft--Phi-3-medium-4k-instruct", phi3, 13960238080),
    ("google--gemma-4-26B-A4B-it", gemma4, 25805936206 - 572794416),
]


def read(tmp_path: Path, spec: Spec) -> Model:
    file = read_gguf(g.write(tmp_path / "m.gguf", *spec, data=False))
    return model_from_gguf(file, None, ARCHITECTURES)


@pytest.mark.parametrize(("config", "make", "published"), CASES, ids=[c[0] for c in CASES])
def test_gguf_agrees_with_config_and_published_count(
    tmp_path: Path, config: str, make: Callable[[], Spec], published: int
) -> None:
    model = read(tmp_path, make())
    other = model_from_config(json.loads((CONFIGS / f"{config}.json").read_text()), config, catalog().config_classes)
    assert model.params_total == published
    assert text_params(model) == published
    assert model.layout == other.layout
    assert model.params_active == other.params_active


def test_mtp_block_is_not_a_layer(tmp_path: Path) -> None:
    model = read(tmp_path, glm_air())
    assert model.layout is not None
    assert model.layout.n_layers == 46
    assert model.mtp is not None
    assert model.mtp.layers == 1
    assert model.mtp.per_layer == 3616573568  # published MTP size of GLM-4.5-Air
    assert model.params_stored == 110468824832


def test_encoder_has_no_cache(tmp_path: Path) -> None:
    d, t = (
        384,
        [("token_embd.weight", (384, 30522)), ("position_embd.weight", (384, 512)), ("token_types.weight", (384, 2))],
    )
    t += [("token_embd_norm.weight", (d,)), ("token_embd_norm.bias", (d,))]
    for i in range(12):
        b = f"blk.{i}."
        t += g.attention(i, d, 12, 12, 32, biases=("q", "k", "v", "output"))[1:] + g.mlp(i, d, 1536, gated=False)[1:]
        t += [(f"{b}{n}", (d,)) for n in ("attn_output_norm.weight", "attn_output_norm.bias", "ffn_down.bias")]
        t += [(f"{b}layer_output_norm.{n}", (d,)) for n in ("weight", "bias")] + [(b + "ffn_up.bias", (1536,))]
    keys = {**g.base(12, d, 12, 12, context=512), "bert.attention.causal": False, "bert.pooling_type": 2}
    model = read(tmp_path, ("bert", keys, t))
    assert model.kind == "embedding"
    assert model.layout is not None
    assert all(isinstance(a, Encoder) for a in model.layout.attention)
    assert model.params_total == 33360000 - 147840  # published bge-small without its pooler


def test_quantized_file_and_its_size(tmp_path: Path) -> None:
    def kind(name: str, shape: tuple[int, ...]) -> str:
        return "F32" if len(shape) == 1 else "Q8_0"

    path = g.tiny(tmp_path / "tiny.gguf", type_of=kind)
    model = model_from_gguf(read_gguf(path), "tiny", ARCHITECTURES)
    assert model.native_quant == "Q8_0"
    assert model.published["gguf:Q8_0"].bytes == path.stat().st_size
    assert model.id == "tiny"
    assert model.layout and model.layout.vocab_size == 96  # noqa: PT018


TWO_LAYERS = [*g.ends(4, 8), *g.attention(0, 4, 1, 1, 4), *g.attention(1, 4, 1, 1, 4)]


@pytest.mark.parametrize(
    ("arch", "keys", "tensors", "says"),
    [
        ("clip", {"general.type": "mmproj"}, [("v.x", (4,))], "vision projector"),
        ("llama", {"general.type": "adapter"}, [("a", (4,))], "adapter"),
        ("llama", {}, [("token_embd.weight", (4, 4))], "block_count"),
        ("llama", g.base(10**6, 4, 1, 1), [("token_embd.weight", (4, 4))], "block_count"),
        ("llama", g.base(1, 4, 3, 1), [*g.ends(4, 8), *g.attention(0, 4, 1, 1, 4), *g.mlp(0, 4, 8)], "not a multiple"),
        ("llama", g.base(1, 4, "many", 1), [*g.ends(4, 8), *g.attention(0, 4, 1, 1, 4)], "head_count"),
        ("llama", g.base(2, 4, 1, [1]), TWO_LAYERS, "entries"),
        ("llama", g.base(2, 4, 1, 1), [*g.ends(4, 8), *g.attention(0, 4, 1, 1, 4)], "layer 1 has no tensors"),
        ("llama", g.base(1, 4, 1, 1), [*g.ends(4, 8), *g.attention(1, 4, 1, 1, 4)], "beyond"),
        ("llama", g.base(1, 4, 1, 1), [], "no tensors"),
    ],
)
def test_unusable_files_say_what_is_wrong(
    tmp_path: Path, arch: str, keys: dict[str, Any], tensors: g.Tensors, says: str
) -> None:
    with pytest.raises(BadFile, match=says):
        read(tmp_path, (arch, keys, tensors))


def test_unknown_architectures(tmp_path: Path) -> None:
    d, t = 64, g.ends(64, 96)
    for i in range(2):
        t += g.attention(i, d, 4, 2, 16) + g.mlp(i, d, 128)
    model = read(tmp_path, ("brandnew", g.base(2, d, 4, 2), t))
    assert not model.verified
    assert "brandnew" in (model.notes or "")
    rwkv = [*g.ends(64, 96), ("blk.0.time_mix_key.weight", (64, 64))]
    with pytest.raises(AdvisorError) as e:
        read(tmp_path, ("rwkv7", g.base(1, d, 0, 0), rwkv))
    assert e.value.code == "unknown_architecture"


def test_layers_that_run_several_times_are_refused(tmp_path: Path) -> None:
    d, t = 64, g.ends(64, 96)
    for i in range(2):
        t += g.attention(i, d, 4, 2, 16) + g.mlp(i, d, 128)
    once = read(tmp_path, ("nanbeige", {**g.base(2, d, 4, 2), ".num_loops": 1}, t))
    assert once.known_layout.n_layers == 2
    with pytest.raises(AdvisorError, match="several times"):
        read(tmp_path, ("nanbeige", {**g.base(2, d, 4, 2), ".num_loops": 2}, t))
