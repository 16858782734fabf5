"""Where the facts of a launch come from. An error rests on what its files or the user state, on nothing assumed."""

from __future__ import annotations

import re

from advisor.checks.findings import Certainty, Source
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.launch import Launch
from advisor.checks.read.recognise import ImageReference, image_version, parse_image

_STATED = ("--engine-version", "--on", "--machine", "a comment in the file")
FILLED_IN = ("yaml", "recipe", "srt-slurm", "template")  # kinds of which something nobody sees makes the container
_NEWEST = re.compile(r"latest|latest-.*|.*-latest|(server|full|light)(-[a-z]+\d*)?")  # tags that mean the last release


def read_certainty(launch: Launch, hardware_from: str | None, knowledge: Knowledge) -> Certainty:
    """Where engine, release, entry point, devices and words of a launch are from."""
    by_itself = launch.program is not None and not is_fork(launch, knowledge)
    image = _find_official_image(launch, knowledge)
    official = image is not None and launch.kind not in FILLED_IN
    newest = image is not None and image.digest is None and _NEWEST.fullmatch(image.tag or "latest") is not None
    outside = launch.setup.image is None and not launch.setup.container and launch.kind not in ("kubernetes", "helm")
    known = by_itself or (outside and launch.program is None) or (official and not is_fork(launch, knowledge))
    return Certainty(
        engine="file" if known else "assumed",
        release=_source(launch.version_from or "file" if launch.version is not None or newest else None),
        entry_point="assumed" if not known or launch.unresolved else "file",
        device=_source(hardware_from),
        words="assumed" if launch.unresolved or launch.unread else "file",
    )


def _source(origin: str | None) -> Source:
    if origin is None:
        return "assumed"
    return "stated" if origin in _STATED else "file"


def _find_official_image(launch: Launch, knowledge: Knowledge) -> ImageReference | None:
    image = parse_image(launch.setup.image, knowledge) if launch.setup.image else None
    return image if image is not None and image.entry is not None and image.entry.official else None


def states_no_release(launch: Launch, knowledge: Knowledge) -> bool:
    """Whether the makers' image has a tag of no release (`:nightly`, `:gptoss`): it may take what no release takes."""
    image = _find_official_image(launch, knowledge)
    tag = image.tag if image is not None and launch.version is None else None
    return tag is not None and "$" not in tag and _NEWEST.fullmatch(tag) is None


def is_of_one_model(launch: Launch, knowledge: Knowledge) -> bool:
    """Whether such an image brought a model up (`:deepseekv4-cu129`), and is none of a branch that is newer still."""
    tag = launch.setup.image.rpartition(":")[2] if launch.setup.image else ""
    return states_no_release(launch, knowledge) and re.search("nightly|dev|main|master|edge", tag) is None


def is_sealed(launch: Launch, knowledge: Knowledge) -> bool:
    """Whether a launch runs what the makers' image of a release brings, with nothing installed before it: by its own
    entry point, or by a program that no shell starts."""
    image = _find_official_image(launch, knowledge)
    if image is None or launch.version is None or (launch.program and "direct" not in launch.setup.places):
        return False
    return launch.kind != "dockerfile" and not launch.setup.copied and image_version(image) == launch.version


def may_be_any_build(launch: Launch, knowledge: Knowledge) -> bool:
    """Whether what runs may be of no release: by its image's tag, or where the engine's releases are builds."""
    if states_no_release(launch, knowledge):
        return True
    entry = knowledge.rules.engines().get(launch.engine)
    images = entry.recognition.images if entry is not None else ()
    return launch.program is not None and launch.version is None and any(i.tag == "build" for i in images)


def is_fork(launch: Launch, knowledge: Knowledge) -> bool:
    """Whether a fork is started, or a server of other models, whose flags take other values than the engine's own."""
    words, known = f"{launch.program or ''} {launch.setup.image or ''}", knowledge.recognition.other_parsers
    return re.search(known.forks, words) is not None or any(w.partition("=")[0] in known.flags for w in launch.argv)
