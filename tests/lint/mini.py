"""A small folder of rules that is right, for tests that break one thing in it."""

from __future__ import annotations

from pathlib import Path

CARDS = """\
as_of: '2026-11-21'
vendor: nvidia
accelerators:
- id: card-a
  name: Card A 24GB
  reported_names: [NVIDIA Card A]
  name_pattern: \\bCard A\\b
  pci_ids: [10de:0001]
  architecture: Ada Lovelace
  compute_capability: '8.9'
  memory_bytes: 25769803776
  usable_bytes: 25000000000
  bandwidth_gbs: 1000
  tflops: {fp32: 80, fp16: 160, bf16: 160, fp8: 320}
  mig_profiles: {1g.10gb: 10737418240}
  unknown: [price]
  source: a test
  confidence: 1src
- id: card-b
  name: Card B
  reported_names: [NVIDIA Card B]
  pci_ids: [10de:0002]
  architecture: Ada Lovelace
  compute_capability: '8.9'
  memory_bytes: 17179869184
  unknown: [tflops, bandwidth_gbs, price]
  source: a test
  confidence: 1src
- id: card-c
  name: Card C
  reported_names: [NVIDIA Card C]
  architecture: Ada Lovelace
  compute_capability: '8.9'
  memory_bytes: 8589934592
  unknown: [tflops, bandwidth_gbs, price]
  source: a test
  confidence: 1src
"""

CPUS = """\
as_of: '2026-11-21'
cpu_platforms:
- {id: cpu, vendor: intel, platform: P, channels_per_socket: 8, max_mts: 4800, bandwidth_gbs_per_socket: 307.2,
   probe_pattern: Xeon, source: a test, confidence: 1src}
"""

QUANTIZATIONS = """\
as_of: '2026-11-21'
quantizations:
- {id: BF16, family: none, format: any, bits_nominal: 16, block_bytes: 2, covers: all, quality: 95, source: a test}
- {id: Q8_0, family: gguf, format: gguf, base: Q8_0, bits_nominal: 8.5, block_elements: 32, block_bytes: 34,
   covers: matrices, capability: gguf_kquants, quality: 90, source: a test}
- {id: AWQ, family: hf, format: hf_safetensors, bits_nominal: 4.25, covers: linear, capability: awq, quality: 55,
   source: a test}
"""

# by hand: embeddings 2 x 80; per layer q 64, k 32, v 32, o 64, three 8 x 16 matrices 384, two norms 16; final norm 8
COUNT = 160 + 2 * (64 + 32 + 32 + 64 + 384 + 16) + 8
DENSE = f"""\
family: tiny
models:
- id: org/Dense
  aliases: [dense]
  model_type: tiny
  params_total: {COUNT}
  max_context: 4096
  params_text: {COUNT}
  params_active: {COUNT - 80}
  params_stored: {COUNT}
  layout:
    n_layers: 2
    hidden_size: 8
    vocab_size: 10
    tie_embeddings: false
    attention:
    - {{kind: sliding, n: 1, n_heads: 2, n_kv_heads: 1, head_dim: 4, window: 16}}
    - {{kind: full, n: 1, n_heads: 2, n_kv_heads: 1, head_dim: 4}}
    ffn:
    - {{kind: dense, n: 2, intermediate: 16}}
    attention_order: [0, 1]
  quantized_repos: {{AWQ: org/Dense-AWQ}}
  source: [a test of 2026]
"""
# by hand: 3 matrices of 8 x 4 an expert, 4 experts and a router 8 x 4: 416 a layer; 2 experts and the router act: 224
MOE_COUNT = 160 + 2 * (192 + 416 + 16) + 8
MOE_ACTIVE = 80 + 2 * (192 + 224 + 16) + 8
MOE = f"""\
family: mixed
models:
- id: org/Mixed
  params_total: {MOE_COUNT}
  params_active: {MOE_ACTIVE}
  max_context: 4096
  layout:
    n_layers: 2
    hidden_size: 8
    vocab_size: 10
    tie_embeddings: false
    attention:
    - {{kind: full, n: 2, n_heads: 2, n_kv_heads: 1, head_dim: 4}}
    ffn:
    - {{kind: moe, n: 2, n_experts: 4, top_k: 2, moe_intermediate: 4}}
  source: [a test of 2026]
"""

ENGINE = """\
id: e
name: E
kind: engine
version: '1.0'
health: {status: active}
hardware: {nvidia: {support: 'yes', src: [s]}}
formats: {hf_safetensors: {support: 'yes', src: [s]}}
os:
  linux: {support: 'yes', src: [s]}
quantization:
  awq: {support: 'yes', src: [s]}
  gguf_kquants: {support: 'yes', src: [s]}
quantization_on:
- {quantization: awq, generation: ampere, level: weight_only, src: [s]}
images:
- {lane: cuda, repository: r, tag: 'v{version}', src: [s]}
concepts:
  context_length: {flags: [max-len]}
start: {program: [e, serve], model: ['{model}'], listen: ['--port', '{port}']}
sources:
  s: {title: a test, version: '1.0'}
"""
HISTORY = """\
engine: e
source: a test
as_of: '2026-11-21'
read: ['0.9', '1.0']
flags: {'0.9..': [max-len]}
values: {port: {read_since: '1.0', spans: {'..': [a]}}}
"""
FLAGS = """\
engine: e
version: '1.0'
source: a test of 1.0
flags:
  max-len: {t: int}
  port: {t: int}
"""
RECIPES = """\
engine: e
as_of: '2026-11-21'
source: a test of 1.0
parsers:
- {models: Dense, tool_calls: x, source: a test}
launches:
- {models: ^org/, settings: {max-len: 5}, source: a test}
"""
OFFER = """\
as_of: '2026-11-21'
cloud_offers:
- {provider: p, accelerator: card-a, name: X 24GB, devices: 1, usd_per_hour: 0.5, date: '2026', source: a test}
"""

FILES = {
    "hardware/cards.yaml": CARDS,
    "hardware/cpus.yaml": CPUS,
    "quantizations.yaml": QUANTIZATIONS,
    "models/dense.yaml": DENSE,
    "models/mixed.yaml": MOE,
    "engines/e.yaml": ENGINE,
    "flags/e.yaml": FLAGS,
    "flag-history/e.yaml": HISTORY,
    "recipes/e.yaml": RECIPES,
    "prices/p.yaml": OFFER,
}


def write(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def mini(root: Path, **changed: str) -> Path:
    """The small folder; `hardware__cards=text` replaces or adds hardware/cards.yaml."""
    return write(root, FILES | {f"{name.replace('__', '/')}.yaml": text for name, text in changed.items()})
