"""What training refuses, in a sentence that names the parameter and the value."""

import numpy as np
import pytest
import torch
from small_models import DRAWN, FIXED, LCT, VS, N, X, Y, mlp, recipe, recipes

from curvewise.base.errors import InputError
from curvewise.losses.baselines import FocalLoss, LDAMLoss
from curvewise.losses.family import LossFamily
from curvewise.networks.architectures import MLP
from curvewise.networks.conditioning import condition
from curvewise.training.loop import fit
from curvewise.training.stacked import fit_stacked
from curvewise.training.stacked_network import stacked_scores


def weight(place, value, shape=(N,)):
    ones = np.ones(shape)
    ones[place] = value
    return ones


def one(**change):
    return fit(mlp(0), FIXED, **{"x": X, "y": Y, "recipe": recipe(), **change})


def stack(**change):
    arguments = {"families": VS, "x": X, "y": Y, "recipe": recipes(), **change}
    return fit_stacked(mlp, **arguments)


def others(**change):
    first, *rest = recipes()
    return [first.changed(**change), *rest]


def resumed(**change):
    state = one(on_progress=lambda progress: True).state
    return one(recipe=recipe(**change), state=state)


def scored(lams, n_classes=2):
    networks = [condition(MLP(6, n_classes), DRAWN) for _ in range(3)]
    return stacked_scores(networks, X.float(), torch.zeros(lams))


RARE = slice(0, None, 10)
ONE_RARE = weight((1, RARE), 0, (3, N))
WEIGHTED = [LossFamily([0.3, 0.7]), LossFamily([0.4, 0.6]), VS[0]]
IMAGES = {"input_scale": torch.ones(3, 6), "x": X.reshape(N, 6, 1, 1)}
BAD = {
    "no rare class": (one, {"y": torch.zeros(N).long()}, r"y .* counts \[150, 0\]"),
    "few labels": (one, {"y": torch.zeros(3).long()}, r"y .*\(150,\), got \(3,\)"),
    "float labels": (one, {"y": Y.float()}, r"y .* torch.float32"),
    "labels below 0": (one, {"y": Y - 1}, "y .* from -1"),
    "no samples": (one, {"x": X[:0]}, "x .* got none"),
    "device": (one, {"recipe": recipe(device="gpu")}, "device .* 'gpu'"),
    "another recipe": (resumed, {"lr": 0.2}, r"lr = 0.1 \(got 0.2\)"),
    "a later setting": (resumed, {"minority_per_batch": 3}, r"minority_per_batch = 0 \(got 3\)"),
    "few weights": (one, {"sample_weight": np.ones(N - 1)}, r"sample_weight .*\(149,\)"),
    "rows of weights": (one, {"sample_weight": np.ones((3, N))}, r"sample_weight .*\(3, 150\)"),
    "one weight": (one, {"sample_weight": 1.0}, r"sample_weight .* \(\)"),
    "a weight below 0": (one, {"sample_weight": weight(3, -0.5)}, "sample_weight .* -0.5"),
    "no number": (one, {"sample_weight": weight(3, np.nan)}, "sample_weight .* nan"),
    "text": (one, {"sample_weight": np.array(["a"] * N)}, "sample_weight .* 'a'"),
    "one class": (one, {"sample_weight": weight(RARE, 0)}, r"sample_weight .* \[135.0, 0.0\]"),
    "for a member": (stack, {"sample_weight": ONE_RARE}, r"sample_weight .* member 1, .*, 0.0\]"),
    "few rows": (stack, {"sample_weight": np.ones((2, N))}, r"sample_weight .*\(2, 150\)"),
    "class counts": (one, {"class_counts": (5, 4, 3)}, "class_counts .* 2 classes"),
    "no family": (stack, {"families": []}, "at least one family"),
    "draws": (stack, {"families": [*VS[:2], LCT[0]]}, "draw the same"),
    "settings": (stack, {"families": [FocalLoss(), FocalLoss(3.0), FocalLoss()]}, "same loss"),
    "losses": (stack, {"families": [FocalLoss(), LDAMLoss(), VS[0]]}, "same loss, .*LDAMLoss"),
    "reduction": (stack, {"families": [*VS[:2], LossFamily(reduction="sum")]}, "reduction, .*sum"),
    "class weights": (stack, {"families": WEIGHTED}, r"class weights, .*\(0.4, 0.6\)"),
    "few families": (stack, {"families": VS[:2]}, "recipe for each of 2 .* 3"),
    "batch size": (stack, {"recipe": others(batch_size=64)}, "other batch_size"),
    "order": (stack, {"recipe": others(seed_order=4)}, "other seed_order"),
    "two": (stack, {"recipe": others(rho=0.1, schedule="cosine")}, "other rho, schedule"),
    "chunk": (stack, {"chunk": 0}, "chunk .* got 0"),
    "twice": (stack, {"snapshots": (0.5, 0.5)}, r"snapshots .*\[0.5, 0.5\]"),
    "at 0": (stack, {"snapshots": (0.0, 0.5)}, "snapshots .* got 0"),
    "at 1": (stack, {"snapshots": (0.5, 1.0)}, "snapshots .* got 1"),
    "few scales": (stack, {"input_scale": torch.ones(2, 6)}, r"input_scale .*\(2, 6\)"),
    "columns": (stack, {"input_scale": torch.ones(3, 5)}, r"input_scale .*\(3, 5\)"),
    "no rows": (stack, {"input_scale": torch.ones(6)}, r"input_scale .*\(6,\)"),
    "nan": (stack, {"input_scale": torch.full((3, 6), torch.nan)}, "input_scale .* finite"),
    "of images": (stack, IMAGES, r"input_scale .*\(150, 6, 1, 1\)"),
    "a lambda": (scored, {"lams": (1,)}, r"lams .* \(1,\)"),
    "no lambda": (scored, {"lams": (3, 0, 1)}, r"lams .* \(3, 0, 1\)"),
    "two members": (scored, {"lams": (2, 1, 1)}, r"lams .* \(2, 1, 1\)"),
    "three classes": (scored, {"lams": (1, 1), "n_classes": 3}, "two classes, got 3"),
}  # fmt: skip


@pytest.mark.parametrize(("function", "change", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused(function, change, words):
    with pytest.raises(InputError, match=words) as caught:
        function(**change)
    assert "\n" not in str(caught.value)
