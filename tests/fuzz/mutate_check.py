"""Deployment-file readers against mutated inputs: run by test_check_fuzz.py in a process of its own.

python mutate_check.py COUNT SEED: prints a JSON line for each finding, and a last one with the totals. Anything but a
result or a Problem is a finding; so is more than MOST_SECONDS for one input, or any attempt to start a process, open a
socket, or read a file outside the given folder.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from advisor.catalog import catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.one_file import CheckOptions, check_source, make_checker
from advisor.checks.rules.evaluate import Rulebook
from advisor.errors import BadFile
from advisor.models.local_stores import cache_folder
from advisor.session import Session

EXTRA_BYTES = 300 * 10**6
NAMES = ("compose.yaml", "pod.yaml", "serve.sh", "x", "a.service", "Dockerfile", "Modelfile", ".env", "values.yaml")
EXTRAS = (
    "services:\n  a: &a {image: 'vllm/vllm-openai:v0.33.0', command: [x, --tp, '2'], extends: {service: a}}\n  b: *a\n",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c, *c]\n",
    "models:\n  q:\n    cmd: |\n      ${a} --port ${PORT} -m /x.gguf\nmacros:\n  a: llama-server ${a} ${a}\n",
    'A=(1 2)\nA+=("${A[@]}" "${A[@]}")\nvllm serve "${A[@]}" $(x) `y` ${B:-${C:-$D}}\n',
    'bash -c "bash -c \'bash -c \\"vllm serve x\\"\'"\n',
    "cat <<E | bash\nvllm serve x --port $P\nE\n",
    "apiVersion: v1\nkind: List\nitems: [{kind: Pod, apiVersion: v1, spec: {containers: [{image: ollama/ollama}]}}]\n",
    "<<: [*x, {a: b}]\n? [a, b]\n: c\n",
    "{{ if .x }}\nimage: {{ .Values.i }}\n{{ end }}\n",
    "docker run -it --gpus '\"device=0,1\"' -p [::]:80:80 -v a:b:c --shm-size 1g -e A -e B=c img x y\n",
    '[Service]\nEnvironment="A=b c" D=e\nExecStart=-/usr/bin/llama-server -m %h/x \\\n -c 5\n',
    "!!python/object/apply:os.system ['touch /tmp/owned']\n",
    "- " * 300 + "x\n",
    "[" * 2000,
    "x: " + "9" * 5000 + "\n",
    "--max-model-len 1e999 -tp 99999999999999999999 --gpu-memory-utilization nan\n",
)


def seeds() -> list[str]:
    """The rules' own snippets and texts that once were trouble."""
    book = Rulebook(Knowledge(catalog()), ("all",))
    snippets = [s for r in book.all.values() for s in (r.entry.bad, r.entry.good) if s]
    return [*snippets, *EXTRAS]


def launch_files() -> list[str]:
    """Every kind of launch file, as it is rendered."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "render"))
    from launching import RULES, launch

    from advisor.errors import BadInput
    from advisor.render.files import list_targets, render_files

    out = []
    for engine in ("vllm", "sglang", "llama.cpp", "ollama", "tgi", "ray-serve", "dynamo", "llm-d"):
        for target in list_targets(engine, RULES):
            try:
                files = render_files(
                    launch(engine, hardware="2x H100 80GB SXM", host="0.0.0.0"), target, Session(RULES)
                )
            except BadInput:
                continue
            out += [f.content for f in files]
    return out


def mutate(text: str, others: list[str], r: random.Random) -> str:
    """One to five changes: characters, lines, pieces of other texts."""
    for _ in range(r.randint(1, 5)):
        at = r.randrange(len(text) + 1)
        kind = r.randrange(9)
        if kind == 0:
            text = (
                text[:at]
                + chr(r.choice((0, 9, 10, 34, 36, 39, 40, 58, 91, 92, 96, 123, 0x7F, 0x2028, 0x1F600)))
                + text[at:]
            )
        elif kind == 1:
            text = text[:at] + text[at + r.randint(1, 20) :]
        elif kind == 2:
            text = text[:at] + r.choice(others)[: r.randint(1, 200)] + text[at:]
        elif kind == 3:
            lines = text.splitlines(keepends=True)
            r.shuffle(lines)
            text = "".join(lines)
        elif kind == 4:
            piece = text[at : at + r.randint(1, 40)]
            text = text[:at] + piece * r.randint(2, 30) + text[at:]
        elif kind == 5:
            text = text.replace(
                r.choice((" ", ":", "-", "'", "\n", "{", "2", "=")),
                r.choice(("", "  ", "${X", "$(", '"', "\\", "&a ", "*a", "\t", "0")),
                r.randint(1, 3),
            )
        elif kind == 6:
            text = (
                text[:at]
                + r.choice(
                    (
                        "${A:-",
                        "$((",
                        "<<EOF\n",
                        "`",
                        "*a ",
                        "&a ",
                        "|\n  ",
                        "{{",
                        "}}",
                        "\\\n",
                        "!!x ",
                        "--- \n",
                        "-1",
                        "99999999999",
                        "0.0",
                        "true",
                        "null",
                    )
                )
                + text[at:]
            )
        elif kind == 7:
            text = " " * r.randint(1, 4) + text.replace("\n", "\n" + " " * r.randint(0, 4))
        else:
            text = r.choice(others) + text
    return text[:200_000]


MOST_SECONDS = 4.0  # of processor time; the slowest input takes 1 on a usual machine, 2.4 on a loaded one
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind")


def watch(folder: str, findings: list[str]) -> None:
    """Report whatever the readers should never do."""
    package = str(Path(catalog.__code__.co_filename).parent.parent)
    hub = str(cache_folder())  # the copy that a launch names may lie here, as for every command

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            findings.append(f"{event} {arguments[:1]!r}")
        elif event == "open" and isinstance(arguments[0], str) and ACTIVE:
            p = arguments[0]
            if not p.startswith(
                (folder, package, hub, sys.prefix, sys.base_prefix, "/usr/lib", "<")
            ) and not p.endswith((".py", ".pyc")):
                findings.append(f"open {p}")

    sys.addaudithook(hook)


ACTIVE: list[bool] = []


def main() -> int:
    """Run the inputs and print what went wrong."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    r = random.Random(seed)
    know = Knowledge(catalog())
    book = Rulebook(know, ("all",))
    texts = seeds() + (launch_files() if count > 1000 else [])
    for t in texts:  # decode tables before memory is bounded
        try:
            check_source(t, "x", None, make_checker(book, CheckOptions()))
        except BadFile:
            continue
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (max(size, used) + EXTRA_BYTES,) * 2)
    bad: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="fuzz-check-"))
    (folder / ".env").write_text("A=b\n")
    watch(str(folder), bad)
    refused, launches, slowest = 0, 0, 0.0
    for n in range(count):
        text = mutate(r.choice(texts), texts, r)
        began = time.process_time()
        ACTIVE.append(True)
        try:
            found = check_source(text, r.choice(NAMES), folder, make_checker(book, CheckOptions()))
            launches += len(found.verdicts)
        except BadFile:
            refused += 1
        except BaseException as e:
            sys.stdout.write(json.dumps({"error": f"{type(e).__name__}: {e}", "input": text[:3000], "n": n}) + "\n")
        ACTIVE.clear()
        took = time.process_time() - began
        slowest = max(slowest, took)
        if took > MOST_SECONDS:
            sys.stdout.write(json.dumps({"error": f"{took:.1f} s", "input": text[:3000], "n": n}) + "\n")
        for b in bad:
            sys.stdout.write(json.dumps({"error": b, "input": text[:3000], "n": n}) + "\n")
        bad.clear()
    sys.stdout.write(json.dumps({"inputs": count, "refused": refused, "launches": launches, "slowest": slowest}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
