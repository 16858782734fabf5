"""Pod templates, whatever kind of object holds them: containers, devices, mounts, probes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from advisor.checks.read import accelerators
from advisor.checks.read.context import ReaderContext, make_finder, make_launches, read_environment
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.launch import TAKEN_SERVICE_NAME, HealthProbe, Launch, LaunchSetup, Mount
from advisor.yaml_places import (
    Located,
    Map,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    line_of,
    make_text,
    value_at,
)

FABRIC = ("rdma/", "nvidia.com/hostdev", "vpc.amazonaws.com/efa")  # device plugins of RDMA networks


def find_pod_specs(
    resource: object, depth: int = 0, above: tuple[dict[str, Located], ...] = ()
) -> Iterator[tuple[dict[str, Located], tuple[dict[str, Located], ...]]]:
    """Every mapping with a list of containers, and the mappings it lies in (the nearest last)."""
    if depth > 30:
        return
    if isinstance(resource, dict):
        c = resource.get("containers")
        if isinstance(c, list) and any(
            isinstance(x, dict) and ({"image", "command", "args", "name"} & set(x)) for x in c
        ):
            yield resource, above
        for k, v in resource.items():
            if k not in ("containers", "initContainers") and isinstance(v, (dict, list)):
                yield from find_pod_specs(v, depth + 1, (*above, resource))
    elif isinstance(resource, list):
        for x in resource:
            yield from find_pod_specs(x, depth + 1, above)


def read_containers(
    spec: Mapping[str, Located],
    pod: LaunchSetup,
    name: str | None,
    ctx: ReaderContext,
    around: PodSurroundings | None = None,
    labels: Mapping[str, Located] | None = None,
    kind: str = "kubernetes",
) -> list[Launch]:
    """The launches of a pod spec's containers."""
    out: list[Launch] = []
    here = [c for c in as_sequence(spec, "containers") if isinstance(c, dict)]
    for c in here:
        setup = read_container_setup(c, spec, pod, ctx, around)
        env, external = read_environment(c.get("env"))
        for k in external:
            env[k] = make_text(f"$({k})", line_of(c), 0, (k,))
        for k, word in env.items():
            if k not in external:
                env[k] = _filled(word, env)
        if c.get("envFrom") is not None:
            setup = replace(setup, places={**setup.places, "envFrom": line_of(c)})
        command = [w for w in as_sequence(c, "command") if isinstance(w, Text)]
        args = [w for w in as_sequence(c, "args") if isinstance(w, Text)]
        started = make_finder(ctx).container(
            as_string(c, "image"),
            [_filled(w, env) for w in command] or None,
            [_filled(w, env) for w in args],
            env,
            setup,
        )
        own = as_string(c, "name")
        label = name if len(here) == 1 or own is None else f"{name or 'pod'}/{own}"
        found = make_launches(ctx, kind, started, label)
        target = around.port(labels or {}) if around is not None else None
        if target is not None and found:
            ports = (*found[0].setup.ports, (None, None, target[0]))
            found = [
                replace(
                    x,
                    setup=replace(x.setup, ports=ports, places={**x.setup.places, "ports": target[1]}),
                )
                for x in found
            ]
        if around is not None and found:
            found = [_with_taken_name(x, around, ctx) for x in found]
        out += [replace(x, line=x.line if x.line > 1 else line_of(c)) for x in found]
    return out


def _with_taken_name(launch: Launch, around: PodSurroundings, ctx: ReaderContext) -> Launch:
    """The launch with the line of a Service whose name sets a variable that its server misreads."""
    known = ctx.know.server(launch.engine)
    line = around.service_names.get(known.taken_service_name or "", 0) if known is not None else 0
    if not line:
        return launch
    places = {**launch.setup.places, TAKEN_SERVICE_NAME: line}
    return replace(launch, setup=replace(launch.setup, places=places))


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
    return make_text(made_[:65_536], word.line, word.column, tuple(dict.fromkeys(unknown)), word.block)


def read_pod_setup(spec: Mapping[str, Located], ctx: ReaderContext) -> LaunchSetup:
    """What the pod says for all its containers."""
    labels = {str(k): str(v) for k, v in as_mapping(spec, "nodeSelector").items() if isinstance(v, Text)}
    affinity = list(_affinity(spec.get("affinity")))
    for key, values in affinity:
        if len(values) == 1:
            labels.setdefault(key, values[0])
    found = accelerators.find_labelled_accelerator(labels, ctx.know)
    tolerates = any(
        "gpu" in str(value_at(t, "key") or "") or value_at(t, "key") is None or "nvidia" in str(t)
        for t in as_sequence(spec, "tolerations")
    )
    return LaunchSetup(
        container=True,
        cluster=True,
        hardware=found[0] if found else None,
        hardware_source=found[1] if found else None,
        host_network=as_boolean(spec, "hostNetwork") is True,
        host_pid=as_boolean(spec, "hostPID") is True,
        ipc_host=as_boolean(spec, "hostIPC") is True,
        tolerates_gpu=tolerates,
        selects_node=bool(labels or affinity or spec.get("runtimeClassName") or spec.get("resourceClaims")),
        service_links=as_boolean(spec, "enableServiceLinks"),
        gpu_granted=True if spec.get("resourceClaims") else None,
    )


def _affinity(value: object) -> Iterator[tuple[str, list[str]]]:
    terms = as_sequence(value, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for t in terms:
        for e in as_sequence(t, "matchExpressions"):
            if str(value_at(e, "operator")) == "In" and isinstance(value_at(e, "key"), Text):
                yield (
                    str(value_at(e, "key")),
                    [str(v) for v in as_sequence(e, "values") if isinstance(v, Text)],
                )


def read_resources(container: Mapping[str, Located]) -> tuple[Mapping[str, Located], Mapping[str, Located]]:
    """(limits, requests) of a container."""
    return as_mapping(container, "resources", "limits"), as_mapping(container, "resources", "requests")


def add_accelerators(
    setup: LaunchSetup, limits: Mapping[str, Located], requests: Mapping[str, Located], ctx: ReaderContext
) -> LaunchSetup:
    """A Setup with the accelerators that resource limits hand over."""
    limit = next(((str(k), v) for k, v in limits.items() if accelerators.GPU_RESOURCE.match(str(k))), None)
    request = next(((str(k), v) for k, v in requests.items() if accelerators.GPU_RESOURCE.match(str(k))), None)
    named = limit or request
    fraction = any(
        v is not None and re.fullmatch(r"\d*\.\d+|\d+m", str(v))
        for _, v in (limit or ("", None), request or ("", None))
    )
    count = as_whole_number(limit[1]) if limit else None
    setup = replace(
        setup,
        gpu_count=count,
        gpu_requests=as_whole_number(request[1]) if request else None,
        gpu_granted=(count is None or count > 0) if limit else bool(setup.gpu_granted or request),
        gpu_resource=named[0] if named else None,
        gpu_fraction=fraction,
    )
    if named and setup.hardware is None:
        plain = named[0].partition("/")[2]
        if named[0].startswith("nvidia.com/") and plain not in ("gpu", "gpu.shared") and not plain.startswith("mig-"):
            words = accelerators.find_accelerator_words(plain, ctx.know)
            if words:
                setup = replace(setup, hardware=words, hardware_source=named[0])
    return setup


def read_container_setup(
    container: Mapping[str, Located],
    spec: Mapping[str, Located],
    pod: LaunchSetup,
    ctx: ReaderContext,
    around: PodSurroundings | None,
) -> LaunchSetup:
    """What is around a container's process."""
    limits, requests = read_resources(container)
    setup = add_accelerators(pod, limits, requests, ctx)
    if value_at(container, "resources", "claims") is not None:
        setup = replace(setup, gpu_granted=True)
    volumes = {str(value_at(v, "name")): v for v in as_sequence(spec, "volumes") if isinstance(v, dict)}
    mounts, disk = _mounts(container, volumes, around)
    shm = next((m for m in mounts if m.target.rstrip("/") == "/dev/shm"), None)  # noqa: S108 - a mount point, not a file
    security = as_mapping(container, "securityContext")
    probes = tuple(
        _probe(kind, p)
        for kind, key in (("startup", "startupProbe"), ("liveness", "livenessProbe"), ("readiness", "readinessProbe"))
        if isinstance(p := container.get(key), dict)
    )
    ports = tuple((None, None, as_whole_number(p, "containerPort")) for p in as_sequence(container, "ports"))
    places = {
        "resources": line_of(container.get("resources")) or line_of(container),
        "image": line_of(container.get("image")) or line_of(container),
        "ports": line_of(container.get("ports")) or line_of(container),
        "privileged": line_of(security.get("privileged")) or line_of(container),
        "volumeMounts": line_of(container.get("volumeMounts")) or line_of(container),
        "env": line_of(container.get("env")) or line_of(container),
    }
    added = value_at(security, "capabilities", "add")
    memory, cpu = as_string(limits, "memory"), as_string(limits, "cpu")
    return replace(
        setup,
        image=as_string(container, "image"),
        mounts=tuple(mounts),
        shm_bytes=shm.size_bytes if shm else None,
        memory_limit=parse_container_size(memory) if memory and not memory.unknown else None,
        cpu_limit=_cpu(cpu) if cpu else None,
        privileged=as_boolean(security, "privileged") is True,
        fabric=tuple(str(k) for k in limits if str(k).startswith(FABRIC)),
        locks_memory=bool({"IPC_LOCK", "CAP_IPC_LOCK", "ALL"} & set(map(str, as_sequence(added)))),
        huge_pages=any(str(k).startswith("hugepages-") for k in limits),
        probes=probes,
        ports=ports,
        disk_bytes=disk,
        places={**pod.places, **places},
    )


def _mounts(
    container: Mapping[str, Located], volumes: Mapping[str, Located], around: PodSurroundings | None
) -> tuple[list[Mount], int | None]:
    out: list[Mount] = []
    disk: int | None = None
    for m in as_sequence(container, "volumeMounts"):
        target, name = as_string(m, "mountPath"), str(value_at(m, "name"))
        if target is None:
            continue
        v = volumes.get(name)
        kind, bytes_, source = "volume", None, name
        if value_at(v, "emptyDir") is not None or (isinstance(v, Map) and "emptyDir" in v):
            memory = str(value_at(v, "emptyDir", "medium")) == "Memory"
            kind, bytes_ = (
                "memory" if memory else "scratch",
                parse_container_size(as_string(v, "emptyDir", "sizeLimit")),
            )
        elif value_at(v, "hostPath") is not None:
            kind, source = "host", str(value_at(v, "hostPath", "path"))
        elif value_at(v, "persistentVolumeClaim") is not None:
            kind = "pvc"
            claim = str(value_at(v, "persistentVolumeClaim", "claimName"))
            if around is not None and around.claims.get(claim):
                disk = around.claims[claim]
        elif value_at(v, "ephemeral") is not None:
            kind = "pvc"
            disk = parse_container_size(
                as_string(v, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage")
            )
        elif value_at(v, "configMap") is not None:
            kind = "config"
        elif value_at(v, "secret") is not None:
            kind = "secret"
        out.append(Mount(target=str(target), kind=kind, size_bytes=bytes_, source=source))
    return out, disk


def _probe(kind: str, p: Mapping[str, Located]) -> HealthProbe:
    http = as_mapping(p, "httpGet")
    return HealthProbe(
        kind=kind,
        path=as_string(http, "path") or ("/" if http else None),
        port=as_string(http, "port") or as_string(p, "tcpSocket", "port"),
        delay=float(as_whole_number(p, "initialDelaySeconds") or 0),
        period=float(as_whole_number(p, "periodSeconds") or 10),
        failures=as_whole_number(p, "failureThreshold") or 3,
        line=line_of(p),
    )


def _cpu(value: str) -> float | None:
    m = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(m?)", value.strip())
    return float(m[1]) / (1000 if m[2] else 1) if m else None


class PodSurroundings:
    """Services, claims and names of one file that matter to its pods."""

    def __init__(self, objects: list[dict[str, Located]]) -> None:
        self.services = [o for o in objects if o.get("kind") == "Service"]
        self.ingress = any(o.get("kind") in ("Ingress", "Route", "VirtualService") for o in objects)
        self.service_names = {
            str(value_at(o, "metadata", "name")): line_of(value_at(o, "metadata", "name")) for o in self.services
        }
        self.claims = {
            str(value_at(o, "metadata", "name")): parse_container_size(
                as_string(o, "spec", "resources", "requests", "storage")
            )
            for o in objects
            if o.get("kind") == "PersistentVolumeClaim"
        }

    def exposed(self, labels: Mapping[str, Located]) -> str | None:
        """How pods with these labels are reachable from beyond the cluster; None when they are not."""
        for s in self.services:
            selector = as_mapping(s, "spec", "selector")
            kind = str(value_at(s, "spec", "type") or "ClusterIP")
            if (
                kind in ("NodePort", "LoadBalancer")
                and selector
                and all(labels.get(k) == v for k, v in selector.items())
            ):
                notes = " ".join(f"{k}={v}" for k, v in as_mapping(s, "metadata", "annotations").items())
                if re.search(r"internal", notes, re.I):
                    continue
                return f"a Service of type {kind}"
        return "an Ingress" if self.ingress else None

    def port(self, labels: Mapping[str, Located]) -> tuple[int, int] | None:
        """(target port, line) of the Service that selects these pods, where it is a number."""
        for s in self.services:
            selector = as_mapping(s, "spec", "selector")
            if selector and all(labels.get(k) == v for k, v in selector.items()):
                for p in as_sequence(s, "spec", "ports"):
                    target = as_whole_number(p, "targetPort") or (
                        as_whole_number(p, "port") if value_at(p, "targetPort") is None else None
                    )
                    if target:
                        return target, line_of(p)
        return None


def read_pod(spec: object, ctx: ReaderContext, name: str | None) -> list[Launch]:
    out: list[Launch] = []
    for s, _ in find_pod_specs(spec):
        out += read_containers(s, read_pod_setup(s, ctx), name, ctx)
    return out
