"""rules/hf-generated.yaml: what the model types of a release of transformers do that no key of a config says.

    python tests/facts/layouts.py --folder FOLDER [--write]      the difference to what is committed, and the files
    python tests/facts/layouts.py --folder FOLDER --since WHEEL  what an earlier release lacks, by rules without it
    python tests/facts/layouts.py --blind                        types of rules/hf.yaml, read as if the hand had not

`--version V` takes another release than the newest, `--wheel FILE` its wheel. FOLDER keeps an environment with torch
and that release (2.5 GB): what is read must have the parameters of the modules that it makes, to 1 %.

The wheel comes from the package index into a folder that is thrown away. Its sources are parsed, never imported or
run. Types that rules/hf.yaml knows are left to it; one whose layers this reader does not know is listed as `unread`
with the reason.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import difflib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from advisor.catalog.own_models import list_plain_fields
from advisor.errors import AdvisorError
from advisor.models.hf_config import model_from_config
from advisor.models.hf_keys import ModelTraits

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).parent)]
from class_defaults import MODELS, Config, Unread, find_class  # noqa: E402
from versions import newest  # noqa: E402

from tools.starts import common  # noqa: E402
from tools.starts.__main__ import fetch  # noqa: E402
from tools.starts.package import Package  # noqa: E402

OUT = Path(__file__).resolve().parents[2] / "rules" / "hf-generated.yaml"
MODELS_OUT = OUT.parent / "models" / "generated.yaml"
MODELS_HEAD = """\
# Models whose layers are the defaults of a configuration class, which names them, and whose name states as many
# parameters. GENERATED: written by `make facts STEPS=layouts`; one that another file has is left out.
"""
NAMED_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z])", re.I)
NAMED_CLOSE = 0.07  # of the parameters that a name states
HEAD = """\
# Types of models that rules/hf.yaml does not know, as the classes of a release of transformers make them. GENERATED:
# written by `make facts STEPS=layouts`, nothing here is by hand. `unread`: types whose layers the generator does not
# read, with the reason; `checkpoints`: the repository that each class's defaults are of.
"""
USUAL = {f.name: f.default for f in msgspec.structs.fields(ModelTraits) if f.default is not msgspec.NODEFAULT}
OTHER_MIXERS = re.compile(
    r"Mamba|SSM|Rwkv|RWKV|Lightning|Retention|KDA|Conv|Recurrent|Indexer|Compress|Mixer|CCA|N[gG]ram|Engram|DeltaAttention"
)
MORE_THAN_ONCE = re.compile(
    r"loop|recur|cycle|ut_steps|kv_shared|num_kv_shared", re.I
)  # keys of layers that share or repeat
CLOSE = 0.01  # of the parameters
# attributes that hold matrices which the mixers and networks of `advisor.models` count
COUNTED = frozenset(
    [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "dense",
        "gate_proj",
        "g_proj",
        "up_proj",
        "down_proj",
        "gate_up_proj",
        "w1",
        "w2",
        "w3",
        "fc1",
        "fc2",
        "c_fc",
        "c_proj",
        "wg",
        "gate",
        "router",
        "shared_expert_gate",
        "input_linear",
        "output_linear",
        "qkv_proj",
        "query_key_value",
        "q_a_proj",
        "q_b_proj",
        "kv_a_proj_with_mqa",
        "kv_b_proj",
        "in_proj_qkv",
        "in_proj_z",
        "in_proj_b",
        "in_proj_a",
        "in_proj_qkvz",
        "in_proj_ba",
        "in_proj",
        "out_proj",
        "conv",
        "conv1d",
        "wq_b",
        "wk",
        "weights_proj",
    ]
)
MATRIX = re.compile(r"nn\.(Linear|Embedding|Conv\d?d?|ModuleList)|Linear\(")


class Modules:
    """The classes of the source that a model's layers stand in."""

    def __init__(self, package: Package, causal: str) -> None:
        path, _ = find_class(package, causal, "modeling")
        self.package, self.path = package, path
        classes = {
            n.node.name: n.node
            for found in package.module(path).names.values()
            for n in found[-1:]
            if isinstance(n.node, ast.ClassDef)
        }
        self.classes: dict[str, ast.ClassDef] = classes
        layers = [n for n in classes if re.search(r"(Text)?DecoderLayer$", n) and "Vision" not in n]
        if not layers:
            raise Unread("no class of a decoder layer")
        self.layer = min(layers, key=lambda n: ("Text" not in n, len(n)))
        self.used = set(self._names(self.layer))

    def _names(self, name: str) -> Iterator[str]:
        """A class and all that it makes, as far as they stand in the same source."""
        seen, todo = set(), [name]
        while todo:
            now = todo.pop()
            if now in seen or now not in self.classes:
                continue
            seen.add(now)
            yield now
            todo += [x.id for x in ast.walk(self.classes[now]) if isinstance(x, ast.Name) and x.id in self.classes]

    def find(self, pattern: str) -> list[str]:
        """Names of the classes that a layer is made of whose names end so."""
        return [n for n in sorted(self.used) if re.search(pattern, n)]

    def made(self, name: str) -> dict[str, ast.expr]:
        """What a class's `__init__` gives its attributes; of several, the first."""
        init = next(
            (x for x in self.classes[name].body if isinstance(x, ast.FunctionDef) and x.name == "__init__"), None
        )
        out: dict[str, ast.expr] = {}
        for x in ast.walk(init) if init is not None else ():
            if isinstance(x, ast.Assign) and isinstance(x.targets[0], ast.Attribute):
                out.setdefault(x.targets[0].attr, x.value)
        return out

    def origin(self, name: str) -> str | None:
        """The folder of the model whose class this one derives from, by the source that it is made from."""
        modular = self.path.replace("modeling_", "modular_")
        if modular not in self.package.paths(modular):
            return None
        found = self.package.module(modular).names.get(name)
        bases = found[-1].node.bases if found and isinstance(found[-1].node, ast.ClassDef) else []
        for base in (b.id for b in bases if isinstance(b, ast.Name)):
            try:
                return find_class(self.package, base, "modeling")[0].split("/")[-2]
            except Unread:
                continue
        return None

    def find_uncounted(self) -> str | None:
        """An attribute with a matrix that no mixer of ours counts; None where there is none."""
        for name in sorted(self.used):
            for attribute, value in self.made(name).items():
                if MATRIX.search(ast.unparse(value)) and attribute not in COUNTED:
                    return f"{name}.{attribute}"
        return None

    def has_weight(self, call: ast.expr) -> bool:
        """Whether what is made here holds a parameter: a norm without one weighs nothing."""
        name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if name in self.classes:
            return "nn.Parameter" in ast.unparse(self.classes[name])
        return name.startswith("nn.") or name.endswith("Norm")


def _bias(call: ast.expr | None) -> bool | str:
    """The bias of a Linear: a constant, or the key of the config that switches it."""
    if not isinstance(call, ast.Call):
        return False
    given = next((k.value for k in call.keywords if k.arg == "bias"), None)
    if given is None:
        return "Linear" in ast.unparse(call.func)
    if isinstance(given, ast.Constant):
        return bool(given.value)
    text = ast.unparse(given)
    key = re.search(r"config\.(\w+)", text)
    return key[1] if key else False


def read_traits(
    package: Package, model_type: str, config: Config, causal: str, known: dict[str, ModelTraits]
) -> ModelTraits:
    """The row of a model type. Raises Unread."""
    again = sorted(k for k, v in config.values.items() if MORE_THAN_ONCE.search(k) and v)
    if again:
        raise Unread(f"`{again[0]}`: layers that run more than once, or share their cache")
    modules = Modules(package, causal)
    attention = modules.find(r"(?<!Flash)(?<!Vision)Attention$|Attn$|MLA$")
    if not attention:
        raise Unread("no class of attention")
    made = {k: v for name in reversed(attention) for k, v in modules.made(name).items()}
    row: dict[str, Any] = {"model_types": (model_type,)}
    delta = modules.find(r"GatedDeltaNet$")
    strange = [n for n in modules.find(r".") if OTHER_MIXERS.search(n.removeprefix(modules.layer)) and n not in delta]
    origins = {modules.origin(n) for n in strange}
    like = known.get(next(iter(origins)) or "") if len(origins) == 1 else None
    if (strange and like is None) or len(attention) > 1:
        raise Unread(f"layers of a kind of its own: {', '.join(strange or attention)}")
    if (odd := modules.find_uncounted()) is not None and like is None:
        raise Unread(f"weights of a kind of its own: {odd}")
    if like is not None:
        row["mixer"] = like.mixer
    elif "kv_b_proj" in made:
        row["mixer"] = "mla"
    elif delta:
        row["mixer"] = "delta"
    elif not ({"k_proj", "v_proj"} <= made.keys() or {"qkv_proj", "query_key_value"} & made.keys()):
        raise Unread(f"{attention[0]} has no k_proj and v_proj")
    query = made.get("q_proj") or made.get("qkv_proj") or made.get("query_key_value")
    if row.get("mixer") != "mla":
        row["qkv_bias"], row["o_bias"] = _bias(query), _bias(made.get("o_proj") or made.get("dense"))
    norm = next((made[n] for n in ("q_norm", "query_layernorm", "q_layernorm") if n in made), None)
    if norm is not None and row.get("mixer") != "mla" and modules.has_weight(norm):
        text = ast.unparse(norm)
        row["qk_norm"] = "full" if "num_attention_heads" in text or "hidden_size" in text else "head"
    gate = made.get("gate_proj") or made.get("g_proj")
    if gate is not None or (query is not None and "* 2" in ast.unparse(query)):
        row["gate"] = "elementwise" if gate is None or "head_dim" in ast.unparse(gate) else "headwise"
    row["sinks"] = "sinks" in made
    if "sliding_attention" in (config.values.get("layer_types") or ()):
        row["window"] = "pattern"
    elif config.values.get("sliding_window") and not config.values.get("layer_types"):
        row["window"] = "all"
    mlps = modules.find(r"MLP$|FeedForward$")
    mlp = modules.made(mlps[0]) if mlps else {}
    if {"down_proj", "w2", "fc2", "c_proj", "output_linear"} & mlp.keys() and not {
        "gate_proj",
        "gate_up_proj",
        "w1",
        "w3",
        "input_linear",
    } & mlp.keys():
        row["act"] = "plain"
    row["mlp_bias"] = _bias(
        next((mlp[n] for n in ("down_proj", "w2", "fc2", "c_proj", "output_linear") if n in mlp), None)
    )
    inside = "\n".join(ast.unparse(modules.classes[n]) for n in modules.used)
    row["router_bias"] = "e_score_correction_bias" in inside or "expert_bias" in inside
    row["shared_gate"] = "shared_expert_gate" in inside
    layer = modules.made(modules.layer)
    norms = [k for k, v in layer.items() if "norm" in k.lower() and isinstance(v, ast.Call)]
    row["norms"] = sum(modules.has_weight(layer[k]) for k in norms)
    row["norm_bias"] = any("nn.LayerNorm" in ast.unparse(layer[k]) for k in norms)
    row["tie"] = config.values.get("tie_word_embeddings", True) is True
    plain = {k: v for k, v in row.items() if k == "model_types" or v != USUAL.get(k)}
    return msgspec.convert(plain, ModelTraits)


def read_release(
    package: Package, known: dict[str, ModelTraits], only: tuple[str, ...] | None = None
) -> tuple[dict[str, ModelTraits], dict[str, str], dict[str, Config]]:
    """Rows of the types that `known` lacks, why others have none, and the configurations of all."""
    names = package.module(f"{MODELS}/auto/modeling_auto.py")
    causal = common.read_pairs(names, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    images = common.read_pairs(names, "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")
    configs: dict[str, str] = {}
    for path in ("auto_mappings", "configuration_auto"):
        configs |= common.read_pairs(package.module(f"{MODELS}/auto/{path}.py"), "CONFIG_MAPPING_NAMES")
    rows, unread, made = {}, {}, {}
    of = {c: t for t, c in causal.items() if t in known}  # a class that a known type has, too
    for model_type, name in sorted(causal.items()):
        if (
            model_type in known
            or model_type in images
            or model_type not in configs
            or (only and model_type not in only)
        ):
            continue
        try:
            config = Config(package, model_type, configs[model_type])
            made[model_type] = config
            if model_type in known:
                continue
            if name in of:
                rows[model_type] = msgspec.structs.replace(known[of[name]], model_types=(model_type,), note=None)
            else:
                rows[model_type] = read_traits(package, model_type, config, name, known)
            describe(model_type, rows[model_type], config)
        except (Unread, AdvisorError) as e:
            rows.pop(model_type, None)
            unread[model_type] = " ".join(str(e).split())[:160]
    return rows, unread, made


def _causal(package: Package) -> dict[str, str]:
    return common.read_pairs(package.module(f"{MODELS}/auto/modeling_auto.py"), "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")


def describe(model_type: str, row: ModelTraits, config: Config) -> Any:
    """The model that a class's defaults are, by a row. Raises AdvisorError."""
    plain = {k: v for k, v in config.values.items() if isinstance(v, (int, float, str, bool, list)) or v is None}
    return model_from_config(plain, config.checkpoint or model_type, {model_type: row})


def as_plain(row: ModelTraits) -> dict[str, Any]:
    """A row as a YAML file has it: what is as usual is left out."""
    data = msgspec.to_builtins(row)
    return {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in data.items()
        if k == "model_types" or (v != USUAL.get(k) and v not in ({}, None))
    }


def make_files(package: Package, version: str, day: str, python: str) -> dict[Path, str]:
    """The content of both files: rows whose parameters are those of transformers' own modules, and models of them."""
    rows, unread, configs = read_release(package, _by_hand())
    for t, theirs in ask_referee(python, sorted(rows)).items():
        ours = describe(t, rows[t], configs[t]).params_total
        if isinstance(theirs, str):
            unread[t] = f"transformers makes no model of its defaults: {' '.join(theirs.split())}"
        elif abs(ours / theirs - 1) > CLOSE:
            unread[t] = f"read as {ours:,} parameters, and its modules have {theirs:,}"
        if t in unread:
            del rows[t]
    lines = [HEAD, f"source: transformers {version}, its modeling and configuration classes, parsed and not run\n"]
    lines += [f"as_of: '{day}'\n", "classes:\n"]
    lines += [f"- {_flow(as_plain(r))}\n" for r in rows.values()]
    lines += ["checkpoints:\n", *(f"  {t}: {c.checkpoint}\n" for t, c in configs.items() if t in rows and c.checkpoint)]
    lines += ["unread:\n", *(f"  {t}: {_flow(why)}\n" for t, why in unread.items())]
    return {OUT: "".join(lines), MODELS_OUT: _make_models(rows, configs, version, day)}


def _make_models(rows: dict[str, ModelTraits], configs: dict[str, Config], version: str, day: str) -> str:
    """Entries of models that the catalogue lacks: of these types, and of those by hand."""
    others = (p for p in MODELS_OUT.parent.glob("*.yaml") if p != MODELS_OUT)
    known = {i.lower() for p in others for i in re.findall(r"(?m)^ *- id: (\S+)", p.read_text(encoding="utf-8"))}
    found = []
    for t, row in sorted({**_by_hand(), **rows}.items()):
        config = configs.get(t)
        if config is None or config.checkpoint is None or config.checkpoint.lower() in known:
            continue
        size = NAMED_SIZE.search(config.checkpoint.rpartition("/")[2])
        try:
            model = describe(t, row, config)
        except AdvisorError:
            continue
        if size is None or abs(model.params_total / float(size[1]) / 1e9 - 1) > NAMED_CLOSE:
            continue
        source = (f"defaults of the class of {t} in transformers {version}, {day}",)
        model = msgspec.structs.replace(model, id=config.checkpoint, family=t, aliases=(), source=source)
        found.append(_prune(list_plain_fields(model)))
    body = yaml.safe_dump({"models": found}, sort_keys=False, width=150, allow_unicode=True, default_flow_style=None)
    return MODELS_HEAD + body


def _prune(value: Any) -> Any:
    """Without what is absent or off: the defaults of a model's parts."""
    if isinstance(value, dict):
        pruned = {k: _prune(v) for k, v in value.items()}
        return {k: v for k, v in pruned.items() if k == "tie_embeddings" or v not in (None, False, 0, [], {})}
    return [_prune(x) for x in value] if isinstance(value, list) and value and isinstance(value[0], dict) else value


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False).strip()
    return text.removesuffix("...").strip()


def _by_hand() -> dict[str, ModelTraits]:
    document = yaml.safe_load((OUT.parent / "hf.yaml").read_text(encoding="utf-8"))
    rows = msgspec.convert(document["classes"], list[ModelTraits])
    return {t: r for r in rows for t in r.model_types}


def show_blind(package: Package) -> None:
    """Types of hf.yaml, read as if each were not there: how many are read, and have the parameters that the hand's row
    gives the class's defaults."""
    hand = _by_hand()
    same, asked, away = 0, 0, []
    for t in sorted(hand):
        rows, unread, configs = read_release(
            package, {k: v for k, v in hand.items() if v is not hand[t]}, only=hand[t].model_types
        )
        if t not in rows and t not in unread:
            continue
        asked += 1
        try:
            theirs = describe(t, hand[t], configs[t]).params_total
            ours = describe(t, rows[t], configs[t]).params_total if t in rows else None
        except (AdvisorError, KeyError) as e:
            away.append(f"{t}: {' '.join(str(e).split())[:140]}")
            continue
        same += ours is not None and abs(ours / theirs - 1) <= 0.01
        if ours is None or abs(ours / theirs - 1) > 0.01:
            away.append(f"{t}: {unread[t] if ours is None else f'{ours / theirs - 1:+.2%}'}")
    print(*away, sep="\n")
    print(f"{same} of {asked} read, within 1 % of the row by hand")


REFEREE = """
import json, sys, torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM
for t in sys.argv[1:]:
    try:
        c = AutoConfig.for_model(t)
        with torch.device("meta"):
            m = AutoModelForCausalLM.from_config(c)
        print(json.dumps([t, sum(p.numel() for p in m.parameters())]), flush=True)
    except Exception as e:
        print(json.dumps([t, str(e)[:120]]), flush=True)
"""


def make_referee(folder: Path, version: str) -> str:
    """The Python of an environment with torch and this release of transformers, made where there is none."""
    python = folder / f"transformers-{version}" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        words = ["-m", "pip", "install", "-q", "torch", f"transformers=={version}"]
        subprocess.run([str(python), *words], check=True)
    return str(python)


def ask_referee(python: str, types: list[str]) -> dict[str, int | str]:
    """Parameters of the modules that transformers itself makes of each type's defaults, or why it makes none."""
    done = subprocess.run([python, "-c", REFEREE, *types], capture_output=True, text=True, check=True)
    return dict(map(json.loads, done.stdout.splitlines()))


def compare(package: Package, python: str, since: Package) -> None:
    """Types that an earlier release lacks, by rules that lack them too: parameters by the row that is made of each, and
    as transformers' own modules have them."""
    then = since.module(f"{MODELS}/auto/modeling_auto.py")
    before = common.read_pairs(then, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    known = {t: r for t, r in _by_hand().items() if t in before or t not in _causal(package)}
    rows, unread, configs = read_release(package, known)
    asked = [t for t in sorted({*rows, *unread}) if t not in before]
    close = 0
    for t, theirs in ask_referee(python, asked).items():
        if t not in rows:
            print(f"{t:24} {theirs} not read: {unread.get(t)}")
            continue
        ours = describe(t, rows[t], configs[t]).params_total
        off = None if isinstance(theirs, str) else ours / theirs - 1
        close += off is not None and abs(off) <= 0.01
        print(f"{t:24} ours {ours:>16,} theirs {theirs} {'' if off is None else f'{off:+.3%}'}")
    print(f"{close} of {len(asked)} read, within 1 %")


def main() -> int:
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--version", metavar="V")
    o.add_argument("--wheel", type=Path)
    o.add_argument("--write", action="store_true")
    o.add_argument("--blind", action="store_true")
    o.add_argument("--folder", type=Path, metavar="FOLDER")
    o.add_argument("--since", type=Path, metavar="WHEEL")
    a = o.parse_args()
    version = a.version or newest("transformers")
    if version is None:
        raise SystemExit("the index does not say which release of transformers is the newest: --version")
    with tempfile.TemporaryDirectory() as folder:
        package = Package(a.wheel or fetch("transformers", version, Path(folder)))
        if package.metadata("Version") != [version]:
            raise SystemExit(f"the wheel is not transformers {version}")
        if a.blind:
            show_blind(package)
            return 0
        if a.folder is None:
            raise SystemExit("--folder FOLDER is wanted")
        python = make_referee(a.folder, version)
        if a.since:
            compare(package, python, Package(a.since))
            return 0
        before = {p: p.read_text(encoding="utf-8") if p.exists() else "" for p in (OUT, MODELS_OUT)}
        was = re.search(r"(?m)^as_of: '(.*)'$", before[OUT])
        made = make_files(package, version, was[1] if was else "", python)
        if made == before:
            print(f"as transformers {version} has it: nothing to write")
            return 0
        made = make_files(package, version, datetime.date.today().isoformat(), python)
        for path, text in made.items():
            old, new = (x.splitlines(keepends=True) for x in (before[path], text))
            print("".join(difflib.unified_diff(old, new, path.name, path.name)))
            if a.write:
                path.write_text(text, encoding="utf-8")
        return 0


if __name__ == "__main__":
    sys.exit(main())
