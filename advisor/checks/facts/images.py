"""Facts about the image that a container runs."""

from __future__ import annotations

import re

from advisor.checks.facts.registry import FactContext, FactTable
from advisor.checks.read.recognise import ImageReference, parse_image

FACTS = FactTable()

_FLOATING = re.compile(
    r"^(latest|nightly|main|dev|master|edge|stable|cuda\d*|server|server-[a-z]+\d*|full|light|rocm|vulkan|cpu|gpu|v?\d+|.*-latest|latest-.*|nightly-.*|.*nightly)$"
)


def image_ref(context: FactContext) -> ImageReference | None:
    """The image of the launch, taken apart; None where there is none."""
    ref = context.checked.launch.setup.image
    return parse_image(ref, context.knowledge) if ref else None


@FACTS.add("image.floating", "bool", "the image's tag moves")
def _floating(context: FactContext) -> bool | None:
    image_reference = image_ref(context)
    if image_reference is None or image_reference.digest:
        return False
    if image_reference.tag is None:
        return True
    return None if "$" in image_reference.tag else _FLOATING.match(image_reference.tag) is not None


@FACTS.add("image.name", "str", "the image")
def _image_name(context: FactContext) -> str | None:
    return context.checked.launch.setup.image


@FACTS.add("image.repository", "str", "the image without tag")
def _repository(context: FactContext) -> str | None:
    image_reference = image_ref(context)
    return image_reference.name if image_reference else None


@FACTS.add("image.tag", "str", "the image's tag")
def _tag(context: FactContext) -> str | None:
    image_reference = image_ref(context)
    return image_reference.tag if image_reference else None


@FACTS.add("image.official", "bool", "an image of the engine's own makers")
def _official(context: FactContext) -> bool:
    image_reference = image_ref(context)
    return image_reference is not None and image_reference.entry is not None and image_reference.entry.official


@FACTS.add("image.cpu_only", "bool", "an image without any GPU support")
def _cpu_only(context: FactContext) -> bool:
    image_reference = image_ref(context)
    if image_reference is None:
        return False
    if image_reference.entry is not None and image_reference.entry.official and image_reference.entry.entry == "llama":
        return re.fullmatch(r"(server|full|light)(-b\d+)?", image_reference.tag or "") is not None
    return (
        re.search(r"(^|[-_/])cpu([-_]|$)", f"{image_reference.name}:{image_reference.tag}".replace(":", "-"))
        is not None
    )


@FACTS.add("image.vendor", "str", "the vendor whose accelerators the image is for")
def _vendor(context: FactContext) -> str | None:
    image_reference = image_ref(context)
    if image_reference is None or image_reference.entry is None:
        return None
    words = f"{image_reference.name}:{image_reference.tag or ''}".lower()
    for word, vendor in (
        ("rocm", "amd"),
        ("gaudi", "habana"),
        ("hpu", "habana"),
        ("xpu", "intel"),
        ("intel", "intel"),
        ("tpu", "google"),
        ("neuron", "aws"),
        ("cpu", "none"),
        ("vulkan", "any"),
        ("npu", "other"),
        ("musa", "other"),
    ):
        if word in words:
            return vendor
    return image_reference.entry.vendor or ("nvidia" if "cuda" in words else None)


@FACTS.add("image.wrong_vendor", "bool", "the image is for another vendor's accelerators than the hardware's")
def _wrong(context: FactContext) -> bool | None:
    mine, have = context.facts["image.vendor"], context.facts["gpu.vendor"]
    if mine in (None, "any", "other"):
        return False
    if have is None:
        return None
    return mine != have and have not in ("mixed", "none") and mine != "none"


@FACTS.add("image.doubled", "bool", "the arguments repeat the program that the image starts by itself")
def _doubled(context: FactContext) -> bool:
    return "doubled" in context.checked.launch.setup.places
