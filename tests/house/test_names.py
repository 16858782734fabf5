"""One name, one thing: class names are unique, values of our classes have words for names, no participles as nouns.

The lists of exceptions may only shrink: an entry that is no longer needed is a failure, too.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_facts import list_nodes, read_tree

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"

# "advisor/module.py: function(parameter)"
SINGLE_LETTERS: frozenset[str] = frozenset()

# "advisor/module.py" or "advisor/module.py: name"
PARTICIPLE_NAMES: frozenset[str] = frozenset()

# words that say what happened to a thing, or where it stands, and not what it is; as a whole name they say nothing to
# the reader who meets them in an import ("read", "set", "cut", "spread" and "put" are verbs or nouns as well)
WORDS = """
    accepted added admitted advised allocated applied asked attached benched beside between beyond bought bounded
    built cached calibrated changed checked chosen compared compiled computed counted covered decided declared
    decoded defined derived described drawn each each_item estimated evaluated expanded explained filled filtered
    fitted fixed forgotten formatted found gathered generated given gone grouped guided held hidden inside installed
    joined judged kept known lacking listed loaded located looked looked_at made mapped matched measured merged
    migrated mismatched misplaced missing moved named needed nested offered outside packed paired parsed picked
    placed planned predicted printed probed published ranked rated reached reasoned recognised recorded refused
    rejected released remembered removed renamed rendered replaced reported requested reserved resolved said sampled
    scaled scored seen selected served settled shipped shopped shown sized skipped sold sorted split_up started
    stated stored supported suppressed swapped taken tested tiered together told touched tried typed unknown unseen
    updated used verified wanted warned windowed without worked written
"""
PARTICIPLES = frozenset(WORDS.split())


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE.parent)), read_tree(path)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    found = dict(modules())
    assert len(found) > 100
    return found


def classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Class name -> where it is defined; private and nested classes too."""
    out: dict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        for node in list_nodes(tree):
            if isinstance(node, ast.ClassDef):
                out[node.name].append(f"{file}:{node.lineno}")
    return out


def duplicates(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    return {name: places for name, places in classes(trees).items() if len(places) > 1}


def single_letters(trees: dict[str, ast.Module]) -> set[str]:
    """Parameters of one letter whose annotation names a class of ours."""
    ours = set(classes(trees))
    out = set()
    for file, tree in trees.items():
        for node in list_nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                for parameter in every:
                    if len(parameter.arg) > 1 or parameter.arg == "_" or parameter.annotation is None:
                        continue
                    if set(re.findall(r"\w+", ast.unparse(parameter.annotation))) & ours:
                        out.add(f"{file}: {node.name}({parameter.arg})")
    return out


def participles(trees: dict[str, ast.Module]) -> set[str]:
    """Modules, and public classes and functions of a module, whose whole name is a participle."""
    out = {file for file in trees if Path(file).stem in PARTICIPLES}
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()
                if words in PARTICIPLES:
                    out.add(f"{file}: {node.name}")
    return out


def test_class_names_are_unique(trees: dict[str, ast.Module]) -> None:
    assert duplicates(trees) == {}


def test_values_of_our_classes_have_names_of_words(trees: dict[str, ast.Module]) -> None:
    found = single_letters(trees)
    assert found <= SINGLE_LETTERS, sorted(found - SINGLE_LETTERS)
    assert found == SINGLE_LETTERS, f"no longer needed in the list: {sorted(SINGLE_LETTERS - found)}"


def test_nothing_is_named_by_a_participle(trees: dict[str, ast.Module]) -> None:
    found = participles(trees)
    assert found <= PARTICIPLE_NAMES, sorted(found - PARTICIPLE_NAMES)
    assert found == PARTICIPLE_NAMES, f"no longer needed in the list: {sorted(PARTICIPLE_NAMES - found)}"


def test_faults_are_found() -> None:
    """Seeded: a class twice (one of them nested), a letter for a value of ours, participles as names."""
    seeded = {
        "advisor/a.py": ast.parse("class Plan: ...\nclass Wanted: ...\ndef told(x: int, p: 'Plan | None'): ...\n"),
        "advisor/found.py": ast.parse("def make(n: int, _: Plan) -> None:\n    class Plan: ...\n"),
    }
    assert set(duplicates(seeded)) == {"Plan"}
    assert single_letters(seeded) == {"advisor/a.py: told(p)"}
    assert participles(seeded) == {"advisor/found.py", "advisor/a.py: Wanted", "advisor/a.py: told"}
