"""A link may lead from one place of a tree to another, and never out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.errors import BadFile
from advisor.files import write_report
from advisor.tree import find_tree_root, leads_out


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("theirs")
    made = tmp_path / "tree"
    (made / "a" / "b").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / "a" / "f").write_text("ours")
    monkeypatch.chdir(made)
    return made


def test_links(tree: Path) -> None:
    (tree / "a" / "b" / "inside").symlink_to("../f")
    (tree / "out").symlink_to("../outside/f")
    (tree / "folder").symlink_to("../outside")
    (tree / "broken").symlink_to("../outside/not-there")
    assert find_tree_root("a/b/inside") == tree
    assert not leads_out("a/b/inside")
    assert not leads_out("a/f")
    assert leads_out("out")
    assert leads_out("folder/f")
    assert leads_out("broken")  # writing there would make a file outside
    assert not leads_out(tree.parent / "outside" / "f")  # named by itself, reached by no link
    assert not leads_out("/dev/null")


def test_a_tree_that_is_reached_by_a_link_is_a_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /tmp is on a Mac."""
    link = tree.parent / "link"
    link.symlink_to(tree)
    assert not leads_out(link / "a" / "f")
    monkeypatch.chdir(link)
    assert not leads_out("a/f")


def test_reports_are_not_written_through_a_link(tree: Path) -> None:
    (tree / "out.json").symlink_to("../outside/f")
    with pytest.raises(BadFile, match="link that leads out"):
        write_report(tree / "out.json", "x")
    assert (tree.parent / "outside" / "f").read_text() == "theirs"
    write_report("a/new.json", "x")
    assert (tree / "a" / "new.json").read_text() == "x"
