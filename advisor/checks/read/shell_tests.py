"""What the tests of shell text come to (`[ -n "$X" ]`, `[[ $N -gt 1 ]]`, `(( N > 1 ))`). Nothing is run."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Sequence

from advisor.checks.read.located_text import Text

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-gt": operator.gt, "-ge": operator.ge, "-lt": operator.lt,
    "-le": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt,
    "<=": operator.le,
}  # fmt: skip
_CLOSES = {"[": "]", "[[": "]]"}
_SET = re.compile(r"\$\{?([A-Za-z_]\w*|[1-9])\}?")  # one whole variable
# variables that the platform or the shell sets, whatever a file says
_SET_OUTSIDE = re.compile(
    r"^(SLURM|KUBERNETES|NOMAD|RAY|OMPI|PMI|MPI|LWS|POD|NODE|CUDA|NVIDIA|HIP|ROCR|GITHUB|CONDA|XDG|LSB|PBS|COLAB)_"
    r"|^(HOME|USER|PATH|PWD|SHELL|TERM|HOSTNAME|LOGNAME|LANG|CI|VIRTUAL_ENV|LD_LIBRARY_PATH|EUID|UID|BASH_SOURCE|DISPLAY)$"
)
MOST_WORDS = 40
MOST_PATTERN = 200  # characters


def is_test(words: Sequence[str]) -> bool:
    """Whether a command is nothing but a test."""
    return bool(words) and words[0] in ("[", "[[", "test", "((", "true", "false", ":")


def evaluate_test(words: Sequence[Text]) -> bool | None:
    """Whether a test holds as the file stands; None where it does not say. A variable that nothing sets is empty for
    `-n` and `-z`, as it is for `${X:-default}`."""
    head = str(words[0])
    if head in ("true", ":", "false"):
        return head != "false"
    if head == "((":
        return _arithmetic(words[1:-1])
    inside = list(words[1:])
    if head in _CLOSES:
        if not inside or inside[-1] != _CLOSES[head]:
            return None
        inside.pop()
    if len(inside) > MOST_WORDS or "(" in inside or ")" in inside:
        return None
    return _either(inside, head == "[[")


def _split(words: Sequence[Text], *operators: str) -> list[list[Text]]:
    out: list[list[Text]] = [[]]
    for word in words:
        if word in operators:
            out.append([])
        else:
            out[-1].append(word)
    return out


def _either(words: Sequence[Text], patterns: bool) -> bool | None:
    results = [_all(part, patterns) for part in _split(words, "||", "-o")]
    return True if True in results else None if None in results else False


def _all(words: Sequence[Text], patterns: bool) -> bool | None:
    results = [_one(part, patterns) for part in _split(words, "&&", "-a")]
    return False if False in results else None if None in results else True


def _one(words: Sequence[Text], patterns: bool) -> bool | None:
    if words and words[0] == "!":
        inner = _one(words[1:], patterns)
        return None if inner is None else not inner
    if len(words) == 1:
        return _is_given(words[0])
    if len(words) == 2 and words[0] in ("-n", "-z"):
        given = _is_given(words[1])
        return None if given is None else given == (words[0] == "-n")
    if len(words) != 3 or words[0].unknown or words[2].unknown:
        return None
    left, sign, right = words
    if sign in ("=", "==", "!="):
        same = matches_pattern(left, right) if patterns else left == right
        return None if same is None else same == (sign != "!=")
    return _compare(left, sign, right) if sign.startswith("-") else None


def _is_given(word: Text) -> bool | None:
    if word.unknown:
        alone = _SET.fullmatch(word)
        return False if alone and not _SET_OUTSIDE.search(alone[1]) else None
    return bool(word)


def _compare(left: str, sign: str, right: str) -> bool | None:
    numbers = [int(x) if re.fullmatch(r"-?\d{1,18}", x.strip()) else None for x in (left, right)]
    compare = _NUMBERS.get(sign)
    if compare is None or numbers[0] is None or numbers[1] is None:
        return None
    return compare(numbers[0], numbers[1])


def _arithmetic(words: Sequence[Text]) -> bool | None:
    if any(w.unknown for w in words):
        return None
    m = re.fullmatch(r"\s*(-?\d{1,18})\s*(==|!=|>=|<=|>|<)\s*(-?\d{1,18})\s*", " ".join(words))
    return _compare(m[1], m[2], m[3]) if m else None


def matches_pattern(value: Text, pattern: Text) -> bool | None:
    """Whether a value matches a pattern of `case` or `[[ == ]]`; None where either is not known."""
    if pattern == "*":
        return True
    if value.unknown or pattern.unknown or len(pattern) > MOST_PATTERN or pattern.count("*") > 4:
        return None
    if re.search(r"[@+?!*]\(", pattern):  # extended patterns
        return None
    return fnmatch.fnmatchcase(value, pattern.replace("[^", "[!"))
