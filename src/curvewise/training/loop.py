"""`fit`: train one model. Yields and accepts state objects; files are the shells' business."""

import copy
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from curvewise.base.errors import CurvewiseError, require
from curvewise.base.machine import choose_device, keep_freed_memory, torch_threads
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned, condition
from curvewise.networks.registry import Normalization
from curvewise.training.batches import Array, TrainingData, seeded
from curvewise.training.optimizers import (
    Compiled,
    Steps,
    frozen_statistics,
    is_long,
    make_optimizer,
    smoothed,
)
from curvewise.training.recipe import Recipe, learning_rate

SMALL_STEP = 10_000_000  # products of a forward pass below which one thread is faster


class DivergedError(CurvewiseError):
    """The loss was not finite; the message names the step and the settings."""


@dataclass
class TrainingState:
    """All that a run needs to go on: after `step` steps, with these tensors.

    Order, lambda and learning rate are functions of seeds and step, so they are not in here.
    """

    step: int
    model: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Any]
    average: dict[str, Tensor] | None
    augment_generator: Tensor
    global_generator: Tensor
    compiled: bool
    epoch_losses: list[float]
    loss_sum: float
    recipe: dict[str, Any]


Forward = Callable[[], Any]
LossOf = Callable[[Any], Tensor]


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
    x: Array,
    y: Array,
    recipe: Recipe,
    *,
    normalization: Normalization | None = None,
    sample_weight: Array | None = None,
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
    device = choose_device(recipe.device)
    data = TrainingData(x, y, device, normalization, sample_weight, class_counts)
    return fit_on(data, network, family, recipe, state, on_progress)


def fit_on(
    data: TrainingData,
    network: nn.Module,
    family: Objective,
    recipe: Recipe,
    state: TrainingState | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> Fitted:
    """Train as `fit` does, on data that are checked and on the device."""
    started = time.perf_counter()
    run = Run(network, family, data, recipe)
    with (
        # Dropout draws from the global generator, which is given back as it was.
        torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []),
        _interrupt_flag() as interrupted,
        _fitting_threads(run),
    ):
        run.start(state)
        for loss in run.steps_left():
            epoch, seconds = (run.step - 1) // run.per_epoch, time.perf_counter() - started
            progress = Progress(run.step, run.steps, epoch, loss, seconds, run.capture)
            stop = on_progress is not None and on_progress(progress)
            if stop or interrupted.is_set():
                break
        final = run.capture()
    run.finish()
    return Fitted(
        network=run.model.eval(),
        objective=family,
        recipe=recipe,
        class_counts=data.class_counts,
        normalization=data.normalization,
        epoch_losses=run.epoch_losses,
        steps=run.step,
        finished=run.step >= run.steps,
        compiled=run.compiled,
        seconds=time.perf_counter() - started,
        state=final,
    )


class Run(Steps):
    """One training run: model, optimiser, data and where it is."""

    def __init__(
        self, network: nn.Module, objective: Objective, data: TrainingData, recipe: Recipe
    ) -> None:
        self.objective = objective
        self.model = conditioned(network, objective, recipe).to(data.samples.device)
        self.mixes = hasattr(objective, "attach")  # GLMC: samples with partners
        if self.mixes:
            self._attach(data, recipe)
        # What of the objective is kept in a state: nothing, if it is no module.
        self.module = objective if isinstance(objective, nn.Module) else nn.Module()
        self.module.to(data.samples.device)
        super().__init__(data, recipe, self.model.state_dict)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.sample_weight = None if data.weight is None else data.weight.to(trained[0])
        self.parameters = [*trained, *objective.parameters()]
        self.optimizer = make_optimizer(self.parameters, recipe)
        self.loss_sum = 0.0
        self.epoch_losses: list[float] = []
        self.convolutions = any(isinstance(m, nn.Conv2d) for m in self.model.modules())
        self.compiled = recipe.compile == "always" and not self.mixes
        if recipe.compile == "auto" and self.convolutions and not self.mixes:
            self.compiled = is_long(self.model, data.samples, recipe, self.steps)
        self.forward: Callable[[Tensor, Tensor], Tensor] = self.model

    def _attach(self, data: TrainingData, recipe: Recipe) -> None:
        plain = data.weight is None and not recipe.label_smoothing
        objective: Any = self.objective
        name = type(objective).__name__
        require(plain, f"{name} takes neither sample weights nor label smoothing, got one of them")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeded(recipe.seed_weights, 2).initial_seed())
            objective.attach(self.model.linear)
        self.chances = objective.chances(data.labels.cpu())

    def start(self, state: TrainingState | None) -> None:
        """Seed the global generator, or go to where a state was captured, with the same recipe."""
        if state is None:
            torch.manual_seed(seeded(self.recipe.seed_order, 2 << 32).initial_seed())
            return
        before, now = dict(Recipe(**state.recipe)), dict(self.recipe)
        changed = [f"{k} = {before[k]} (got {now[k]})" for k in now if before[k] != now[k]]
        require(
            not changed,
            "a run can be resumed only with the recipe it was started with, with "
            f"{', '.join(changed)}",
        )
        state = copy.deepcopy(state)
        self.model.load_state_dict(state.model)
        self.module.load_state_dict(state.objective)
        self.optimizer.load_state_dict(state.optimizer)
        if state.average is not None:  # of a file it is on the CPU
            self.average = {name: value.to(self.device) for name, value in state.average.items()}
        self.generator.set_state(state.augment_generator)
        torch.set_rng_state(state.global_generator)
        self.compiled, self.step = state.compiled, state.step
        self.epoch_losses, self.loss_sum = state.epoch_losses, state.loss_sum

    def capture(self) -> TrainingState:
        """Return the state after the last step."""
        state = TrainingState(
            step=self.step,
            model=dict(self.tensors()),
            objective=dict(self.module.state_dict()),
            optimizer=self.optimizer.state_dict(),
            average=self.average,
            augment_generator=self.generator.get_state(),
            global_generator=torch.get_rng_state(),
            compiled=self.compiled,
            epoch_losses=self.epoch_losses,
            loss_sum=self.loss_sum,
            recipe=self.recipe.model_dump(),
        )
        return copy.deepcopy(state)  # which training does not change

    def steps_left(self) -> Iterator[float]:
        """Train step by step, yielding each loss."""
        self.model.train()
        if self.compiled:
            self.forward = Compiled(self.model)
        if self.convolutions:
            # A third faster on a CPU, compiled or not: no copies into the kernels' own layout.
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            if self.device.type == "cpu":
                keep_freed_memory()
        for rows, place in self.batches_left(self._draw):
            yield self._advance(rows, place)

    def _draw(self, epoch: int, number: int) -> None:
        generator = seeded(self.recipe.seed_lambda, epoch)
        self.lam = self.objective.draw(number, generator=generator).to(self.device)

    def _advance(self, rows: Tensor, place: slice) -> float:
        """Do one step, and return the loss before it."""
        rate = learning_rate(self.recipe, self.step, self.steps, self.per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        forward_and_loss = self._mixed(rows) if self.mixes else self._drawn(rows, place)
        closure: Any = self._closure(*forward_and_loss)
        loss: float = self.optimizer.step(closure).item()
        if not isfinite(loss):
            raise DivergedError(self.divergence(loss, rate, self.objective))
        self.loss_sum += loss
        if self.count():
            self.epoch_losses.append(self.loss_sum / self.per_epoch)
            self.loss_sum = 0.0
        return loss

    def _laid_out(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last) if self.convolutions else x

    def _drawn(self, rows: Tensor, place: slice) -> tuple[Forward, LossOf]:
        """Return forward and loss of a batch at the lambda that was drawn for it."""
        x, rows = self._laid_out(self.batch(rows)), rows.to(self.device)
        lam = self.lam[place if self.recipe.draw == "sample" else place.start]
        y, smoothing = self.data.labels[rows], self.recipe.label_smoothing
        options: dict[str, Any] = {"class_counts": self.data.class_counts}
        if self.sample_weight is not None:  # else objectives that know of no weights do as well
            options["sample_weight"] = self.sample_weight[rows]

        def loss(logits: Tensor, labels: Tensor) -> Tensor:
            return self.objective.loss(logits, labels, lam, **options)

        return lambda: self.forward(x, lam), lambda out: smoothed(loss, out, y, smoothing)

    def _mixed(self, rows: Tensor) -> tuple[Forward, LossOf]:
        """Return forward and loss of a batch that is mixed with partners, in two views."""
        objective: Any = self.objective
        generator = seeded(self.recipe.seed_order, (3 << 32) + self.step)
        labels = self.data.labels
        partners = torch.multinomial(self.chances, len(rows), True, generator=generator)
        own, others = ([self.batch(part) for _ in range(2)] for part in (rows, partners))
        views, share = objective.views(own, others, generator)
        target = torch.stack([labels[rows], labels[partners]])
        progress, shape = self.step / self.steps, views.shape[:2]
        x = self._laid_out(views.flatten(0, 1))

        def forward() -> tuple[Tensor, Tensor]:
            features = self.model.features(x)
            logits = self.model.head(features)
            return features.reshape(*shape, -1), logits.reshape(*shape, -1)

        options = {"share": share, "progress": progress, "class_counts": self.data.class_counts}
        return forward, lambda out: objective.mixed_loss(*out, target, **options)

    def _closure(self, forward: Forward, loss_of: LossOf) -> Callable[[], Tensor]:
        """Return what computes loss and gradients of a batch, which SAM calls twice.

        BatchNorm's running statistics see the first pass only: the second is at other weights.
        """
        recipe, passes = self.recipe, count()

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            with (
                torch.autocast(self.device.type, torch.bfloat16, recipe.precision == "bfloat16"),
                frozen_statistics(self.model, next(passes) > 0),
            ):
                out = forward()
            loss = loss_of(out)
            loss.backward()  # type: ignore[no-untyped-call]
            if recipe.clip_norm is not None:
                nn.utils.clip_grad_norm_(self.parameters, recipe.clip_norm)
            return loss

        return closure

    def finish(self) -> None:
        """Give the model the averaged weights, if the recipe keeps them, in the usual layout."""
        if self.convolutions:
            self.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        if self.average is not None and self.step > 0:
            self.model.load_state_dict(self.average)


def conditioned(network: nn.Module, objective: Objective, recipe: Recipe) -> Conditioned:
    """Return the network with the recipe's FiLM, its weights from the recipe's seed."""
    if isinstance(network, Conditioned):
        return network
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded(recipe.seed_weights, 1).initial_seed())
        return condition(
            network,
            objective,
            recipe.film_at,
            hidden=recipe.film_hidden,
            init=recipe.film_init,
            scale_lambda=recipe.scale_lambda,
        )


def _fitting_threads(run: Run) -> AbstractContextManager[None]:
    """Train small networks of vectors with one thread.

    A step of theirs is shorter than what threads need to find each other, and on a busy machine
    those that are there wait, spinning, for those that are not: a hundred times longer.
    """
    weights = sum(parameter.numel() for parameter in run.model.parameters())
    small = not run.data.samples.pixels and weights * run.recipe.batch_size < SMALL_STEP
    return torch_threads(1) if small and run.device.type == "cpu" else nullcontext()


@contextmanager
def _interrupt_flag() -> Iterator[threading.Event]:
    """Make the first Ctrl-C a flag, so that no step is cut in half; a second one raises."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def handle(number: int, frame: Any) -> None:
        if flag.is_set() and callable(before):
            before(number, frame)
        flag.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
