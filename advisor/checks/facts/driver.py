"""Facts about the CUDA of an image and the driver of the machine."""

from __future__ import annotations

import re

import msgspec

from advisor.catalog.documents import decode_document
from advisor.checks.facts.images import image_ref
from advisor.checks.facts.registry import FactContext, FactTable
from advisor.engines.versions import is_before, version_key
from advisor.meanings import EngineId, Version

FACTS = FactTable()


class DriverBranch(msgspec.Struct, frozen=True):
    """The newest CUDA that drivers of a branch have."""

    branch: int
    cuda: Version


class ImageCuda(msgspec.Struct, frozen=True):
    """The CUDA that an engine's own images have at least, from a version on."""

    engine: EngineId
    since: Version
    cuda: Version
    source: str


class DriverVersions(msgspec.Struct, frozen=True):
    """rules/checks/drivers.yaml."""

    source: str
    as_of: str
    drivers: tuple[DriverBranch, ...]
    let_pass: tuple[int, ...]
    images: tuple[ImageCuda, ...]


def _versions(context: FactContext) -> DriverVersions:
    return decode_document(context.knowledge.rules, "checks/drivers.yaml", DriverVersions)


def _named_cuda(context: FactContext) -> str | None:
    """CUDA that the image's tag names."""
    image_reference = image_ref(context)
    m = (
        re.search(r"cu(?:da)?[-_.]?(1[1-9])\.?(\d)?", image_reference.tag or "")
        if image_reference is not None
        else None
    )
    return f"{m[1]}.{m[2] or 0}" if m else None


@FACTS.add("image.cuda", "version", "CUDA the image's tag names, or that images of its version have at least")
def _cuda(context: FactContext) -> str | None:
    named = _named_cuda(context)
    if named is not None:
        return named
    version = context.checked.launch.version
    if (
        version is None
        or context.checked.launch.version_from != "the image tag"
        or context.facts["image.vendor"] != "nvidia"
    ):
        return None
    rows = [x for x in _versions(context).images if x.engine == context.checked.launch.engine]
    return next((x.cuda for x in reversed(rows) if not is_before(version, x.since)), None)


@FACTS.add("driver.newest_cuda", "version", "the newest CUDA that the driver has, by its branch where that is known")
def _newest(context: FactContext) -> str | None:
    driver = context.facts["driver.nvidia"]
    branch = str(driver).partition(".")[0] if driver is not None else None
    exact = next((x.cuda for x in _versions(context).drivers if str(x.branch) == branch), None)
    found = exact or context.facts["driver.cuda"]
    return None if found is None else str(found)


@FACTS.add("image.driver_too_old", "bool", "the image wants a newer CUDA than the driver supports")
def _driver(context: FactContext) -> bool | None:
    """A container does not start where the driver's branch has an older CUDA than the image, unless NVIDIA's images
    let that branch pass. What a tag names is held against the driver's major version as well."""
    mine = context.facts["image.cuda"]
    if mine is None:
        return False
    known, driver, have = _versions(context), context.facts["driver.nvidia"], context.facts["driver.cuda"]
    branch = str(driver).partition(".")[0] if driver is not None else None
    exact = next((x.cuda for x in known.drivers if str(x.branch) == branch), None)
    if exact is not None and int(branch or 0) not in known.let_pass:
        return version_key(mine)[:2] > version_key(exact)[:2]
    if have is None or _named_cuda(context) is None:
        return None
    return version_key(mine)[0] > version_key(have)[0]
