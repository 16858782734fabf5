"""Names of models in people's own words: the model they mean, or a choice, never a silent neighbour."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.model_spellings import is_in_catalogue
from advisor.catalog.resolve import AmbiguousModel, resolve_model
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadInput, UnknownName
from advisor.units import WHOLE_CONTEXT, parse_tokens, resolve_context

CATALOG = catalog([shipped_root()])


@pytest.fixture(autouse=True)
def _empty_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No store of the developer's machine answers in place of the catalogue."""
    for name in ("HOME", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "id", "format", "repository"),
    [
        ("https://huggingface.co/Qwen/Qwen3-32B", "Qwen/Qwen3-32B", None, None),
        ("https://huggingface.co/Qwen/Qwen3-32B/tree/main?x=1", "Qwen/Qwen3-32B", None, None),
        ("hf.co/bartowski/Qwen_Qwen3-32B-GGUF:Q4_K_M", "Qwen/Qwen3-32B", "Q4_K_M", "bartowski/Qwen_Qwen3-32B-GGUF"),
        ("hf.co/unsloth/Qwen3-32B-GGUF/blob/main/Qwen3-32B-Q5_K_M.gguf", "Qwen/Qwen3-32B", "Q5_K_M",
         "unsloth/Qwen3-32B-GGUF"),
        ("Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B", "AWQ", "Qwen/Qwen3-32B-AWQ"),
        ("unsloth/Qwen3-32B-GGUF", "Qwen/Qwen3-32B", None, "unsloth/Qwen3-32B-GGUF"),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "meta-llama/Llama-3.3-70B-Instruct", "FP8",
         "nvidia/Llama-3.3-70B-Instruct-FP8"),
        ("mlx-community/Qwen3-8B-4bit", "Qwen/Qwen3-8B", "MLX-4bit", "mlx-community/Qwen3-8B-4bit"),
        ("qwen3:32b-q8_0", "Qwen/Qwen3-32B", "Q8_0", None),
        ("llama3.1:8b-instruct-q4_K_M", "meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M", None),
        ("https://ollama.com/library/qwen3:8b", "Qwen/Qwen3-8B", None, None),
        ("Qwen3-32B Q4_K_M", "Qwen/Qwen3-32B", "Q4_K_M", None),
        ("llama 3.1 70b q4", "meta-llama/Llama-3.1-70B-Instruct", "q4", None),
        ("command r+", "CohereLabs/c4ai-command-r-plus-08-2024", None, None),
        ("qwne3:8b", "Qwen/Qwen3-8B", None, None),
        ("lama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct", None, None),
        ("deepsek r1", "deepseek-ai/DeepSeek-R1", None, None),
        ("llama3.3", "meta-llama/Llama-3.3-70B-Instruct", None, None),
    ],
)  # fmt: skip
def test_what_people_type(name: str, id: str, format: str | None, repository: str | None) -> None:
    found = resolve_model(name, CATALOG)
    assert (found.model.id, found.quantization) == (id, format)
    if repository:  # the command downloads what was named
        assert repository in (*found.model.gguf_repos[:1], *found.model.quantized_repos.values())


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("swiss-ai/Apertus-70B-Instruct-2509", "swiss-ai/Apertus-70B-2509"),  # tuned and base: the same layers
        ("unsloth/Apertus-70B-Instruct-2509-GGUF", "swiss-ai/Apertus-70B-2509"),
        ("somebody/Qwen3.6-35B-A3B-Cerebellum-v3", "Qwen/Qwen3.6-35B-A3B"),
        ("somebody/Qwen3-14B-Base-sft_v2-AWQ", "Qwen/Qwen3-14B"),
        ("somebody/Qwen3-4B-VL", None),  # another model
        ("somebody/Qwen3-8B-pruned", None),
        ("somebody/Qwen3-30B-A3B-Deep-Research-16B", None),
        ("somebody/Llama-3-tuned", None),  # of which size?
        ("Qwen/Qwen3-30B-A3B-Instrct-2507", None),  # a slip: its publisher has none of that name
    ],
)
def test_tuned_copies_are_taken_as_their_model(name: str, id: str | None) -> None:
    if id is None:
        with pytest.raises(AdvisorError):
            resolve_model(name, CATALOG)
        return
    found = resolve_model(name, CATALOG)
    plain = CATALOG.find_model(id)
    assert found.model.layout == plain.layout
    assert "taken as" in (found.note or "")


def test_another_training_of_a_shape_is_not_replaced_by_the_model() -> None:
    base = resolve_model("Qwen/Qwen3-8B-Base", CATALOG).model
    plain = CATALOG.find_model("Qwen/Qwen3-8B")
    assert (base.id, base.layout) == ("Qwen/Qwen3-8B-Base", plain.layout)
    assert not base.gguf_repos
    assert not base.quantized_repos
    assert not base.downloads
    mirror = resolve_model("unsloth/Qwen3-8B", CATALOG).model
    assert mirror.id == "unsloth/Qwen3-8B"
    assert mirror.gguf_repos == plain.gguf_repos


@pytest.mark.parametrize("name", ["qwne3:8b", "Qwen/Qwen3-32B-AWQ", "lama3.1:8b", "llama3.3", "70B q4"])
def test_what_was_assumed_is_said(name: str) -> None:
    assert "taken as" in (resolve_model(name, CATALOG).note or "")


@pytest.mark.parametrize(
    ("name", "among", "not_among"),
    [
        ("gemma3", "google/gemma-3-27b-it", "google/gemma-2-27b-it"),
        ("llama3", "meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("nemotron", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "Qwen/Qwen3-8B"),
        ("granite 4", "ibm-granite/granite-4.0-h-small", "ibm-granite/granite-3.3-8b-instruct"),
        ("30b", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B"),
    ],
)
def test_families_and_sizes_are_answered_with_a_choice(name: str, among: str, not_among: str) -> None:
    with pytest.raises(AmbiguousModel) as e:
        resolve_model(name, CATALOG)
    assert among in e.value.choices
    assert not_among not in e.value.choices
    assert "\n" not in e.value.line()


@pytest.mark.parametrize(
    "name",
    ["gemma3:28b", "qwen3.7:8b", "qwen4 32b", "someorg/my-finetune-8b", "Qwen/Qwn3-8B", "org/llama",
     "quen3-coder:31b", "mixtral 9x7b", "llama 3.1 9b"],
)  # fmt: skip
def test_digits_versions_and_hub_names_are_never_mended(name: str) -> None:
    with pytest.raises(UnknownName):
        resolve_model(name, CATALOG)


@pytest.mark.parametrize(
    ("name", "code"), [("gpt-4", "closed_model"), ("Qwen3-TTS", "speech_model"), ("FLUX.2", "image_model")]
)
def test_what_no_engine_here_serves_says_what_it_is(name: str, code: str) -> None:
    with pytest.raises(AdvisorError) as e:
        resolve_model(name, CATALOG)
    assert e.value.code == code


@pytest.mark.slow
def test_a_slip_in_any_word_of_an_alias_is_mended_or_refused_never_another_model() -> None:
    """One letter of every alias changed in turn: the answer is the alias's model or an error."""
    wrong = []
    for row in CATALOG.model_index()[::15]:
        for alias in row.aliases:
            for at, letter in enumerate(alias):
                if letter.isalpha() and letter != "x":
                    slip = f"{alias[:at]}x{alias[at + 1 :]}"
                    try:
                        found = resolve_model(slip, CATALOG)
                    except AdvisorError:
                        continue
                    if is_in_catalogue(slip, CATALOG):  # `mixtral` is a name of its own
                        continue
                    if found.model.id != CATALOG.find_model(alias).id and not found.note:
                        wrong.append((alias, slip, found.model.id))
    assert wrong == []


@given(st.text(max_size=60))
def test_any_text_is_a_model_or_one_clear_line(text: str) -> None:
    said = ""
    try:
        assert resolve_model(text, CATALOG).model.id
    except AdvisorError as e:
        said = e.line()
    assert "\n" not in said


def test_another_format_than_the_name_says_is_refused() -> None:
    from advisor.catalog.resolve import choose_file_format

    found = resolve_model("Qwen/Qwen3-32B-AWQ", CATALOG)
    assert choose_file_format(found, None, CATALOG) == "AWQ"
    assert choose_file_format(found, "q4", CATALOG) == "AWQ"
    with pytest.raises(BadInput, match="AWQ, not FP8"):
        choose_file_format(found, "FP8", CATALOG)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("32,768", 32768), ("32 768", 32768), ("32.768", 32768), ("32_768", 32768), ("32k", 32768), ("1M", 1048576),
     ("131072 tokens", 131072), ("max", WHOLE_CONTEXT), ("8192", 8192), ("1.5k", 1536)],
)  # fmt: skip
def test_context_lengths_as_people_write_them(text: str, tokens: int) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize("text", ["32,76", "3,2768", "32k k", "many", "", "1,000.5", "32,768k"])
def test_no_context_lengths(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of tokens"):
        parse_tokens(text)


def test_max_is_what_the_model_was_trained_for() -> None:
    assert resolve_context(WHOLE_CONTEXT, 40960) == 40960
    assert resolve_context(8192, 40960) == 8192
    with pytest.raises(ValueError, match="not known"):
        resolve_context(WHOLE_CONTEXT, None)
