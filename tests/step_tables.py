"""A step table by hand, for simulations."""

from advisor.speed.step_table import Prompts, StepLimits, StepTable


def make_table(
    running: int = 64,
    pool: int | None = None,
    chunk: int = 512,
    prompts: Prompts = "joined",
    replicas: int = 1,
    ahead: bool = False,
) -> StepTable:
    """Steps of 10 ms, 0.1 ms more a sequence, 20 us a token of a prompt."""
    rows = tuple((0.01 + 1e-4 * n, 0.01 + 1e-4 * n) for n in (1, 1024))
    nothing = ((0.0, 0.0), (0.0, 0.0))
    return StepTable(
        limits=StepLimits(running, pool, chunk, prompts, ahead), replicas=replicas, sequences=(1, 1024), depth=1000.0,
        memory=nothing, products=nothing, rest=rows, least=0.0, experts=(), read=(0.0, 0.0),
        read_rest=(2e-5, 2e-5), sequence=0.0, around=(1 / 1.2, 1.2),
    )  # fmt: skip
