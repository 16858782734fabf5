"""`advise bench`: a server measured by a load generator, next to what the one speed model predicts for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from advisor import history
from advisor.bench import endpoint, guidellm
from advisor.bench.endpoint import Endpoint
from advisor.bench.guidellm import LoadTest, LoadTestResult
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import EstimateRequest, RememberedNames, estimate, resolve_request
from advisor.machines.types import Machine
from advisor.questions.files import BenchQuestion
from advisor.record import Answer
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.measured_load import ComparedSpeed, MeasuredLoad, compare_loads, predict_after, request_load

ALONE = 8  # requests one after the other, before several at once
FAILED = 0.05  # share of failed requests above which a run is no calibration
SAMPLE = " ".join(guidellm.WORDS)


class BenchResult(Answer, frozen=True, kw_only=True):
    """What was measured and what had been predicted, without what was measured here before."""

    endpoint: Endpoint
    model: str | None
    engine: str | None
    quantization: str | None
    measured: LoadTestResult
    alone: LoadTestResult | None  # one request at once, where more were asked for: passes are timed by it
    predicted: SpeedEstimate | None
    unpredicted: str | None  # why there is no prediction
    compared: tuple[ComparedSpeed, ...]  # each quantity before and after it was kept
    kept: str | None  # the file it is in
    unkept: str | None  # why it was not kept


def measure_server(
    question: BenchQuestion,
    machine: Machine | None,
    key: str | None,
    session: Session,
    progress: Callable[[str], None] | None,
) -> BenchResult:
    """Asks the server what it is, puts the load on it, compares, and keeps the factors where they are for this machine.

    `machine`: what it runs on; None = not known, and nothing is predicted. `key`: what it asks its clients for.
    Raises BadInput (address, load generator), UnknownName.
    """
    say = progress or (lambda line: None)
    if guidellm.find_guidellm() is None:
        raise BadInput(f"advise bench runs guidellm, which is not here: {guidellm.INSTALL}")
    found = endpoint.ask_server(question.url or "", session.rules.engines(), key)
    served = question.served_model or found.models[0]
    if served not in found.models:
        from advisor.errors import UnknownName
        from advisor.near import near_matches

        raise UnknownName("model of this server", served, near_matches(served, found.models) or found.models)
    deployment, memory_estimate, why = _deployment(question, machine, found, session)
    say("one request first, so that everything is loaded")
    endpoint.warm_up(found, served, key)
    n = endpoint.count_tokens(found, SAMPLE, key, session.rules.engines()[found.engine].told if found.engine else None)
    load_test = LoadTest(
        url=found.url,
        model=served,
        concurrency=question.concurrency,
        prompt_tokens=question.prompt_tokens,
        output_tokens=question.output_tokens,
        requests=question.requests or max(10 * question.concurrency, 20),
        seconds=question.seconds,
        tokens_per_word=n / len(guidellm.WORDS) if n else 1.1,
        seed=int.from_bytes(os.urandom(4), "big"),
    )

    def counted(done: int, failed: int) -> None:
        lost = f", {failed} failed" if failed else ""
        say(f"{done} of {load_test.requests} requests answered{lost} (at most {load_test.seconds} s)")

    alone = None
    if question.concurrency > 1:
        say(f"{ALONE} requests one after the other (at most {max(1, question.seconds // 2)} s)")
        first = replace(
            load_test, concurrency=1, requests=ALONE, seconds=max(1, question.seconds // 2), seed=load_test.seed + 1
        )
        alone = guidellm.run_load_test(first, key)
    say(f"{load_test.requests} requests, {load_test.concurrency} at once (at most {load_test.seconds} s)")
    measured = guidellm.run_load_test(load_test, key, counted)
    predicted, unkept, kept = None, None, None
    compared: tuple[ComparedSpeed, ...] = ()
    if deployment is not None and memory_estimate is not None:
        predicted = estimate_speed(
            deployment, memory_estimate, session.without_history(), request_load(_measured(measured))
        )
        why = None if predicted else "the speed of this deployment is not modelled"
        loads = compare_loads(
            deployment, memory_estimate, session, [_measured(x) for x in (alone, measured) if x is not None]
        )
        compared, unkept = loads.compared, _unfit(alone or measured) or loads.unkept
        if predicted is not None and unkept is None and question.keep:
            kept = history.store_measurements(loads.measurements)
            compared = predict_after(deployment, memory_estimate, Session(session.rules), compared)
    return BenchResult(
        endpoint=found,
        model=deployment.model.id if deployment else question.model,
        engine=deployment.engine if deployment else question.engine or found.engine,
        quantization=deployment.quantization if deployment else question.quantization,
        measured=measured,
        alone=alone,
        predicted=predicted,
        unpredicted=why,
        compared=compared,
        kept=str(kept) if kept else None,
        unkept=(unkept or (None if question.keep else "--no-keep")) if predicted else None,
    )


def _deployment(
    question: BenchQuestion, machine: Machine | None, endpoint: Endpoint, session: Session
) -> tuple[Deployment | None, MemoryEstimate | None, str | None]:
    """The deployment that the server is, as far as it and the question tell; else why it is not known."""
    if machine is None:
        return None, None, "the server's hardware is not known: say it with --on (`--on this` for this machine)"
    engine = question.engine or endpoint.engine
    if engine is None:
        return None, None, "which engine the server runs is not known: say it with --engine"
    here = machine.source == "probe" and endpoint.model_path is not None and Path(endpoint.model_path).is_file()
    name = question.model or (endpoint.model_path if here else None) or endpoint.models[0]
    request = EstimateRequest(
        model=name,
        engine=engine,
        engine_version=endpoint.engine_version,
        quantization=question.quantization,
        hardware="this",
        context_length=endpoint.context_length,
        sequences=endpoint.slots or question.concurrency,
    )
    try:
        deployment, _ = resolve_request(request, session.rules, RememberedNames({"this": machine}))
        return deployment, estimate(deployment, session), None
    except AdvisorError as x:
        if question.model is not None or question.engine is not None:
            raise
        hint = "" if "--" in x.line() else "; say what it serves with --model and --quant"
        return None, None, x.line().rstrip(".") + hint


def _measured(measured: LoadTestResult) -> MeasuredLoad:
    return MeasuredLoad(
        tool=measured.tool,
        concurrency=measured.concurrency,
        prompt_tokens=max(1, round(measured.prompt_tokens)),
        output_tokens=max(1, round(measured.output_tokens)),
        ttft_s=measured.ttft_s.p50,
        tpot_s=measured.tpot_s.p50 if measured.tpot_s else None,
        output_tps=measured.output_tps,
    )


def _unfit(measured: LoadTestResult) -> str | None:
    """Why a run says nothing about this machine's passes; None where it does."""
    if measured.failed > FAILED * (measured.requests + measured.failed):
        return f"{measured.failed} of {measured.requests + measured.failed} requests failed"
    if measured.tpot_s is None or measured.output_tokens < 8:
        return "the answers are too short to time the tokens: --output-tokens 128"
    return None
