"""`advise fleet`: many models on the nodes that are there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import options
from advisor.cli.main import LazyGroup
from advisor.questions.files import FleetCheckQuestion, FleetNodesQuestion, FleetPlanQuestion

if TYPE_CHECKING:
    from advisor.catalog import Catalog
    from advisor.fleet.plan import FleetRequest
    from advisor.fleet.types import Inventory

COMMANDS = {
    "show": ("advisor.cli.fleet:show", "The nodes that are there: pools of equal ones, and what was set aside."),
    "plan": ("advisor.cli.fleet:plan", "Which replicas of which model run on which nodes."),
    "check": ("advisor.cli.fleet:check", "Still placeable, after losing a node, and deployed as planned? For CI."),
    "render": ("advisor.cli.fleet:render", "Launch files of a plan, for the target that runs it."),
}


@click.group("fleet", cls=LazyGroup, modules=COMMANDS, no_args_is_help=True)
def command() -> None:
    """Many models on the nodes that are there: what there is, which replicas stand where, what they cost."""


@click.command(
    "show",
    epilog="""\b
Examples:
  kubectl get nodes -o json > nodes.json; kubectl get pods -A -o json > pods.json
  advise fleet show nodes.json --pods pods.json
  scontrol show node -o -d | advise fleet show -
  sinfo --json | advise fleet show - --json
  advise fleet show fleet.yaml
  advise fleet show snapshots/             a folder of `advise probe --save NODE.json`
  advise fleet show --slurm --probe        asks Slurm, then each node by a short job
  advise fleet show --ray auto --probe
  advise fleet show --kubernetes --probe > probe.yaml

\b
fleet.yaml:
  currency: EUR
  nodes:
  - {name: big, count: 4, hardware: "8x H100 80GB SXM, 2TB RAM", price_per_hour: 20}
  - {name: small, hardware: "2x L40S, 256GB RAM", labels: {zone: a}}

\b
SOURCE is what kubectl, scontrol (with -d: what jobs have taken), sinfo or ray.nodes()
say, a folder of snapshots or a file of your own; which one it is, is found out from
what is in it. Nodes that are drained, cordoned, not ready, or whose cards are handed
out in shares are set aside, and the reason is stated. Nothing is changed on a cluster:
--probe starts a short job on each node of Slurm and a task on each node of Ray; for
Kubernetes it prints Jobs for you to apply.
Exit status: 0, or 2 for an inventory that cannot be read.
""",
)
@options.ask(FleetNodesQuestion, "rules", "json", "quiet")
@click.option("--probe", is_flag=True, help="Run `advise probe` on the nodes; for Kubernetes, print Jobs that do.")
def show(question: FleetNodesQuestion, shown: options.Presentation, probe: bool) -> int:
    """The nodes that are there: pools of equal ones, and what was set aside."""
    from advisor.catalog import catalog

    rules = catalog(options.list_rule_roots())
    inventory = read_nodes(question, rules, probe)
    if probe and inventory.kind == "kubernetes":
        from advisor.fleet.inventory.live import make_probe_jobs

        click.echo(make_probe_jobs(inventory, rules), nl=False)
        if not shown.quiet:
            click.echo("advise: nothing was applied; the first lines say how to", err=True)
        return 0
    from advisor.fleet.inventory.pools import make_fleet

    fleet = make_fleet(inventory)
    if shown.as_json:
        from advisor.fleet.types import show_fleet

        _print_safe_json(show_fleet(fleet))
    else:
        options.print_answer(fleet, shown, "fleet:describe_fleet")
    return 0


def _print_safe_json(answer: object) -> None:
    """An answer as JSON, with names from files and clusters made safe to show."""
    from advisor.safe_text import make_safe

    options.print_json(make_safe(answer))


@click.command(
    "plan",
    epilog="""\b
Examples:
  advise fleet plan fleet.yaml --models demand.yaml
  kubectl get nodes -o json | advise fleet plan - --models demand.yaml --confidence safe
  advise fleet plan --slurm --models demand.yaml --json > plan.json
  advise fleet plan fleet.yaml --models demand.yaml --keep plan.json

\b
demand.yaml:
  models:
  - {model: Qwen/Qwen3-32B, rate: 2, prompt_tokens: 1000, output_tokens: 300, ttft_s: 2, tpot_s: 0.05}
  - {model: "llama3.1:8b", users: 40, use_case: chat, priority: 1, spread: 2}
  - {model: openai/gpt-oss-20b, trace: requests.csv, engines: [vllm], licence: permissive}

\b
A node that carries a replica is paid in full; the plan has the least cost an hour.
Prices: `price_per_hour` of the inventory, else --prices, else what clouds ask for the
cards. --confidence safe plans with the slow end of every predicted speed; both costs are
printed, with the measurement that would narrow them most.
Exit status: 0 all are served, 1 not all, 2 cannot tell, or usage error.
""",
)
@options.ask(FleetPlanQuestion, "rules", "json", "verbose", "quiet")
@options.add_cores_option
def plan(question: FleetPlanQuestion, shown: options.Presentation, jobs: int | None) -> int:
    """Which replicas of which model run on which nodes, for the least cost or the least change."""
    from advisor.fleet.plan import plan_fleet

    session = options.open_session()
    made = plan_fleet(_make_request(question, jobs, session.rules), session, _show_progress(shown))
    if shown.as_json:
        from advisor.safe_text import make_safe

        body = make_safe(made.to_dict())
        for row, replica in zip(body["replicas"], made.replicas, strict=True):
            row["command"] = replica.command  # shell text of several lines, quoted already
        options.print_json(body)
    else:
        options.print_answer(made, shown, "fleet:describe_fleet_plan", shown.verbose)
    return made.exit_status


@click.command(
    "check",
    epilog="""\b
Examples:
  advise fleet check fleet.yaml --models demand.yaml
  advise fleet check nodes.json --models demand.yaml --lose 1
  advise fleet check fleet.yaml --models demand.yaml --deployed deploy/

\b
For CI: is every model still placeable on the nodes that are there; is it after losing
any node (--lose 1); do the deployed files have the replicas of the plan.
Exit status: 0 yes, 1 no, 2 cannot tell, or usage error.
""",
)
@options.ask(FleetCheckQuestion, "rules", "json", "quiet")
@options.add_cores_option
def check(question: FleetCheckQuestion, shown: options.Presentation, jobs: int | None) -> int:
    """Whether everything is placeable, also after losing nodes, and deployed as planned."""
    from advisor.fleet.check import check_fleet

    session = options.open_session()
    checked = check_fleet(_make_request(question, jobs, session.rules), question.lose, question.deployed, session)
    if shown.as_json:
        _print_safe_json(checked)
    else:
        options.print_answer(checked, shown, "fleet:describe_fleet_check")
    return checked.exit_status


@click.command(
    "render",
    epilog="""\b
Examples:
  advise fleet plan fleet.yaml --models demand.yaml --json > plan.json
  advise fleet render plan.json --target kubernetes --output deploy
  advise fleet render plan.json --target slurm --output jobs
  advise fleet render plan.json --target litellm --output -

\b
Targets: command and compose (a file for each node), kubernetes, keda (with ScaledObjects),
lws, kserve, llm-d, ray, slurm (equal replicas of a node are a job array), litellm (a
gateway in front). Folders for Kubernetes are applied by kubectl apply -k.
Exit status: 0 written, 2 usage error.
""",
)
@click.argument("plan")
@click.option("--target", required=True, metavar="T", help="Kind of files (listed below).")
@click.option("--fronts", metavar="TARGET", help="What runs the replicas behind a gateway: kubernetes or nodes.")
@click.option("--output", required=True, metavar="DIR", help="Folder to write into; `-` prints the files.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.add_rules_option
@options.quiet
def render(plan: str, target: str, fronts: str | None, output: str, force: bool, quiet: bool) -> int:
    """Launch files of a plan, for the target that runs it."""
    from advisor.fleet.render import read_plan_file, render_fleet
    from advisor.render.files import write_files

    files = render_fleet(read_plan_file(plan), target, options.open_session(), fronts)
    if output == "-":
        for file in files:
            click.echo(f"# {file.name}\n{file.content}")
        return 0
    for path in write_files(files, Path(output).expanduser(), force):
        if not quiet:
            click.echo(f"advise: wrote {path}", err=True)
    return 0


def _make_request(question: FleetPlanQuestion | FleetCheckQuestion, jobs: int | None, rules: Catalog) -> FleetRequest:
    """The fleet of a file or of a cluster, and what it has to serve. Raises BadInput, BadFile, UnknownName."""
    from advisor.fleet.demand import list_labels, read_demand
    from advisor.fleet.inventory.pools import make_fleet
    from advisor.fleet.plan import FleetRequest, read_running
    from advisor.workers import count_cores

    kept = question.keep if isinstance(question, FleetPlanQuestion) else None
    demands = read_demand(question.models, rules)
    return FleetRequest(
        make_fleet(read_nodes(question, rules, keep=list_labels(demands))),
        demands,
        question.confidence,
        question.prices,
        None if kept is None else read_running(kept),
        jobs or count_cores(),
    )


def read_nodes(
    question: FleetNodesQuestion, rules: Catalog, probe: bool = False, keep: tuple[str, ...] = ()
) -> Inventory:
    """The nodes of a file or of a cluster; `probe`: asked themselves; `keep`: labels that are asked for. Raises
    BadInput, BadFile."""
    from advisor.errors import BadInput
    from advisor.fleet.inventory import live
    from advisor.fleet.inventory.kubernetes import NodeOptions
    from advisor.fleet.inventory.source import read_inventory

    node_options = NodeOptions(question.tolerate, keep)
    ray = question.ray
    asked = sum((question.nodes is not None, question.kubernetes, question.slurm, ray is not None))
    if asked != 1:
        said = "give one of SOURCE, --kubernetes, --slurm and --ray" if asked else "a SOURCE of nodes is expected"
        raise BadInput(f"{said}: nodes.json of kubectl, - for standard input, or --slurm to ask the cluster")
    if question.pods is not None and question.nodes is None:
        raise BadInput("--pods goes with a SOURCE; a live cluster is asked for its pods")
    if question.tolerate and (question.slurm or ray is not None):
        raise BadInput("--tolerate is about taints, which nodes of Kubernetes have")
    if question.kubernetes:
        return live.ask_kubernetes(rules, node_options)
    if question.slurm:
        return live.ask_slurm(rules, probe)
    if ray is not None:
        return live.ask_ray(ray, rules, probe)
    made = read_inventory(question.nodes or "-", rules, question.pods, node_options)
    if probe and made.kind != "kubernetes":
        raise BadInput("--probe reaches nodes by --slurm or --ray, or prints Jobs for a Kubernetes SOURCE")
    return made


def _show_progress(shown: options.Presentation) -> Callable[[int, int], None] | None:
    """A function that shows how far the search is, on a terminal; None where nobody watches."""
    if shown.quiet or not sys.stderr.isatty():
        return None

    def show(done: int, of: int) -> None:
        end = "\r\033[K" if done == of else ""
        click.echo(f"\r\033[Kadvise: {done} of {of} (model, pool) looked at{end}", nl=False, err=True)

    return show
