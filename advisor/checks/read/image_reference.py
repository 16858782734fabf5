"""Image references taken apart, with what is known of them."""

from __future__ import annotations

import re

from advisor.checks.knowledge import Knowledge, KnownImage
from advisor.record import Value


class ImageReference(Value, frozen=True):
    """An image reference taken apart."""

    name: str  # with registry, without tag and digest
    tag: str | None
    digest: str | None
    entry: KnownImage | None


def parse_image(reference: str, knowledge: Knowledge) -> ImageReference:
    """`nvcr.io/x/y:tag@sha256:...` taken apart, with what is known of it."""
    rest, _, digest = reference.strip().partition("@")
    m = re.match(r"^((?:\$\{[^}]*\}|[^$])*?/)?((?:\$\{[^}]*\}|[^:$/])+)(?::(.+))?$", rest)
    name, tag = ((m[1] or "") + m[2], m[3] or "") if m else (rest, "")
    return ImageReference(name, tag or None, digest or None, knowledge.image(name))


def image_version(image: ImageReference) -> str | None:
    """The engine's version where the tag states it."""
    if image.tag is None or image.entry is None or not image.entry.official:
        return None
    if image.entry.tag == "build":
        m = re.search(r"(?:^|-)b(\d{3,6})$", image.tag)
        return f"b{m[1]}" if m else None
    m = re.match(r"v?(\d+\.\d+(?:\.\d+)*(?:(?:rc|post|a|b)\d+)?)", image.tag)
    return m[1] if m else None
