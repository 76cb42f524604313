"""fit against a plain loop, stopping and resuming bit for bit, and what it refuses."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from torch import nn

import curvewise as cw
from curvewise.training.batches import epoch_batches
from curvewise.training.loop import DivergedError, fit
from curvewise.training.model import logits_at
from curvewise.training.recipe import Recipe

FIXED = cw.LossFamily(omega=0.7, gamma=0.2, tau=1.0)
DRAWN = cw.LossFamily(omega=0.7, gamma=0.2, tau=cw.LinearDensity(0.0, 3.0, 0.33))
SHORT = {"epochs": 3, "batch_size": 16, "lr": 0.05, "clip_norm": 0.5}


def data(n=70, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(n) % 10 == 0).long()
    return torch.randn(n, 5, generator=generator) + y[:, None], y


def images(n=40):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 8 == 0).astype(np.int64)
    return rng.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8), y


def network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2)
    )


def conv_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    )  # fmt: skip


def weights(fitted):
    return torch.cat([value.flatten().double() for value in fitted.network.state_dict().values()])


@pytest.mark.parametrize("family", [FIXED, DRAWN], ids=["fixed", "drawn"])
def test_fit_is_the_plain_loop(family):
    x, y = data()
    recipe = Recipe(**SHORT, weight_decay=1e-3)
    fitted = fit(network(), family, x, y, recipe)
    model = cw.condition(network(), family)
    if family.drawn:
        # FiLM's initial weights come from the recipe's own seed: take them from a run of no length.
        start = fit(network(), family, x, y, recipe, on_progress=lambda p: True)
        fresh = fit(network(), family, x, y, recipe.changed(lr=1e-30, weight_decay=0))
        assert start.steps == 1
        model.film.load_state_dict(fresh.network.film.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    for epoch in range(3):
        for batch in epoch_batches(len(y), epoch, family, recipe):
            optimizer.zero_grad()
            loss = family.loss(model(x[batch.rows], batch.lam), y[batch.rows], batch.lam,
                               class_counts=(63, 7))  # fmt: skip
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    expected = torch.cat([v.flatten().double() for v in model.state_dict().values()])
    torch.testing.assert_close(weights(fitted), expected, rtol=1e-5, atol=1e-6)
    assert fitted.finished
    assert fitted.steps == 15
    assert len(fitted.epoch_losses) == 3


VARIANTS = {
    "sgd": {},
    "adamw": {"optimizer": "adamw", "lr": 0.01},
    "sam": {"rho": 0.05},
    "sam over adamw": {"rho": 0.05, "optimizer": "adamw", "lr": 0.01},
    "average": {"ema_decay": 0.9},
    "average every step": {"ema_decay": 0.9, "ema_every": "step"},
    "cosine": {"schedule": "cosine", "warmup_epochs": 1},
    "per sample": {"draw": "sample"},
    "smoothing": {"label_smoothing": 0.1},
    "bfloat16": {"precision": "bfloat16"},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stop", [1, 7])
def test_stopping_anywhere_and_resuming_gives_the_same_bits(variant, stop):
    x, y = data()
    recipe = Recipe(**{**SHORT, **VARIANTS[variant]})
    whole = fit(network(dropout=0.3), DRAWN, x, y, recipe)
    first = fit(
        network(dropout=0.3),
        DRAWN,
        x,
        y,
        recipe,
        on_progress=lambda progress: progress.step == stop,
    )
    assert first.steps == stop
    assert not first.finished
    # The network that goes on has other initial weights: everything must come from the state.
    second = fit(network(seed=5, dropout=0.3), DRAWN, x, y, recipe, state=first.state)
    assert torch.equal(weights(second), weights(whole))
    assert second.epoch_losses == whole.epoch_losses


def test_resuming_images_with_augmentation_and_a_trainable_objective_gives_the_same_bits():
    x, y = images()
    recipe = Recipe(epochs=3, batch_size=8, augment="crop-flip", lr=0.05)
    whole_objective, objective = cw.AUCMarginLoss(), cw.AUCMarginLoss()
    whole = fit(conv_network(), whole_objective, x, y, recipe)
    first = fit(conv_network(), objective, x, y, recipe, on_progress=lambda p: p.step == 8)
    again = cw.AUCMarginLoss()
    second = fit(conv_network(), again, x, y, recipe, state=first.state)
    assert torch.equal(weights(second), weights(whole))
    assert torch.equal(again.mean_positive, whole_objective.mean_positive)
    assert again.mean_positive.item() != 0


def test_a_memory_map_trains_to_the_same_bits_as_the_array(tmp_path):
    x, y = images()
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    recipe = Recipe(epochs=2, batch_size=8, augment="resized-crop-flips")
    scale = ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    by_map, by_array = (
        fit(conv_network(), DRAWN, part, y, recipe, normalization=scale) for part in (mapped, x)
    )
    assert torch.equal(weights(by_map), weights(by_array))


def test_killed_with_sigkill_and_resumed_gives_the_same_bits(tmp_path):
    script = textwrap.dedent(
        """
        import os, sys, time, torch
        torch.set_num_threads(1)  # the sum of a product depends on how it is shared out
        sys.path.insert(0, sys.argv[1])
        from test_loop import DRAWN, SHORT, data, network
        from curvewise.training.loop import fit
        from curvewise.training.recipe import Recipe
        path = sys.argv[2]

        def keep(progress):
            torch.save(vars(progress.state()), path + ".part")
            os.replace(path + ".part", path)
            if progress.step >= 5:
                print("ready", flush=True)
                time.sleep(60)

        fit(network(), DRAWN, *data(), Recipe(**SHORT, rho=0.05), on_progress=keep)
        """
    )
    path = tmp_path / "state.pt"
    here = os.path.dirname(__file__)
    child = subprocess.Popen(
        [sys.executable, "-c", script, here, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    from curvewise.training.loop import TrainingState

    state = TrainingState(**torch.load(path, weights_only=True))
    assert state.step == 5
    recipe = Recipe(**SHORT, rho=0.05)
    resumed = fit(network(seed=9), DRAWN, *data(), recipe, state=state)
    assert torch.equal(weights(resumed), weights(fit(network(), DRAWN, *data(), recipe)))


def test_ctrl_c_stops_after_the_step():
    def interrupt(progress):
        if progress.step == 4:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    fitted = fit(network(), FIXED, *data(), Recipe(**SHORT), on_progress=interrupt)
    assert fitted.steps == 4
    assert not fitted.finished
    assert signal.getsignal(signal.SIGINT) is before


def test_fit_works_outside_the_main_thread():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(fit(network(), FIXED, *data(), Recipe(**SHORT)))
    )
    thread.start()
    thread.join()
    assert found[0].finished


def test_a_loss_that_is_not_finite_names_step_and_settings():
    x, y = data()
    x[3] = float("nan")
    with pytest.raises(DivergedError, match=r"the loss is nan at step \d+ of 15 .*tau=1.0"):
        fit(network(), FIXED, x, y, Recipe(**SHORT))


def test_training_leaves_the_global_generator_alone():
    fresh = network(dropout=0.5)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    fit(fresh, DRAWN, *data(), Recipe(**SHORT))
    assert torch.equal(torch.rand(1), expected)


def test_seeds_are_separate():
    x, y = data()
    base = Recipe(**SHORT)
    same = [weights(fit(network(), DRAWN, x, y, base)) for _ in range(2)]
    assert torch.equal(*same)
    for name in ("seed_weights", "seed_order", "seed_lambda"):
        other = weights(fit(network(), DRAWN, x, y, base.changed(**{name: 1})))
        assert not torch.equal(other, same[0])
    unmoved = weights(fit(network(), FIXED, x, y, base.changed(seed_lambda=1)))
    assert torch.equal(unmoved, weights(fit(network(), FIXED, x, y, base)))


def test_logits_are_the_networks_at_each_lambda_in_evaluation_mode():
    x, y = data()
    fitted = fit(network(), DRAWN, x, y, Recipe(**SHORT))
    lams = torch.tensor([[0.0], [3.0]])
    logits = logits_at(fitted.network, x, lams, batch_size=16)
    for lam, found in zip(lams, logits, strict=True):
        torch.testing.assert_close(found, fitted.network(x, lam).detach())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.zeros(70).long()}, r"every class at least once, got counts \[70, 0\]"),
        ({"y": torch.zeros(3).long()}, r"one label for each of 70 samples, got \(3,\)"),
        ({"y": torch.zeros(70)}, "labels 0, 1, ..., got torch.float32"),
        ({"x": torch.zeros(0, 5)}, "at least one sample, got none"),
        ({"recipe": Recipe(**SHORT, device="gpu")}, 'device must be "auto", .*got'),
    ],
)
def test_bad_input_is_refused(change, message):
    x, y = data()
    arguments = {"x": x, "y": y, "recipe": Recipe(**SHORT), **change}
    with pytest.raises(cw.InputError, match=message):
        fit(network(), FIXED, **arguments)


def test_resuming_with_another_recipe_is_refused():
    x, y = data()
    state = fit(network(), FIXED, x, y, Recipe(**SHORT), on_progress=lambda p: True).state
    with pytest.raises(cw.InputError, match="only with the recipe"):
        fit(network(), FIXED, x, y, Recipe(**{**SHORT, "lr": 0.2}), state=state)


def test_small_networks_train_with_one_thread_and_give_the_others_back():
    seen = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for width in (4, 4000):
            fit(
                torch.nn.Sequential(torch.nn.Linear(40, width), torch.nn.Linear(width, 2)),
                cw.LossFamily(),
                torch.randn(200, 40),
                torch.arange(200) % 2,
                Recipe(steps=1, epochs=None),
                on_progress=lambda progress: seen.append(torch.get_num_threads()),
            )
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2]
