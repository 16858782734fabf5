"""Which storages a forward pass makes, how long each is needed and the peak of their bytes; runs on the meta device.

Two peaks. Eager: a storage lives as long as Python refers to it. Compiled, as torch.compile's Inductor and vLLM's
graph pieces work: results of operations between two kernels (matrix products, attention, experts, collectives) are one
fused step; what is only used within that step takes no memory, the rest lives until its last use, may take the place of
an input of the same size that ends there, and what a piece of the graph was given lives until the piece ends.
"""

from __future__ import annotations

import bisect
import weakref
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

KERNELS = {
    "mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "convolution", "topk", "sort", "_scaled_mm", "cumsum",
    "_grouped_mm", "index_put_", "nonzero", "kernel",
}  # fmt: skip
BUFFERS = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "zeros", "new_zeros"}


class Event(NamedTuple):
    """One operation: its name, whether it is a kernel of its own, storages that it reads and makes."""

    name: str
    kernel: bool
    reads: tuple[int, ...]
    makes: tuple[int, ...]


def list_tensors(values: object) -> list[torch.Tensor]:
    """All tensors in nested values."""
    return [x for x in tree_flatten(values)[0] if isinstance(x, torch.Tensor)]


class Trace(TorchDispatchMode):  # type: ignore[misc]
    """Records a forward pass that runs within it."""

    def __init__(self, code: dict[str, Any], run: set[str], splits: set[str], eager: bool) -> None:
        super().__init__()
        self.code, self.run, self.splits, self.eager = code, run, splits, eager
        self.live = self.peak = 0
        self.events: list[Event] = []
        self.sizes: dict[int, int] = {}  # bytes of each storage
        self.shapes: dict[int, str] = {}
        self.known: dict[int, int] = {}  # address of a storage that is there -> number
        self.kept: set[int] = set()  # storages that stay for good
        self.ignored: list[torch.Tensor] = []

    def ignore(self, tensors: Iterable[torch.Tensor]) -> None:
        """Leaves out parameters, buffers and inputs."""
        for x in tensors:
            self.ignored.append(x)
            self.known[x.untyped_storage()._cdata] = -1

    def number(self, x: torch.Tensor) -> int:
        """The number of a tensor's storage; -1 for those left out."""
        storage = x.untyped_storage()
        key = storage._cdata
        if key not in self.known:
            number, size = len(self.sizes), storage.nbytes()
            self.known[key] = number
            self.sizes[number] = size
            self.shapes[number] = f"{tuple(x.shape)} {str(x.dtype)[6:]}"
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self.forget, key, size)
        return self.known[key]

    def forget(self, key: int, size: int) -> None:
        """A storage is gone."""
        if self.known.pop(key, None) is not None:
            self.live -= size

    def note(self, name: str, read: object, made: object = ()) -> None:
        """One operation."""
        reads = tuple(n for x in list_tensors(read) if (n := self.number(x)) >= 0)
        first = len(self.sizes)
        makes = tuple({n for x in list_tensors(made) if (n := self.number(x)) >= first})
        self.events.append(Event(name, name in KERNELS or name.startswith("vllm::"), reads, makes))

    def __torch_dispatch__(self, work: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        space, _, name = work._schema.name.partition("::")
        if space == "vllm" and name in self.run:
            self.note(f"vllm::{name}", (args, kwargs))  # its code is a piece of its own
            with self:
                out = self.code[name](*args, **kwargs)
            self.note(f"vllm::{name}", (args, kwargs), out)
            return out
        if space == "vllm_ir" and self.eager and name.startswith(("rms_norm", "fused_add")):
            return self.run_norm(work, args, kwargs)
        # what returns nothing writes to buffers that are there
        out = work(*args, **kwargs) if space != "vllm" or work._schema.returns else None
        self.note(name if space != "vllm" else f"vllm::{name}", (args, kwargs), out)
        return out

    def run_norm(self, work: Any, args: Any, kwargs: Any) -> Any:
        """Without a compiler: the kernel adds in place; weights of another type have PyTorch's code run."""
        from vllm.ir.op import IrOp

        weight = next((x for x in args[1:] if isinstance(x, torch.Tensor) and x.dim() == 1), None)
        if weight is not None and weight.dtype != args[0].dtype:
            with self:
                return (
                    IrOp.registry[work._schema.name.split("::")[1].split(".")[0]]
                    .impls["native"]
                    .impl_fn(*args, **kwargs)
                )
        if "fused_add" in work._schema.name:
            self.note("kernel", (args, kwargs))
            return args[0], args[1]
        out = work(*args, **kwargs)
        self.note("kernel", (args, kwargs), out)
        return out

    def finish(self, out: object, workspaces: object) -> None:
        """The pass is over: `out` goes on to the sampler, workspaces stay."""
        self.note("kernel", out)
        self.kept = {self.number(x) for x in list_tensors(workspaces)}

    def find_compiled_peak(self) -> tuple[int, list[str]]:
        """Peak bytes of the compiled pass, and what is there at that time."""
        times = self.time_events()
        start, end = self.find_lives(times)
        ends: dict[int, list[int]] = defaultdict(list)
        starts: dict[int, list[int]] = defaultdict(list)
        for s, t in start.items():
            starts[t].append(s)
            ends[end[s]].append(s)
        live, peak, at = 0, 0, 0
        for t in sorted(starts.keys() | ends.keys()):
            ending = [self.sizes[s] for s in ends[t] if start[s] < t]
            live += sum(self.sizes[s] for s in starts[t])
            reused = 0
            if t % 2 == 0:  # a fused step may write over its inputs
                for s in starts[t]:
                    if self.sizes[s] in ending:
                        ending.remove(self.sizes[s])
                        reused += self.sizes[s]
            if live - reused > peak:
                peak, at = live - reused, t
            live -= sum(self.sizes[s] for s in ends[t])
        alive = [s for s, t in start.items() if t <= at <= end[s] and self.sizes[s] * 50 > peak]
        return peak, [f"{self.shapes[s]} {start[s]}..{end[s]}" for s in alive] + [f"at {at}", self.events[at // 2].name]

    def time_events(self) -> list[int]:
        """Time of each event: odd for a kernel, the even number before the next kernel for steps that are fused."""
        times, following = [0] * len(self.events), len(self.events)
        for i in range(len(self.events) - 1, -1, -1):
            if self.events[i].kernel:
                following = i
            times[i] = 2 * following + 1 if self.events[i].kernel else 2 * following
        return times

    def find_lives(self, times: list[int]) -> tuple[dict[int, int], dict[int, int]]:
        """First and last time of each storage that takes memory."""
        start: dict[int, int] = {}
        end: dict[int, int] = {}
        for event, t in zip(self.events, times, strict=True):
            for s in event.makes:
                if event.name not in BUFFERS:
                    start[s] = t
            for s in event.reads:
                start.setdefault(s, t)  # a buffer is there from its first use
                end[s] = t
        for event, t in zip(self.events, times, strict=True):  # a buffer that nothing uses is there all the same
            start |= {s: t | 1 for s in event.makes if s not in start}
        last = 2 * len(self.events)
        start = {s: t for s, t in start.items() if end.get(s, t) > t or t % 2}
        pieces = [t for event, t in zip(self.events, times, strict=True) if event.name.split("::")[-1] in self.splits]
        for s, t in start.items():
            end[s] = last if s in self.kept else self.hold(t, end.get(s, t), pieces)
        return start, end

    def hold(self, start: int, end: int, pieces: list[int]) -> int:
        """The last time of a storage: that of the piece of the graph that was given it."""
        first, then = bisect.bisect_right(pieces, start), bisect.bisect_left(pieces, end)
        if then >= len(pieces) or first > then or (first == then and not (first and pieces[first - 1] >= start)):
            return end
        return max(end, pieces[then] - 1)
