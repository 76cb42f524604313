"""GLMC in training: mixtures of samples with partners, by a plain loop, resumed bit for bit."""

import numpy as np
import pytest
import torch
from small_models import N, difference, mlp, table, weights

import curvewise as cw
from curvewise.losses.glmc import GLMCLoss, glmc_loss
from curvewise.networks.architectures import SmallCNN
from curvewise.training.batches import epoch_rows, seeded
from curvewise.training.loop import conditioned, fit
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked

RECIPE = Recipe(epochs=3, batch_size=32, lr=0.05, clip_norm=0.5, compile="never")


def test_training_is_that_of_a_plain_loop():
    x, y = table()
    settings = {"power": 0.5, "consistency": 2.0}
    objective = GLMCLoss(**settings, sampling=0.5)
    fitted = fit(mlp(0), objective, x, y, RECIPE)

    model, own = conditioned(mlp(0), objective, RECIPE), GLMCLoss()
    with torch.random.fork_rng():
        torch.manual_seed(seeded(RECIPE.seed_weights, 2).initial_seed())
        own.attach(model.linear)
    parameters = [*model.parameters(), *own.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    batches = [rows for epoch in range(3) for rows in epoch_rows(y, epoch, RECIPE)]
    for step, rows in enumerate(batches):
        generator = seeded(RECIPE.seed_order, (3 << 32) + step)
        chances = [(y == label).sum().item() ** -0.5 for label in y]
        chances = torch.tensor(chances, dtype=torch.float64)
        partners = torch.multinomial(chances, len(rows), True, generator=generator)
        share = torch.rand(3, generator=generator)[0].item()
        mixed = share * x[rows] + (1 - share) * x[partners]
        foreign = torch.randperm(6, generator=generator)[: round(6 * (1 - share))]
        cut = x[rows].clone()
        cut[:, foreign] = x[partners][:, foreign]
        left = 1 - len(foreign) / 6
        features = [model.features(view) for view in (mixed, cut)]
        z = [own.head(each) for each in features]
        h = [own.projection(each) for each in features]
        u = [own.prediction(each) for each in h]
        logits = [model.linear(each) for each in features]
        loss = glmc_loss(
            *(torch.stack(each) for each in (z, logits, h, u)),
            torch.stack([y[rows], y[partners]]),
            share=torch.tensor([share, left]),
            class_counts=((y == 0).sum().item(), (y == 1).sum().item()),
            progress=step / len(batches),
            **settings,
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
    assert difference([fitted.network], [model]) < 1e-9
    assert difference([fitted.network], [conditioned(mlp(0), objective, RECIPE)]) > 1e-3


@pytest.mark.parametrize("settings", [{}, {"rho": 0.1}, {"optimizer": "adamw"}], ids=str)
def test_a_run_of_images_is_resumed_to_the_same_bits(settings):
    y = (np.arange(60) % 6 == 0).astype(np.int64)
    x = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
    short = {"epochs": 2, "batch_size": 16, "lr": 0.01, "compile": "never"}
    recipe = Recipe(**short, augment="crop-flip", **settings)

    def run(stop=None, **more):
        torch.manual_seed(0)
        network, stopping = SmallCNN(3, width=4), lambda progress: progress.step == stop
        return fit(network, GLMCLoss(), x, y, recipe, on_progress=stopping, **more)

    whole, first = run(), run(stop=3)
    assert not first.finished
    assert torch.equal(weights(run(state=first.state).network), weights(whole.network))


def test_shares_of_a_cut_are_those_of_its_pixels():
    ones, zeros = torch.ones(3, 2, 9, 7), torch.zeros(3, 2, 9, 7)
    found = []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        views, shares = GLMCLoss().views([ones] * 2, [zeros] * 2, generator)
        assert views.shape == (2, 3, 2, 9, 7)
        torch.testing.assert_close(views.flatten(1).mean(1), shares.float())
        assert views[0].unique().numel() == 1
        assert set(views[1].unique().tolist()) <= {0.0, 1.0}
        found.append(shares.tolist())
    assert np.ptp(found, axis=0) == pytest.approx([1, 1], abs=0.4)


@pytest.mark.parametrize("sampling", [0, 0.2, 1])
def test_partners_are_of_rare_classes_more_often(sampling):
    y = torch.arange(200) % 20 // 19
    chances = GLMCLoss(sampling=sampling).chances(y)
    odds = chances[y == 0].sum() / chances[y == 1].sum()
    assert odds == pytest.approx(19 ** (1 - sampling))


def test_a_stack_trains_its_members_one_by_one_and_what_cannot_be_is_refused():
    x, y = table()
    fitted = fit_stacked(mlp, [GLMCLoss(), GLMCLoss(consistency=1.0)], x, y, RECIPE)
    assert fitted.how.startswith("one by one")
    alone = fit(mlp(1), GLMCLoss(consistency=1.0), x, y, fitted.recipes[1])
    assert torch.equal(weights(fitted.networks[1]), weights(alone.network))
    with pytest.raises(cw.InputError, match="GLMCLoss takes neither sample weights"):
        fit(mlp(0), GLMCLoss(), x, y, RECIPE, sample_weight=torch.ones(N).double())
    with pytest.raises(cw.InputError, match="label smoothing"):
        fit(mlp(0), GLMCLoss(), x, y, RECIPE.changed(label_smoothing=0.1))
    with pytest.raises(cw.InputError, match="needs fit"):
        GLMCLoss().loss(x[:2, :2], y[:2], torch.zeros(0), class_counts=(1, 1))
