"""What a program would be called with, read back from each kind of launch file by means of its own (no code of ours).

Shell scripts are cut by `shlex`; YAML is read by PyYAML; what Docker Compose, Kubernetes, systemd and llama-swap expand
is undone here as their documentation says.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's where PyYAML was built with it: ten times as fast
MODEL = "MODEL"  # stands for a word that the user sets


def read_yaml(text: str) -> Any:
    """A YAML document of one of our files."""
    return yaml.load(text, LOADER)


def read_all_yaml(text: str) -> list[Any]:
    """All documents of one of our files."""
    return list(yaml.load_all(text, LOADER))


def argv(target: str, text: str, image: str | None) -> list[str] | None:
    """The words of the engine's server in a file, with the program where it stands there; None where there are none."""
    reader = READERS.get(target)
    return None if reader is None else reader(text, image)


def shell_words(text: str) -> list[str]:
    """The words of the script's `exec` line; a variable that must be set reads as MODEL."""
    lines = [x for x in text.splitlines() if not x.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    call = re.findall(r"(?ms)^(?:exec|srun) (.*)", joined)[-1]
    call = re.sub(r'"\$\{(\w+):\?[^}]*\}"', r"\1", call)
    return shlex.split(call)


def _command(text: str, image: str | None) -> list[str]:
    return shell_words(text)


def _docker(text: str, image: str | None) -> list[str]:
    assert image is not None
    words = shell_words(text)
    assert words[:2] == ["docker", "run"]
    return words[words.index(image) + 1 :]


def _compose(text: str, image: str | None) -> list[str]:
    service = next(iter(read_yaml(text)["services"].values()))
    assert service["image"] == image
    return [_compose_word(w) for w in service["command"]]


def _compose_word(word: str) -> str:
    if re.fullmatch(r"\$\{(\w+):\?[^}]*\}", word):
        return MODEL
    assert "$" not in word.replace("$$", ""), word
    return word.replace("$$", "$")


def _kube_word(word: str) -> str:
    """https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/"""
    if re.fullmatch(r"\$\(\w+\)", word):
        return MODEL
    assert "$" not in word.replace("$$", ""), word
    return word.replace("$$", "$")


def _container(pod: dict[str, Any], image: str | None) -> list[str]:
    (container,) = pod["containers"]
    assert image is None or container["image"] == image
    return [_kube_word(w) for w in container.get("args", [])]


def documents(text: str) -> dict[str, Any]:
    """Documents of a Kubernetes file by kind."""
    return {d["kind"]: d for d in read_all_yaml(text)}


def _kubernetes(text: str, image: str | None) -> list[str]:
    return _container(documents(text)["Deployment"]["spec"]["template"]["spec"], image)


def _kserve(text: str, image: str | None) -> list[str]:
    return _container(documents(text)["InferenceService"]["spec"]["predictor"], image)


def _lws(text: str, image: str | None) -> list[str]:
    group = documents(text)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    (container,) = group["leaderTemplate"]["spec"]["containers"]
    assert container["image"] == image
    assert container["command"][:2] == ["sh", "-c"]
    return [_kube_word(w) for w in container["command"][4:]]


def _dynamo(text: str, image: str | None) -> list[str]:
    worker = documents(text)["DynamoGraphDeployment"]["spec"]["components"][1]
    return _container(worker["podTemplate"]["spec"], None)


def _llm_d(text: str, image: str | None) -> list[str]:
    (container,) = read_yaml(text)["decode"]["containers"]
    return [MODEL, *(_kube_word(w) for w in container["args"])]


def _systemd(text: str, image: str | None) -> list[str]:
    line = re.search(r"(?m)^ExecStart=((?:.*\\\n)*.*)$", text)
    assert line
    words = [unit_word(w) for w in unit_split(line[1].replace("\\\n", " "))]
    assert words[0] == "/usr/bin/env"
    return words[1:]


def unit_split(line: str) -> list[str]:
    """Words of a systemd command line, quotes kept. systemd.service(5), "Command lines"."""
    return re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)


def unit_word(word: str) -> str:
    """A word as the program gets it: quotes and C escapes, `%%`, `$$`. systemd.syntax(7), systemd.service(5)."""
    if re.fullmatch(r"\$\{\w+\}", word):
        return MODEL
    if word.startswith('"'):
        word = re.sub(
            r"\\(x[0-9a-f]{2}|.)", lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" and len(m[1]) == 3 else m[1],
            word[1:-1], flags=re.S,
        )  # fmt: skip
    assert "%" not in word.replace("%%", ""), word
    assert "$" not in word.replace("$$", ""), word
    return word.replace("%%", "%").replace("$$", "$")


def _skypilot(text: str, image: str | None) -> list[str]:
    run = read_yaml(text)["run"]
    call = re.findall(r"(?ms)^(?:exec|set --) (.*?)(?=\nif |\Z)", run)[0]
    return shlex.split(re.sub(r'"\$\{(\w+):\?[^}]*\}"', r"\1", call.replace("\\\n", " ")))


def _slurm(text: str, image: str | None) -> list[str]:
    words = shell_words(text)
    return words[4:] if words[:2] == ["sh", "-c"] else words


def _llama_swap(text: str, image: str | None) -> list[str]:
    (model,) = read_yaml(text)["models"].values()
    return shlex.split(model["cmd"].replace("${PORT}", "5800").replace("${env.MODEL}", MODEL))


def tabby_config(text: str) -> Any:
    """The configuration that TabbyAPI's script writes."""
    line = next(x for x in text.splitlines() if x.startswith("printf"))
    words = shlex.split(re.sub(r'"\$\{(\w+):\?[^}]*\}"', r"\1", line))
    return read_yaml(words[2])


READERS = {
    "command": _command,
    "docker": _docker,
    "compose": _compose,
    "kubernetes": _kubernetes,
    "kserve": _kserve,
    "lws": _lws,
    "dynamo": _dynamo,
    "llm-d": _llm_d,
    "systemd": _systemd,
    "skypilot": _skypilot,
    "slurm": _slurm,
    "llama-swap": _llama_swap,
}
