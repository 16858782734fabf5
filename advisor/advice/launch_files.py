"""Launch files for what `recommend` chooses: of one model, of several, or of a server that is there already."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import resolve_question
from advisor.advice.types import Advice
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.machines.device_visibility import VISIBLE
from advisor.questions import Asking
from advisor.questions.recommend import RenderQuestion
from advisor.record import Answer
from advisor.render.files import LaunchFile
from advisor.session import Session


class LaunchFiles(Answer, frozen=True, kw_only=True):
    """The files, and of what they are. Without files `why` says why there are none."""

    engine: str | None = None
    model: str | None = None
    quantization: str | None = None
    target: str
    files: tuple[LaunchFile, ...] = ()
    notes: tuple[str, ...] = ()
    why: str | None = None


def answer_question(question: RenderQuestion, session: Session, asking: Asking, verbose: bool = False) -> LaunchFiles:
    """The launch files that a question asks for; `verbose` = each setting with its reason.

    Raises UnknownName, BadFile, BadInput.
    """
    from advisor.render.files import list_target_names, render_client
    from advisor.render.matrix import find_joint_target

    target = question.target
    known = (*list_target_names(session.rules), "all")
    if target not in known:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(known)}.", near_matches(target, known))
    if question.endpoint:
        files = render_client(question.endpoint, question.model, target, session.rules)
        there = next(e.id for e in session.rules.engines().values() if e.remote == "endpoint")
        return LaunchFiles(engine=there, model=question.model, target=target, files=tuple(files))
    if not question.models:
        return _render_one(question, session, asking, verbose)
    if question.model:
        raise BadInput("--models stands in place of --model")
    joint = find_joint_target(session.rules)
    return (_render_joint if target == joint else _render_beside)(question, session, asking)


def _render_one(question: RenderQuestion, session: Session, asking: Asking, verbose: bool) -> LaunchFiles:
    from advisor.render.copies import refuse_single_node, render_nodes_script
    from advisor.render.files import render_every, render_files

    target = question.target
    advice = _recommend(question, session, asking)
    chosen = advice.chosen
    if chosen is None or chosen.deployment is None:
        return LaunchFiles(target=target, why="nothing fits; `advise recommend` says why and what would")
    d = replace(chosen.deployment, host=question.host, port=question.port)
    nodes = chosen.layout.nodes if chosen.layout is not None else 1
    alike = nodes > 1 and chosen.plan.servers > 1  # every node runs the same, and starts its own
    notes = [f"for each of {nodes} nodes alike; put a router (LiteLLM, nginx) before them"] if alike else []
    pods = target == "kubernetes" and chosen.plan.servers > 1 and chosen.plan.prefill is None
    if not alike and not pods:
        refuse_single_node(d, nodes, target, session.rules)
    made: Sequence[LaunchFile]
    if pods:  # the Service is their router, and the device plugin gives each its cards
        notes, made = [], render_files(d, target, session, advice.workload, verbose, chosen.plan.servers)
    elif chosen.plan.servers > nodes or (chosen.plan.servers > 1 and not alike):
        made = _render_copies(advice, d, question, session)
    elif nodes > 1 and not alike and target == "command":
        made = (render_nodes_script(d, nodes, session),)
    elif target == "all":
        made = render_every(d, session, advice.workload, verbose)
    else:
        made = render_files(d, target, session, advice.workload, verbose)
    return LaunchFiles(
        engine=d.engine,
        model=d.model.id,
        quantization=d.quantization,
        target=target,
        files=tuple(made),
        notes=(*notes, *_list_notes(d, made, session)),
    )


def _recommend(question: RenderQuestion, session: Session, asking: Asking) -> Advice:
    """The Advice whose choice is rendered."""
    return recommend(resolve_question(question, session.rules, asking), session)


def _render_copies(
    advice: Advice, deployment: Deployment, question: RenderQuestion, session: Session
) -> Sequence[LaunchFile]:
    """Files of several equal servers and the router before them."""
    from advisor.planning.disaggregation import list_plan_servers
    from advisor.planning.layouts import share_devices
    from advisor.render.copies import render_copies, render_roles

    chosen, port = advice.chosen, question.port or session.rules.engine(deployment.engine).port or 8000
    assert chosen is not None
    assert chosen.layout is not None
    servers = list_plan_servers(chosen.plan, session.rules.engine(deployment.engine), deployment, port)
    if chosen.layout.prefill:
        target = "command" if question.target == "all" else question.target
        return render_roles(servers, chosen.layout.prefill, target, session, port, advice.workload)
    target = "compose" if question.target == "all" else question.target
    devices = share_devices(chosen.layout, chosen.plan.servers)
    return render_copies(servers, devices, target, session, port, advice.workload)


def _render_joint(question: RenderQuestion, session: Session, asking: Asking) -> LaunchFiles:
    """Files of models of which one runs at a time behind a swapping proxy."""
    from advisor import formats
    from advisor.render.files import render_together

    engine = question.engine or formats.usual_engine("gguf", session.rules).id
    out = []
    for model in question.models:
        chosen = _recommend(replace(question, model=model, models=(), engine=engine), session, asking).chosen
        if chosen is None or chosen.deployment is None:
            why = f"{model} does not fit; `advise recommend --model {model}` says why"
            return LaunchFiles(target=question.target, why=why)
        out.append(replace(chosen.deployment, host=question.host, port=question.port))
    named = ",".join(question.models)
    files = render_together(tuple(out), session)
    return LaunchFiles(engine=question.target, model=named, target=question.target, files=files)


def _render_beside(question: RenderQuestion, session: Session, asking: Asking) -> LaunchFiles:
    """Files of models that stay loaded together, with the cards of each where it has cards of its own."""
    from advisor.render.copies import render_side_by_side

    advice = _recommend(replace(question, workload={"swap": "resident", **question.workload}), session, asking)
    ranked = [advice.chosen, *advice.chosen.also] if advice.chosen is not None else []
    found = [(x, x.deployment) for x in ranked if x.deployment is not None and x.plan.servers == 1 and x.copies == 1]
    if len(found) < max(len(question.models), len(ranked)):
        why = next(iter(advice.warnings), "they do not fit together")
        return LaunchFiles(target=question.target, why=why)
    port, deployments, devices = question.port, [], []
    for i, (x, d) in enumerate(found):
        own = port or d.port or session.rules.engine(x.engine).port or 8000
        deployments.append(replace(d, host=question.host, port=own + (i if port else 0)))
        devices.append(x.layout.devices if x.layout and set(d.environment) & set(VISIBLE.values()) else ())
    files = render_side_by_side(tuple(deployments), question.target, session, advice.workload, tuple(devices))
    engines, named = ",".join(dict.fromkeys(d.engine for d in deployments)), ",".join(question.models)
    return LaunchFiles(engine=engines, model=named, target=question.target, files=tuple(files))


def _list_notes(deployment: Deployment, files: Sequence[LaunchFile], session: Session) -> list[str]:
    """What the files say in a comment and the user should not overlook."""
    from advisor.render.context import is_outside
    from advisor.render.matrix import find_engine_start

    lines = {line for f in files for line in f.content.splitlines() if line.startswith("# Left out: ")}
    notes = [f"left out: {line.removeprefix('# Left out: ')}" for line in sorted(lines)]
    if is_outside(deployment.host) and find_engine_start(deployment.engine, session.rules).key is None:
        notes.append(f"{deployment.engine} asks its clients for no key; put a proxy that does in front of it")
    return notes
