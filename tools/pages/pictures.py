"""Pictures of the documentation: figures of answers as SVG files, written where they are kept.

python -m tools.pages.pictures [TOP]        TOP: the checkout (default: the current folder)
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from advisor.catalog.roots import cache_dir
from advisor.page.blocks import Bars, Block, Plot
from advisor.page.build import find_kind, make_environment, make_page, read_answer
from advisor.page.draw import COLOURS
from advisor.record import Record, Value

FOLDER = "docs/pictures"


class Picture(Value, frozen=True):
    """A figure of an answer: the command that is asked, and which figure of its page it is, counted from 0."""

    command: str  # as it stands in the page that shows the picture
    figure: int = 0


PICTURES = {
    "memory.svg": Picture('advise recommend --on "RTX 4090, 64GB RAM, linux" --model 70B'),
    "contexts.svg": Picture("advise explain --model qwen3:32b --quant AWQ --engine vllm --on L40S"),
    "alternatives.svg": Picture('advise recommend --on "2x RTX 3090, 128GB RAM, linux" --model 70B --concurrency 4', 1),
    "cost.svg": Picture("advise hardware --model 70B --users 4 --rent 3000USD/month"),
}
TERMINALS = {"recommend.svg": 'advise recommend --on "RTX 4090, 64GB RAM, linux"'}  # what is printed, as it stands
COLUMN, LINE, MARGIN = 8.2, 18, 14  # pixels of a letter at 13.6 px, of a line, around the text


def make_pictures() -> dict[str, str]:
    """The text of every picture by its name."""
    drawn = {name: draw_picture(picture) for name, picture in PICTURES.items()}
    return drawn | {name: draw_terminal(command) for name, command in TERMINALS.items()}


def draw_terminal(command: str) -> str:
    """What a command prints at 80 columns, as SVG."""
    lines = [f"$ {command}", *run(command).splitlines()]
    width, height = 80 * COLUMN + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    style = "font: 13.6px ui-monospace, Menlo, Consolas, monospace; white-space: pre; fill: #e6edf3"
    rows = "".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * i + 13}" xml:space="preserve">{escape(line)}</text>\n'
        for i, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">\n'
        f"<style>text {{ {style} }}</style>\n"
        f'<rect width="{width:g}" height="{height}" rx="8" fill="#0d1117"/>\n{rows}</svg>\n'
    )


def draw_picture(picture: Picture) -> str:
    """A picture as SVG. Raises ValueError where the page of the answer has no such figure."""
    answer = ask(picture.command)
    figures = list_figures(shlex.split(picture.command)[1:], answer)
    if picture.figure >= len(figures):
        raise ValueError(f"{picture.command}: the page has {len(figures)} figures")
    block = figures[picture.figure]
    env = make_environment()
    text: str = env.get_template(f"page/{block.kind}.svg").render(
        block=block, colours=COLOURS, style=env.get_template("page/figures.css").render(), command=picture.command
    )
    return text


@cache
def ask(command: str) -> Record:
    """The answer of a command line, as somebody gets it who has no rules and measurements of their own."""
    return read_answer(find_kind(shlex.split(command)[1:]), run(f"{command} --json"))


def run(command: str) -> str:
    """What a command line of ours prints for somebody who has no rules and measurements of their own."""
    words = [sys.executable, "-m", "advisor", *shlex.split(command)[1:]]
    with tempfile.TemporaryDirectory() as home:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADVISOR_", "XDG_"))}
        own = {"HOME": home, "ADVISOR_CACHE_DIR": str(cache_dir()), "COLUMNS": "80"}  # compiled rules are anybody's
        done = subprocess.run(words, stdout=subprocess.PIPE, env={**kept, **own}, check=True)  # noqa: S603
    return done.stdout.decode()


def list_figures(words: Sequence[str], answer: Record) -> list[Bars | Plot]:
    """Figures of the page of an answer, in its order."""
    page = make_page(find_kind(words), answer)
    blocks: list[Block] = [b for section in page.sections for b in section.blocks]
    return [b for b in blocks if isinstance(b, Bars | Plot) and (isinstance(b, Plot) or b.bars)]


def main(argv: Sequence[str]) -> int:
    """Write all pictures into a checkout, and take away those that are no longer made."""
    folder = (Path(argv[0]) if argv else Path.cwd()) / FOLDER
    if len(argv) > 1 or not folder.parent.is_dir():
        sys.stderr.write("usage: python -m tools.pages.pictures [TOP]\n")
        return 2
    folder.mkdir(exist_ok=True)
    made = make_pictures()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for old in folder.glob("*.*"):
        if old.name not in made:
            old.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
