"""Recipes: all errors at once, presets as published, the learning rate against PyTorch's."""

import pytest
import torch
from torch.optim import lr_scheduler as schedules

import curvewise as cw
from curvewise.training.recipe import PRESETS, Recipe, average_reach, learning_rate, preset


def test_all_errors_are_reported_at_once_in_one_sentence():
    with pytest.raises(cw.InputError) as caught:
        Recipe(epochs=0, lr=-1, optimizer="sdg", bathc_size=3, momentum="x", augment="crop-flp")
    text, misspelt = str(caught.value), "'bathc_size' is no setting; did you mean 'batch_size'?"
    found = ("epochs must be", "got 0", "lr must be", "got -1", "'sdg'", "momentum", misspelt)
    for part in (*found, "augment must be", "got 'crop-flp'"):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "epochs and steps .* None and None"),
        ({"epochs": 2, "steps": 2}, "epochs and steps .* 2 and 2"),
        ({"epochs": 9, "schedule": "step"}, "milestones go together"),
        ({"epochs": 9, "milestones": (3,)}, "milestones go together"),
        ({"epochs": 9, "schedule": "step", "milestones": (5, 3)}, r"milestones .*\[5.0, 3.0\]"),
        ({"epochs": 9, "lr": float("nan")}, "lr .* nan"),
        ({"epochs": 1, "batch_size": 8, "minority_per_batch": 8}, "minority_per_batch .* 8, got 8"),
        ({"epochs": 1, "minority_per_batch": -1}, "minority_per_batch .* -1"),
        ({"epochs": 1, "ema_decay": 0.9, "ema_share": 0.2}, "ema_share can be .* 0.9 and 0.2"),
    ],
)
def test_settings_must_fit_together(settings, words):
    with pytest.raises(cw.InputError, match=words):
        Recipe(**settings)


def test_a_recipe_is_frozen_and_changes_by_copy():
    recipe = Recipe(epochs=2)
    with pytest.raises(Exception, match="frozen"):
        recipe.lr = 1.0
    assert recipe.changed(steps=7).epochs is None
    assert recipe.changed(steps=7).changed(epochs=3).steps is None
    shared = recipe.changed(ema_decay=0.9).changed(ema_share=0.1)
    assert shared.ema_decay is None
    assert shared.changed(ema_decay=0.9).ema_share is None
    assert recipe.with_seed(4).seed_lambda == 4
    with pytest.raises(cw.InputError, match="did you mean 'lr'"):
        recipe.changed(lrr=1.0)


@pytest.mark.parametrize(
    ("name", "value"), [("minority_per_batch", 3), ("input_noise", 0.5), ("ema_share", 0.1)]
)
def test_a_recipe_without_later_settings_is_written_as_it_always_was(name, value):
    recipe = Recipe(epochs=1)
    assert name not in recipe.model_dump()
    assert name not in recipe.model_dump(mode="json")
    some = recipe.changed(**{name: value})
    assert some.model_dump()[name] == value
    assert Recipe(**some.model_dump()) == some != recipe
    assert Recipe(**recipe.model_dump()) == recipe
    assert some.changed(**{name: getattr(recipe, name)}) == recipe


def test_presets_are_the_papers():
    cifar = preset("paper-cifar")
    assert (cifar.epochs, cifar.batch_size, cifar.lr, cifar.momentum) == (500, 128, 0.1, 0.9)
    assert (cifar.clip_norm, cifar.weight_decay, cifar.ema_decay) == (0.5, 2e-4, 0.9)
    rates = [learning_rate(cifar, e * 40, 20_000, 40) for e in (0, 4, 5, 399, 400, 450)]
    assert rates == pytest.approx([0.1 / 200, 0.1 * 161 / 200, 0.1, 0.1, 0.01, 0.001])
    text = preset("paper-cifar-text")
    rates = [learning_rate(text, e * 40, 20_000, 40) for e in (0, 400, 450)]
    assert rates == pytest.approx([0.1, 1e-3, 1e-5])
    dogs = preset("paper-dogs-cats")
    rates = [learning_rate(dogs, e, 30, 1) for e in (14, 15, 20, 25)]
    assert rates == pytest.approx([1e-2, 1e-3, 1e-4, 1e-5])
    rates = [learning_rate(preset("paper-melanoma"), e, 10, 1) for e in (4, 5)]
    assert rates == pytest.approx([1e-2, 1e-3])
    lengths = {name: (preset(name).epochs, preset(name).weight_decay) for name in PRESETS}
    assert lengths == {
        "paper-cifar": (500, 2e-4),
        "paper-cifar-text": (500, 0),
        "paper-melanoma": (10, 1e-3),
        "paper-dogs-cats": (30, 1e-6),
        "tabular": (60, 0.1),
        "quick": (10, 0),
    }
    assert all(preset(name).batch_size for name in PRESETS)
    with pytest.raises(cw.InputError, match="did you mean 'paper-cifar'"):
        preset("paper-cifr")


def test_a_presets_parts_keep_their_share_of_a_shorter_run():
    whole, short = preset("paper-cifar"), preset("paper-cifar", epochs="40")
    assert (short.milestones, short.warmup_epochs) == ((32.0, 36.0), 0.4)
    assert short.ema_decay is None
    reaches = [average_reach(recipe, recipe.epochs * 40, 40) for recipe in (whole, short)]
    assert reaches == pytest.approx([10 * 40, 10 * 40 * 40 / 500])
    for share in (0.005, 0.6, 0.79, 0.81, 0.91):
        runs = [(recipe, recipe.epochs * 50) for recipe in (whole, short)]
        rates = [learning_rate(r, round(share * n) - 1, n, 50) for r, n in runs]
        assert rates[0] == pytest.approx(rates[1])
    assert preset("paper-cifar", epochs=500) == whole
    assert preset("paper-cifar", epochs=40, milestones=(9,), ema_decay=None).milestones == (9.0,)
    assert preset("paper-cifar", epochs=40, ema_decay=None).ema_share is None
    assert preset("paper-cifar", epochs=40, ema_decay=0.5).ema_share is None
    assert preset("quick", epochs=20).warmup_epochs == preset("quick").warmup_epochs


SCHEDULES = {
    "cosine": ({}, lambda o: schedules.CosineAnnealingLR(o, 12)),
    "step": ({"milestones": (1, 2), "decay": 0.3}, lambda o: schedules.MultiStepLR(o, [4, 8], 0.3)),
    "constant": ({"warmup_epochs": 1}, lambda o: schedules.LinearLR(o, 0.25, 1.0, 3)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_learning_rate_is_pytorchs(name):
    settings, make = SCHEDULES[name]
    recipe = Recipe(epochs=3, lr=0.4, schedule=name, **settings)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedule = make(optimizer)
    for step in range(12):
        assert learning_rate(recipe, step, 12, 4) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
