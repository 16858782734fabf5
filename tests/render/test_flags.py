"""Every word that is rendered, in every kind of file, is one that the engine's own parser takes."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from flag_facts import PROGRAMS, SAME_AS, facts, problems
from launching import RULES, launch, rendered
from reading import READERS, argv, tabby_config
from sampling import deployments

from advisor.errors import BadInput
from advisor.render import matrix
from advisor.render.files import list_targets, render_files
from advisor.session import Session

FLAGGED = {*PROGRAMS, *SAME_AS}


def check(every: int) -> Counter[str]:
    """Render and check; returns how many files of each target were."""
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for d in deployments(every):
        for target in list_targets(d.engine, RULES):
            try:
                (file,) = render_files(d, target, Session(RULES))
            except BadInput as e:
                if not re.search("no container image|rents accelerators|image is for NVIDIA|cannot stand", e.message):
                    raise
                continue
            seen[target] += 1
            if d.engine not in FLAGGED or target not in READERS or d.engine == "ollama":
                continue
            image = re.search(r"image: \"?([^\s\"]+)|^  (\S+/\S+:\S+) \\$", file.content, re.M)
            name = (image[1] or image[2]) if image else None
            words = argv(target, file.content, name.removeprefix("docker:") if name else None)
            assert words, (d.engine, target)
            wrong += [f"{d.engine} {target}: {p} in {words}" for p in problems(_server(d.engine, target), words)]
    assert not wrong, "\n".join(dict.fromkeys(w.split(" in [")[0] for w in wrong))
    return seen


def _server(engine: str, target: str) -> str:
    """Whose words stand in a file: llama-swap's own file starts llama-server."""
    return "llama.cpp" if (engine, target) == ("llama-swap", "llama-swap") else engine


@pytest.mark.slow
def test_thousands_of_files_hold_only_flags_of_the_engine() -> None:
    """One deployment in so many as no other number divides, so that none of its parts is always the same."""
    seen = check(every=11)
    assert sum(seen.values()) > 4_500, seen
    assert set(seen) == set(matrix.load_targets(RULES).targets), "a target that no sample reached"


def test_the_check_refuses_what_a_parser_refuses() -> None:
    """Each kind of fault, so that the tests above can fail."""
    good = ["vllm", "serve", "m", "--max-model-len", "8192", "--enforce-eager", "--kv-cache-dtype", "fp8"]
    assert problems("vllm", good) == []
    for words, said in (
        (["--max-model-length", "1"], "no such flag"),
        (["--max-num-seqs", "many"], "no integer"),
        (["--kv-cache-dtype", "q8_0"], "not one of"),
        (["--enforce-eager=true"], "takes no value"),
        (["--max-num-seqs"], "no value"),
        (["--swap-space", "4"], "no such flag"),
        (["--hf-overrides", "{"], "no JSON"),
        (["stray"], "no flag"),
    ):
        assert any(said in p for p in problems("vllm", [*good, *words])), words
    assert problems("llama.cpp", ["-m", "x", "--mlock"])
    assert problems("llama.cpp", ["-m", "x", "--draft-max", "4"])


def test_every_file_of_a_deployment_says_the_same() -> None:
    """The words are one list: they differ between files in address, port and the place of the model only."""
    for engine in ("llama.cpp", "vllm", "sglang", "lmdeploy", "max", "tgi", "tensorrt-llm"):
        d = launch(engine, hardware="2x RTX 3090", served_name="a b")
        want = _without_place(engine, argv("command", rendered(d, "command").content, None) or [])
        for target in list_targets(engine, RULES):
            if target not in READERS or target in ("dynamo", "llm-d", "command"):
                continue
            content = rendered(d, target).content
            image = re.search(r"image: \"?([^\s\"]+)|^  (\S+/\S+:\S+) \\$", content, re.M)
            words = argv(target, content, (image[1] or image[2]) if image else None) or []
            keyless = [w for i, w in enumerate(words) if "key" not in w and "key" not in words[i - 1] and w != "MODEL"]
            assert _without_place(engine, keyless) == want, (engine, target)


def _without_place(engine: str, words: list[str]) -> list[str]:
    program = PROGRAMS[engine]
    words = words[len(program) :] if words[: len(program)] == program else words
    return [
        w
        for i, w in enumerate(words)
        if not re.search("host|port|name", w) and not re.search("-host|-port|-name", words[i - 1])
    ]


def test_tabbyapi_gets_keys_that_its_configuration_has() -> None:
    """Keys as read in common/config_models.py of theroyallab/tabbyAPI at 004e8373."""
    network = {"host", "port", "disable_auth"}
    model = {"model_dir", "model_name", "max_seq_len", "cache_size", "cache_mode", "chunk_size", "max_batch_size",
             "gpu_split_auto", "tensor_parallel"}  # fmt: skip
    for hardware in ("RTX 4090", "2x RTX 3090"):
        config = tabby_config(rendered(launch("exllamav3", hardware=hardware), "command").content)
        assert set(config) == {"network", "model"}
        assert set(config["network"]) <= network
        assert set(config["model"]) <= model
        assert config["model"]["cache_size"] % 256 == 0
        assert config["model"]["cache_size"] >= config["model"]["max_seq_len"]


def test_flag_tables_are_consistent() -> None:
    for path in sorted(p.stem for p in (RULES.roots[0] / "flags").glob("*.yaml")):
        known = facts(path)
        if "unread" in known["file"]:  # why there is no table
            assert len(known["file"]["unread"]) > 20
            continue
        assert known["file"]["source"]
        assert known["file"]["version"]
        for names in known["file"].get("since", {}).values():
            assert {f"--{n}" for n in names} <= set(known["kinds"]), set(names) - set(known["file"]["flags"])
        table = matrix.load_flag_table(path, RULES)
        assert table is not None
        assert set(table.spellings()) == set(known["kinds"])


@pytest.mark.parametrize(
    ("engine", "flag", "version", "says"),
    [
        ("vllm", "--language-model-only", "0.33.0", None),
        ("vllm", "--language-model-only", "0.17.1", None),
        ("vllm", "--language-model-only", "0.16.0", "came with 0.17.0"),
        ("vllm", "--swap-space", "0.17.1", None),
        ("vllm", "--swap-space", "0.18.1", "gone"),
        ("vllm", "--rope-scaling", "0.33.0", "--hf-overrides took its place"),
        ("sglang", "--enable-ep-moe", "0.5.4", None),
        ("sglang", "--enable-ep-moe", "0.5.5", "gone"),
        ("llama.cpp", "--mlock", "b10434", None),
        ("llama.cpp", "--mlock", "b11434", "--load-mode mlock"),
        ("llama.cpp", "--n-cpu-ffn", "b10434", "came with b10705"),
        ("vllm", "--nonsense", "0.33.0", "not a flag"),
        ("vllm", "--from-the-future", "0.99.0", None),  # a newer version may have what was not read
    ],
)
def test_flags_by_version(engine: str, flag: str, version: str, says: str | None) -> None:
    why = matrix.explain_missing_flag(matrix.load_flag_table(engine, RULES), flag, version)
    assert why is None if says is None else why is not None and says in why


def test_a_flag_that_the_version_lacks_is_left_out_and_said() -> None:
    d = launch("vllm", hardware="L40S", model="google/gemma-3-4b-it", settings={"language-model-only": True})
    assert "--language-model-only" in rendered(d, "command").content
    old = launch("vllm", hardware="L40S", model="google/gemma-3-4b-it", settings={"language-model-only": True},
                 engine_version="0.15.1")  # fmt: skip
    script = rendered(old, "command").content
    assert "  --language-model-only" not in script
    assert "# Left out: --language-model-only came with 0.17.0." in script
    assert "vLLM 0.15.1" in script


def test_settings_that_nothing_else_writes_are_written_as_asked() -> None:
    asked = {"max-num-partial-prefills": 2, "block-size": 32, "disable-log-stats": True, "enable-prefix-caching": False}
    d = launch("vllm", settings=asked)
    words = argv("command", rendered(d, "command").content, None) or []
    assert words[words.index("--block-size") + 1] == "32"
    assert "--disable-log-stats" in words
    assert "--no-enable-prefix-caching" in words
    assert "--max-num-partial-prefills" not in words  # gone from 0.27.1 on
    assert "--max-num-partial-prefills is gone" in rendered(d, "command").content
    assert problems("vllm", words) == []
    d = launch("llama.cpp", settings={"fit": "off", "ctx-size": 4096, "c": 4096, "host": "0.0.0.0"})
    words = argv("command", rendered(d, "command").content, None) or []
    assert words[words.index("--fit") + 1] == "off"
    assert words.count("--ctx-size") == 1
    assert words[words.index("--host") + 1] == "127.0.0.1"
