"""Pod templates, whatever kind of object holds them: containers, devices, mounts, probes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from advisor.checks.read import accelerators
from advisor.checks.read.context import (
    ReaderContext,
    find_name,
    list_texts,
    make_finder,
    make_launches,
    read_environment,
    read_texts,
)
from advisor.checks.read.docker_run import MEMORY_LOCKS, parse_container_size
from advisor.checks.read.launch import TAKEN_SERVICE_NAME, HealthProbe, Launch, Launches, LaunchSetup, Mount
from advisor.checks.read.unknown_words import make_bounded
from advisor.yaml_places import (
    Block,
    Located,
    Table,
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

_VOLUMES = {  # how a volume is stated -> kind of its mounts
    "hostPath": "host", "persistentVolumeClaim": "pvc", "ephemeral": "pvc", "configMap": "config", "secret": "secret",
}  # fmt: skip
FABRIC = ("rdma/", "nvidia.com/hostdev", "vpc.amazonaws.com/efa")  # device plugins of RDMA networks


def find_pod_specs(
    resource: object, depth: int = 0, above: tuple[Block, ...] = ()
) -> Iterator[tuple[Block, tuple[Block, ...]]]:
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
    spec: Table,
    pod: LaunchSetup,
    name: str | None,
    ctx: ReaderContext,
    around: PodSurroundings | None = None,
    labels: Table | None = None,
    kind: str = "kubernetes",
) -> Launches:
    """The launches of a pod spec's containers."""
    out: Launches = []
    here = [c for c in as_sequence(spec, "containers") if isinstance(c, dict)]
    for c in here:
        env, external = read_environment(c.get("env"))
        env |= {k: make_text(f"$({k})", line_of(c), 0, (k,)) for k in external}
        for k, word in env.items():
            if k not in external:
                env[k] = _filled(word, env)
        setup, own = read_container_setup(c, spec, pod, ctx, around), as_string(c, "name")
        if c.get("envFrom") is not None:
            setup = replace(setup, places={**setup.places, "envFrom": line_of(c)})
        started = make_finder(ctx).container(
            as_string(c, "image"), [_filled(w, env) for w in list_texts(c.get("command"))] or None,
            [_filled(w, env) for w in list_texts(c.get("args"))], env, setup
        )  # fmt: skip
        found = make_launches(ctx, kind, started, name if len(here) == 1 or own is None else f"{name or 'pod'}/{own}")
        if around is not None:
            found = [_add_services(x, around, labels or {}, ctx) for x in found]
        out += [replace(x, line=x.line if x.line > 1 else line_of(c)) for x in found]
    return out


def _add_services(launch: Launch, around: PodSurroundings, labels: Table, ctx: ReaderContext) -> Launch:
    """The launch with the port that a Service sends to, and with the line of one whose name sets a variable that its
    server misreads."""
    setup, target, known = launch.setup, around.port(labels), ctx.know.server(launch.engine)
    if target is not None:
        port, line = target
        ports = (*setup.ports, (None, None, port))
        setup = replace(setup, ports=ports, places={**setup.places, "ports": line})
    line = around.service_names.get(known.taken_service_name or "", 0) if known is not None else 0
    if line:
        setup = replace(setup, places={**setup.places, TAKEN_SERVICE_NAME: line})
    return replace(launch, setup=setup)


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
    return make_bounded(made_, word, unknown)


def read_pod_setup(spec: Table, ctx: ReaderContext) -> LaunchSetup:
    """What the pod says for all its containers."""
    labels: dict[str, str] = {**read_texts(spec, "nodeSelector")}
    terms = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    affinity = list_selected(as_sequence(spec.get("affinity"), *terms))
    for key, values in affinity:
        if len(values) == 1:
            labels.setdefault(key, values[0])
    tolerates = any(
        "gpu" in str(value_at(t, "key") or "") or value_at(t, "key") is None or "nvidia" in str(t)
        for t in as_sequence(spec, "tolerations")
    )
    return LaunchSetup(
        container=True, cluster=True, **accelerators.find_labelled_accelerator(labels, ctx.know),
        host_network=as_boolean(spec, "hostNetwork") is True, host_pid=as_boolean(spec, "hostPID") is True,
        ipc_host=as_boolean(spec, "hostIPC") is True, tolerates_gpu=tolerates,
        selects_node=bool(labels or affinity or spec.get("runtimeClassName") or spec.get("resourceClaims")),
        service_links=as_boolean(spec, "enableServiceLinks"), gpu_granted=True if spec.get("resourceClaims") else None
    )  # fmt: skip


def list_selected(terms: Sequence[Located]) -> list[tuple[str, tuple[Text, ...]]]:
    """(label, values it may have) of a node selector's terms."""
    return [
        (key, list_texts(value_at(e, "values")))
        for term in terms
        for e in as_sequence(term, "matchExpressions")
        if str(value_at(e, "operator")) == "In" and (key := as_string(e, "key")) is not None
    ]


def read_resources(container: Table) -> tuple[Table, Table]:
    """(limits, requests) of a container."""
    return as_mapping(container, "resources", "limits"), as_mapping(container, "resources", "requests")


def add_accelerators(setup: LaunchSetup, limits: Table, requests: Table, ctx: ReaderContext) -> LaunchSetup:
    """A Setup with the accelerators that resource limits hand over."""
    limit, request = (next(filter(accelerators.GPU_RESOURCE.match, map(str, x)), None) for x in (limits, requests))
    named = limit or request
    asked = (limits.get(limit or ""), requests.get(request or ""))
    counts = [as_whole_number(value) for value in asked]
    setup = replace(
        setup, gpu_count=counts[0], gpu_requests=counts[1],
        gpu_granted=(counts[0] is None or counts[0] > 0) if limit else bool(setup.gpu_granted or request),
        gpu_resource=named, gpu_fraction=any(re.fullmatch(r"\d*\.\d+|\d+m", str(value)) for value in asked)
    )  # fmt: skip
    maker, _, plain = (named or "").partition("/")
    if setup.hardware is not None or maker != "nvidia.com" or plain.startswith(("gpu", "mig-")):
        return setup
    words = accelerators.find_accelerator_words(ctx.know, plain)
    return replace(setup, **accelerators.name_hardware(words, named or ""))


def read_container_setup(
    container: Table,
    spec: Table,
    pod: LaunchSetup,
    ctx: ReaderContext,
    around: PodSurroundings | None,
) -> LaunchSetup:
    """What is around a container's process."""
    limits, requests = read_resources(container)
    setup = add_accelerators(pod, limits, requests, ctx)
    if value_at(container, "resources", "claims") is not None:
        setup = replace(setup, gpu_granted=True)
    mounts, disk = _mounts(container, spec, around)
    shm = next((m for m in mounts if m.target.rstrip("/") == "/dev/shm"), None)  # noqa: S108 - a mount point, not a file
    security = as_mapping(container, "securityContext")
    privileged = as_boolean(security, "privileged") is True
    if privileged and setup.gpu_granted is False:
        setup = replace(setup, gpu_granted=None)  # it sees every device of the host, where the runtime lets it
    kinds = ("startup", "liveness", "readiness")
    probes = tuple(_probe(kind, p) for kind in kinds if isinstance(p := container.get(f"{kind}Probe"), dict))
    ports = tuple((None, None, as_whole_number(p, "containerPort")) for p in as_sequence(container, "ports"))
    named = ("resources", "image", "ports", "volumeMounts", "env")
    places = {key: line_of(container.get(key)) or line_of(container) for key in named}
    places["privileged"] = line_of(security.get("privileged")) or line_of(container)
    added = value_at(security, "capabilities", "add")
    user = as_string(security, "runAsUser") or as_string(spec, "securityContext", "runAsUser")
    places["user"] = line_of(user) or line_of(container)
    memory, cpu = as_string(limits, "memory"), as_string(limits, "cpu")
    return replace(
        setup, image=as_string(container, "image"), mounts=tuple(mounts), shm_bytes=shm.size_bytes if shm else None,
        memory_limit=parse_container_size(memory) if memory and not memory.unknown else None,
        cpu_limit=_cpu(cpu) if cpu else None, privileged=privileged, user=user,
        fabric=tuple(str(k) for k in limits if str(k).startswith(FABRIC)),
        locks_memory=any(str(x) in MEMORY_LOCKS for x in as_sequence(added)),
        huge_pages=any(str(k).startswith("hugepages-") for k in limits), probes=probes, ports=ports, disk_bytes=disk,
        places={**pod.places, **places}
    )  # fmt: skip


def _mounts(container: Table, spec: Table, around: PodSurroundings | None) -> tuple[list[Mount], int | None]:
    """(what is mounted into a container, bytes of the last volume of its own that states how large it is)."""
    volumes = {str(value_at(v, "name")): v for v in as_sequence(spec, "volumes")}
    out: list[Mount] = []
    disk: int | None = None
    for m in as_sequence(container, "volumeMounts"):
        target, source = as_string(m, "mountPath"), str(value_at(m, "name"))
        if target is None:
            continue
        v, size, contended = as_mapping(volumes.get(source)), None, False
        kind = next((kind for key, kind in _VOLUMES.items() if v.get(key) is not None), "volume")
        if "emptyDir" in v:
            kind = "memory" if str(value_at(v, "emptyDir", "medium")) == "Memory" else "scratch"
            size = parse_container_size(as_string(v, "emptyDir", "sizeLimit"))
        elif kind == "host":
            source = str(value_at(v, "hostPath", "path"))
        elif v.get("persistentVolumeClaim") is not None:
            claims = around.claims if around is not None else {}
            named = str(value_at(v, "persistentVolumeClaim", "claimName"))
            disk, contended = claims.get(named) or disk, around is not None and named in around.contended
        elif kind == "pvc":
            asked = ("volumeClaimTemplate", "spec", "resources", "requests", "storage")
            disk = parse_container_size(as_string(v, "ephemeral", *asked))
        out.append(Mount(target=str(target), kind=kind, size_bytes=size, source=source, contended=contended))
    return out, disk


def _probe(kind: str, stated: Table) -> HealthProbe:
    http = as_mapping(stated, "httpGet")
    return HealthProbe(
        kind=kind, path=as_string(http, "path") or ("/" if http else None),
        port=as_string(http, "port") or as_string(stated, "tcpSocket", "port"),
        delay=float(as_whole_number(stated, "initialDelaySeconds") or 0),
        period=float(as_whole_number(stated, "periodSeconds") or 10),
        failures=as_whole_number(stated, "failureThreshold") or 3,
        command=" ".join(list_texts(value_at(stated, "exec", "command"))) or None, line=line_of(stated)
    )  # fmt: skip


def _cpu(value: str) -> float | None:
    m = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(m?)", value.strip())
    return float(m[1]) / (1000 if m[2] else 1) if m else None


def is_for_one_node(claim: object) -> bool:
    """Whether one node at a time may mount what a claim asks for."""
    modes = {str(x) for x in as_sequence(value_at(claim, "accessModes"))}
    return bool(modes) and modes <= {"ReadWriteOnce", "ReadWriteOncePod"}


def _list_claimed(resource: Block) -> Iterator[str]:
    """The claim of each volume of each pod that an object keeps running, once for every replica of it."""
    if str(resource.get("kind")) not in ("Deployment", "StatefulSet", "ReplicaSet", "Pod"):
        return
    copies = as_whole_number(resource, "spec", "replicas")
    for spec, _ in find_pod_specs(resource):
        for volume in as_sequence(spec, "volumes"):
            if (name := as_string(volume, "persistentVolumeClaim", "claimName")) is not None:
                yield from [str(name)] * min(1 if copies is None else copies, 2)


class PodSurroundings:
    """Services, claims and names of one file that matter to its pods."""

    def __init__(self, objects: list[Block]) -> None:
        self.services = [o for o in objects if o.get("kind") == "Service"]
        self.ingress = any(o.get("kind") in ("Ingress", "Route", "VirtualService") for o in objects)
        self.service_names = {str(find_name(o)): line_of(find_name(o)) for o in self.services}
        stated = ("spec", "resources", "requests", "storage")
        claims = {str(find_name(o)): o for o in objects if o.get("kind") == "PersistentVolumeClaim"}
        self.claims = {name: parse_container_size(as_string(o, *stated)) for name, o in claims.items()}
        pods = Counter(name for o in objects for name in _list_claimed(o))
        self.contended = {name for name, o in claims.items() if pods[name] > 1 and is_for_one_node(o.get("spec"))}

    def exposed(self, labels: Table) -> str | None:
        """How pods with these labels are reachable from beyond the cluster; None when they are not."""
        for s in self._select(labels):
            kind = str(value_at(s, "spec", "type") or "ClusterIP")
            notes = " ".join(f"{k}={v}" for k, v in as_mapping(s, "metadata", "annotations").items())
            if kind in ("NodePort", "LoadBalancer") and not re.search(r"internal", notes, re.I):
                return f"a Service of type {kind}"
        return "an Ingress" if self.ingress else None

    def port(self, labels: Table) -> tuple[int, int] | None:
        """(target port, line) of the Service that selects these pods, where it is a number."""
        serving = (
            s for s in self._select(labels) if str(value_at(s, "spec", "clusterIP")) != "None"
        )  # else a meeting place
        for p in (p for s in serving for p in as_sequence(s, "spec", "ports")):
            target = as_whole_number(p, "port" if value_at(p, "targetPort") is None else "targetPort")
            if target:
                return target, line_of(p)
        return None

    def _select(self, labels: Table) -> Iterator[Block]:
        """The Services that select pods with these labels."""
        for s in self.services:
            selector = as_mapping(s, "spec", "selector")
            if selector and all(labels.get(k) == v for k, v in selector.items()):
                yield s


def read_pod(spec: object, ctx: ReaderContext, name: str | None) -> Launches:
    out: Launches = []
    for s, _ in find_pod_specs(spec):
        out += read_containers(s, read_pod_setup(s, ctx), name, ctx)
    return out
