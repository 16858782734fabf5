"""What the requests of a workload look like (the longest, a typical one, how many at once), and how long they wait."""

from __future__ import annotations

import math

from advisor.catalog import Catalog
from advisor.deployment import Holds, Interval, OpenInterval, UseCase, Workload
from advisor.planning.rules import load_workload_defaults
from advisor.record import Record

STEP = 1024  # tokens that a context length is rounded up to, where lengths were given and no context

LENGTHS = ("prompt_tokens", "prompt_p95", "output_tokens", "output_p95", "depth_tokens")  # that a workload may state


class TokenSpread(Record, frozen=True, kw_only=True):
    """Tokens of a part of a request."""

    mean: int
    p95: int


class Traffic(Record, frozen=True, kw_only=True):
    """The requests that a deployment is planned for."""

    use_case: UseCase
    context_length: int  # tokens of the longest request, prompt and output together
    prompt: TokenSpread
    output: TokenSpread
    users: int  # requests at once
    rate: float | None = None  # requests a second, in the mean
    burst: float = 1.0  # times that, in a busy moment
    depth: int = 0  # tokens that a conversation holds already when a request comes
    depth_spread: int = 0  # by which the 95th percentile of it is above that
    shared_prefix: float = 0.0  # share of a typical prompt that all requests have in common
    full_length: bool = False  # all of them may be of full length at once

    @property
    def typical_tokens(self) -> int:
        """Prompt and output of a typical request, with the conversation that it goes on from."""
        return self.depth + self.prompt.mean + self.output.mean

    @property
    def shared_tokens(self) -> int:
        """Tokens that all typical requests have in common."""
        return int(self.shared_prefix * self.prompt.mean)

    def safe_tokens(self, requests: int) -> int:
        """Tokens that so many requests together exceed one time in a hundred, their lengths being independent."""
        before = self.depth_spread + self.prompt.p95 - self.prompt.mean
        spread = math.hypot(before, self.output.p95 - self.output.mean) / P95_OF_NORMAL
        return math.ceil(requests * self.typical_tokens + P99_OF_NORMAL * spread * math.sqrt(requests))


P95_OF_NORMAL, P99_OF_NORMAL = 1.645, 2.326  # standard deviations


def read_traffic(workload: Workload, trained: int | None, rules: Catalog) -> Traffic:
    """The traffic of a workload; `trained` is the longest context of the model, None where it is not known.

    A context that was not given is the use's own (rules/workloads.yaml), longer where the lengths that were given are,
    and no longer than the model's.
    """
    defaults = load_workload_defaults(rules)
    usual = defaults.typical[workload.use_case]
    factor = defaults.p95_over_mean
    whole = bool(workload.prompt_tokens or workload.prompt_p95 or workload.shared_prefix)  # prompts, as they are stated
    depth = usual.depth if workload.depth_tokens is None and not whole else workload.depth_tokens or 0
    prompt, output = (
        mean or min(usual_mean, p95 or usual_mean)
        for mean, usual_mean, p95 in (
            (workload.prompt_tokens, usual.prompt + (usual.depth if whole else 0), workload.prompt_p95),
            (workload.output_tokens, usual.output, workload.output_p95),
        )
    )
    longest_prompt = workload.prompt_p95 or math.ceil(factor * prompt)
    longest_output = workload.output_p95 or math.ceil(factor * output)
    context = workload.context
    if context is None:
        context = defaults.context[workload.use_case]
        if any(getattr(workload, name) for name in LENGTHS):
            longest = depth + longest_prompt + longest_output
            context = max(context, -(-longest // STEP) * STEP)
        context = min(context, trained or context)
    output = min(output, context // 2)
    depth = max(0, min(depth, context - output - (1 if workload.depth_tokens else prompt)))
    prompt = max(1, min(prompt, context - output - depth))
    long = max(prompt, min(longest_prompt, context - output - depth))
    deepest = depth if workload.depth_tokens else max(depth, min(math.ceil(factor * depth), context - output - long))
    return Traffic(
        use_case=workload.use_case,
        context_length=context,
        prompt=TokenSpread(mean=prompt, p95=long),
        output=TokenSpread(mean=output, p95=max(output, min(longest_output, context - prompt - depth))),
        users=workload.concurrency,
        rate=workload.rate,
        burst=workload.burst,
        depth=depth,
        depth_spread=deepest - depth,
        shared_prefix=workload.shared_prefix or 0.0,
        full_length=workload.full_length,
    )


def describe_cut_lengths(workload: Workload, traffic: Traffic) -> str | None:
    """A note on stated lengths that the context has no room for; None where it has."""
    planned = (traffic.prompt.mean, traffic.prompt.p95, traffic.output.mean, traffic.output.p95, traffic.depth)
    cut = [n for n, tokens in zip(LENGTHS, planned, strict=True) if (getattr(workload, n) or 0) > tokens]
    if not cut:
        return None
    asked = ", ".join(f"{n} {getattr(workload, n):,}" for n in cut)
    return f"{asked}: a context of {traffic.context_length:,} tokens has no room for that, so such requests are refused"


def split_limit(limit: float | str) -> tuple[float, str | None]:
    """A limit as it is asked for: seconds, and the percentile of the requests that keep it, where one is named."""
    seconds, at, percentile = str(limit).partition("@")
    return float(seconds), percentile if at else None


def expect_users(workload: Workload, rules: Catalog) -> int:
    """Requests at once, before any plan is known: those that were named, or what a rate roughly comes to.

    By Little's law, with tokens as far apart as the target says, else half as far as may be (rules/workloads.yaml).
    """
    if workload.rate is None:
        return workload.concurrency
    defaults = load_workload_defaults(rules)
    output = workload.output_tokens or defaults.typical[workload.use_case].output
    named = None if workload.tpot_s is None else split_limit(workload.tpot_s)[0]
    between = named or (1 / workload.target_tps if workload.target_tps else None)
    seconds = max(1, output) * (between or defaults.slowest_between_tokens_s / 2)
    return max(workload.concurrency, math.ceil(workload.rate * workload.burst * seconds))


MOST_SERVERS = 4096


def estimate_wait(holds: Holds, traffic: Traffic, request_s: Interval | None) -> OpenInterval | None:
    """Seconds until a request is taken: of those that wait, or, at a rate, of all in the mean. None where nobody waits,
    where the rate is more than what is held can answer, and where the time of a request is not known.

    Closed: of N users `held` are served at once, the others stand in one line before them. Open: M/G/k by Erlang's C
    and the correction of Allen and Cunneen, (1 + cv^2) / 2 for service times of coefficient of variation cv
    (A. O. Allen, Probability, Statistics and Queueing Theory, 2nd ed., 1990, section 5.3).
    """
    if request_s is None:
        return None
    if traffic.rate is None:
        return _wait_of_closed_loop(holds, request_s)
    at_once = holds.full_length if traffic.full_length else holds.typical
    low, value, high = (
        _wait_of_arrivals(traffic, at_once, s) for s in (request_s.low, request_s.value, request_s.high)
    )
    if value is None:
        return None
    return OpenInterval(value=value, low=value if low is None else low, high=high)


def _wait_of_closed_loop(holds: Holds, request_s: Interval) -> OpenInterval | None:
    taken = holds.asked - holds.waiting
    if not holds.waiting or taken < 1:
        return None
    turns = holds.waiting / taken
    return OpenInterval(value=turns * request_s.value, low=turns * request_s.low, high=turns * request_s.high)


def _wait_of_arrivals(traffic: Traffic, servers: int, request_s: float) -> float | None:
    """Mean seconds in the queue; None where it grows without end."""
    load = (traffic.rate or 0) * request_s
    if servers < 1 or load >= servers:
        return None
    return wait_in_line(load, servers, request_s, traffic.output if traffic.output.mean else traffic.prompt)


def wait_in_line(load: float, servers: int, seconds: float, tokens: TokenSpread) -> float:
    """Mean seconds in the queue before `servers` that a load keeps busy, each for `seconds`, by Erlang's C with Allen
    and Cunneen's correction for services that vary as `tokens` do."""
    waits = erlang_c(min(servers, MOST_SERVERS), load if servers <= MOST_SERVERS else load / servers * MOST_SERVERS)
    return waits * seconds / (servers - load) * (1 + squared_variation(tokens)) / 2


def squared_variation(tokens: TokenSpread) -> float:
    """Square of the coefficient of variation, by the mean and the 95th percentile."""
    return float(((tokens.p95 - tokens.mean) / P95_OF_NORMAL / max(1, tokens.mean)) ** 2)


def erlang_c(servers: int, load: float) -> float:
    """Share of arrivals that find all of `servers` busy, at a load of so many busy ones in the mean."""
    blocked = 1.0  # Erlang's B, by its recurrence
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    busy = load / servers
    return blocked / (1 - busy + busy * blocked)
