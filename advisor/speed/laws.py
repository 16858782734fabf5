"""From seconds at peak rates to seconds: the only place where efficiencies meet resources.

Plain arithmetic, so that the calibration can pass arrays where an estimate passes numbers.

    pass   = (memory^p + products^p)^(1/p) + (widened + scores)/m + scan/(m r) + launches + exchanges + host
    memory = (weights/m + experts/(m e)) / u + cache/(m k) + latent/(m l)
    products = matrices/c + vectors/v + attention/a
    time between tokens of B running requests
           = decode step + (B - 1) x sequence + delaying x mixing x a prompt's share / output tokens
    time of a request = output tokens x time between tokens + prompt + fixed
    rate of all = running x output tokens / (output tokens x (decode step + (B - 1) x sequence)
                                             + delaying x a prompt's share + prompt + fixed)
    time to first token = prompt + fixed + decode step + together x (B - 1)/2 x (a prompt's share + fixed)
                        + queue x a prompt's share x busy/2 / (1 - busy + 1/B)

u counts where matrix units multiply quantised weights, which are unpacked for them; it is 1 elsewhere.

A step of many sequences takes at least what one of so few takes that no matrix units are used.

While B requests run, each of the other B - 1 brings one prompt per output of this one. Servers work on it in the passes
of decoding, whose weights are read anyway (its products alone count); elsewhere it has passes of its own. `delaying`
counts others whose prompts delay: more than B - 1 where replicas wait for each other. A step of a batch and a chunk of
a prompt obey the same law with efficiencies of their own.

The time to the first token is a mean over a closed loop, as it is measured. Such a loop begins with all requests at
once: those (`together` of them) wait for half of the others. The rest finds a queue of fixed service times (M/D/1:
Kleinrock, Queueing Systems I, 5.8), which no more than B requests are in; `busy` is the part of the time that the
others' prompts take.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from advisor.record import Value

Number: TypeAlias = Any  # a float, or an array of them: the fit works out all of its rows at once

OVERLAP = (
    2.5  # p above: reading and multiplying overlap, but not fully (1 = one after the other, infinite = the larger)
)


class Efficiency(Value, frozen=True):
    """What is reached of each resource's peak (shares), and what each launch costs (seconds)."""

    memory: Number
    experts: Number
    cache: Number
    latent: Number
    unpacking: Number
    host: Number
    products: Number
    attention: Number
    layer: Number
    moe_layer: Number
    other_mixer: Number
    exchange: Number
    link: Number
    scan: Number
    vector: Number


class WaitFactors(Value, frozen=True):
    """What a request waits for besides its own passes."""

    mixing: Number  # part of the others' prompts that delays a running request
    queue: Number  # prompts before one's own, against those of a queue of random arrivals
    together: Number  # part of the requests that come when all others do: a closed loop begins so
    fixed: Number  # seconds a request costs whatever its length: HTTP, tokenizer, scheduling
    sequence: Number  # seconds that every further sequence adds to a step: scheduling, sampling, answering


class LoadTimes(Value, frozen=True):
    """Seconds and rates of a load."""

    step: Number  # one decode step of the batch
    prompt: Number  # one prompt, alone
    between: Number  # between tokens of one request, under load
    request: Number  # a whole request, once it runs
    first: Number  # until the first token
    rate: Number  # output tokens a second, all requests


class PassSeconds(Value, frozen=True):
    """Seconds of one pass, of which reading and multiplying overlap."""

    memory: Number
    products: Number
    rest: Number  # launches, exchanges and what is read or written besides

    @property
    def whole(self) -> Number:
        return overlap_seconds(self.memory, self.products) + self.rest


def overlap_seconds(memory: Number, products: Number) -> Number:
    """Seconds of reading and multiplying at once."""
    return (memory**OVERLAP + products**OVERLAP + 1e-30) ** (1 / OVERLAP)


def split_pass(cost: Any, efficiency: Efficiency) -> PassSeconds:
    """Seconds of one pass, part by part."""
    unpacked = 1 + cost.unpacked * (1 / efficiency.unpacking - 1)
    memory = (
        (cost.weights_s + cost.experts_s / efficiency.experts) * unpacked
        + cost.cache_s / efficiency.cache
        + cost.latent_s / efficiency.latent
    ) / efficiency.memory
    products = (
        cost.products_s / efficiency.products
        + cost.vector_s / efficiency.vector
        + cost.attention_s / efficiency.attention
    )
    launched = (
        cost.layers * efficiency.layer
        + cost.moe_layers * efficiency.moe_layer
        + cost.other_mixers * efficiency.other_mixer
    )
    rest = (
        (cost.widened_s + cost.scores_s) / efficiency.memory
        + cost.scan_s / (efficiency.memory * efficiency.scan)
        + launched
        + cost.exchanges * efficiency.exchange
        + cost.link_s / efficiency.link
        + cost.host_s / efficiency.host
    )
    late = cost.issued_s - overlap_seconds(memory, products) - rest
    return PassSeconds(memory, products, rest + (late + abs(late)) / 2)


def pass_seconds(cost: Any, efficiency: Efficiency) -> Number:
    """Seconds of one pass."""
    return split_pass(cost, efficiency).whole


def split_added(cost: Any, efficiency: Efficiency) -> PassSeconds:
    """Seconds that a prompt's chunk adds to passes that run anyway: weights and launches are paid already."""
    products = cost.products_s / efficiency.products + cost.attention_s / efficiency.attention
    rest = (
        cost.scores_s / efficiency.memory
        + cost.scan_s / (efficiency.memory * efficiency.scan)
        + cost.link_s / efficiency.link
    )
    return PassSeconds(0.0, products, rest)


def added_seconds(cost: Any, efficiency: Efficiency) -> Number:
    """The same in all, one part after the other."""
    added = split_added(cost, efficiency)
    return added.products + added.rest


def compute_times(
    s: Any, output: Number, decode: Efficiency, prefill: Efficiency, waits: WaitFactors, step: Number = None
) -> LoadTimes:
    """Times of a load. `s` holds the passes (steps.Steps), `output` tokens of a request.

    `step` replaces the seconds of a decode step per token (speculative decoding makes several at once).
    """
    if step is None:
        many, few = pass_seconds(s.decode, decode), pass_seconds(s.few, decode)
        step = (many + few + abs(many - few)) / 2  # the larger, of numbers or arrays
    prompt = pass_seconds(s.prefill, prefill) * s.chunks
    others = s.batch - 1
    joined = (
        s.joins * added_seconds(s.prefill, prefill) * s.chunks + (1 - s.joins) * prompt
    )  # what a prompt takes from others
    delay = waits.mixing * joined / s.side_by_side  # by one prompt
    between = step + others * waits.sequence + s.delaying * delay / output
    request = output * between + prompt + waits.fixed
    # all work is done by the same devices, whoever waits for it: nothing of a prompt is free for all, and replicas that
    # wait for each other's prompts do nothing else
    cycle = output * (step + others * waits.sequence) + s.delaying * joined / s.side_by_side + prompt + waits.fixed
    busy = others * delay / request
    start = waits.together * others / 2 * (joined + waits.fixed)  # behind half of those that come at once
    turn = waits.queue * joined * busy / 2 / (1 - busy + 1 / s.batch)  # behind prompts that came before
    admitted = (s.asked / s.running - 1) * request
    first = prompt + waits.fixed + step + start + turn + admitted
    return LoadTimes(
        step=step,
        prompt=prompt,
        between=between,
        request=request,
        first=first,
        rate=s.running * output / cycle,
    )
