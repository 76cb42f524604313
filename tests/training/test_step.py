"""What a step is made of: BatchNorm under SAM, label smoothing, clipping, augmentation, noise."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import kstest
from torch import nn

import curvewise as cw
from curvewise.training.batches import (
    TrainingData,
    augment,
    random_crop,
    random_flip,
    random_resized_crop,
)
from curvewise.training.loop import fit
from curvewise.training.optimizers import Steps, smoothed
from curvewise.training.recipe import Recipe

FIXED = cw.LossFamily(tau=1.0)


def test_batch_norm_remembers_the_first_pass_only():
    x, y = torch.randn(20, 4), torch.arange(20) % 2
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    hidden = network[0](x).detach()
    expected = 0.1 * hidden.mean(0)  # momentum 0.1 from a running mean of 0
    fit(network, FIXED, x, y, Recipe(steps=1, rho=5.0))
    norm = network[1]
    torch.testing.assert_close(norm.running_mean, expected)
    assert int(norm.num_batches_tracked) == 1
    assert norm.track_running_stats


def test_label_smoothing_is_pytorchs_for_cross_entropy():
    logits, y = torch.randn(9, 3), torch.arange(9) % 3
    plain = cw.LossFamily(reduction="mean", omega=(1.0, 1.0, 1.0))

    def loss(logits, labels):
        return plain.loss(logits, labels, torch.zeros(0), class_counts=(5, 3, 1))

    found = smoothed(loss, logits, y, 0.2)
    torch.testing.assert_close(found, F.cross_entropy(logits, y, label_smoothing=0.2))


@pytest.mark.parametrize("rho", [0.0, 0.1])
def test_the_gradient_norm_is_clipped(rho):
    network = nn.Linear(2, 2, bias=False)
    before = network.weight.detach().clone()
    recipe = Recipe(steps=1, clip_norm=0.01, lr=1.0, momentum=0.0, rho=rho)
    fit(network, FIXED, 100 * torch.randn(8, 2), torch.arange(8) % 2, recipe)
    assert float((network.weight.detach() - before).norm()) == pytest.approx(0.01, rel=1e-3)


def test_random_crop_is_a_window_of_the_padded_image():
    images = torch.randint(0, 256, (30, 3, 6, 7), dtype=torch.uint8)
    cropped = random_crop(images, 2, torch.Generator().manual_seed(0))
    places = set()
    for image, found in zip(images.numpy(), cropped.numpy(), strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        matches = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if (padded[:, top : top + 6, left : left + 7] == found).all()
        ]
        assert matches
        places.update(matches)
    assert len(places) > 10


def test_random_flip_mirrors_about_half_of_the_images():
    images = torch.arange(4000.0).view(1000, 1, 1, 4)
    flipped = random_flip(images, -1, torch.Generator().manual_seed(0))
    mirrored = (flipped == images.flip(-1)).all(dim=(1, 2, 3))
    same = (flipped == images).all(dim=(1, 2, 3))
    assert bool((mirrored ^ same).all())
    assert 430 < int(mirrored.sum()) < 570


def test_random_resized_crop_keeps_constant_images_and_ramps():
    generator = torch.Generator().manual_seed(0)
    constant = torch.full((5, 3, 9, 9), 7, dtype=torch.uint8)
    torch.testing.assert_close(random_resized_crop(constant, generator), constant.float())
    ramp = torch.arange(64.0).expand(50, 1, 64, 64)
    found = random_resized_crop(ramp, generator)
    steps = found.diff(dim=-1)[..., 5:-5]
    assert float(steps.min()) >= 0.7  # the window is 70-100 % of the side or so, stretched
    assert float(steps.max()) <= 1.001
    assert float(found.std(dim=0).max()) > 0.5  # and windows differ


def test_random_resized_crops_show_65_to_100_percent_of_the_area():
    along = torch.arange(64.0).expand(64, 64) / 63
    found = random_resized_crop(
        torch.stack([along, along.T]).expand(300, 2, 64, 64), torch.Generator().manual_seed(0)
    )
    width, height = (found.amax((2, 3)) - found.amin((2, 3))).T
    area = width * height  # uniform, but that no side is longer than the image's
    assert 0.64 < area.min() < 0.68 < 0.78 < area.mean() < 0.83 < 0.96 < area.max() <= 1
    assert 0.74 < (width / height).min() < (width / height).max() < 1.35


def test_noise_is_normal_and_reproducible():
    x, y = torch.full((2000, 5), 3.0), torch.arange(2000) % 2
    data, rows = TrainingData(x, y, x.device), torch.arange(2000)

    def noisy(deviation):
        steps = Steps(data, Recipe(steps=1, input_noise=deviation), dict)
        before = steps.generator.get_state()
        return steps.batch(rows), torch.equal(steps.generator.get_state(), before)

    (first, _), (second, _) = noisy(0.5), noisy(0.5)
    assert torch.equal(first, second)
    assert kstest(((first - 3) / 0.5).flatten().numpy(), "norm").pvalue > 0.01
    plain, nothing_drawn = noisy(0.0)  # runs without noise keep their draws
    assert torch.equal(plain, x)
    assert nothing_drawn


AUGMENTATIONS = {
    "flip": [(random_flip, -1)],
    "crop-flip": [(random_crop, 4), (random_flip, -1)],
    "resized-crop-flip": [(random_resized_crop,), (random_flip, -1)],
    "resized-crop-flips": [(random_resized_crop,), (random_flip, -1), (random_flip, -2)],
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentation_is_by_name_and_reproducible(name):
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    first, second = (augment(images, name, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == images.shape
    generator, expected = torch.Generator().manual_seed(1), images
    for function, *settings in AUGMENTATIONS[name]:
        expected = function(expected, *settings, generator)
    assert torch.equal(first, expected)
