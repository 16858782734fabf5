"""Nomad jobs: tasks that start an engine in a container or as a program.

Source: Nomad's job specification and its docker, podman, exec and raw_exec drivers (developer.hashicorp.com/nomad).
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from advisor.checks.read import accelerators
from advisor.checks.read.context import ReaderContext, list_texts, make_finder, make_launches, read_texts
from advisor.checks.read.docker_run import find_exposure, parse_container_size
from advisor.checks.read.hcl import HclBlock, parse_hcl
from advisor.checks.read.launch import Launches, LaunchSetup, Mount
from advisor.checks.read.scripts import read_variables
from advisor.yaml_places import (
    Located,
    Text,
    as_boolean,
    as_mapping,
    as_sequence,
    as_string,
    as_whole_number,
    make_text,
)

CONTAINERS = ("docker", "podman", "containerd-driver")
PROGRAMS = ("exec", "raw_exec", "exec2")
_MIB = 2**20
_IN_TASK = re.compile(r"^(\$\{NOMAD_TASK_DIR\}/|\./)?(local/)?")  # the folder of a task's files


def is_job(source: str) -> bool:
    """Whether a text is a Nomad job."""
    return re.search(r'^[ \t]*job\s+"[^"\n]*"\s*\{', source, re.M) is not None


def read_job(source: str, ctx: ReaderContext) -> Launches:
    """The launches of a job's tasks; none of HCL that is no job. Raises BadFile for what is no HCL."""
    if not is_job(source):
        return []
    jobs = parse_hcl(source, ctx.file, ctx.line, ctx.variables).find("job")
    groups = [group for job in jobs for group in job.find("group")]
    return [x for group in groups for task in group.find("task") for x in _read_task(task, group, ctx)]


def _read_task(task: HclBlock, group: HclBlock, ctx: ReaderContext) -> Launches:
    driver = str(as_string(task.attributes, "driver") or "")
    config = next(task.find("config"), None)
    if config is None or driver not in (*CONTAINERS, *PROGRAMS):
        return []
    settings, name = config.attributes, ".".join(str(x) for b in (group, task) for x in b.labels[:1])
    env = read_texts(_merged(task, "env"))
    texts: dict[str, str] = {}
    for block in task.find("template"):
        data, destination = (as_string(block.attributes, k) for k in ("data", "destination"))
        if data is not None and destination is not None:
            texts[_IN_TASK.sub("", destination)] = str(data)
    for block in task.find("template"):
        if as_boolean(block.attributes, "env") is True:
            env |= _read_template_variables(as_string(block.attributes, "data"))
    setup = _read_setup(task, group, config, driver)
    setup = _add_devices(setup, task, ctx)
    command = as_string(settings, "command")
    args = list_texts(settings.get("args"))

    finder = make_finder(ctx, lambda path: texts.get(_IN_TASK.sub("", path.removeprefix("/"))))
    words = [command, *args] if command is not None else [*args]
    if driver in CONTAINERS:
        entry = list_texts(settings.get("entrypoint")) or None
        found = finder.container(as_string(settings, "image"), entry, words, env, setup)
    else:
        found = finder.command(words, env, config.line)
    return [
        replace(x, line=x.line if x.line > 1 else task.line) for x in make_launches(ctx, "nomad", found, name, setup)
    ]


def _merged(block: HclBlock, kind: str) -> dict[str, Located]:
    """Attributes of all blocks of a kind, and of an attribute of that name."""
    out = dict(as_mapping(block.attributes, kind))
    for inner in block.find(kind):
        out |= inner.attributes
    return {str(k): v for k, v in out.items()}


def _read_template_variables(data: Text | None) -> dict[str, Text]:
    if data is None:
        return {}
    found = read_variables(data)
    return {k: make_text(v, data.line, 0, ("a template",) if "{{" in v else ()) for k, v in found.items()}


def _read_setup(task: HclBlock, group: HclBlock, config: HclBlock, driver: str) -> LaunchSetup:
    settings = config.attributes
    resources = next(task.find("resources"), None)
    limits = resources.attributes if resources is not None else {}
    memory = as_whole_number(limits.get("memory_max") or limits.get("memory"))
    host_network = str(as_string(settings, "network_mode")) == "host" or any(
        str(as_string(n.attributes, "mode")) == "host" for n in group.find("network")
    )
    ports: list[tuple[str | None, int | None, int | None]] = []
    others = [t for t in group.find("task") if t is not task]  # who take ports by name
    taken = {str(as_string(x)) for t in others for c in t.find("config") for x in as_sequence(c.attributes, "ports")}
    taken |= {str(as_string(service.attributes, "port")) for t in others for service in t.find("service")}
    for port in (port for network in group.find("network") for port in network.find("port")):
        static, to = (as_whole_number(port.attributes, k) for k in ("static", "to"))
        if taken.isdisjoint(port.labels) and (static is not None or to is not None):
            ports.append((None, static, to or static))
    container = driver in CONTAINERS
    return LaunchSetup(
        container=container, image=as_string(settings, "image") if container else None,
        replicas=as_whole_number(group.attributes, "count"), memory_limit=memory * _MIB if memory is not None else None,
        shm_bytes=as_whole_number(settings, "shm_size"),
        ipc_host=str(as_string(settings, "ipc_mode") or "").startswith("host"), host_network=host_network,
        privileged=as_boolean(settings, "privileged") is True, ports=tuple(ports),
        exposed=find_exposure(ports, host_network), mounts=tuple(_list_mounts(task, config)),
        places={"image": config.line, "resources": resources.line if resources is not None else config.line}
    )  # fmt: skip


def _list_mounts(task: HclBlock, config: HclBlock) -> list[Mount]:
    out = []
    for volume in as_sequence(config.attributes, "volumes"):
        parts = (as_string(volume) or "").split(":")
        if len(parts) > 1:
            out.append(Mount(target=parts[1], kind="bind", source=parts[0]))
    for mount in (*config.find("mount"), *task.find("volume_mount")):
        target = as_string(mount.attributes, "target") or as_string(mount.attributes, "destination")
        kind = str(as_string(mount.attributes, "type") or "volume")
        size = next((as_string(t.attributes, "size") for t in mount.find("tmpfs_options")), None)
        if target is not None:
            kind = "memory" if kind == "tmpfs" else kind
            out.append(Mount(target=str(target), kind=kind, size_bytes=parse_container_size(size)))
    return out


def _add_devices(setup: LaunchSetup, task: HclBlock, ctx: ReaderContext) -> LaunchSetup:
    """The devices of `device "nvidia/gpu" { count = 2 }`, with the model that the label or a constraint names."""
    resources = next(task.find("resources"), None)
    devices = tuple(resources.find("device")) if resources is not None else ()
    config = next(task.find("config"), None)
    runtime = str(as_string(config.attributes, "runtime") or "") if config is not None else ""
    if not devices:
        granted = runtime == "nvidia" or not setup.container
        return replace(setup, gpu_granted=True if granted else None)
    count, named = 0, accelerators.name_hardware(None, "")
    for device in devices:
        label = str(device.labels[0]) if device.labels else ""
        if "gpu" not in label:
            continue
        count += as_whole_number(device.attributes, "count") or 1
        model = label.partition("gpu")[2].strip("/") or None
        for constraint in device.find("constraint"):
            if "model" in str(as_string(constraint.attributes, "attribute")):
                model = str(as_string(constraint.attributes, "value") or "") or model
        if model:
            named = accelerators.name_hardware(accelerators.find_accelerator_words(ctx.know, model), f"device: {model}")
    return replace(setup, gpu_granted=True, gpu_count=count or None, **named)
