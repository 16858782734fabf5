"""Which accelerator a file's labels, instance types and resource names mean, as words for `--on`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.catalog.documents import decode_document
from advisor.checks.knowledge import Knowledge
from advisor.meanings import HardwareWords
from advisor.memo import memoize_by_identity
from advisor.record import Names

GPU_RESOURCE = re.compile(
    r"^(nvidia\.com/(gpu|mig-[\w.]+|gpu\.shared)|amd\.com/gpu|gpu\.intel\.com/\w+|habana\.ai/gaudi|google\.com/tpu|"
    r"aws\.amazon\.com/neuron\w*|intel\.com/gpu|nvidia\.com/[A-Z][\w.-]*|metax-tech\.com/gpu|huawei\.com/\w+)$"
)

# Units whose ranks the file does not count: a Neuron device has two cores or more, a TPU chip one or two
_KINDS = (("nvidia.com/mig-", "mig"), ("google.com/tpu", "tpu"), ("aws.amazon.com/neuroncore", "npu"),
          ("aws.amazon.com/neuron", "neuron"), ("habana.ai/", "npu"), ("huawei.com/", "npu"))  # fmt: skip
MANY_RANKS = ("tpu", "neuron")


def find_device_kind(resource: str | None) -> str:
    """What a unit of a resource is: gpu, mig, tpu, neuron or npu."""
    return next((kind for start, kind in _KINDS if (resource or "").startswith(start)), "gpu")


class ClusterNames(msgspec.Struct, frozen=True):
    """rules/checks/hardware.yaml."""

    labels: Names
    instance_labels: Names
    accelerators: dict[str, HardwareWords]
    instances: dict[str, HardwareWords]
    source: str
    as_of: str | None = None


def _names(knowledge: Knowledge) -> ClusterNames:
    return decode_document(knowledge.rules, "checks/hardware.yaml", ClusterNames)


def name_hardware(words: str | None, source: str) -> dict[str, Any]:
    """The fields of a LaunchSetup that say which accelerator a file names, and where it does; None for no words."""
    return {"hardware": words, "hardware_source": source if words else None}


def find_labelled_accelerator(labels: Mapping[str, str], knowledge: Knowledge) -> dict[str, Any]:
    """The fields of a LaunchSetup that node labels set."""
    names = _names(knowledge)
    kinds = ((names.labels, find_accelerator_words), (names.instance_labels, find_instance_words))
    for key, find in ((key, find) for keys, find in kinds for key in keys):
        value = labels.get(key)
        words = find(knowledge, value) if value else None
        if words:
            return name_hardware(words, f"{key}: {value}")
    return name_hardware(None, "")


def find_instance_words(knowledge: Knowledge, value: str) -> str | None:
    """`8x H100 80GB SXM` for an instance type; None for one that is not in the table."""
    return _names(knowledge).instances.get(value.strip().lower().removeprefix("ml."))


@memoize_by_identity
def find_accelerator_words(knowledge: Knowledge, value: str) -> str | None:
    """The catalogue's words for a name as labels write it; None for what no catalogue entry is called."""
    names = _names(knowledge)
    plain = value.strip().lower()
    found = names.accelerators.get(plain) or names.accelerators.get(re.sub(r"^nvidia[-_ ]", "", plain))
    if found:
        return found
    from advisor.catalog.hardware_names import parse_hardware
    from advisor.errors import AdvisorError

    words = re.sub(r"[-_]+", " ", value).strip()
    if not re.search(r"\d", words) or "$" in words or len(words) > 80:
        return None
    try:
        machine = parse_hardware(re.sub(r"(?i)^nvidia ", "", words), knowledge.rules)
    except AdvisorError:
        return None
    return machine.devices[0].name if len(machine.devices) == 1 else None


def add_count(words: str, count: int | None) -> str:
    """The words with the number of devices a container has; without one the words' own count, else 1."""
    bare = re.sub(r"^\d+x ", "", words)
    own = re.match(r"^(\d+)x ", words)
    return f"{count if count is not None else int(own[1]) if own else 1}x {bare}"
