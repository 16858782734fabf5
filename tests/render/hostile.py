"""Texts made to break out of quotes, as strategies of Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

NASTY = [
    "plain", "two words", "it's", 'say "hi"', "$(touch pwned)", "`touch pwned`", "$HOME", "${HOME:-x}",
    "a;touch pwned", "a&&touch pwned", "a|touch pwned", "a\ntouch pwned", "a\n- b: c", "-rf", "--help", "--", "-",
    "#no", "a #b", "a: b", "{a,b}", "[x]", "~", "~root", "!x", "!!python/object:os.system", "&a", "*a", "%d%s%n",
    "yes", "null", "0x10", "1e3", "\\", "a\\nb", "a\tb", "\r", "ü", "日本", "😀", "\u2028", "\u0085", "\x7f",
    "\x1b[31m", "\ufeff", "{{ 7*7 }}", "a,b", "{% raw %}", "a=b", ">out", "<in", "2>&1", "'", '"', "''", "\\'",
    "EOF", "a\nEOF\ntouch pwned", "%", "*", "?", "$$",
]  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=3).map("".join),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12),
)
NAMES = TEXT.filter(lambda s: "/" not in s and s not in (".", "..") and 0 < len(s.encode()) < 100)
