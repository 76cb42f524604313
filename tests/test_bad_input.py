"""Bad input gets one sentence that names the parameter and the value received."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import curvewise as cw
from curvewise.losses.glmc import glmc_loss
from curvewise.losses.landscape import loss_landscape
from curvewise.losses.registry import make_objective, normal_settings, parse_setting
from curvewise.networks.architectures import MLP, ResNetCifar, SmallCNN
from curvewise.networks.registry import load_weights

NAN, INF = float("nan"), float("inf")
Y, S = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]
CURVE = cw.roc_curve(Y, S)
LOGITS, TARGET = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
DENSITY = cw.LinearDensity(0, 3, 0)
FAMILY = cw.LossFamily(gamma=DENSITY, tau=DENSITY)
NETWORK = nn.Sequential(nn.Linear(2, 2))
HALF, ONE = torch.tensor(0.5), torch.ones(1)

PLAIN = (cw.roc_curve, cw.auc, cw.auc_interval, cw.bootstrap_auc, cw.binary_metrics)
STATISTICS = {statistic.__name__: statistic for statistic in PLAIN} | {
    "compare_auc": lambda y, s: cw.compare_auc(y, s, s),
    "choose_operating_point": lambda y, s: cw.choose_operating_point(y, s, max_fpr=0.1),
    "operating_point": lambda y, s: cw.operating_point(y, s, 0.5),
}
BAD_SCORED = [
    ([0, 0], [0.1, 0.2], "y must hold both classes, got only 0"),
    ([0, 1], [0.1, NAN], "score must be finite, got nan at position 1"),
    ([0, 1], [INF, 0.1], "score must be finite, got inf at position 0"),
    ([1, 2], [0.1, 0.2], "y must hold only 0 and 1, got 2"),
    ([-1, 1], [0.1, 0.2], "y must hold only 0 and 1, got -1"),
    ([0.0, NAN], [0.1, 0.2], "y must hold only 0 and 1, got nan"),
    (["a", "b"], [0.1, 0.2], "y must hold only 0 and 1, got 'a'"),
    ([], [], "must not be empty"),
    ([0, 1], [0.1, 0.2, 0.3], "same length, got shapes (2,) and (3,)"),
    ([[0, 1]], [[0.1, 0.2]], "got shapes (1, 2)"),
    ([0, 1], ["a", "b"], "score must hold numbers, got dtype"),
    ([0, 1], [1j, 2j], "score must hold numbers, got dtype complex"),
]


def refused(words, call, *arguments, **settings):
    """Call what must refuse; its sentence has all the words."""
    with pytest.raises(cw.InputError) as caught:
        call(*arguments, **settings)
    sentence = str(caught.value)
    assert [word for word in words if word not in sentence] == [], sentence
    assert "\n" not in sentence
    assert len(sentence) < 250
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, cw.CurvewiseError)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_statistics_refuse_bad_labels_and_scores(statistic, kind):
    for y, score, sentence in BAD_SCORED:
        if kind is not torch.tensor or "a" not in [*y, *score]:  # a tensor cannot hold text
            refused([sentence], STATISTICS[statistic], kind(y), kind(score))
    assert STATISTICS[statistic](kind([0, 1]), kind([0.1, 0.2])) is not None


def vs(logits=LOGITS, target=TARGET, class_counts=(100, 1), **settings):
    return cw.vs_loss(logits, target, class_counts=class_counts, **settings)


def family(lam=None, logits=LOGITS, target=TARGET, **settings):
    lam = FAMILY.at(gamma=0, tau=1) if lam is None else lam
    return FAMILY.loss(logits, target, lam, class_counts=(9, 1), **settings)


def calibrated(logits=LOGITS, omega=0.5, class_counts=(9, 1), **settings):
    at = {"omega": omega, "gamma": 0.0, "tau": 0.0, "class_counts": class_counts, **settings}
    return cw.calibrated_probability(logits, **at)


means = {"mean_positive": HALF, "mean_negative": HALF, "dual": HALF}
auc_margin = partial(cw.auc_margin_loss, torch.rand(4), TARGET, **means)
THREE = cw.LossFamily(omega=[1.0, 1.0, 1.0])
THREE_WEIGHTS = partial(THREE.loss, LOGITS, TARGET, class_counts=(9, 1))
AUC_MARGIN = partial(cw.AUCMarginLoss(), class_counts=(9, 3, 1))
module = partial(cw.VSLoss, (9, 1))
line = partial(cw.break_even, 10)
landscape = partial(loss_landscape, 10)
film = partial(cw.FiLM, 1, 2)
conditioned = partial(cw.condition, NETWORK, FAMILY)
image_network = partial(cw.build_network, in_shape=(3, 32, 32))
point = partial(cw.choose_operating_point, Y, S)

views = (torch.zeros(2, 4, 2),) * 4  # logits of two heads, and features
mixtures = {"share": torch.ones(2), "class_counts": (9, 1), "progress": 0.0}
glmc = partial(glmc_loss, *views, torch.stack([TARGET, TARGET]), **mixtures)

# A call, the parameter that its sentence names, a value that cannot be, and how that is shown if
# not as a number or by `repr`.
PARAMETERS = [
    *((vs, "omega", value) for value in (1.1, -0.1, NAN, None, "0.5")),
    (vs, "omega", torch.tensor(1.5), "got 1.5"),
    (vs, "omega", [1.0], "2 values that are not all zero, got (1.0,)"),
    (vs, "omega", [0.0, 0.0], "not all zero, got (0.0, 0.0)"),
    (vs, "omega", [1.0, -1.0], "each class weight in omega must be >= 0 and finite, got -1"),
    (vs, "gamma", -0.2),
    (vs, "gamma", torch.tensor([0.1, -0.2, 0.0, 0.0]), "got -0.2"),
    *((vs, "tau", value) for value in (-1, INF)),
    (vs, "tau", torch.zeros(3), "(4,), got shape (3,)"),
    *((vs, "class_counts", c) for c in ((100, 0), (100,), (1, NAN), (9, -1), "42", None)),
    (vs, "reduction", "weigted_mean", "did you mean 'weighted_mean'"),
    (vs, "target", TARGET.float(), "got torch.float32"),
    (vs, "target", [0, 1], "got list"),
    (vs, "sample_weight", torch.ones(3), "got (3,)"),
    (vs, "sample_weight", -torch.ones(4), "got -1"),
    (vs, "sample_weight", torch.full((4,), NAN), "got nan"),
    (vs, "sample_weight", [1.0] * 4, "got list"),
    (partial(vs, LOGITS.expand(3, 4, 2)), "sample_weight", torch.ones(2, 4), "got (2, 4)"),
    (module, "omega", 2),
    (partial(cw.VSLoss), "class_counts", (9, -1)),
    *((cw.break_even, "beta", value) for value in (0, -3)),
    *((line, name, n) for name, n in (("omega", 0), ("omega", 1), ("gamma", -1), ("tau", -1))),
    (loss_landscape, "beta", 0.5),
    *((landscape, name, n) for name, n in (("omega", 1), ("reach", 0), ("points", 1))),
    (calibrated, "omega", 1.0),
    (calibrated, "prior", 1.0),
    (calibrated, "prior", [0.5, 0.4]),
    (partial(calibrated, torch.zeros(2, 3), class_counts=(9, 3, 1)), "prior", 0.5),
    *((partial(cw.LinearDensity, 0, 3), "height_at_high", h) for h in (0.7, -0.1, NAN, "flat")),
    *((partial(cw.LinearDensity, 3, height_at_high=0.1), "high", high) for high in (3, 1, INF)),
    (partial(cw.LinearDensity, high=1, height_at_high=0.1), "low", "none"),
    *((lambda u: DENSITY.ppf([0.2, u]), "u", u, f"got {u:g}") for u in (-0.5, 1.5, NAN)),
    (cw.LossFamily, "omega", 1.5),
    (cw.LossFamily, "omega", cw.LinearDensity(0.5, 2, 0.1), "high of omega must be in [0, 1]"),
    (cw.LossFamily, "gamma", -0.5),
    (cw.LossFamily, "tau", "much"),
    (cw.LossFamily, "tau", cw.LinearDensity(-1, 1, 0.5), "low of tau must be >= 0"),
    (cw.LossFamily, "reduction", "weighted", "did you mean 'weighted_mean'"),
    (cw.LossFamily().draw, "n", -1),
    (partial(FAMILY.at, gamma=0.1), "tau", -1),
    (cw.FocalLoss, "focus", -1),
    (cw.LDAMLoss, "max_margin", -0.5),
    (cw.LDAMLoss, "scale", INF),
    (cw.AUCMarginLoss, "margin", -1),
    (cw.ldam_margins, "class_counts", [5.0, 0.0]),
    (auc_margin, "positive_rate", 1),
    (glmc, "progress", 1.5),
    *((glmc, name, -1) for name in ("power", "consistency")),
    (cw.GLMCLoss, "sampling", -1),
    (partial(cw.FiLM, n_features=64), "n_lambda", 0),
    (film, "init", "identiy", "did you mean 'identity'"),
    (film, "lambda_ranges", [(1.0, 1.0)], "pairs (low, high > low), got [(1.0, 1.0)]"),
    (conditioned, "at", "logit", "did you mean 'logits'"),
    (partial(cw.condition, NETWORK), "family", "tau"),
    (conditioned, "layer", "00", "got '00'; did you mean '0'"),
    *((partial(MLP, 6), "hidden", hidden) for hidden in (64, "64")),
    (partial(MLP, 6), "hidden", (8, 0), "got 0"),
    *((partial(SmallCNN, 1), name, 0) for name in ("width", "stride")),
    (partial(ResNetCifar, 20), "width", 0),
    (partial(image_network, "resnet32"), "n_classes", 0),
    *((partial(image_network, "resnet32"), "seed", seed) for seed in (1.5, -1, True)),
    *((partial(image_network, "resnet32"), "in_shape", shape) for shape in ((32, 32), 3)),
    (partial(image_network, "resnet32"), "in_shape", (3, 0, 32), "at least 1, got 0"),
    (partial(image_network, "resnet32"), "in_shape", (30,), "needs images, in_shape"),
    (partial(image_network, "timm:resnet18"), "in_shape", (30,), "needs images"),
    (partial(image_network, "small-cnn"), "in_shape", (1, 3, 28), "at least 4x4"),
    (partial(image_network, "efficientnet-lite0"), "in_shape", (1, 28, 28), "got 1 channels"),
    (partial(image_network, "mlp"), "in_shape", (3.0,), "got 3.0"),
    (image_network, "name", "resnet3", "network must be one of 'mlp'", "did you mean 'resnet32'"),
    (image_network, "name", None, "network must be one of"),
    (image_network, "name", "mlp", "vectors, (d,), got in_shape (3, 32, 32)"),
    (partial(load_weights, NETWORK), "state", [torch.ones(3)], "weights must be", "got list"),
    *((partial(cw.subsample_to_beta, Y, seed=0), "beta", beta) for beta in (0, NAN, "20")),
    (partial(cw.subsample_to_beta, Y, 2), "seed", None),
    (partial(cw.subsample_to_beta, Y, 2, seed=0), "minority", 7),
    (partial(cw.subsample_to_beta, beta=2, seed=0), "y", [1, 1], "two classes, got 1"),
    (partial(cw.subsample_to_beta, beta=2, seed=0), "y", [], "got shape (0,)"),
    (partial(cw.subsample_long_tail, Y, seed=0), "ratio", 0.5),
    (partial(cw.SAM, [torch.zeros(1)], torch.optim.SGD), "rho", -1),
    *((partial(cw.auc_interval, Y, S), "level", value) for value in (1.0, "0.9")),
    (partial(cw.auc_interval, Y, S), "method", "delon", "did you mean 'delong'"),
    (partial(cw.bootstrap_auc, Y, S), "n_replicates", 0),
    (point, "max_fpr", 1.5),
    *((point, name, -1) for name in ("min_tpr", "cost_ratio")),
    *((partial(point, max_fpr=0.1), "prevalence", value) for value in (0.0, 1.0)),
    (partial(point, max_fpr=0.1), "min_tpr", 0.9, "exactly one of", "'max_fpr': 0.1"),
    (partial(point, max_fpr=0.1), "confidence", 1.0),
    (partial(point, cost_ratio=2), "confidence", 0.9, "goes with max_fpr or min_tpr"),
    (partial(point, confidence=0.9), "max_fpr", 0.0),
    (partial(point, confidence=0.9), "min_tpr", 1.0),
    *((partial(cw.operating_point, Y, S), "threshold", value) for value in (NAN, "1", None)),
    (partial(cw.roc_curve, Y, S), "weight", [1, 1], "shape (4,), got (2,)"),
    (partial(cw.auc, Y, S), "weight", [1, 1, 0, 0], "some sample of each class"),
    (partial(cw.auc, Y, S), "weight", [1, 1, 1, NAN], "got nan"),
    *((partial(cw.rate_interval, 5), "trials", trials, f"got 5 of {trials}") for trials in (4, 0)),
    (partial(cw.rate_interval, trials=3), "successes", 1.5, "got 1.5 of 3"),
    (cw.roc_band, "curves", [], "at least one curve, got none"),
    (cw.roc_band, "curves", CURVE, "got RocCurve"),
    (partial(cw.roc_band, [CURVE]), "grid", [2.0], "got 2"),
    (CURVE.tpr_at, "fpr", 1.5),
    (CURVE.fpr_at, "tpr", [0.5, -0.5], "got -0.5"),
    (CURVE.partial_auc, "max_fpr", None, "exactly one of max_fpr, min_tpr"),
    (CURVE.partial_auc, "max_fpr", 0, "width of 0"),
    (partial(cw.binary_metrics, Y, S), "fbeta", -1),
    (partial(cw.ppv, fpr=0, prevalence=0.1), "tpr", 2),
    (partial(cw.ensemble_score, [S]), "method", "ranks", "did you mean 'rank'"),
    (cw.ensemble_score, "scores", S, "(K, n)", "got (4,)"),
    (cw.ensemble_score, "scores", np.zeros((0, 3)), "got (0, 3)"),
    (cw.ensemble_score, "scores", [[1.0, 2.0], [1.0]], "rows of unequal lengths"),
    (cw.ensemble_score, "scores", [[1.0, 2.0], [1.0, NAN]], "model 1", "got nan at position 1"),
    (cw.ensemble_score, "scores", [["a", "b"]], "must hold numbers"),
    (partial(cw.macro_auc, [0, 1, 2]), "scores", np.eye(2), "got (3,) and (2, 2)"),
    (partial(cw.macro_auc, [0, 1, 1]), "scores", np.ones((3, 3)), "(3, 2), got (3, 3)"),
    (partial(cw.macro_auc, [0, 1, 1], np.ones((3, 3))), "classes", [0, 1, 2], "got class"),
    (partial(cw.accuracy_by_frequency, [0, 1], class_counts=[1, 1]), "predicted", [0], "got (1,)"),
    (partial(cw.accuracy_by_frequency, [0, 1], [0, 1]), "class_counts", [1, 1], "got 2"),
    (partial(cw.accuracy_by_frequency, [0, 1], [0, 1]), "class_counts", [1, 1, 1], "every class"),
]


@pytest.mark.parametrize("number", range(len(PARAMETERS)))
def test_a_parameter_is_named_with_the_value_received(number):
    call, name, value, *words = PARAMETERS[number]
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    words = words or [name, f"got {value:g}" if plain else f"got {value!r}"]
    refused(words, call, **{name: value})


LOGITS_AND_LABELS = [
    (torch.zeros(4, 1), TARGET, "one logit for each of the 2 classes in class_counts, got 1"),
    (torch.zeros(4, 3), TARGET, "one logit for each of the 2 classes in class_counts, got 3"),
    (torch.zeros(4, 2).long(), TARGET, "logits must be a floating tensor", "got torch.int64"),
    (torch.zeros(2), TARGET, "logits must be a floating tensor", "float32 of shape (2,)"),
    (np.zeros((4, 2)), TARGET, "logits must be", "got ndarray"),
    (LOGITS, TARGET + 1, "labels 0 to 1, one for each class, got 1, 2"),
    (LOGITS, TARGET[:, None], "target", "shape (4,), got (4, 1)"),
    (LOGITS, TARGET[:3], "target", "shape (4,), got (3,)"),
]


def test_every_form_of_the_loss_refuses_logits_and_labels_that_cannot_be():
    for logits, target, *words in LOGITS_AND_LABELS:
        refused(words, vs, logits, target)
        refused(words, family, logits=logits, target=target)
        if "logit" in words[0]:
            refused(words, module(), logits, target)
            refused(words, calibrated, logits)


def test_calls_that_make_no_sense_are_refused():
    for words, call in (
        (["at least one sample, got none"], lambda: vs(torch.zeros(0, 2), torch.zeros(0).long())),
        (["got 'tua'; did you mean 'tau'"], lambda: FAMILY.at(gamma=0.1, tua=1.0)),
        (["entries ['gamma', 'tau'], got 'omega'"], lambda: FAMILY.at(omega=0.5)),  # fixed
        (["entries ['gamma', 'tau'], got {'tau': 1.0}"], lambda: FAMILY.at(tau=1.0)),
        (["2 entries", "got shape (1,)"], lambda: family(torch.ones(1))),
        (["lambda must be a tensor", "got 3.0; family.at(gamma"], lambda: family(3.0)),
        (["2 values that are not all zero"], lambda: THREE_WEIGHTS(torch.zeros(0))),
        (["needs two classes, got 3"], lambda: AUC_MARGIN(torch.zeros(4, 3), TARGET)),
        (["lambda must be a tensor", "got 3.0"], lambda: film()(LOGITS, 3.0)),
        (["one for each of 6", "got 4"], lambda: film()(torch.zeros(6, 2), torch.zeros(4, 1))),
        (["3 channels in dimension 1, got shape (4, 2)"], lambda: cw.FiLM(1, 3)(LOGITS, ONE)),
        (["network must be", "got LossFamily"], lambda: cw.condition(FAMILY, NETWORK)),
        (["nn.Linear, got Conv2d"], lambda: cw.condition(nn.Conv2d(1, 1, 1), FAMILY)),
        (["two outputs or more", "got 1"], lambda: cw.condition(nn.Linear(6, 1), FAMILY)),
        (["known sizes", "got '0'"], lambda: cw.condition(nn.Sequential(nn.LazyLinear(2)), FAMILY)),
        (["needs lambda, got None"], lambda: conditioned()(LOGITS)),
        (["2 entries", "got shape (3,)"], lambda: conditioned()(LOGITS, torch.zeros(3))),
        (["one lambda, got none"], lambda: conditioned().forward_many(LOGITS, torch.zeros(0, 2))),
        (["width; got 'widht'; did you mean 'width'"], lambda: image_network("resnet32", widht=8)),
        (["these options: width; got 'hidden'"], lambda: image_network("resnet32", hidden=(8,))),
        (["options: none; got 'width'"], lambda: image_network("resnext50-32x4d", width=8)),
        (["exactly one of", "got none"], point),
        (["exactly one of", "got none"], CURVE.partial_auc),
    ):
        refused(words, call)


def test_settings_of_a_method_that_cannot_be_used_are_refused():
    for method, settings, words in (
        ("focl", {}, "method must be one of|did you mean 'focal'"),
        ("vs", {"focus": 2}, "focus belongs to focal, not to vs"),
        ("ce", {"tau": 2}, "tau belongs to logit-adjustment, vs, lct,|not to ce"),
        ("vs", {"tua": 2}, "'tua' is no setting of vs; did you mean 'tau'"),
        ("vs", {"tau": "0:3:0.33"}, "tau of vs must be a number, got the density '0:3:0.33'"),
        ("constant-film", {"tau": "0:3:0"}, "densities are for lct and unconditioned"),
        ("lct", {}, "lct needs a density LOW:HIGH:HEIGHT for at least one of omega, gamma, tau"),
        ("unconditioned", {"tau": 3}, "unconditioned needs a density|tau = 3.0"),
        ("lct", {"tau": "0:3:0.67"}, "tau = 0:3:0.67: height_at_high must be in [0, 0.666667]"),
        ("lct", {"omega": "0:2:0.5"}, "high of omega must be in [0, 1] and finite, got 2"),
        ("lct", {"gamma": "-1:2:0.5"}, "low of gamma must be >= 0 and finite, got -1"),
        ("vs", {"omega": 1.2}, "omega must be in [0, 1] and finite, got 1.2"),
        ("vs", {"tau": NAN}, "tau must be >= 0 and finite, got nan"),
        ("vs", {"tau": True}, "tau must be a number, got True"),
        ("focal", {"focus": -1}, "focus must be >= 0 and finite, got -1"),
        ("focal", {"focus": None}, "focus must be a number, got None"),
    ):
        refused(words.split("|"), normal_settings, method, settings)
        refused(words.split("|"), make_objective, method, settings, (90, 10))
    for text in ("", "1:2", "1:2:3:4", "0:3:x"):
        sentence = f"tau must be a number or LOW:HIGH:HEIGHT, got {text!r}"
        refused([sentence], parse_setting, "tau", text)
