"""What is shown is on one line and obeys nobody; secrets are masked, what only sounds like one is not."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.findings import CheckedDeployment, FileProblem, Finding
from advisor.safe_text import escape_commands, escape_text, make_safe, mask_secrets

ANY = st.text(st.characters(codec=None), max_size=60)


@given(ANY)
def test_nothing_shown_is_a_control_a_mark_or_half_a_character(value: str) -> None:
    shown = escape_text(value)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")]
    shown.encode()
    assert escape_text(shown) == shown


@given(ANY)
def test_plain_text_stays(value: str) -> None:
    if value.isprintable() and not set(value) & set("\u115f\u1160\u3164"):
        assert escape_text(value) == value


@given(ANY)
def test_a_runner_sees_no_command(value: str) -> None:
    """GitHub's runner trims a line before it looks for `::`, and looks for `##[` anywhere in it."""
    line = escape_commands(escape_text(value))
    assert not line.lstrip().startswith("::")
    assert "##[" not in line
    assert "##vso[" not in line


SECRETS = (
    "vllm serve m --api-key {} -tp 2", "--api-key={}", "--hf-token '{}'", "HF_TOKEN={}", 'OPENAI_API_KEY: "{}"',
    '"api_key": "{}"', "https://user:{}@host/x", "export DB_PASSWORD={}", "--client-secret {}",
)  # fmt: skip


@pytest.mark.parametrize("form", SECRETS)
@given(secret=st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=40))
def test_what_a_name_calls_a_secret_is_masked(form: str, secret: str) -> None:
    made = mask_secrets(form.format(secret))
    assert secret not in made
    assert "***" in made


@pytest.mark.parametrize(
    "token", ["sk-proj-abcdefgh12345678", "hf_abcdefgh12345678", "ghp_abcdefgh12345678abcd", "AKIAABCDEFGH12345678"]
)
def test_tokens_are_known_by_their_beginning(token: str) -> None:
    assert token not in mask_secrets(f"the value {token!r} is odd")


@pytest.mark.parametrize(
    "plain",
    [
        "--max-num-batched-tokens 8192", "--tokenizer meta-llama/Llama", "first token 2.5 s", "max_tokens: 4096",
        "--api-key $KEY", "HF_TOKEN=${HF_TOKEN}", "time to first token: 3 s", "secretKeyRef: hf", "key: value",
        "--enable-prefix-caching", "https://host/path", "task-force", "disk-cache",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(plain: str) -> None:
    assert mask_secrets(plain) == plain


def test_everything_inside_is_made_safe_and_the_rest_is_the_same_object() -> None:
    clean = Finding(rule="r", severity="info", file="a.sh", line=1, message="m", fix="f")
    assert make_safe(clean) is clean
    bad = msgspec.structs.replace(clean, file="\udcff.sh", message="--api-key abcdefgh\x1b[31m")
    made = make_safe({"x": (bad, [FileProblem(file="\u202e", line=None, message="ok")]), "n": 3})
    assert made["x"][0].file == "\\xff.sh"
    assert made["x"][0].message == "--api-key ***" or "\x1b" not in made["x"][0].message
    assert made["x"][1][0].file == "\\u202e"
    assert made["n"] == 3
    held = CheckedDeployment(
        source="a", line=1, kind="k", name=None, engine="e", engine_version=None, version_from=None, model="m\n",
        quantization=None, hardware=None, hardware_from=None, fits=None, memory={"a": ["\x07"]},
    )  # fmt: skip
    assert make_safe(held).memory == {"a": ["\\x07"]}
    assert make_safe(held).model == "m\\n"
