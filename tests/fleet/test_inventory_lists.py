"""Lists of nodes that no API wrote: tables of sinfo, slurm.conf, CSV, what is declared, ResourceSlices alone.

The forms are those of sinfo -O (github.com/SckyzO/slurm_exporter, test_data), of a slurm.conf with a sliced card, of a
university's table of partitions, of CoreWeave's NodePool (marin-community/marin) and of `ray up`; the nodes are ours.
"""

from __future__ import annotations

import json

import pytest
import yaml
from inventories import make_node

from advisor.catalog import catalog
from advisor.errors import AdvisorError
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory
from advisor.fleet.offers import is_spot
from advisor.fleet.types import Fleet


def read(text: str) -> Fleet:
    return make_fleet(parse_inventory(text.encode(), "the file", catalog()))


def count(fleet: Fleet) -> dict[tuple[str | None, int], int]:
    """(card, how many of it) -> nodes."""
    found: dict[tuple[str | None, int], int] = {}
    for pool in fleet.pools:
        first = next(iter(pool.machine.usable_devices), None)
        key = (first and (first.mig_profile or first.accelerator), pool.devices)
        found[key] = found.get(key, 0) + len(pool.node_names)
    return found


BY_NODE = """$ sinfo -N -O "NodeList: ,Memory: ,CPUsState: ,StateLong: ,Partition: ,Gres: ,GresUsed:"
NODELIST MEMORY CPUS(A/I/O/T) STATE PARTITION GRES GRES_USED
g1 876896 288/0/0/288 allocated gpu gpu:nvidia_gb200:4(S:0-3) gpu:nvidia_gb200:4(IDX:0-3)
g1 876896 288/0/0/288 allocated all gpu:nvidia_gb200:4(S:0-3) gpu:nvidia_gb200:4(IDX:0-3)
g2 876896 0/0/288/288 drained* gpu gpu:nvidia_gb200:4(S:0-3) gpu:nvidia_gb200:0(IDX:N/A)
g3 876896 144/144/0/288 mix gpu gpu:nvidia_gb200:4(S:0-3) gpu:nvidia_gb200:2(IDX:0,3)
c1 771951 192/0/0/192 idle cpu* (null) (null)
"""
BY_NUMBER = """$ sinfo -O "Nodes: ,Partition: ,Gres: ,GresUsed:" --state=idle,allocated
NODES PARTITION GRES GRES_USED
2 a100 gpu:NVlink_A100_40GB:4(S:0-1) gpu:NVlink_A100_40GB:1(IDX:0)
3 debug gpu:NVlink_A100_40GB:4(S:0-1) gpu:NVlink_A100_40GB:1(IDX:0)
1 slices gpu:nvidia_a100_1g.5gb:21(S:0-1) gpu:nvidia_a100_1g.5gb:0(IDX:N/A)
9 cpu (null) (null)
"""


def test_a_node_in_two_partitions_of_a_table_is_one_node() -> None:
    fleet = read(BY_NODE)
    assert count(fleet) == {("gb200", 4): 2, (None, 0): 1}
    assert [s.node for s in fleet.set_aside] == ["g2"]
    assert {p.node_names[0]: p.devices_free for p in fleet.pools if p.devices} == {"g1": 0, "g3": 2}


def test_nodes_without_names_are_as_many_as_one_partition_has() -> None:
    """Two nodes of one partition may be among three like them of another: three are proven."""
    assert count(read(BY_NUMBER)) == {("a100-40gb-sxm", 4): 3, ("1g.5gb", 21): 1, (None, 0): 9}


def drop_column(name: str) -> str:
    header, *rows = BY_NODE.splitlines()[1:]
    at = header.split().index(name)
    return "\n".join(" ".join(x for i, x in enumerate(line.split()) if i != at) for line in (header, *rows))


def test_a_table_without_cards_asks_for_them_and_one_without_states_says_so() -> None:
    with pytest.raises(AdvisorError, match="without the column GRES"):
        read(drop_column("GRES"))
    fleet = read(drop_column("STATE"))
    assert count(fleet) == {("gb200", 4): 3, (None, 0): 1}  # the drained one cannot be told from the others
    assert fleet.notes == ("the table has no states: it does not say which nodes are down",)


def test_a_row_that_does_not_fit_its_table_is_named() -> None:
    with pytest.raises(AdvisorError, match="8 cells under 7 columns"):
        read(BY_NODE + "g4 1 0/0/1/1 idle gpu (null) (null) more\n")


def test_slurm_conf_gives_nodes_and_gres_conf_types() -> None:
    text = """# slurm.conf
GresTypes=gpu
NodeName=DEFAULT RealMemory=515000 State=UNKNOWN
NodeName=gpu[1-2] Sockets=2 Gres=gpu:l40s:8
NodeName=gpu3 Gres=gpu:a100_80gb:6,gpu:nvidia_a100_1g.10gb:14 # two are cut up
NodeName=gpu4 Gres=gpu:l40s:8 State=DOWN
PartitionName=gpu Nodes=gpu[1-4] State=UP
NodeName=gpu[5-6] Gres=gpu:8
NodeName=gpu3 Name=gpu Type=a100_80gb File=/dev/nvidia[0-5]
NodeName=gpu5 Name=gpu Type=h200 File=/dev/nvidia[0-7]
NodeName=gpu6 Name=gpu Type=h200 File=/dev/nvidia[0-3]
NodeName=gpu6 Name=gpu Type=h100 File=/dev/nvidia[4-7]
Name=nic Type=ib File=/dev/infiniband
"""
    fleet = read(text)
    assert count(fleet) == {
        ("l40s", 8): 2, ("a100-80gb-sxm", 6): 1, ("1g.10gb", 14): 1, ("h200-sxm", 8): 1, (None, 8): 1,
    }  # fmt: skip
    assert [s.node for s in fleet.set_aside] == ["gpu4"]
    assert any("slurm.conf" in note for note in fleet.notes)


def test_a_csv_of_nodes() -> None:
    text = """partition,nodes,cpu_cores_per_node,gpus_per_node,gpu,gpu_memory_gb,notes
cpu,80,108,0,,,"no cards, many cores"
l40s,8,124,8,NVIDIA L40S,48,
nvl,16,124,4,NVIDIA H100-NVL,96,
odd,1,124,4,NVIDIA L40S,16,
"""
    fleet = read(text)
    assert count(fleet) == {(None, 0): 80, ("l40s", 8): 8, ("h100-nvl", 4): 16, (None, 4): 1}
    nvl = next(p for p in fleet.pools if "nvl" in p.id)
    assert 93 < (nvl.machine.devices[0].total_bytes or 0) / 2**30 < 94
    assert [p.memory_known for p in fleet.pools if p.node_names == ("odd",)] == [False]
    with pytest.raises(AdvisorError, match="cannot be read"):
        read(text + "bad,many,1,8,NVIDIA L40S,48,\n")


def test_what_is_declared_is_taken_at_what_runs() -> None:
    pool = {
        "apiVersion": "compute.coreweave.com/v1alpha1", "kind": "NodePool", "metadata": {"name": "h100"},
        "spec": {"instanceType": "gd-8xh100ib-i128", "targetNodes": 2, "minNodes": 0, "maxNodes": 10},
    }  # fmt: skip
    fleet = read(yaml.safe_dump(pool))
    assert count(fleet) == {("h100-sxm", 8): 2}
    assert any("0 to 10" in note for note in fleet.notes)
    old = {"head_node": {"InstanceType": "p5.48xlarge"}, "worker_nodes": {"InstanceType": "p5.48xlarge",
           "min_workers": 7, "max_workers": 9}}  # fmt: skip
    assert count(read(yaml.safe_dump(old))) == {("h100-sxm", 8): 8}
    types = {"head": {"node_config": {"InstanceType": "m5.large"}, "max_workers": 0},
             "gpu": {"node_config": {"InstanceType": "g6e.12xlarge"}, "min_workers": 3},
             "more": {"node_config": {"InstanceType": "p5.48xlarge"}, "min_workers": 0, "max_workers": 4}}  # fmt: skip
    default = {"available_node_types": {"ray.head.default": {"node_config": {"InstanceType": "g4dn.12xlarge"}}}}
    assert count(read(yaml.safe_dump(default))) == {("t4", 4): 1}
    with_types = {"available_node_types": types, "head_node_type": "gpu"}
    assert count(read(yaml.safe_dump(with_types))) == {("l40s", 4): 4}


VARIABLES = """# variables of a cluster (as felipemoz/vllm-on-azure and defilantech/LLMKube have them)
gpu_vm_size = "Standard_ND96amsr_A100_v4" # 8x A100
# gpu_vm_size = "Standard_NC12s_v3"
gpu_node_count     = 2
gpu_node_max_count = 5
gpu_count = 8 # of a node
system_node_count = 1
enable_spot = true
tags = {
  purpose = "inference"
}
"""


def test_variables_of_terraform_are_the_nodes_that_are_asked_for() -> None:
    fleet = read(VARIABLES)
    assert count(fleet) == {("a100-80gb-sxm", 8): 2}
    assert "at most 5" in fleet.notes[0]
    assert is_spot(fleet.pools[0], catalog())
    with pytest.raises(AdvisorError, match="0 to 5 nodes Standard_ND96amsr_A100_v4, not which there are"):
        read(VARIABLES.replace("gpu_node_count     = 2", "min_gpu_nodes = 0"))
    for wrong in ("Standard_D2s_v3", "Standard_New_v9"):
        with pytest.raises(AdvisorError, match="one machine type"):
            read(VARIABLES.replace("Standard_ND96amsr_A100_v4", wrong))


COLUMNS = r"""$ kubectl get nodes -l node.kubernetes.io/instance-type=trn2.3xlarge \
  -o custom-columns='NAME:.metadata.name,\
DEVICE:.status.capacity.aws\.amazon\.com/neuron,CORE:.status.capacity.aws\.amazon\.com/neuroncore'
NAME                              DEVICE   CORE
ip-10-0-0-1.compute.internal      1        4
"""
LABELS = r"""$ kubectl get nodes -o custom-columns=NAME:.metadata.name,\
GPUS:.metadata.labels.nvidia\.com/gpu\.count,PRODUCT:.metadata.labels.nvidia\.com/gpu\.product
NAME   GPUS     PRODUCT
a      8        NVIDIA-H100-80GB-HBM3
b      8        NVIDIA-H100-80GB-HBM3
c      <none>   <none>
"""


def test_columns_of_kubectl_are_what_its_command_asked_for() -> None:
    """As workshops of EKS print them: a label that selects holds for every row."""
    assert count(read(COLUMNS)) == {("trainium2", 1): 1}
    fleet = read(LABELS)
    assert count(fleet) == {("h100-sxm", 8): 2}
    assert [(s.node, "not known" in s.reason) for s in fleet.set_aside] == [("c", True)]
    with pytest.raises(AdvisorError, match="table of kubectl for people"):
        read(LABELS[LABELS.index("NAME ") :])


def test_a_list_without_what_can_be_allocated_is_taken_at_its_capacity() -> None:
    """A table turned into nodes (NVIDIA/aicr has one of GKE), and labels alone, which prove no device."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A10G", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "23028"}
    shared = {**labels, "nvidia.com/gpu.product": "NVIDIA-A10G-SHARED", "nvidia.com/gpu.replicas": "8"}
    nodes = [
        {"kind": "Node", "metadata": {"name": "a", "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "1"}}},
        {"kind": "Node", "metadata": {"name": "b", "labels": shared}, "status": {"capacity": {"nvidia.com/gpu": "8"}}},
        {"kind": "Node", "metadata": {"name": "c", "labels": labels}},
    ]
    fleet = read(json.dumps({"kind": "List", "items": nodes}))
    assert count(fleet) == {("a10g", 1): 1}
    assert any("its capacity is taken" in note for note in fleet.pools[0].notes)
    reasons = {s.node: s.reason for s in fleet.set_aside}
    assert reasons["b"].startswith("8 shares of 1x NVIDIA-A10G by")
    assert "1x NVIDIA-A10G of 22.5 GiB" in reasons["c"]
    assert "not in the list" in reasons["c"]


def test_a_card_of_amd_that_hami_splits_is_one_card() -> None:
    """A guide of HAMi: one MI300X in ten shares, each with the name of the card."""
    register = json.dumps([{"count": 10, "devmem": 196608, "devcore": 304, "type": "AMD_Instinct_MI300X_VF"}])
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_VF", "amd.com/gpu.vram": "192G"}
    seen = {"name": "a", "labels": labels, "annotations": {"hami.io/node-amd-register": register}}
    node = {"kind": "Node", "metadata": seen, "status": {"allocatable": {"amd.com/gpu": "10"}}}
    fleet = read(json.dumps({"kind": "List", "items": [node]}))
    assert not fleet.pools
    assert fleet.set_aside[0].reason.startswith("HAMi registered 1x Instinct MI300X, and amd.com/gpu counts 10")


def test_a_limit_of_karpenter_is_the_most_that_there_may_be() -> None:
    """In the form of Smana/cloud-native-ref: the class of the nodes stands next to it."""
    values = {"karpenter.k8s.aws/instance-family": ["g6"], "karpenter.k8s.aws/instance-gpu-count": ["1"],
              "karpenter.sh/capacity-type": ["spot", "on-demand"]}  # fmt: skip
    requirements = [{"key": k, "operator": "In", "values": v} for k, v in values.items()]
    spec: dict[str, object] = {
        "template": {"spec": {"requirements": requirements}}, "limits": {"nvidia.com/gpu": "4"}
    }  # fmt: skip
    pool = {"kind": "NodePool", "apiVersion": "karpenter.sh/v1", "metadata": {"name": "l4"}, "spec": spec}
    nodes = {"kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1", "metadata": {"name": "l4"}, "spec": {}}
    fleet = read(yaml.safe_dump_all([pool, nodes]))
    assert count(fleet) == {("l4", 1): 4}
    assert any("none of it may be there" in note and "spot" in note for note in fleet.notes)
    without_limit = {**pool, "spec": {**spec, "limits": {}}}
    open_kind = {**pool, "spec": {**spec, "template": {"spec": {"requirements": requirements[:1]}}}}
    unknown = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge", "new.large"]}]
    for other in (
        without_limit,
        open_kind,
        {**pool, "spec": {**spec, "template": {"spec": {"requirements": unknown}}}},
    ):
        with pytest.raises(AdvisorError, match="may be started"):
            read(yaml.safe_dump(other))


@pytest.mark.parametrize("body", [{"kind": "NodePool", "apiVersion": "karpenter.sh/v1", "spec": {}}, {"head_node": 1,
                                  "worker_nodes": {}}, {"available_node_types": {"a": None}}])  # fmt: skip
def test_templates_are_no_nodes(body: dict[str, object]) -> None:
    with pytest.raises(AdvisorError, match=r"kubectl get nodes|does not say"):
        read(yaml.safe_dump(body))


def make_slice(devices: list[dict[str, object]], driver: str = "gpu.nvidia.com", node: str = "n") -> dict[str, object]:
    spec = {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1}, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}


def make_device(name: str, gib: int | None = None, **attributes: str) -> dict[str, object]:
    made: dict[str, object] = {"name": name, "attributes": {k: {"string": v} for k, v in attributes.items()}}
    return made if gib is None else made | {"capacity": {"memory": {"value": f"{gib}Gi"}}}


def test_resource_slices_alone_are_cards_and_no_card_that_is_cut_up() -> None:
    card, cut = "NVIDIA A100 80GB PCIe", {"parentUUID": "GPU-1", "profile": "1g.10gb"}
    one = make_slice(
        [make_device("gpu-0", productName=card, uuid="GPU-1"), make_device("gpu-1", productName=card, uuid="GPU-2"),
         *(make_device(f"m{i}", productName=card, uuid=f"MIG-{i}", **cut) for i in (1, 2))]
    )  # fmt: skip
    for text in (json.dumps(one), json.dumps({"kind": "List", "items": [one]}), yaml.safe_dump(one)):
        fleet = read(text)
        assert count(fleet) == {("a100-80gb-pcie", 1): 1}
        assert any(f"not used: 2x {card} 1g.10gb by dynamic" in note for note in fleet.pools[0].notes)


def test_what_claims_hand_out_besides_cards_is_no_card() -> None:
    """Several documents, as dranet's examples on OKE have them: cards, networks and channels; a virtual GPU of a VM."""
    gpus = make_slice([make_device(f"gpu-{i}", 186, productName="NVIDIA GB200") for i in range(4)])
    nics = make_slice([make_device(f"pci-{i}") for i in range(8)], "dra.net")
    channels = make_slice([make_device("channel-0", type="channel")], "compute-domain.nvidia.com", "v")
    virtual = make_slice([make_device("gpu-0", 4, productName="GRID A100-4C", brand="NvidiaVCS")], node="v")
    fleet = read("---\n# a node\n" + "---\n".join(yaml.safe_dump(x) for x in (gpus, nics, channels, virtual)))
    assert count(fleet) == {("gb200", 4): 1}
    assert fleet.set_aside[0].reason.startswith("1x GRID A100-4C (a virtual GPU of 4 GiB) by dynamic")


def test_a_rounded_memory_of_a_claimed_card_is_no_more_than_the_card_has() -> None:
    node = make_node(0, {"name": "n", "spec": {"taints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]}})
    items = [node, make_slice([make_device("gpu-0", 16, productName="Tesla T4")])]
    assert read(json.dumps({"items": items})).set_aside[0].reason.endswith("with 1x Tesla T4")
    node["spec"] = {}
    fleet = read(json.dumps({"items": items}))
    assert 14.5 < (fleet.pools[0].machine.devices[0].total_bytes or 0) / 2**30 < 15.5
    claiming = {"kind": "Pod", "spec": {"nodeName": "n", "resourceClaims": [{"name": "gpu"}]}}
    assert read(json.dumps({"items": [*items, claiming]})).pools[0].devices_free is None
    claiming["spec"] = {"nodeName": "n"}
    assert read(json.dumps({"items": [*items, claiming]})).pools[0].devices_free == 1


DESCRIBED = """Name:               a.internal
Roles:              <none>
Labels:             node.kubernetes.io/instance-type=g6e.12xlarge
                    role.node/gpu=true
Taints:             nvidia.com/gpu=true:NoSchedule
Unschedulable:      false
Conditions:
  Type             Status  LastHeartbeatTime   Reason
  ----             ------  -----------------   ------
  Ready            True    Fri, 07 Nov 2025    KubeletReady
Capacity:
  cpu:             48
  memory:          390834728Ki
  nvidia.com/gpu:  4
Allocatable:
  cpu:             47625m
  memory:          389057064Ki
  nvidia.com/gpu:  4
Allocated resources:
  (Total limits may be over 100 percent, i.e., overcommitted.)
  Resource           Requests      Limits
  --------           --------      ------
  cpu                23335m (48%)  2300m (4%)
  nvidia.com/gpu     2             2
Events:              <none>


"""


def test_nodes_that_kubectl_describes() -> None:
    """The form of `kubectl describe nodes`; what pods have taken is in it."""
    cordoned = DESCRIBED.replace("a.internal", "b.internal").replace("Unschedulable:      false", "Unschedulable: true")
    pool = read(DESCRIBED + cordoned).pools[0]
    assert (pool.node_names, pool.devices, pool.devices_free) == (("a.internal",), 4, 2)
    assert pool.machine.devices[0].accelerator == "l40s"
    assert pool.tolerations == ("nvidia.com/gpu=true:NoSchedule",)
    short = "Name:   t\nRoles:  <none>\nLabels: cloud.google.com/gke-accelerator=nvidia-tesla-t4\n"
    short += "Capacity:\n  nvidia.com/gpu:  1\n"
    assert count(read(short)) == {("t4", 1): 1}
    assert read(short + DESCRIBED.replace("Name: ", "Name:")).pools[1].devices_free is None


def test_a_table_of_kubectl_with_machine_types() -> None:
    """SageMaker HyperPod's form, by `kubectl get nodes -L node.kubernetes.io/instance-type`."""
    rows = [("NAME", "STATUS", "ROLES", "AGE", "VERSION", "INSTANCE-TYPE"),
            ("a", "Ready", "<none>", "21d", "v1.32", "ml.g5.8xlarge"),
            ("b", "NotReady", "<none>", "21d", "v1.32", "ml.g5.8xlarge"),
            ("c", "Ready,SchedulingDisabled", "<none>", "21d", "v1.32", "ml.g5.8xlarge"),
            ("d", "Ready", "<none>", "21d", "v1.32", "ml.m5.12xlarge"),
            ("e", "Ready", "<none>", "21d", "v1.32", "")]  # fmt: skip
    text = "\n".join("".join(cell.ljust(28) for cell in row).rstrip() for row in rows)
    fleet = read("$ kubectl get nodes -L node.kubernetes.io/instance-type\n" + text)
    assert count(fleet) == {("a10g", 1): 1}
    assert [s.node for s in fleet.set_aside] == ["b", "c", "d", "e"]
    assert "has cards is not known" in fleet.set_aside[2].reason
    with pytest.raises(AdvisorError, match="a table of kubectl for people"):
        read("NAME   STATUS   ROLES    AGE   VERSION\na      Ready    <none>   1d    v1.32\n")


NOMAD = """ID              = ad1f3d27-3cd1
Name            = a
Drain           = false
Eligibility     = eligible
Status          = ready

Allocated Resources
CPU          Memory       Disk
0/51088 MHz  0 B/7.4 GiB  0 B/953 GiB

Device Resource Utilization
nvidia/gpu/NVIDIA GeForce RTX 3060 Laptop GPU[GPU-10177bd8]  757 / 6144 MiB

Allocations
ID        Node ID   Task Group  Version  Desired  Status    Created     Modified
"""


def test_nodes_of_nomad() -> None:
    """`nomad node status ID`, with -stats and with -verbose."""
    verbose = NOMAD.replace("= a", "= b").partition("Device Resource")[0] + (
        "Device Group Capacities\nDevice Group                          Count  Healthy  Unhealthy\n"
        "nvidia/gpu/NVIDIA L40S                4      3        1\n"
    )
    drained = NOMAD.replace("= a", "= c").replace("= false", "= true")
    lost = verbose.replace("= b", "= d").replace("4      3        1", "4      0        4")
    fleet = read(NOMAD + verbose + drained + lost)
    assert count(fleet) == {("rtx-3060-laptop", 1): 1, ("l40s", 3): 1}
    assert round((fleet.pools[0].machine.memory.total_bytes or 0) / 2**30, 1) == 7.4
    assert [(s.node, "Drain: true" in s.reason) for s in fleet.set_aside] == [("c", True), ("d", False)]
    assert all(p.devices_free is None for p in fleet.pools)


def test_whole_cards_beside_slices_are_those_that_the_slices_leave() -> None:
    """NVIDIA/gpu-operator issue 637: two cards stay listed when fourteen sevenths of both are handed out."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe", "nvidia.com/gpu.count": "2"}
    resources = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "6", "nvidia.com/mig-2g.20gb": "4"}
    node = make_node(0, {"labels": labels, "resources": resources})
    assert count(read(json.dumps({"items": [node]}))) == {("1g.10gb", 6): 1, ("2g.20gb", 4): 1}
    node = make_node(0, {"labels": labels, "resources": {**resources, "nvidia.com/mig-2g.20gb": "0"}})
    assert count(read(json.dumps({"items": [node]}))) == {("1g.10gb", 6): 1, ("a100-80gb-pcie", 1): 1}


def test_shares_are_named_with_the_cards_that_they_are_of() -> None:
    labels = {"node.kubernetes.io/instance-type": "g5.xlarge", "nvidia.com/gpu.product": "NVIDIA-A10G"}
    resources = {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "50"}
    fleet = read(json.dumps({"items": [make_node(0, {"labels": labels, "resources": resources})]}))
    assert fleet.pools == ()
    assert fleet.set_aside[0].reason.startswith("50 shares of 1x NVIDIA-A10G by sharing")
    assert "healthy" not in fleet.set_aside[0].reason


def test_unified_memory_is_no_more_than_the_system_has() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-GB10", "nvidia.com/gpu.count": "1"}
    resources = {"nvidia.com/gpu": "1", "memory": "125500000Ki"}
    fleet = read(json.dumps({"items": [make_node(0, {"labels": labels, "resources": resources})]}))
    assert fleet.pools[0].machine.devices[0].total_bytes == 125500000 * 1024
