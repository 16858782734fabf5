"""What `advise run` starts: the best plan of an engine that is installed, with a model that lies here."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.deployment import SpeedEstimate
from advisor.errors import BadInput
from advisor.record import Value
from advisor.render.files import render_command
from advisor.session import Session


class InstalledPlan(Value, frozen=True):
    """A server that can be started here."""

    engine: str
    model: str  # as the engine is given it: a file, or a name
    quantization: str | None
    command: str
    url: str
    health_path: str
    detailed_log: tuple[str, ...]  # words that make the engine log its memory
    speed: SpeedEstimate | None


def choose_installed(
    request: RecommendRequest, download: bool, port: int | None, session: Session
) -> InstalledPlan | None:
    """The first of the offered plans whose engine is installed. None where nothing fits.

    Raises BadInput where no engine is installed, or the model would have to be downloaded and may not be.
    """
    advice = recommend(request, session)
    if advice.chosen is None:
        return None
    installed = {e.engine for e in request.machine.engines}
    offered = [x for x in (advice.chosen, *advice.alternatives) if x.deployment is not None]
    ranked = next((x for x in offered if x.engine in installed), None)
    if ranked is None:
        engine_name = offered[0].engine_name if offered else advice.chosen.engine_name
        there = f"; installed are {', '.join(sorted(installed))}" if installed else ""
        raise BadInput(f"{engine_name} is not installed here{there}; `advise render --target install` says how")
    deployment, entry = ranked.plan.deployment, session.rules.engine(ranked.engine)
    path = deployment.model_path or (ranked.stored.path if ranked.stored is not None else None)
    if path is None and not download:
        raise BadInput(
            f"{deployment.model.id} in {deployment.quantization} does not lie on this machine: "
            "give a file with --model, or let it be downloaded with --download"
        )
    number = port or entry.port or 8000
    made = replace(deployment, port=number, model_path=path)
    return InstalledPlan(
        engine=ranked.engine,
        model=path or request.model or deployment.model.id,
        quantization=None if path else deployment.quantization,
        command=render_command(made, session),
        url=f"http://127.0.0.1:{number}",
        health_path=entry.health_path or "/health",
        detailed_log=entry.start.detailed_log if entry.start is not None else (),
        speed=ranked.speed,
    )
