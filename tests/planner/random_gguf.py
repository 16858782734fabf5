"""Random but valid GGUF files, without weights, of any architecture that llama.cpp's library takes.

Keys are drawn; a key that the library misses is added and it is asked again. It says itself which tensors a model with
such keys has; they get types, some classes of optional ones are left out, and its loader must take the file. Every
draw has a name, so that a new one moves no other. Left out: blocks that predict further tokens, windows' patterns.
"""

from __future__ import annotations

import ctypes as c
import re
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, MODEL_ARCH_NAMES, MODEL_TENSORS, GGMLQuantizationType
from llama_engine import ask, libraries

sys.path.append(str(Path(__file__).resolve().parents[1] / "models"))
import gguf_files

Keys, Shapes = dict[str, Any], dict[str, list[int]]
KNOWN = {
    name: {x.name for x in MODEL_TENSORS[arch]} for arch, name in MODEL_ARCH_NAMES.items() if arch in MODEL_TENSORS
}
KNOWN |= {  # the package lacks them: what the one has, the other has
    new: KNOWN[old]
    for old, names in {
        "kimi-linear": ("bailingmoe3", "kimi-k3"), "granite": ("graniteswitch",), "granitemoe": ("granite_swa",),
        "deepseek2": ("deepseek32", "deepseek4", "dots3note", "hy_v4"), "minimax-m2": ("minimax-m3",),
        "qwen35moe": ("qwen4exp",), "qwen3": ("hrm_text", "muse-glimmer", "nanbeige", "spark2_5", "talkie"),
        "qwen3moe": ("cohere2moe", "hy_v3", "laguna", "maple", "mellum", "minimax-01"),
    }.items()
    for new in names
}  # fmt: skip
MANY = 400  # more than architectures that the library has
PLAIN = {"context": 512, "ubatch": 512, "slots": 1, "unified": True, "flash": 1, "keys": "f16", "values": "f16"}
ATTEMPTS = 30  # until the library takes keys, or tensors
EACH_LAYER = ("gemma3n", "gemma4", "deci", "openelm", "nemotron_h", "nemotron_h_moe")  # feed-forward width
EACH_HEADS = ("deci", "openelm", "kimi-linear", "kimi-k3", "bailingmoe3", "plamo2")
LINEAR = ("kimi-linear", "kimi-k3", "bailingmoe3")  # between latent attention
HALF_ROTATED = (
    "minimax-m2",
    "minimax-m3",
    "glm4",
    "glm4moe",
    "stablelm",
    "gptneox",
    "nemotron",
    "bailingmoe2",
    "phi2",
)
LISTED_BARE = ("mimo2", "step35")
CONVOLUTION_BIASED = ("falcon-h1", "nemotron_h", "nemotron_h_moe", "granitehybrid")
FREE = (
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "Q3_K",
    "Q2_K",
    "IQ4_XS",
    "IQ3_S",
    "IQ2_XS",
    "Q8_0",
    "Q4_0",
    "Q5_1",
    "IQ4_NL",
    "MXFP4",
    "F16",
    "BF16",
)
KEPT_F32 = re.compile(
    r"norm|ffn_gate_inp|conv|rope_f|ssm_(a|d|dt|x)\b|time_mix_(w|k|v|r|g|l)|altup|pos_embd|token_types|indexer|hc_"
)
OPTIONAL = re.compile(
    r"scale|rope_f|attn_sinks|_[qk]_norm|_sub_norm|cls|lora|norm_exps|inp_shexp$|d2t|conv_b|output\.input|dense_|^output\.w"
)


class Draw:
    """Choices by name: seed, architecture and name decide."""

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __call__(self, name: str, *choices: Any) -> Any:
        return Random(repr((*self.parts, name))).choice(choices)

    def chance(self, name: str, share: float) -> bool:
        return Random(repr((*self.parts, name))).random() < share


def list_architectures(folder: Path) -> list[str]:
    """Names that the library has, but for those whose parts nobody said."""
    own = libraries(folder, False)
    c.CDLL(str(next(own.glob("libggml.*v*.so"))), mode=c.RTLD_GLOBAL)
    name_of = c.CDLL(str(next(own.glob("libllama.*v*.so"))))._Z13llm_arch_name8llm_arch
    name_of.restype = c.c_char_p
    return [name for i in range(MANY) if (name := name_of(i).decode()) in KNOWN]


def draw_keys(name: str, d: Draw, square: bool, experts: bool) -> Keys:
    """Metadata after the architecture's name. `square`: all heads together are as wide as the model."""
    has, small = KNOWN[name], re.search("bert|embed|^t5|bloom|mpt|gpt2", name)
    head = 64 if small else d("head", 128, 256) if _has_delta(name) else d("head", 64, 128, 128, 80, 96, 192, 256)
    shared, layers = d("shared heads", 1, 2, 4, 8, 8), 30 if name == "gemma3n" else d("layers", 4, 6, 8, 12, 20, 28, 36)
    heads = shared * d("queries", 1, 2, 4, 4, 5, 7, 8)
    shared = heads if square and (small or name in ("gptneox", "phi2")) else shared
    width = heads * head if square else d("width", *range(4, 64)) * 128
    rotated = head // 4 if _has_delta(name) else head // 2 if name in HALF_ROTATED else head
    ffn = d("feed-forward", *range(4, 100)) * 128
    keys: Keys = {
        "vocab_size": d("vocabulary", 32000, 49152, 102400, 128256, 151936, 200064, 248320), "block_count": layers,
        "context_length": d("trained", 8192, 32768, 131072, 1048576), "embedding_length": width,
        "feed_forward_length": [ffn] * layers if name in EACH_LAYER else ffn, "rope.dimension_count": rotated,
        "attention.head_count": [heads] * layers if name in EACH_HEADS else heads, "attention.key_length": head,
        "attention.head_count_kv": [shared] * layers if name in ("deci", "openelm") else shared,
        "attention.value_length": head, "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5,
        "full_attention_interval": 4, "shortconv.l_cache": 3, "leading_dense_block_count": d("dense first", 0, 1, 3),
    }  # fmt: skip
    if not small and d.chance("window", 0.6):
        keys["attention.sliding_window"] = d("window", 128, 512, 1024, 4096)
    if name == "minimax-m3":
        keys["attention.indexer.head_count"] = shared
    if name == "qwen4exp":
        keys["attention.compress_ratios"] = [4 * (i % 4 == 3) for i in range(layers)]
    if name in LINEAR or (
        has & {"SSM_CONV1D", "SHORTCONV_CONV"} and has & {"ATTN_K", "ATTN_QKV"} and not _has_delta(name)
    ):
        keys |= _hybrid(name, keys, d)
    if "ATTN_KV_A_MQA" in has:
        keys |= _latent(keys, d, "ATTN_K_B" in has)
    if any(x.startswith("SSM_") for x in has):
        keys |= _states(name, width, d)
    if small and name not in ("bloom", "mpt", "gpt2"):
        keys |= {"attention.causal": False, "pooling_type": 1}
    keys |= _experts(d) if experts else {}
    if name == "ernie4_5-moe":  # its loader makes experts in every layer: with a step some would do nothing
        keys["interleave_moe_layer_step"] = 1
    return keys


def _has_delta(name: str) -> bool:
    return name.startswith(("qwen35", "qwen3next", "qwen4exp"))


def _hybrid(name: str, keys: Keys, d: Draw) -> Keys:
    """Layers without attention have no heads of keys; Falcon-H1 has both in each layer."""
    layers, every = keys["block_count"], d("attention every", 2, 3, 4, 5, 8)
    kinds = ["attention" if i % every == every - 1 else "state" for i in range(layers)]
    more: Keys = {}
    if name.startswith("nemotron_h"):
        kinds = ["state" if i % 2 == 0 else "attention" if i % 6 == 5 else "feed-forward" for i in range(layers)]
        more["feed_forward_length"] = [
            x if k == "feed-forward" else 0 for k, x in zip(kinds, keys["feed_forward_length"], strict=True)
        ]
    if name != "falcon-h1":
        more["attention.head_count_kv"] = [keys["attention.head_count_kv"] if k == "attention" else 0 for k in kinds]
    return more


def _latent(keys: Keys, d: Draw, absorbed: bool) -> Keys:
    """Ranks of latent attention. `absorbed`: the cache has the latent, as one head."""
    rank, (plain, value) = d("rank", 256, 512), d("latent heads", (128, 128), (192, 256), (64, 64))
    out: Keys = {"attention.q_lora_rank": d("query rank", 768, 1536), "attention.kv_lora_rank": rank}
    if not absorbed:
        return out | {"rope.dimension_count": keys["attention.key_length"] // 2}
    one = {} if isinstance(keys["attention.head_count_kv"], list) else {"attention.head_count_kv": 1}
    return out | one | {
        "attention.key_length": rank + 64, "attention.value_length": rank, "rope.dimension_count": 64,
        "attention.key_length_mla": plain + 64, "attention.value_length_mla": value,
    }  # fmt: skip


def _states(name: str, width: int, d: Draw) -> Keys:
    heads, n = d("state heads", 32, 64, 128), d("linear heads", 16, 32)
    inner, state, rank, groups = heads * 64, d("state", 64, 128), heads, d("groups", 1, 2, 8)
    if _has_delta(name):
        inner, state, rank, groups = n * 128, 128, n, d("groups", 16, n // 2)
    elif name in ("granitehybrid", "plamo2"):
        inner, rank, groups = 2 * width, width // 32, int(name != "plamo2")
    elif name in ("mamba", "jamba"):
        inner, state, rank, groups = 2 * width, 16, d("dt", 128, 256), 0
    sizes = {"inner_size": inner, "state_size": state, "time_step_rank": rank, "group_count": groups, "conv_kernel": 4}
    return {f"ssm.{k}": v for k, v in sizes.items()} | {"ssm.dt_b_c_rms": d("state norms", True, False)}


def _experts(d: Draw) -> Keys:
    n, ffn = d("experts", 8, 16, 64, 128, 256), d("expert width", *range(2, 16)) * 128
    return {
        "expert_count": n, "expert_used_count": d("used", 2, 4, 8) if n > 8 else 2, "expert_feed_forward_length": ffn,
        "expert_shared_count": d("shared experts", 1, 1, 2), "expert_shared_feed_forward_length": d("shared", ffn, 512),
        "expert_gating_func": d("gate", 1, 2), "expert_weights_scale": 2.5, "expert_group_count": 1,
        "expert_group_used_count": 1, "interleave_moe_layer_step": d("step", 1, 2), "moe_every_n_layers": 2,
        "moe_latent_size": 1024, "experts_per_group": 1, "expert_group_scale": 1.0,
    }  # fmt: skip


def answer_missing(key: str, keys: Keys) -> Any:
    """The value of a key that the library asks for; None where it is not known."""
    n, head, rotated = keys["block_count"], keys["attention.key_length"], keys["rope.dimension_count"] // 2
    part = max(1, rotated // 4)
    windows: dict[str, Any] = {"": 1024, "_pattern": [i % 4 != 3 for i in range(n)]}
    values: Keys = {
        **{f"attention.sliding_window{k}": v for k, v in windows.items()}, "features_length": keys["embedding_length"],
        "rope.dimension_sections": [part, part, part, rotated - 3 * part], "rope.dimension_count_swa": head,
        "rope.freq_base_swa": 1e4, "attention.shared_kv_layers": 10, "attention.clamp_kqv": 1.0, "attention.scale": 1.0,
        "attention.max_alibi_bias": 8.0, "attention.group_norm_epsilon": 1e-5, "attention.group_norm_groups": 8,
        "attention.relative_buckets_count": 32, "use_parallel_residual": True, "logit_scale": 1.0,
        "residual_scale": 1.0, "time_mix_extra_dim": 64, "time_decay_extra_dim": 128, "wkv.head_size": 64,
        "kda.head_dim": 128, "altup.active_idx": 0, "altup.num_inputs": 4, "embedding_length_per_layer_input": 256,
        "activation_sparsity_scale": [0.0] * n, "expert_chunk_feed_forward_length": 128, "expert_latent_length": 1024,
        "attention.key_length_swa": head, "attention.value_length_swa": head,
        **{f"attention.{x}_lora_rank": 64 for x in ("decay", "iclr", "value_residual_mix", "gate")},
        "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 2048,
        "attention.indexer.block_size": 4, "attention.indexer.local_blocks": 1, "kda.gate_lower_bound": -5.0,
        "expert_weights_norm": True, "attn_res.block_size": 4, "swiglu_clamp_exp": [7.0] * n,
        "activation.situ_beta": 1.0, "activation.situ_linear_beta": 1.0, "attention.kv_lora_rank_swa": 256,
        "attention.key_length_mla_swa": keys.get("attention.key_length_mla"), "hyper_connection.count": 4,
        "attention.value_length_mla_swa": keys.get("attention.value_length_mla"), "hyper_connection.low_rank": 64,
        "hyper_connection.epsilon": 1e-6, "hyper_connection.magnitude": 1.0, "hrm.layers_per_stack": n // 2,
        "hrm.h_cycles": 2, "hrm.l_cycles": 2, "attention.indexer.types": [i % 4 == 0 for i in range(n)],
    }  # fmt: skip
    return values.get(key)


def _write(
    path: Path, name: str, keys: Keys, tensors: Shapes, type_of: Callable[[str, Any], str] | None = None
) -> None:
    other: Keys = {"tokenizer.ggml.model": "none", "general.file_type": 15, "tokenizer.ggml.token_type_count": 2}
    other |= {f"xielu.{x}": [0.5] * keys["block_count"] for x in ("alpha_n", "alpha_p", "beta", "eps")}
    own = {f".{k}": v for k, v in keys.items()}
    shapes = [(n, tuple(x)) for n, x in tensors.items()]
    gguf_files.write(path, name, own | other, shapes, type_of or (lambda _name, _shape: "F32"))


def list_tensors(folder: Path, path: Path, name: str, keys: Keys) -> Shapes | str:
    """What a model with these keys has, which are completed; or why the library refuses them."""
    count, said = 1, ""
    for _ in range(ATTEMPTS):
        _write(path, name, keys, {"blk.0.attn_norm.weight": [32], **{f"none.{i}": [32] for i in range(count - 1)}})
        got = ask(folder, {"file": str(path), "tensors": True, "mib": [90_000_000]})[0]
        if "tensors" in got:
            return dict(got["tensors"])
        said = got["error"]
        missing = re.search(rf"key not found in model: {re.escape(name)}\.(\S+)", said)
        rotated, number = (re.search(x, said) for x in (r"n_rot.*expected (\d+)", r"expected \d+, got (\d+)"))
        if missing and missing[1] not in keys and (value := answer_missing(missing[1], keys)) is not None:
            keys[missing[1]] = value
        elif rotated and keys["rope.dimension_count"] != int(rotated[1]):
            keys["rope.dimension_count"] = int(rotated[1])
        elif number and not rotated:
            count = int(number[1])
        else:
            break
    return " ".join(re.findall(r"error loading model.*|GGML_ASSERT.*", said)[:1]) or said[-200:]


def choose_type(d: Draw, name: str, shape: tuple[int, ...]) -> str:
    """Most tensors have the file's type, some a type of their class; a row must be whole blocks."""
    if len(shape) < 2 or not name.endswith(".weight") or KEPT_F32.search(name):
        return "F32"
    kind = d("type", *FREE) if d.chance(f"{name} usual", 0.85) else d(name, *FREE)
    fits = {x: shape[0] % GGML_QUANT_SIZES[GGMLQuantizationType[x]][0] == 0 for x in (kind, "Q8_0", "F16")}
    return next(x for x, whole in fits.items() if whole)


def _class(name: str) -> str:
    return re.sub(r"^blk\.\d+\.", "", name)


def _attempts(name: str, d: Draw) -> Iterator[tuple[bool, bool]]:
    """Forms of keys, the drawn one first."""
    can = "FFN_UP_EXP" in KNOWN[name]
    order = [d("experts?", True, False)] if can else [False]
    square = d.chance("square", 0.4)
    yield from product((square, not square), [*order, not order[0]] if can else order)


def make_file(folder: Path, path: Path, name: str, seed: int) -> Keys | str:
    """Write a file that the library loads and plans, and give its keys; or why there is none."""
    d, said = Draw(seed, name), list[str]()
    biased = d.chance("biases", 0.25)
    for form in _attempts(name, d):
        keys = draw_keys(name, d, *form)
        tensors = list_tensors(folder, path, name, keys)
        if isinstance(tensors, str):
            said.append(tensors)
            continue
        _add_parts(name, keys, tensors)
        dropped = {
            x for x in map(_class, tensors)
            if (x.endswith(".bias") and not biased) or (OPTIONAL.search(x) and d.chance(x, 0.7))
        }  # fmt: skip
        fused = {x for x in map(_class, tensors) if "ffn_gate_up_exps" in x}
        for less in (dropped | fused, fused):  # some graphs need what the loader takes for optional
            refused = _finish(folder, path, (name, keys, tensors), d, less)
            if not refused:
                return keys
            said.append(refused)
    return "; ".join(dict.fromkeys(said))


def _finish(folder: Path, path: Path, model: tuple[str, Keys, Shapes], d: Draw, dropped: set[str]) -> str:
    """Write the file without classes of tensors, but for those that the loader misses; its refusal, or nothing."""
    name, keys, tensors = model
    for _ in range(ATTEMPTS):
        kept = {n: x for n, x in tensors.items() if _class(n) not in dropped}
        _write(path, name, keys, kept, lambda n, shape: choose_type(d, n, shape))
        said = str(ask(folder, {"file": str(path), "cuda": False, "cases": [PLAIN]})[0].get("error", ""))
        needed = re.search(r"missing tensor '([^']+)'|tensor '([^']+)' not found", said)
        if needed is None:
            return said
        dropped = dropped - {_class(needed[1] or needed[2])}
    return "tensors without end"


def _add_parts(name: str, keys: Keys, tensors: Shapes) -> None:
    """Tensors that the list lacks since a graph takes them fused or in parts, and biases that a graph always adds."""
    width, inner = keys["embedding_length"], keys.get("ssm.inner_size", 0)
    for tensor in list(tensors):
        layer, _, part = tensor.rpartition(".weight")[0].rpartition(".")
        if part == "ssm_out" and _has_delta(name):
            states = 2 * keys["ssm.state_size"] * keys["ssm.group_count"]
            tensors.setdefault(f"{layer}.attn_qkv.weight", [width, states + inner])
            tensors.setdefault(f"{layer}.attn_gate.weight", [width, inner])
        if part == "attn_output" and name == "phi3":
            heads = keys["attention.head_count"] + 2 * keys["attention.head_count_kv"]
            tensors.setdefault(f"{layer}.attn_qkv.weight", [width, heads * keys["attention.key_length"]])
        if part == "ssm_conv1d" and name in CONVOLUTION_BIASED:
            tensors.setdefault(f"{layer}.ssm_conv1d.bias", tensors[tensor][1:])
        if part == "ffn_up_exps" and name == "ernie4_5-moe":
            tensors.setdefault(f"{layer}.ffn_gate_exps.weight", tensors[tensor])
        if part == "ffn_norm" and name in LISTED_BARE:
            tensors |= {f"{layer}.{x}": shape for x, shape in _feed_forward(keys, int(layer[4:])).items()}
        if part == "ffn_norm" and name == "step35":
            shared = keys.get("expert_shared_feed_forward_length")
            tensors[f"{layer}.attn_gate.weight"] = [width, keys["attention.head_count"]]
            if f"{layer}.ffn_up_exps.weight" in tensors:
                tensors |= {f"{layer}.ffn_{x}_shexp.weight": [width, shared] for x in ("gate", "up")}
                tensors[f"{layer}.ffn_down_shexp.weight"] = [shared, width]


def _feed_forward(keys: Keys, layer: int) -> Shapes:
    """Of a layer that may have a plain part or experts, both of which the list takes for optional."""
    width, ffn, routed = keys["embedding_length"], keys["feed_forward_length"], keys.get("expert_count")
    if not routed or layer < keys["leading_dense_block_count"]:
        names = {"ffn_gate": [width, ffn], "ffn_up": [width, ffn], "ffn_down": [ffn, width]}
    else:
        ffn = keys["expert_feed_forward_length"]
        names = {f"ffn_{x}_exps": [width, ffn, routed] for x in ("gate", "up")}
        names |= {"ffn_down_exps": [ffn, width, routed], "ffn_gate_inp": [width, routed]}
    return {f"{x}.weight": shape for x, shape in names.items()}
