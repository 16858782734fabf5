"""Patches as Kustomize applies them: strategic merge patches, JSON 6902 patches, images, replicas.

Source: kubectl.docs.kubernetes.io/references/kustomize; lists merge by the `patchMergeKey` of the Kubernetes API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.checks.read.located_text import Map, Seq, Text, as_mapping, as_sequence, as_string, line_of, make_text

Object = dict[str, Any]
MERGE_KEYS = {  # field: the key that its items merge by
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name", "hostAliases": "ip",
}  # fmt: skip
SERVICE_PORTS = "port"


def merge_strategic(below: Any, patch: Any, field: str = "") -> Any:
    """`below` with a strategic merge patch on it: null removes, `$patch: replace` and `delete` are followed."""
    if isinstance(below, dict) and isinstance(patch, dict):
        if str(patch.get("$patch")) == "replace":
            return _without_directive(patch)
        out = _copy_map(below)
        for key, value in patch.items():
            if key == "$patch":
                continue
            if value is None:
                out.pop(key, None)
            else:
                out[key] = merge_strategic(out.get(key), value, str(key)) if key in out else _without_directive(value)
        return out
    if isinstance(below, list) and isinstance(patch, list) and field in MERGE_KEYS:
        return _merge_lists(below, patch, field)
    return _without_directive(patch)


def _merge_lists(below: list[Any], patch: list[Any], field: str) -> list[Any]:
    key = MERGE_KEYS[field]
    if field == "ports" and not any(key in as_mapping(x) for x in [*below, *patch]):
        key = SERVICE_PORTS
    left, out = list(below), Seq()
    out.line = line_of(below)
    for item in patch:  # its items come first, in its order
        name = as_mapping(item).get(key)
        at = next((i for i, x in enumerate(left) if name is not None and as_mapping(x).get(key) == name), None)
        was = left.pop(at) if at is not None else None
        if str(as_mapping(item).get("$patch")) != "delete":
            out.append(merge_strategic(was, item) if was is not None else _without_directive(item))
    out.extend(left)
    return out


def _without_directive(value: Any) -> Any:
    if isinstance(value, dict):
        out = Map((k, _without_directive(v)) for k, v in value.items() if k != "$patch" and v is not None)
        out.line = line_of(value)
        return out
    return value


def _copy_map(value: Mapping[Any, Any]) -> Map:
    out = Map(value)
    out.line = line_of(value)
    return out


def apply_operations(body: Any, operations: list[Any]) -> Any:
    """`body` with the operations of a JSON 6902 patch; one whose path does not lead anywhere changes nothing."""
    for operation in operations[:500]:
        kind = str(as_mapping(operation).get("op"))
        path = as_string(as_mapping(operation).get("path"))
        if path is None or kind not in ("add", "replace", "remove"):
            continue
        steps = [s.replace("~1", "/").replace("~0", "~") for s in path.split("/")[1:]][:40]
        if steps:
            body = _put(body, steps, kind, operation.get("value"), line_of(operation))
    return body


def _put(body: Any, steps: list[str], kind: str, value: Any, line: int) -> Any:
    head, rest = steps[0], steps[1:]
    if isinstance(body, dict):
        out = _copy_map(body)
        if rest:
            if head in out:
                out[head] = _put(out[head], rest, kind, value, line)
        elif kind == "remove":
            out.pop(head, None)
        else:
            out[make_text(head, line)] = value
        return out
    if isinstance(body, list):
        items = Seq(body)
        items.line = line_of(body)
        if head == "-" and not rest and kind == "add":
            items.append(value)
        elif head.isdecimal() and len(head) < 6 and int(head) < len(items):
            at = int(head)
            if rest:
                items[at] = _put(items[at], rest, kind, value, line)
            elif kind == "remove":
                del items[at]
            elif kind == "add":
                items.insert(at, value)
            else:
                items[at] = value
        elif head.isdecimal() and not rest and kind == "add" and int(head[:6]) == len(items):
            items.append(value)
        return items
    return body


def matches_target(resource: Object, target: Mapping[str, Any]) -> bool:
    """Whether a patch's `target` selects an object; names are patterns that have to match as a whole."""
    meta = as_mapping(resource.get("metadata"))
    group, _, version = str(resource.get("apiVersion", "")).rpartition("/")
    seen = {"kind": resource.get("kind"), "name": meta.get("name"), "namespace": meta.get("namespace"),
            "group": group, "version": version}  # fmt: skip
    for key, value in seen.items():
        wanted = as_string(target.get(key))
        if wanted and not _matches(wanted, str(value or "")):
            return False
    for pair in (as_string(target.get("labelSelector")) or "").split(","):
        k, eq, v = pair.partition("=")
        if eq and str(as_mapping(meta.get("labels")).get(k.strip())) != v.strip("= "):
            return False
    return True


def _matches(pattern: str, value: str) -> bool:
    """Kustomize's patterns are RE2's. Only what needs no backtracking is taken as one here, the rest as a name."""
    if pattern == value:
        return True
    simple = re.fullmatch(r"[\w.|*-]+", pattern) and pattern.count("*") <= 3
    return bool(simple and re.fullmatch(pattern.lstrip("*"), value[:253]))


def set_images(body: Any, images: list[Any]) -> Any:
    """`body` with the names, tags and digests of `images:` in every container."""
    if isinstance(body, list):
        items = Seq(set_images(x, images) for x in body)
        items.line = line_of(body)
        return items
    if not isinstance(body, dict):
        return body
    out = Map((k, set_images(v, images)) for k, v in body.items())
    out.line = line_of(body)
    for key in ("containers", "initContainers"):
        for container in as_sequence(out.get(key)):
            image = as_string(as_mapping(container).get("image"))
            if image is not None:
                container["image"] = _rename_image(image, images)
    return out


def _rename_image(image: Text, images: list[Any]) -> Text:
    base, at, digest = image.partition("@")
    name, colon, tag = base.rpartition(":") if ":" in base.rpartition("/")[2] else (base, "", "")
    for entry in images:
        entry = as_mapping(entry)
        if as_string(entry.get("name")) != name:
            continue
        new_name = as_string(entry.get("newName"))
        new_tag, new_digest = as_string(entry.get("newTag")), as_string(entry.get("digest"))
        said = [w for w in (new_name, new_tag, new_digest) if w is not None]
        if not said:
            return image
        if new_digest is not None:
            made = f"{new_name or name}@{new_digest}"
        elif new_tag is not None:
            made = f"{new_name or name}:{new_tag}"
        else:
            made = f"{new_name or name}{colon}{tag}{at}{digest}"
        unknown = tuple(u for w in said for u in w.unknown)
        return make_text(made, line_of(said[-1]), said[-1].column, unknown)
    return image
