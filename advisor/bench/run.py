"""`advise bench`: a server measured by a load generator, beside what the one speed model predicts for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from advisor.bench import endpoint, guidellm
from advisor.bench.endpoint import Endpoint
from advisor.bench.guidellm import Measured, Wanted
from advisor.catalog import Catalog
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import Request, deployment, estimate
from advisor.machines.types import Machine
from advisor.record import Record
from advisor.speed import local
from advisor.speed.efficiencies import format_class
from advisor.speed.estimator import Seen, fitted, speed
from advisor.speed.load import Load

ALONE = 8  # requests one after the other, before several at once
FAILED = 0.05  # share of failed requests above which a run is no calibration
SAMPLE = " ".join(guidellm.WORDS)


class Question(NamedTuple):
    """What is asked for. None = the server says, or the usual."""

    url: str
    key: str | None = None
    model: str | None = None  # the catalogue's name, where the server's own does not say
    served_name: str | None = None  # as requests name it; the server's first model
    quantization: str | None = None
    engine: str | None = None
    machine: Machine | None = None  # None: no prediction
    settings: dict[str, str] = {}
    concurrency: int = 1
    prompt_tokens: int = 512
    output_tokens: int = 128
    requests: int | None = None
    seconds: int = 60
    keep: bool = True
    seed: int | None = None


class Answer(Record, frozen=True, kw_only=True):
    """What was measured and what had been predicted, without what was measured here before."""

    endpoint: Endpoint
    model: str | None
    engine: str | None
    quantization: str | None
    measured: Measured
    alone: Measured | None  # one request at once, where more were asked for: passes are timed by it
    predicted: SpeedEstimate | None
    unpredicted: str | None  # why there is no prediction
    calibration: local.Run | None
    kept: str | None  # the file it is in
    unkept: str | None  # why it was not kept


def bench(q: Question, rules: Catalog, progress: Callable[[str], None] | None = None) -> Answer:
    """Asks the server what it is, puts the load on it, compares, and keeps the factors where they are for this machine.

    Raises BadInput (address, load generator), UnknownName.
    """
    say = progress or (lambda line: None)
    if guidellm.program() is None:
        raise BadInput(f"advise bench runs guidellm, which is not here: {guidellm.INSTALL}")
    found = endpoint.look(q.url, rules.engines(), q.key)
    served = q.served_name or found.models[0]
    if served not in found.models:
        from advisor.errors import UnknownName
        from advisor.near import near_matches

        raise UnknownName("model of this server", served, near_matches(served, found.models) or found.models)
    d, m, why = _deployment(q, found, rules)
    say("one request first, so that everything is loaded")
    endpoint.warm(found, served, q.key)
    n = endpoint.tokens_of(found, SAMPLE, q.key, rules.engines()[found.engine].told if found.engine else None)
    wanted = Wanted(
        url=found.url,
        model=served,
        concurrency=q.concurrency,
        prompt_tokens=q.prompt_tokens,
        output_tokens=q.output_tokens,
        requests=q.requests or max(10 * q.concurrency, 20),
        seconds=q.seconds,
        tokens_per_word=n / len(guidellm.WORDS) if n else 1.1,
        seed=q.seed if q.seed is not None else int.from_bytes(os.urandom(4), "big"),
    )

    def counted(done: int, failed: int) -> None:
        lost = f", {failed} failed" if failed else ""
        say(f"{done} of {wanted.requests} requests answered{lost} (at most {wanted.seconds} s)")

    alone = None
    if q.concurrency > 1:
        say(f"{ALONE} requests one after the other (at most {max(1, q.seconds // 2)} s)")
        first = wanted._replace(concurrency=1, requests=ALONE, seconds=max(1, q.seconds // 2), seed=wanted.seed + 1)
        alone = guidellm.measure(first, q.key)
    say(f"{wanted.requests} requests, {wanted.concurrency} at once (at most {wanted.seconds} s)")
    measured = guidellm.measure(wanted, q.key, counted)
    predicted, run, unkept = None, None, None
    if d is not None and m is not None:
        predicted, run, unkept = _compared(d, m, alone, measured, rules)
        why = None if predicted else "the speed of this deployment is not modelled"
    kept: Path | None = None
    if run is not None and q.keep:
        kept = local.store(run)
    return Answer(
        endpoint=found,
        model=d.model.id if d else q.model,
        engine=d.engine if d else q.engine or found.engine,
        quantization=d.quantization if d else q.quantization,
        measured=measured,
        alone=alone,
        predicted=predicted,
        unpredicted=why,
        calibration=run,
        kept=str(kept) if kept else None,
        unkept=unkept or (None if q.keep or run is None else "--no-keep"),
    )


def _deployment(
    q: Question, e: Endpoint, rules: Catalog
) -> tuple[Deployment | None, MemoryEstimate | None, str | None]:
    """The deployment that the server is, as far as it and the question tell; else why it is not known."""
    if q.machine is None:
        return None, None, "the server's hardware is not known: say it with --on (`--on this` for this machine)"
    engine = q.engine or e.engine
    if engine is None:
        return None, None, "which engine the server runs is not known: say it with --engine"
    here = q.machine.source == "probe" and e.model_path is not None and Path(e.model_path).is_file()
    name = q.model or (e.model_path if here else None) or e.models[0]
    request = Request(
        model=name,
        engine=engine,
        engine_version=e.engine_version,
        quantization=q.quantization,
        hardware="this",
        context_length=e.context_length,
        sequences=e.slots or q.concurrency,
        settings=dict(q.settings),
    )
    try:
        d, _ = deployment(request, rules, {"this": q.machine})
        return d, estimate(d, rules), None
    except AdvisorError as x:
        if q.model is not None or q.engine is not None:
            raise
        hint = "" if "--" in x.line() else "; say what it serves with --model and --quant"
        return None, None, x.line().rstrip(".") + hint


def _compared(
    d: Deployment, m: MemoryEstimate, alone: Measured | None, measured: Measured, rules: Catalog
) -> tuple[SpeedEstimate | None, local.Run | None, str | None]:
    """(what was predicted, the calibration, why there is none)."""
    load = _load(measured)
    predicted = speed(d, m, rules, load, calibrated=False)
    if predicted is None:
        return None, None, None
    why = _unfit(d, alone or measured)
    one, many = _seen(alone or measured), _seen(measured) if alone else None
    if why is not None or one is None or measured.tpot_s is None:
        return predicted, None, why
    found = fitted(d, m, rules, one, many)
    if found is None:
        return predicted, None, "it is too far from what was predicted: is this the deployment that was named?"
    run = local.Run(
        date=date.today().isoformat(),
        machine=local.fingerprint(d.machine or Machine()),
        engine=d.engine,
        engine_version=d.engine_version,
        model=d.model.id,
        quantization=d.quantization,
        format=format_class(rules.quantization(d.quantization)),
        concurrency=measured.concurrency,
        prompt_tokens=load.prompt,
        output_tokens=load.output,
        ttft_s=measured.ttft_s.p50,
        tpot_s=measured.tpot_s.p50,
        output_tps=measured.output_tps,
        **found._asdict(),
        tool=measured.tool,
    )
    return predicted, run, None


def _load(x: Measured) -> Load:
    return Load(concurrency=x.concurrency, prompt=max(1, round(x.prompt_tokens)), output=max(1, round(x.output_tokens)))


def _seen(x: Measured) -> Seen | None:
    return None if x.tpot_s is None else Seen(_load(x), x.ttft_s.p50, x.tpot_s.p50)


def _unfit(d: Deployment, measured: Measured) -> str | None:
    """Why a run says nothing about this machine's passes; None where it does."""
    if d.machine is None or d.machine.source != "probe":
        return "it is kept for the machine it was run on: say --on this"
    if measured.failed > FAILED * (measured.requests + measured.failed):
        return f"{measured.failed} of {measured.requests + measured.failed} requests failed"
    if measured.tpot_s is None or measured.output_tokens < 8:
        return "the answers are too short to time the tokens: --output-tokens 128"
    if d.draft is not None or any("spec" in k for k in d.settings):
        return "speculative decoding: its acceptance hides the speed of a pass"
    return None
