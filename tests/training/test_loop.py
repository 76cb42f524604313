"""fit against a plain loop, and stopping and resuming bit for bit."""

import itertools
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest
import torch
from small_models import (
    DRAWN,
    FIXED,
    FLOATS,
    SETTINGS,
    N,
    X,
    Y,
    batch_norm,
    difference,
    mlp,
    weights,
)
from torch import nn
from torch.nn.functional import softplus
from torch.utils.flop_counter import FlopCounterMode

import curvewise as cw
from curvewise.losses.baselines import FocalLoss
from curvewise.training import model as trained_model, optimizers
from curvewise.training.batches import Samples, epoch_rows, seeded
from curvewise.training.loop import DivergedError, TrainingState, conditioned, fit
from curvewise.training.recipe import Recipe

SHORT = {"epochs": 3, "batch_size": 32, "lr": 0.05, "clip_norm": 0.5}


def pictures(n=40):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 8 == 0).astype(np.int64)
    return rng.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8), y


def conv_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    )  # fmt: skip


def batches(y, family, recipe):
    """Rows and lambda of each step: an order and draws for each epoch, from their seeds."""
    for epoch in itertools.count():
        rows = epoch_rows(y, epoch, recipe)
        generator = seeded(recipe.seed_lambda, epoch)
        yield from zip(rows, family.draw(len(rows), generator=generator), strict=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", [FIXED, DRAWN], ids=["fixed", "drawn"])
@pytest.mark.usefixtures("double")
def test_fit_is_the_plain_loop(family, weighted):
    weight = 2 * torch.rand(N, dtype=torch.float64) if weighted else torch.ones(N)
    recipe = Recipe(steps=60, batch_size=32, lr=0.05, clip_norm=0.5, weight_decay=1e-3,
                    minority_per_batch=6)  # fmt: skip
    fitted = fit(mlp(0), family, X, Y, recipe, sample_weight=weight if weighted else None)
    counts = [weight[Y.eq(c)].sum().item() for c in (0, 1)]
    assert fitted.class_counts == pytest.approx(counts, rel=1e-12)
    model, (omega, gamma, _) = conditioned(mlp(0), family, recipe), family.settings.values()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    beta = counts[0] / counts[1]
    for rows, lam in itertools.islice(batches(Y, family, recipe), 60):
        logits, labels, own = model(X[rows], lam), Y[rows], weight[rows]
        tau = lam[0] if family.drawn else family.settings["tau"]
        margin = logits[:, 1] / beta**gamma - logits[:, 0] - tau * math.log(beta)
        each = torch.where(labels == 1, softplus(-margin), softplus(margin))
        both = own * torch.where(labels == 1, omega, 1 - omega)
        optimizer.zero_grad()
        ((both * each).sum() / both.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    assert difference([fitted.network], [model]) < 1e-9
    assert difference([fitted.network], [conditioned(mlp(0), family, recipe)]) > 1e-3
    assert fitted.finished
    assert fitted.steps == 60
    assert len(fitted.epoch_losses) == 10


@pytest.mark.parametrize(
    ("settings", "pull", "every"),
    [
        ({"ema_decay": 0.5}, 0.5, 5),  # an epoch has five steps
        ({"ema_decay": 0.9, "ema_every": "step"}, 0.1, 1),
        ({"ema_share": 0.2}, 1 / (0.2 * 30), 1),  # 30 steps
        ({"ema_share": 0.01}, 1, 1),  # less than a step: the last weights
    ],
    ids=str,
)
def test_the_average_is_that_of_a_plain_loop(settings, pull, every):
    recipe = Recipe(epochs=6, batch_size=32, lr=0.05, **settings)
    expected, seen = conditioned(mlp(0), DRAWN, recipe).state_dict(), []
    plain = recipe.changed(ema_decay=None, ema_share=None)
    fit(mlp(0), DRAWN, X, Y, plain, on_progress=lambda p: seen.append(p.state().model))
    for step, now in enumerate(seen, 1):
        if step % every == 0:
            expected = {name: (1 - pull) * expected[name] + pull * now[name] for name in now}
    fitted = fit(mlp(0), DRAWN, X, Y, recipe).network.state_dict()
    assert all(torch.allclose(fitted[name], expected[name], rtol=1e-12) for name in expected)


@pytest.mark.parametrize(
    ("settings", "warned"), [({"ema_decay": 0.9}, True), ({"ema_share": 0.1}, False)]
)
def test_an_average_that_lags_behind_its_run_is_warned_of(settings, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(mlp(0), FIXED, X, Y, Recipe(epochs=8, batch_size=32, **settings))
    assert ["50 of 40 steps" in str(each.message) for each in caught] == [True] * warned


def trained(seed=0, family=DRAWN, **more):
    """A network that keeps statistics and draws numbers, by a short recipe with other settings."""
    given = {n: more.pop(n) for n in ("state", "on_progress", "sample_weight") if n in more}
    return fit(batch_norm(seed), family, FLOATS, Y, Recipe(**{**SHORT, **more}), **given)


def stopped_at(step):
    return lambda progress: progress.step == step


VARIANTS = {
    **SETTINGS,
    "sam over adamw": {"rho": 0.05, "optimizer": "adamw", "lr": 0.01},
    "bfloat16": {"precision": "bfloat16"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_stopping_anywhere_and_resuming_gives_the_same_bits(variant):
    settings = {**VARIANTS[variant], "sample_weight": 0.5 + torch.rand(N)}
    whole = trained(**settings)
    assert whole.steps in (15, 18)  # the last two batches smaller: an epoch has one more
    for stop in (1, 5, 7):
        first = trained(**settings, on_progress=stopped_at(stop))
        assert (first.steps, first.finished) == (stop, False)
        # The network that goes on has other initial weights: everything must come from the state.
        second = trained(5, **settings, state=first.state)
        assert torch.equal(weights(second.network), weights(whole.network))
        assert second.epoch_losses == whole.epoch_losses


def test_images_of_a_memory_map_are_resumed_to_the_same_bits_as_those_of_an_array(tmp_path):
    x, y = pictures()
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    recipe = Recipe(epochs=3, batch_size=8, augment="resized-crop-flips", lr=0.05)
    whole_objective, objective, again = (cw.AUCMarginLoss() for _ in range(3))
    scale = {"normalization": ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))}
    whole = fit(conv_network(), whole_objective, x, y, recipe, **scale)
    first = fit(conv_network(), objective, mapped, y, recipe, on_progress=stopped_at(8), **scale)
    second = fit(conv_network(), again, mapped, y, recipe, state=first.state, **scale)
    assert torch.equal(weights(second.network), weights(whole.network))
    assert torch.equal(again.mean_positive, whole_objective.mean_positive)
    assert again.mean_positive.item() != 0


def test_killed_with_sigkill_and_resumed_gives_the_same_bits(tmp_path):
    script = textwrap.dedent(
        """
        import os, sys, time, torch
        torch.set_num_threads(1)  # the sum of a product depends on how it is shared out
        sys.path.insert(0, sys.argv[1])
        from test_loop import trained
        path = sys.argv[2]

        def keep(progress):
            torch.save(vars(progress.state()), path + ".part")
            os.replace(path + ".part", path)
            if progress.step >= 5:
                print("ready", flush=True)
                time.sleep(60)

        trained(rho=0.05, on_progress=keep)
        """
    )
    path = tmp_path / "state.pt"
    command = [sys.executable, "-c", script, os.path.dirname(__file__), str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    state = TrainingState(**torch.load(path, weights_only=True))
    assert state.step == 5
    resumed = trained(9, rho=0.05, state=state)
    assert torch.equal(weights(resumed.network), weights(trained(rho=0.05).network))


def test_ctrl_c_stops_after_the_step():
    def interrupt(progress):
        if progress.step == 4:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    fitted = trained(on_progress=interrupt)
    assert (fitted.steps, fitted.finished) == (4, False)
    assert signal.getsignal(signal.SIGINT) is before


def test_fit_works_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(trained()))
    thread.start()
    thread.join()
    assert found[0].finished


def test_a_loss_that_is_not_finite_names_step_and_settings():
    x = X.clone()
    x[3] = float("nan")
    with pytest.raises(DivergedError, match=r"the loss is nan at step \d+ of 15 .*tau=1.0"):
        fit(mlp(0), FIXED, x, Y, Recipe(**SHORT))


def test_seeds_are_separate_and_the_global_generator_is_left_alone():
    state, same = torch.get_rng_state(), weights(trained().network)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(weights(trained().network), same)
    for name in ("seed_weights", "seed_order", "seed_lambda"):
        assert not torch.equal(weights(trained(**{name: 1}).network), same)
    fixed, other = trained(family=FIXED), trained(family=FIXED, seed_lambda=1)
    assert torch.equal(weights(fixed.network), weights(other.network))


def test_logits_are_the_networks_at_each_lambda_in_evaluation_mode(monkeypatch):
    monkeypatch.setattr(trained_model, "BATCH_VALUES", 1)  # batches of 16
    network = trained().network
    lams = torch.tensor([[0.0], [3.0]])
    network.train()
    logits = trained_model.logits_at(network, FLOATS, lams)
    assert network.training
    network.eval()
    for lam, found in zip(lams, logits, strict=True):
        torch.testing.assert_close(found, network(FLOATS, lam).detach())


def test_an_objective_that_knows_no_weights_still_trains_without():
    class Plain(FocalLoss):
        def loss(self, logits, target, lam, *, class_counts):
            return nn.functional.cross_entropy(logits, target)

    recipe = Recipe(steps=2, label_smoothing=0.1)
    assert fit(mlp(0), Plain(), X, Y, recipe).finished


@pytest.mark.parametrize(("width", "threads"), [(4, 1), (4000, 2)])
def test_small_networks_train_with_one_thread_and_give_the_others_back(width, threads):
    seen, network = [], nn.Sequential(nn.Linear(40, width), nn.Linear(width, 2))
    x, y = torch.randn(200, 40), torch.arange(200) % 2
    torch.set_num_threads(2)
    try:
        fit(network, FIXED, x, y, Recipe(steps=1),
            on_progress=lambda progress: seen.append(torch.get_num_threads()))  # fmt: skip
        assert [*seen, torch.get_num_threads()] == [threads, 2]
    finally:
        torch.set_num_threads(1)


def test_auto_compiles_long_convolutional_runs_only(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda model: asked.append(1) or model)
    x, y = pictures(20)
    assert not fit(conv_network(), FIXED, x, y, Recipe(steps=2)).compiled
    # A forward of the convolution, twice that backward; SAM goes there and back twice.
    samples, model = (
        Samples(x, torch.device("cpu")),
        conditioned(conv_network(), FIXED, Recipe(steps=1)),
    )
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.body(samples.prepared(samples.raw(torch.arange(1))))
    for rho, passes in ((0.0, 3), (0.1, 6)):
        recipe = Recipe(steps=9, batch_size=10, rho=rho)
        for worth, long in ((0.99, True), (1.01, False)):
            operations = counter.get_total_flops() * passes * 10 * 9
            monkeypatch.setattr(optimizers, "WORTH_COMPILING", worth * operations)
            assert optimizers.is_long(model, samples, recipe, 9) == long
    monkeypatch.setattr(optimizers, "WORTH_COMPILING", 1e5)
    assert fit(conv_network(), FIXED, x, y, Recipe(steps=2)).compiled
    assert asked == [1]
    assert not fit(conv_network(), FIXED, x, y, Recipe(steps=2, compile="never")).compiled


@pytest.mark.parametrize("late", [False, True])
def test_training_goes_on_uncompiled_where_there_is_no_compiler(monkeypatch, late):
    def broken(model):
        def fails(x, lam):
            raise torch._dynamo.exc.TorchDynamoException("no compiler here\nlong story")

        if late:
            return fails
        raise RuntimeError("no compiler here\nlong story")

    plain = trained(epochs=1)
    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(UserWarning, match="training goes on uncompiled: no compiler here$") as seen:
        fitted = trained(epochs=1, compile="always")
    assert len(seen) == 1
    assert torch.equal(weights(fitted.network), weights(plain.network))
