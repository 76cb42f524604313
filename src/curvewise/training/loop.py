"""`fit`: train one model. Yields and accepts state objects; files are the shells' business."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned
from curvewise.training.batches import seeded
from curvewise.training.recipe import Recipe
from curvewise.training.run import Normalization, Run, TrainingState

SMALL_STEP = 10_000_000  # products of a forward pass below which one thread is faster


@dataclass(frozen=True)
class Progress:
    """Where a run is; `state()` captures it for resuming."""

    step: int
    steps: int
    epoch: int
    loss: float
    seconds: float
    state: Callable[[], TrainingState]


@dataclass
class Fitted:
    """A trained model with what is needed to use it and to know how it came about."""

    network: Conditioned
    objective: Objective
    recipe: Recipe
    class_counts: tuple[float, ...]
    normalization: Normalization | None
    epoch_losses: list[float]
    steps: int
    finished: bool
    compiled: bool
    seconds: float
    state: TrainingState = field(repr=False)


def fit(
    network: nn.Module,
    family: Objective,
    x: NDArray[Any] | Tensor,
    y: NDArray[Any] | Tensor,
    recipe: Recipe,
    *,
    normalization: Normalization | None = None,
    sample_weight: NDArray[Any] | Tensor | None = None,
    class_counts: Sequence[float] | None = None,
    state: TrainingState | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> Fitted:
    """Train a network over a family of losses (or with one fixed loss, or any `Objective`).

    The network is conditioned on what the family draws (see `condition`) and trained in place.
    `x` is float32 (n, d) or uint8 images (n, C, H, W), an array, a memory map or a tensor;
    `normalization` is (mean, std) per channel for images. `sample_weight` (n,) multiplies the
    samples' losses (see `vs_loss`); one with mean 1 keeps their scale. The class counts that the
    loss is told are its sums per class, or those of the labels, unless `class_counts` says others.
    `state` goes on with a stopped run, which must have had the same weights.
    `on_progress` is called after every step; returning True stops. Ctrl-C stops after the step.

    >>> from curvewise.losses.family import LossFamily
    >>> x, y = torch.randn(40, 3), torch.arange(40) % 10 // 9
    >>> fitted = fit(nn.Linear(3, 2), LossFamily(tau=1.0), x, y, Recipe(epochs=2))
    >>> fitted.steps, fitted.class_counts
    (2, (36, 4))
    """
    run = Run(network, family, x, y, recipe, normalization, sample_weight, class_counts)
    if state is not None:
        run.restore(state)
    started = time.perf_counter()
    with _interrupt_flag() as interrupted, _training_noise(run, state), _fitting_threads(run):
        for loss in run.steps_left():
            stop = on_progress is not None and on_progress(
                Progress(
                    run.step,
                    run.steps,
                    (run.step - 1) // run.per_epoch,
                    loss,
                    time.perf_counter() - started,
                    run.capture,
                )
            )
            if stop or interrupted.is_set():
                break
        final = run.capture()
    run.finish()
    return Fitted(
        network=run.model.eval(),
        objective=family,
        recipe=recipe,
        class_counts=run.class_counts,
        normalization=normalization,
        epoch_losses=run.epoch_losses,
        steps=run.step,
        finished=run.step >= run.steps,
        compiled=run.compiled,
        seconds=time.perf_counter() - started,
        state=final,
    )


@contextmanager
def _fitting_threads(run: Run) -> Iterator[None]:
    """Train small networks of vectors with one thread.

    A step of theirs is shorter than what threads need to find each other, and on a busy machine
    those that are there wait, spinning, for those that are not: a hundred times longer.
    """
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    small = not run.samples.pixels and weights * run.recipe.batch_size < SMALL_STEP
    before = torch.get_num_threads()
    if run.device.type != "cpu" or not small or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _training_noise(run: Run, state: TrainingState | None) -> Iterator[None]:
    """Seed the global generator, which dropout uses, and give it back as it was."""
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        if state is None:
            torch.manual_seed(seeded(run.recipe.seed_order, 2 << 32).initial_seed())
        else:
            torch.set_rng_state(state.global_generator)
        yield


@contextmanager
def _interrupt_flag() -> Iterator[threading.Event]:
    """Make the first Ctrl-C a flag, so that no step is cut in half; a second one raises."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if flag.is_set() and callable(before):
            before(number, frame)
        flag.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
