"""Kustomizations: the objects that one builds, and of them the launches that it changes.

What it takes over as it stands is judged in its own file. Of a launch that it changes, `before` is the launch as it
was, so that only what the change brings about is stated again.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from advisor.checks.read import kubernetes
from advisor.checks.read.context import ReaderContext, find_root, list_texts, note_unread
from advisor.checks.read.launch import Launch, Launches, move_launch
from advisor.errors import BadFile, Unread
from advisor.files import read_text
from advisor.record import Value
from advisor.yaml_places import (
    Located,
    Map,
    Seq,
    Text,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    at_line,
    first_line,
    line_of,
    make_text,
    parse_documents,
    place_like,
    value_at,
)

NAMES = ("kustomization.yaml", "kustomization.yml", "kustomization")
MAX_DEPTH = 8  # of kustomizations that name others
MAX_FILES = 200
MAX_OPERATIONS = 500  # of a patch
LARGEST = 2**20
SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_GROUP = "kustomize.config.k8s.io/"
Object = dict[str, Located]
MERGE_KEYS = {  # field: the key that its items merge by
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name", "hostAliases": "ip",
}  # fmt: skip
SERVICE_PORTS = "port"
_AROUND = ("Service", "PersistentVolumeClaim", "Ingress")
# What comes from another file stands on the line that names the file. Its own lines are kept apart until the launches
# are made, since scripts inside it are read line by line.
_APART = 10_000_000


def is_kustomization(doc: object, file: str) -> bool:
    """Whether a document is a kustomization: by its kind, or by the name of its file."""
    if not isinstance(doc, dict):
        return False
    if doc.get("kind") is not None:
        return str(doc.get("kind")) in ("Kustomization", "Component") and str(doc.get("apiVersion")).startswith(_GROUP)
    return Path(file).name.lower() in NAMES and ("resources" in doc or "bases" in doc)


class _Build(Value, frozen=True):
    """What one run over a kustomization and all that it names has at hand."""

    root: Path  # nothing outside of it is read
    files: list[Path]  # that were read
    elsewhere: list[Text]  # resources that are not in this tree: on the network, or missing


class _BuiltObject(Value, frozen=True):
    """An object, as it stands in its file and as the kustomization makes it."""

    original: Object
    made: Object


def read_kustomization(doc: Object, ctx: ReaderContext) -> Launches:
    """The launches that a kustomization changes. Those of other files stand where this one names them."""
    if ctx.folder is None:
        return []
    build = _Build(find_root(ctx), [], [])
    built = _build(doc, ctx.folder, ctx, build, 0)
    if build.elsewhere and not built:
        first = build.elsewhere[0]
        note_unread(ctx, f"{first[:80]} is not in this tree, and what it holds is not known", line_of(first))
    changed = {id(b.made) for b in built if b.made != b.original}
    if not changed:
        return []
    inside = replace(ctx, folder=None)  # what lies next to this file is not what lies next to theirs
    out: Launches = []
    around = [b.made for b in built if id(b.made) not in changed and b.made.get("kind") in _AROUND]
    for b in (b for b in built if id(b.made) in changed):
        before = kubernetes.read_objects([b.original, *around], inside)
        found = kubernetes.read_objects([b.made, *around], inside)
        for i, launch in enumerate(found):
            was = before[i] if len(before) == len(found) else None
            out.append(replace(_place(launch), before=None if was is None else _place(was)))
    return out


def _build(doc: Object, folder: Path, ctx: ReaderContext, build: _Build, depth: int) -> list[_BuiltObject]:
    """All objects of a kustomization in `folder`, with what it changes in them."""
    out: list[_BuiltObject] = []
    for name in (name for key in ("resources", "bases", "components") for name in list_texts(doc.get(key))):
        out += _read_resource(name, folder, ctx, build, depth)
    objects = [b.made for b in out]
    for patch, target in _list_patches(doc, folder, build):
        objects = [_patched(o, patch, target) for o in objects]
    images = as_sequence(doc, "images")
    if images:
        objects = [as_mapping(set_images(o, images)) for o in objects]
    for entry in as_sequence(doc, "replicas"):
        objects = [_scaled(o, as_mapping(entry)) for o in objects]
    return [_BuiltObject(b.original, o) for b, o in zip(out, objects, strict=True) if o]


def _read_resource(name: Text, folder: Path, ctx: ReaderContext, build: _Build, depth: int) -> list[_BuiltObject]:
    path = _find(name, folder, build)
    if depth > MAX_DEPTH:
        raise Unread(f"kustomizations name each other more than {MAX_DEPTH} times")
    if path is None:
        build.elsewhere.append(name)
        return []
    if path.is_dir():
        files = (path / n for n in ("kustomization.yaml", "kustomization.yml", "Kustomization"))
        inner = next(filter(Path.is_file, files), None)
        docs = _parse(inner, build) if inner is not None else []
        found = [b for d in docs if isinstance(d, dict) for b in _build(d, path, ctx, build, depth + 1)]
    else:
        objects = [o for d in _parse(path, build) for o in kubernetes.flatten_lists(d)]
        found = [_BuiltObject(o, o) for o in objects]
    if depth:
        return found
    line = line_of(name)
    return [_BuiltObject(as_mapping(_at_line(b.original, line)), as_mapping(_at_line(b.made, line))) for b in found]


def _find(name: str, folder: Path, build: _Build) -> Path | None:
    """A file or folder of the same tree; None for anything else, an address on the network too."""
    if "://" in name or "\0" in name or name.startswith(("git@", "/")) or len(name) > 1000:
        return None
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to(build.root) and (path.is_file() or path.is_dir()) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _parse(path: Path, build: _Build) -> list[Located]:
    if len(build.files) >= MAX_FILES:
        raise Unread(f"it names more than {MAX_FILES} files")
    build.files.append(path)
    try:
        return parse_documents(read_text(path, LARGEST), path)
    except Unread:
        raise
    except BadFile:
        return []


def _list_patches(doc: Object, folder: Path, build: _Build) -> list[tuple[Located, Object]]:
    """(patch, its target) of `patches`, `patchesStrategicMerge` and `patchesJson6902`, in Kustomize's order."""
    out: list[tuple[Located, Object]] = []
    for text in list_texts(doc.get("patchesStrategicMerge")):
        out += [(p, {}) for p in _read_patch(text if "\n" in text else None, text, folder, build)]
    for entry in (*as_sequence(doc, "patches"), *as_sequence(doc, "patchesJson6902")):
        found = _read_patch(as_string(entry, "patch"), as_string(entry, "path"), folder, build)
        out += [(p, as_mapping(entry, "target")) for p in found]
    return out


def _read_patch(text: Text | None, path: Text | None, folder: Path, build: _Build) -> list[Located]:
    """The documents of a patch. Those of a file stand where the file is named."""
    if text is not None:
        try:
            return parse_documents(text, "patch", first_line(text))
        except BadFile:
            return []
    file = _find(path, folder, build) if path is not None else None
    if file is None or not file.is_file():
        return []
    return [_at_line(d, line_of(path)) for d in _parse(file, build)]


def _patched(resource: Object, patch: object, target: Object) -> Object:
    if target:
        chosen = matches_target(resource, target)
    else:
        chosen = isinstance(patch, dict) and _identify(patch) == _identify(resource)
    if not resource or not chosen or not isinstance(patch, (dict, list)):
        return resource
    if isinstance(patch, list):
        return as_mapping(apply_operations(resource, patch))
    if str(patch.get("$patch")) == "delete":
        return Map()
    made = as_mapping(merge_strategic(resource, patch))
    if target:  # the patch's own name does not count
        made["metadata"] = merge_strategic(made.get("metadata"), Map({make_text("name"): _identify(resource)[1]}))
    return made


def _identify(resource: Object) -> tuple[Located, Located]:
    """(kind, name) of an object, or of the one that a patch is for."""
    return resource.get("kind"), value_at(resource, "metadata", "name")


def _scaled(resource: Object, entry: Object) -> Object:
    count, (kind, name) = as_string(entry, "count"), _identify(resource)
    if as_whole_number(count) is None or kind not in SCALED or name != as_string(entry, "name"):
        return resource
    return as_mapping(merge_strategic(resource, Map({make_text("spec"): Map({make_text("replicas"): count})})))


def _text_at_line(text: Text, line: int) -> Text:
    return make_text(text, _APART * line + text.line % _APART, 0, text.unknown, text.block)


def _at_line(value: Located, line: int) -> Located:
    here = _APART * line + line_of(value) % _APART
    if isinstance(value, Text):
        return _text_at_line(value, line)
    if isinstance(value, dict):
        moved: Object = {_text_at_line(place_like(k, k), line): _at_line(v, line) for k, v in value.items()}
        return at_line(Map(moved), here)
    if isinstance(value, list):
        return at_line(Seq(_at_line(v, line) for v in value), here)
    return value


def _line(line: int) -> int:
    return line // _APART if line >= _APART else line


def _word(word: Text) -> Text:
    return word if word.line < _APART else make_text(word, _line(word.line), 0, word.unknown, word.block)


def _place(launch: Launch) -> Launch:
    """The launch with every line one of the kustomization's own."""
    return move_launch(launch, _word, _line)


def merge_strategic(below: Located, patch: Located, field: str = "") -> Located:
    """`below` with a strategic merge patch on it: null removes, `$patch: replace` and `delete` are followed."""
    if isinstance(below, dict) and isinstance(patch, dict):
        if str(patch.get("$patch")) == "replace":
            return _without_directive(patch)
        out = at_line(Map(below), line_of(below))
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


def _merge_lists(below: list[Located], patch: list[Located], field: str) -> list[Located]:
    key = MERGE_KEYS[field]
    if field == "ports" and not any(key in as_mapping(x) for x in [*below, *patch]):
        key = SERVICE_PORTS
    left, out = list(below), at_line(Seq(), line_of(below))
    for item in patch:  # its items come first, in its order
        name = as_mapping(item).get(key)
        at = next((i for i, x in enumerate(left) if name is not None and as_mapping(x).get(key) == name), None)
        was = left.pop(at) if at is not None else None
        if str(as_mapping(item).get("$patch")) != "delete":
            out.append(merge_strategic(was, item) if was is not None else _without_directive(item))
    out.extend(left)
    return out


def _without_directive(value: Located) -> Located:
    if not isinstance(value, dict):
        return value
    kept = {k: _without_directive(v) for k, v in value.items() if k != "$patch" and v is not None}
    return at_line(Map(kept), line_of(value))


def apply_operations(body: Located, operations: list[Located]) -> Located:
    """`body` with the operations of a JSON 6902 patch; one whose path does not lead anywhere changes nothing."""
    if len(operations) > MAX_OPERATIONS:
        raise Unread(f"a patch has more than {MAX_OPERATIONS} operations")
    for operation in operations:
        step = as_mapping(operation)
        kind, path = str(step.get("op")), as_string(step, "path")
        if path is None or kind not in ("add", "replace", "remove"):
            continue
        steps = [s.replace("~1", "/").replace("~0", "~") for s in path.split("/")[1:]][:40]
        if steps:
            body = _put(body, steps, kind, step.get("value"), line_of(operation))
    return body


def _put(body: Located, steps: list[str], kind: str, value: Located, line: int) -> Located:
    head, rest = steps[0], steps[1:]
    if isinstance(body, dict):
        out = at_line(Map(body), line_of(body))
        if rest:
            if head in out:
                out[head] = _put(out[head], rest, kind, value, line)
        elif kind == "remove":
            out.pop(head, None)
        else:
            out[make_text(head, line)] = value
        return out
    if isinstance(body, list):
        items = at_line(Seq(body), line_of(body))
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


def matches_target(resource: Object, target: Object) -> bool:
    """Whether a patch's `target` selects an object; names are patterns that have to match as a whole."""
    meta = as_mapping(resource, "metadata")
    group, _, version = str(resource.get("apiVersion", "")).rpartition("/")
    seen = {"kind": resource.get("kind"), "name": meta.get("name"), "namespace": meta.get("namespace"),
            "group": group, "version": version}  # fmt: skip
    for key, value in seen.items():
        pattern = as_string(target, key)
        if pattern and not _matches(pattern, str(value or "")):
            return False
    for pair in (as_string(target, "labelSelector") or "").split(","):
        k, eq, v = pair.partition("=")
        if eq and str(as_mapping(meta, "labels").get(k.strip())) != v.strip("= "):
            return False
    return True


def _matches(pattern: str, value: str) -> bool:
    """Kustomize's patterns are RE2's. Only what needs no backtracking is taken as one here, the rest as a name."""
    if pattern == value:
        return True
    simple = re.fullmatch(r"[\w.|*-]+", pattern) and pattern.count("*") <= 3
    return bool(simple and re.fullmatch(pattern.lstrip("*"), value[:253]))


def set_images(body: Located, images: list[Located]) -> Located:
    """`body` with the names, tags and digests of `images:` in every container."""
    if isinstance(body, list):
        return at_line(Seq(set_images(x, images) for x in body), line_of(body))
    if not isinstance(body, dict):
        return body
    out = at_line(Map((k, set_images(v, images)) for k, v in body.items()), line_of(body))
    for key in ("containers", "initContainers"):
        for container in as_sequence(out, key):
            image = as_string(container, "image")
            if isinstance(container, dict) and image is not None:
                container["image"] = _rename_image(image, images)
    return out


def _rename_image(image: Text, images: list[Located]) -> Text:
    base, at, digest = image.partition("@")
    name, colon, tag = base.rpartition(":") if ":" in base.rpartition("/")[2] else (base, "", "")
    for entry in images:
        if as_string(entry, "name") != name:
            continue
        new_name, new_tag, new_digest = (as_string(entry, k) for k in ("newName", "newTag", "digest"))
        changes = [w for w in (new_name, new_tag, new_digest) if w is not None]
        if not changes:
            return image
        end = f"@{new_digest}" if new_digest is not None else f":{new_tag}" if new_tag is not None else None
        made = f"{new_name or name}{colon + tag + at + digest if end is None else end}"
        unknown = tuple(u for w in changes for u in w.unknown)
        return make_text(made, line_of(changes[-1]), changes[-1].column, unknown)
    return image
