"""Kubernetes manifests: every pod template in them, whatever kind of object holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from advisor.checks import accelerators
from advisor.checks.docker_run import size
from advisor.checks.launch import TAKEN_SERVICE_NAME, Launch, Mount, Probe, Setup
from advisor.checks.located import (
    Map,
    Text,
    at,
    documents,
    find_all,
    line_of,
    mapping,
    sequence,
    string,
    text,
    truth,
    whole,
)
from advisor.checks.readers import crds
from advisor.checks.readers.context import Context, environment, finder, made, nested

IGNORE = "advise.check/ignore-"
_SKIP = frozenset(("CustomResourceDefinition", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"))


def read(source: str, ctx: Context) -> list[Launch]:
    """The launches of a manifest: several documents, Lists, objects that hold pod templates."""
    objects = [o for d in documents(source, ctx.file, ctx.line) for o in _flat(d)]
    return read_objects(objects, ctx)


def read_objects(objects: list[Any], ctx: Context) -> list[Launch]:
    """The launches of parsed objects; services and volume claims among them say what surrounds the pods."""
    around = _Around(objects)
    out: list[Launch] = []
    for o in objects:
        kind = str(o.get("kind", ""))
        if kind in _SKIP:
            continue
        name = string(at(o, "metadata", "name"))
        ignore = _ignored(o)
        if kind in ("ConfigMap", "Secret"):
            for key, value in mapping(o.get("data")).items():
                if isinstance(value, Text):
                    out += nested(ctx, value, str(key))
            continue
        special = crds.read(kind, o, ctx)
        found = special if special is not None else _pods(o, kind, name, ctx, around)
        out += [msgspec.structs.replace(x, ignore={**ignore, **x.ignore}) for x in found] if ignore else found
    return out


def _flat(doc: Any) -> Iterator[dict[str, Any]]:
    if isinstance(doc, dict) and str(doc.get("kind", "")).endswith("List") and isinstance(doc.get("items"), list):
        for item in doc["items"]:
            yield from _flat(item)
    elif isinstance(doc, dict) and doc.get("kind") is not None:
        yield doc


def _ignored(o: Mapping[str, Any]) -> dict[str, str]:
    notes = mapping(at(o, "metadata", "annotations"))
    return {str(k)[len(IGNORE) :]: str(v) for k, v in notes.items() if str(k).startswith(IGNORE)}


class _Around:
    """Services, claims and names of one file that matter to its pods."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.services = [o for o in objects if o.get("kind") == "Service"]
        self.ingress = any(o.get("kind") in ("Ingress", "Route", "VirtualService") for o in objects)
        self.service_names = {str(at(o, "metadata", "name")): line_of(at(o, "metadata", "name")) for o in self.services}
        self.claims = {
            str(at(o, "metadata", "name")): size(string(at(o, "spec", "resources", "requests", "storage")))
            for o in objects
            if o.get("kind") == "PersistentVolumeClaim"
        }

    def exposed(self, labels: Mapping[str, Any]) -> str | None:
        """How pods with these labels are reachable from beyond the cluster; None when they are not."""
        for s in self.services:
            wanted = mapping(at(s, "spec", "selector"))
            kind = str(at(s, "spec", "type") or "ClusterIP")
            if kind in ("NodePort", "LoadBalancer") and wanted and all(labels.get(k) == v for k, v in wanted.items()):
                notes = " ".join(f"{k}={v}" for k, v in mapping(at(s, "metadata", "annotations")).items())
                if re.search(r"internal", notes, re.I):
                    continue
                return f"a Service of type {kind}"
        return "an Ingress" if self.ingress else None

    def port(self, labels: Mapping[str, Any]) -> tuple[int, int] | None:
        """(target port, line) of the Service that selects these pods, where it is a number."""
        for s in self.services:
            wanted = mapping(at(s, "spec", "selector"))
            if wanted and all(labels.get(k) == v for k, v in wanted.items()):
                for p in sequence(at(s, "spec", "ports")):
                    target = whole(at(p, "targetPort")) or (
                        whole(at(p, "port")) if at(p, "targetPort") is None else None
                    )
                    if target:
                        return target, line_of(p)
        return None


def pod_specs(o: Any, depth: int = 0, above: tuple[Any, ...] = ()) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Every mapping with a list of containers, and the mappings it lies in (the nearest last)."""
    if depth > 30:
        return
    if isinstance(o, dict):
        c = o.get("containers")
        if isinstance(c, list) and any(
            isinstance(x, dict) and ({"image", "command", "args", "name"} & set(x)) for x in c
        ):
            yield o, above
        for k, v in o.items():
            if k not in ("containers", "initContainers") and isinstance(v, (dict, list)):
                yield from pod_specs(v, depth + 1, (*above, o))
    elif isinstance(o, list):
        for x in o:
            yield from pod_specs(x, depth + 1, above)


def _pods(o: dict[str, Any], kind: str, name: str | None, ctx: Context, around: _Around) -> list[Launch]:
    out: list[Launch] = []
    for spec, above in pod_specs(o):
        labels = mapping(at(above[-1], "metadata", "labels")) if above else mapping(at(o, "metadata", "labels"))
        pod = pod_setup(spec, ctx, mapping(above[-1].get("metadata")) if above else {})
        owner = mapping(o.get("spec"))
        pod = msgspec.structs.replace(
            pod,
            exposed=around.exposed(labels) or ("the host's network" if pod.host_network else None),
            replicas=whole(owner.get("replicas")),
            progress_deadline=whole(owner.get("progressDeadlineSeconds")),
            rolling=_rolling(kind, owner),
            nodes=_nodes(kind, above, owner),
            places={**pod.places, "object": line_of(o), "kind:" + kind: 1},
        )
        out += containers(spec, pod, name, ctx, around, labels)
    if not out:  # resources that fill a pod in from one container (`mainContainer`)
        for body in find_all(o, "image"):
            if isinstance(body.get("image"), Text) and (
                body.get("args") is not None or body.get("command") is not None
            ):
                out += containers({"containers": [body]}, pod_setup({}, ctx, {}), name, ctx)
    return out


def containers(
    spec: Mapping[str, Any],
    pod: Setup,
    name: str | None,
    ctx: Context,
    around: _Around | None = None,
    labels: Mapping[str, Any] | None = None,
    kind: str = "kubernetes",
) -> list[Launch]:
    """The launches of a pod spec's containers."""
    out: list[Launch] = []
    here = [c for c in sequence(spec.get("containers")) if isinstance(c, dict)]
    for c in here:
        setup = container_setup(c, spec, pod, ctx, around)
        env, elsewhere = environment(c.get("env"))
        for k in elsewhere:
            env[k] = text(f"$({k})", line_of(c), 0, (k,))
        for k, v in env.items():
            if k not in elsewhere:
                env[k] = _filled(v, env)
        if c.get("envFrom") is not None:
            setup = msgspec.structs.replace(setup, places={**setup.places, "envFrom": line_of(c)})
        command = [w for w in sequence(c.get("command")) if isinstance(w, Text)]
        args = [w for w in sequence(c.get("args")) if isinstance(w, Text)]
        started = finder(ctx).container(
            string(c.get("image")),
            [_filled(w, env) for w in command] or None,
            [_filled(w, env) for w in args],
            env,
            setup,
        )
        own = string(c.get("name"))
        label = name if len(here) == 1 or own is None else f"{name or 'pod'}/{own}"
        found = made(ctx, kind, started, label)
        target = around.port(labels or {}) if around is not None else None
        if target is not None and found:
            ports = (*found[0].setup.ports, (None, None, target[0]))
            found = [
                msgspec.structs.replace(
                    x,
                    setup=msgspec.structs.replace(x.setup, ports=ports, places={**x.setup.places, "ports": target[1]}),
                )
                for x in found
            ]
        if around is not None and found:
            found = [_with_taken_name(x, around, ctx) for x in found]
        out += [msgspec.structs.replace(x, line=x.line if x.line > 1 else line_of(c)) for x in found]
    return out


def _with_taken_name(launch: Launch, around: _Around, ctx: Context) -> Launch:
    """The launch with the line of a Service whose name sets a variable that its server misreads."""
    known = ctx.know.server(launch.engine)
    line = around.service_names.get(known.taken_service_name or "", 0) if known is not None else 0
    if not line:
        return launch
    places = {**launch.setup.places, TAKEN_SERVICE_NAME: line}
    return msgspec.structs.replace(launch, setup=msgspec.structs.replace(launch.setup, places=places))


def _filled(word: Text, env: Mapping[str, Text]) -> Text:
    """`$(NAME)` replaced by the container's own variables and `$$` by `$`, as Kubernetes does (its expand.go); other
    names stay and are named."""
    if "$(" not in word and "$$" not in word:
        return word
    unknown = list(word.unknown)

    def one(m: re.Match[str]) -> str:
        if m[1] is None:
            return "$"
        value = env.get(m[1])
        if value is None:
            if "\n" not in word and " " not in word:
                unknown.append(m[1])
            return m[0]
        unknown.extend(value.unknown)
        return value

    made_ = re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", one, word)
    return text(made_[:65_536], word.line, word.column, tuple(dict.fromkeys(unknown)), word.block)


def _rolling(kind: str, owner: Mapping[str, Any]) -> bool | None:
    if kind != "Deployment":
        return None
    strategy = mapping(owner.get("strategy"))
    if str(strategy.get("type")) == "Recreate":
        return False
    surge = str(at(strategy, "rollingUpdate", "maxSurge") or "25%")
    return surge not in ("0", "0%")


def _nodes(kind: str, above: tuple[Any, ...], owner: Mapping[str, Any]) -> int | None:
    if kind == "LeaderWorkerSet":
        return whole(at(owner, "leaderWorkerTemplate", "size"))
    return None


def pod_setup(spec: Mapping[str, Any], ctx: Context, metadata: Mapping[str, Any]) -> Setup:
    """What the pod says for all its containers."""
    labels = {str(k): str(v) for k, v in mapping(spec.get("nodeSelector")).items() if isinstance(v, Text)}
    affinity = list(_affinity(spec.get("affinity")))
    for key, values in affinity:
        if len(values) == 1:
            labels.setdefault(key, values[0])
    found = accelerators.from_labels(labels, ctx.know)
    tolerates = any(
        "gpu" in str(at(t, "key") or "") or at(t, "key") is None or "nvidia" in str(t)
        for t in sequence(spec.get("tolerations"))
    )
    return Setup(
        container=True,
        cluster=True,
        hardware=found[0] if found else None,
        hardware_source=found[1] if found else None,
        host_network=truth(spec.get("hostNetwork")) is True,
        host_pid=truth(spec.get("hostPID")) is True,
        ipc_host=truth(spec.get("hostIPC")) is True,
        tolerates_gpu=tolerates,
        selects_node=bool(labels or affinity or spec.get("runtimeClassName") or spec.get("resourceClaims")),
        service_links=truth(spec.get("enableServiceLinks")),
        gpu_granted=True if spec.get("resourceClaims") else None,
    )


def _affinity(value: Any) -> Iterator[tuple[str, list[str]]]:
    terms = sequence(at(value, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"))
    for t in terms:
        for e in sequence(at(t, "matchExpressions")):
            if str(at(e, "operator")) == "In" and isinstance(at(e, "key"), Text):
                yield str(at(e, "key")), [str(v) for v in sequence(at(e, "values")) if isinstance(v, Text)]


def resources(c: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """(limits, requests) of a container."""
    return mapping(at(c, "resources", "limits")), mapping(at(c, "resources", "requests"))


def gpu_setup(setup: Setup, limits: Mapping[str, Any], requests: Mapping[str, Any], ctx: Context) -> Setup:
    """A Setup with the accelerators that resource limits hand over."""
    limit = next(((str(k), v) for k, v in limits.items() if accelerators.GPU_RESOURCE.match(str(k))), None)
    wanted = next(((str(k), v) for k, v in requests.items() if accelerators.GPU_RESOURCE.match(str(k))), None)
    named = limit or wanted
    fraction = any(
        v is not None and re.fullmatch(r"\d*\.\d+|\d+m", str(v)) for _, v in (limit or ("", None), wanted or ("", None))
    )
    count = whole(limit[1]) if limit else None
    setup = msgspec.structs.replace(
        setup,
        gpu_count=count,
        gpu_requests=whole(wanted[1]) if wanted else None,
        gpu_granted=(count is None or count > 0) if limit else bool(setup.gpu_granted or wanted),
        gpu_resource=named[0] if named else None,
        gpu_fraction=fraction,
    )
    if named and setup.hardware is None:
        plain = named[0].partition("/")[2]
        if named[0].startswith("nvidia.com/") and plain not in ("gpu", "gpu.shared") and not plain.startswith("mig-"):
            words = accelerators.accelerator(plain, ctx.know)
            if words:
                setup = msgspec.structs.replace(setup, hardware=words, hardware_source=named[0])
    return setup


def container_setup(
    c: Mapping[str, Any], spec: Mapping[str, Any], pod: Setup, ctx: Context, around: _Around | None
) -> Setup:
    """What is around a container's process."""
    limits, requests = resources(c)
    setup = gpu_setup(pod, limits, requests, ctx)
    if at(c, "resources", "claims") is not None:
        setup = msgspec.structs.replace(setup, gpu_granted=True)
    volumes = {str(at(v, "name")): v for v in sequence(spec.get("volumes")) if isinstance(v, dict)}
    mounts, disk = _mounts(c, volumes, around)
    shm = next((m for m in mounts if m.target.rstrip("/") == "/dev/shm"), None)  # noqa: S108 - a mount point, not a file
    security = mapping(c.get("securityContext"))
    probes = tuple(
        _probe(kind, p)
        for kind, key in (("startup", "startupProbe"), ("liveness", "livenessProbe"), ("readiness", "readinessProbe"))
        if isinstance(p := c.get(key), dict)
    )
    ports = tuple((None, None, whole(at(p, "containerPort"))) for p in sequence(c.get("ports")))
    places = {
        "resources": line_of(c.get("resources")) or line_of(c),
        "image": line_of(c.get("image")) or line_of(c),
        "ports": line_of(c.get("ports")) or line_of(c),
        "privileged": line_of(security.get("privileged")) or line_of(c),
        "volumeMounts": line_of(c.get("volumeMounts")) or line_of(c),
        "env": line_of(c.get("env")) or line_of(c),
    }
    memory, cpu = string(limits.get("memory")), string(limits.get("cpu"))
    return msgspec.structs.replace(
        setup,
        image=string(c.get("image")),
        mounts=tuple(mounts),
        shm_bytes=shm.size_bytes if shm else None,
        memory_limit=size(memory) if memory and not memory.unknown else None,
        cpu_limit=_cpu(cpu) if cpu else None,
        privileged=truth(security.get("privileged")) is True,
        probes=probes,
        ports=ports,
        disk_bytes=disk,
        places={**pod.places, **places},
    )


def _mounts(c: Mapping[str, Any], volumes: Mapping[str, Any], around: _Around | None) -> tuple[list[Mount], int | None]:
    out: list[Mount] = []
    disk: int | None = None
    for m in sequence(c.get("volumeMounts")):
        target, name = string(at(m, "mountPath")), str(at(m, "name"))
        if target is None:
            continue
        v = volumes.get(name)
        kind, bytes_, source = "volume", None, name
        if at(v, "emptyDir") is not None or (isinstance(v, Map) and "emptyDir" in v):
            memory = str(at(v, "emptyDir", "medium")) == "Memory"
            kind, bytes_ = "memory" if memory else "scratch", size(string(at(v, "emptyDir", "sizeLimit")))
        elif at(v, "hostPath") is not None:
            kind, source = "host", str(at(v, "hostPath", "path"))
        elif at(v, "persistentVolumeClaim") is not None:
            kind = "pvc"
            claim = str(at(v, "persistentVolumeClaim", "claimName"))
            if around is not None and around.claims.get(claim):
                disk = around.claims[claim]
        elif at(v, "ephemeral") is not None:
            kind = "pvc"
            disk = size(string(at(v, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage")))
        elif at(v, "configMap") is not None:
            kind = "config"
        elif at(v, "secret") is not None:
            kind = "secret"
        out.append(Mount(target=str(target), kind=kind, size_bytes=bytes_, source=source))
    return out, disk


def _probe(kind: str, p: Mapping[str, Any]) -> Probe:
    http = mapping(p.get("httpGet"))
    return Probe(
        kind=kind,
        path=string(http.get("path")) or ("/" if http else None),
        port=string(http.get("port")) or string(at(p, "tcpSocket", "port")),
        delay=float(whole(p.get("initialDelaySeconds")) or 0),
        period=float(whole(p.get("periodSeconds")) or 10),
        failures=whole(p.get("failureThreshold")) or 3,
        line=line_of(p),
    )


def _cpu(value: str) -> float | None:
    m = re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", value.strip())
    return float(m[1]) / (1000 if m[2] else 1) if m else None
