"""Bad input gets one sentence that names the requirement and the value received."""

import numpy as np
import pytest
import torch

import curvewise as cw

Y, S = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]
LOGITS, TARGET = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
STATISTICS = {
    "roc_curve": cw.roc_curve,
    "auc": cw.auc,
    "auc_interval": cw.auc_interval,
    "bootstrap_auc": cw.bootstrap_auc,
    "compare_auc": lambda y, s: cw.compare_auc(y, s, s),
    "choose_operating_point": lambda y, s: cw.choose_operating_point(y, s, max_fpr=0.1),
    "operating_point": lambda y, s: cw.operating_point(y, s, 0.5),
    "binary_metrics": cw.binary_metrics,
}
BAD_SCORED = {
    "only negatives": ([0, 0], [0.1, 0.2], "y must hold both classes, got only 0"),
    "only positives": ([1, 1], [0.1, 0.2], "y must hold both classes, got only 1"),
    "NaN score": ([0, 1], [0.1, np.nan], "score must be finite, got nan at position 1"),
    "infinite score": ([0, 1], [np.inf, 0.1], "score must be finite, got inf at position 0"),
    "labels 1 and 2": ([1, 2], [0.1, 0.2], "y must hold only 0 and 1, got .*2"),
    "labels -1 and 1": ([-1, 1], [0.1, 0.2], "y must hold only 0 and 1, got .*-1"),
    "NaN label": ([0.0, np.nan], [0.1, 0.2], "y must hold only 0 and 1, got .*nan"),
    "strings": (["a", "b"], [0.1, 0.2], "y must hold only 0 and 1, got .*a"),
    "empty": ([], [], "must not be empty"),
    "lengths": ([0, 1], [0.1, 0.2, 0.3], r"same length, got shapes \(2,\) and \(3,\)"),
    "two dimensions": ([[0, 1]], [[0.1, 0.2]], r"got shapes \(1, 2\)"),
    "text scores": ([0, 1], ["a", "b"], "score must hold numbers, got dtype"),
    "complex scores": ([0, 1], [1j, 2j], "score must hold numbers, got dtype complex"),
}


KINDS = [  # a tensor cannot hold text
    pytest.param(case, kind, id=f"{case}-{kind.__name__}")
    for case in BAD_SCORED
    for kind in (list, np.array, torch.tensor)
    if kind is not torch.tensor or case not in ("strings", "text scores")
]


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(("case", "kind"), KINDS)
def test_statistics_refuse_bad_labels_and_scores(statistic, case, kind):
    y, score, message = BAD_SCORED[case]
    with pytest.raises(cw.InputError, match=message) as caught:
        STATISTICS[statistic](kind(y), kind(score))
    assert_one_sentence(caught)


def vs(**changes):
    arguments = {"logits": LOGITS, "target": TARGET, "class_counts": (100, 1), **changes}
    return cw.vs_loss(arguments.pop("logits"), arguments.pop("target"), **arguments)


CASES = {
    "omega above 1": (lambda: vs(omega=1.1), r"omega must be in \[0, 1\].*got 1.1"),
    "omega below 0": (lambda: vs(omega=-0.1), r"omega must be in \[0, 1\].*got -0.1"),
    "omega NaN": (lambda: vs(omega=float("nan")), r"omega must be in \[0, 1\].*got nan"),
    "omega text": (lambda: vs(omega=None), "omega must be a number, got None"),
    "omega tensor": (lambda: vs(omega=torch.tensor(1.5)), r"omega must be in \[0, 1\].*got 1.5"),
    "gamma": (lambda: vs(gamma=-0.2), "gamma must be >= 0 and finite, got -0.2"),
    "gamma tensor": (lambda: vs(gamma=torch.tensor([0.1, -0.2, 0.0, 0.0])), "gamma .*got -0.2"),
    "tau": (lambda: vs(tau=-1), "tau must be >= 0 and finite, got -1"),
    "tau infinite": (lambda: vs(tau=float("inf")), "tau must be >= 0 and finite, got inf"),
    "tau NaN tensor": (lambda: vs(tau=torch.tensor(float("nan"))), "tau must be .* got nan"),
    "tau shape": (lambda: vs(tau=torch.zeros(3)), r"tau must broadcast .*\(4,\), got shape \(3,\)"),
    "weights length": (lambda: vs(omega=[1.0]), r"must have 2 values .*got \[1.0\]"),
    "weights zero": (lambda: vs(omega=[0.0, 0.0]), "not all zero"),
    "weights negative": (lambda: vs(omega=[1.0, -1.0]), "each class weight .*got -1"),
    "counts zero": (lambda: vs(class_counts=(100, 0)), r"positive numbers, got \[100.0, 0.0\]"),
    "counts single": (lambda: vs(class_counts=(100,)), r"two or more .*got \[100.0\]"),
    "counts NaN": (lambda: vs(class_counts=(1, float("nan"))), r"positive .*got \[1.0, nan\]"),
    "reduction": (lambda: vs(reduction="avg"), "reduction must be one of .*got 'avg'"),
    "reduction near": (lambda: vs(reduction="weigted_mean"), "did you mean 'weighted_mean'"),
    "classes": (lambda: vs(logits=torch.zeros(4, 3)), "each of the 2 classes .*got 3"),
    "integer logits": (lambda: vs(logits=torch.zeros(4, 2).long()), "floating .*got torch.int64"),
    "one dimension": (lambda: vs(logits=torch.zeros(2)), r"got torch.float32 of shape \(2,\)"),
    "empty batch": (
        lambda: vs(logits=torch.zeros(0, 2), target=torch.zeros(0).long()),
        "at least one sample, got none",
    ),
    "target length": (lambda: vs(target=TARGET[:3]), r"target must have shape \(4,\).*got \(3,\)"),
    "target float": (lambda: vs(target=TARGET.float()), "integer dtype, got torch.float32"),
    "target high": (lambda: vs(target=TARGET + 1), "labels 0 to 1, .*got 1, 2"),
    "target low": (lambda: vs(target=TARGET - 1), "labels 0 to 1, .*got -1, 0"),
    "module omega": (lambda: cw.VSLoss((9, 1), omega=2), r"omega must be in \[0, 1\].*got 2"),
    "module gamma": (lambda: cw.VSLoss((9, 1), gamma=-1), "gamma must be >= 0 .*got -1"),
    "module tau": (lambda: cw.VSLoss((9, 1), tau=-1), "tau must be >= 0 .*got -1"),
    "module counts": (lambda: cw.VSLoss((9, -1)), r"positive numbers, got \[9.0, -1.0\]"),
    "break_even beta 0": (lambda: cw.break_even(0), "beta must be >= 1 .*got 0"),
    "break_even beta": (lambda: cw.break_even(-3), "beta must be >= 1 .*got -3"),
    "break_even omega": (lambda: cw.break_even(10, omega=1.0), "strictly between 0 and 1, got 1"),
    "break_even gamma": (lambda: cw.break_even(10, gamma=-1), "gamma must be >= 0 .*got -1"),
    "break_even tau": (lambda: cw.break_even(10, tau=-1), "tau must be >= 0 .*got -1"),
    "calibration ends": (
        lambda: cw.calibrated_probability(
            LOGITS, class_counts=(9, 1), omega=1.0, gamma=0.0, tau=0.0
        ),
        "omega must lie strictly between 0 and 1.*got 1.0",
    ),
    "calibration prior": (
        lambda: cw.calibrated_probability(
            LOGITS, class_counts=(9, 1), omega=0.5, gamma=0.0, tau=0.0, prior=1.0
        ),
        "prior must lie strictly between 0 and 1, got 1",
    ),
    "calibration priors": (
        lambda: cw.calibrated_probability(
            LOGITS, class_counts=(9, 1), omega=0.5, gamma=0.0, tau=0.0, prior=[0.5, 0.4]
        ),
        r"2 probabilities that sum to 1, got \[0.5, 0.4\]",
    ),
    "height high": (lambda: cw.LinearDensity(0, 3, 0.7), r"\[0, 0.666667\] .*got 0.7"),
    "height low": (lambda: cw.LinearDensity(0, 3, -0.1), r"height_at_high must be .*got -0.1"),
    "height NaN": (lambda: cw.LinearDensity(0, 3, float("nan")), "height_at_high .*got nan"),
    "density order": (lambda: cw.LinearDensity(3, 3, 0), "greater than low = 3, got 3"),
    "family omega": (lambda: cw.LossFamily(omega=1.5), r"omega must be in \[0, 1\].*got 1.5"),
    "family gamma": (lambda: cw.LossFamily(gamma=-0.5), "gamma must be >= 0 .*got -0.5"),
    "family density": (
        lambda: cw.LossFamily(omega=cw.LinearDensity(0.5, 2, 0.1)),
        r"high of omega must be in \[0, 1\].*got 2",
    ),
    "beta 0": (lambda: cw.subsample_to_beta(Y, 0, seed=0), "beta must be >= 1 .*got 0"),
    "beta -1": (lambda: cw.subsample_to_beta(Y, -1, seed=0), "beta must be >= 1 .*got -1"),
    "beta NaN": (lambda: cw.subsample_to_beta(Y, float("nan"), seed=0), "beta must be .*got nan"),
    "one class": (lambda: cw.subsample_to_beta([1, 1], 2, seed=0), "must hold two classes, got 1"),
    "no labels": (lambda: cw.subsample_to_beta([], 2, seed=0), r"non-empty .*got shape \(0,\)"),
    "minority": (lambda: cw.subsample_to_beta(Y, 2, seed=0, minority=7), r"one of \[0, 1\], got 7"),
    "tail ratio": (lambda: cw.subsample_long_tail(Y, 0.5, seed=0), "ratio must be >= 1 .*got 0.5"),
    "level": (lambda: cw.auc_interval(Y, S, level=1.0), "level must lie strictly .*got 1"),
    "method": (lambda: cw.auc_interval(Y, S, method="delon"), "did you mean 'delong'"),
    "replicates": (lambda: cw.bootstrap_auc(Y, S, n_replicates=0), "at least 1, got 0"),
    "no rule": (lambda: cw.choose_operating_point(Y, S), "exactly one of .*got none"),
    "two rules": (
        lambda: cw.choose_operating_point(Y, S, max_fpr=0.1, min_tpr=0.9),
        "exactly one of .*'max_fpr': 0.1",
    ),
    "max_fpr": (lambda: cw.choose_operating_point(Y, S, max_fpr=1.5), r"\[0, 1\].*got 1.5"),
    "min_tpr": (lambda: cw.choose_operating_point(Y, S, min_tpr=-1), r"\[0, 1\].*got -1"),
    "cost": (lambda: cw.choose_operating_point(Y, S, cost_ratio=-1), "cost_ratio .*got -1"),
    "prevalence": (
        lambda: cw.choose_operating_point(Y, S, max_fpr=0.1, prevalence=1.0),
        "prevalence must lie strictly between 0 and 1, got 1",
    ),
    "threshold": (lambda: cw.operating_point(Y, S, float("nan")), "threshold .*got nan"),
    "weights missing": (lambda: cw.roc_curve(Y, S, weight=[1, 1]), r"shape \(4,\), got \(2,\)"),
    "weight sign": (lambda: cw.roc_curve(Y, S, weight=[1, 1, 1, -1]), "weight must be >= 0.*-1"),
    "weight none": (lambda: cw.auc(Y, S, weight=[1, 1, 0, 0]), "some sample of each class"),
    "weight NaN": (lambda: cw.auc(Y, S, weight=[1, 1, 1, np.nan]), "weight must be .*got nan"),
    "rate": (lambda: cw.rate_interval(5, 4), r"successes must .*\[0, trials\], got 5 of 4"),
    "no curves": (lambda: cw.roc_band([]), "at least one curve, got none"),
    "grid": (lambda: cw.roc_band([cw.roc_curve(Y, S)], grid=[2.0]), r"\[0, 1\], got \[2.0\]"),
    "fpr": (lambda: cw.roc_curve(Y, S).tpr_at(1.5), r"fpr must be in \[0, 1\], got 1.5"),
    "partial none": (lambda: cw.roc_curve(Y, S).partial_auc(), "one of max_fpr and min_tpr"),
    "partial 0": (lambda: cw.roc_curve(Y, S).partial_auc(max_fpr=0), "max_fpr > 0 .*width of 0"),
    "fbeta": (lambda: cw.binary_metrics(Y, S, fbeta=-1), "fbeta must be >= 0 .*got -1"),
    "focus": (lambda: cw.FocalLoss(focus=-1), "focus must be >= 0 .*got -1"),
    "film size": (lambda: cw.FiLM(0, 64), "n_lambda must be .*at least 1, got 0"),
    "rate fraction": (lambda: cw.rate_interval(1.5, 3), "whole number .*got 1.5 of 3"),
    "ppv": (lambda: cw.ppv(2, 0, 0.1), r"tpr must be in \[0, 1\].*got 2"),
    "counts text": (lambda: vs(class_counts="42"), "positive numbers, got '42'"),
    "counts none": (lambda: vs(class_counts=None), "positive numbers, got None"),
    "omega word": (lambda: vs(omega="0.5"), "omega must be a number, got '0.5'"),
    "beta word": (lambda: cw.subsample_to_beta(Y, "20", seed=0), "beta must be a number, got '20'"),
    "seed": (lambda: cw.subsample_to_beta(Y, 2, seed=None), "seed must be .*got None"),
    "tau pair": (lambda: cw.LossFamily(tau=(0, 3)), r"tau must be a number, got \(0, 3\)"),
    "draw": (lambda: cw.LossFamily().draw(-1), "n >= 1, got -1"),
    "lambda number": (
        lambda: cw.LossFamily(tau=cw.LinearDensity(0, 3, 0)).loss(
            LOGITS, TARGET, 3.0, class_counts=(9, 1)
        ),
        r"lambda must be a tensor .*got 3.0; family.at\(tau=...\)",
    ),
    "numpy logits": (lambda: vs(logits=LOGITS.numpy()), "logits must be a tensor, got ndarray"),
    "list target": (lambda: vs(target=[0, 1]), "target must be a tensor, got list"),
    "film lambda": (lambda: cw.FiLM(1, 2)(LOGITS, 3.0), "lambda must be a tensor .*got 3.0"),
    "film rows": (
        lambda: cw.FiLM(1, 2)(torch.zeros(6, 2), torch.zeros(4, 1)),
        "one for each of 6 samples, got 4",
    ),
    "film width": (
        lambda: cw.FiLM(1, 3)(LOGITS, torch.zeros(1)),
        r"features must have 3 channels in dimension 1, got shape \(4, 2\)",
    ),
    "swapped": (
        lambda: cw.condition(cw.LossFamily(), torch.nn.Linear(2, 2)),
        "network must be an nn.Module, got LossFamily",
    ),
    "one curve": (lambda: cw.roc_band(cw.roc_curve(Y, S)), "a list of RocCurve, got RocCurve"),
    "threshold word": (lambda: cw.operating_point(Y, S, "1"), "threshold .*got '1'"),
    "level word": (lambda: cw.auc_interval(Y, S, level="0.9"), "level must be a number, got '0.9'"),
    "film range": (
        lambda: cw.FiLM(1, 2, lambda_ranges=[(1.0, 1.0)]),
        r"pairs \(low, high > low\), got \[\(1.0, 1.0\)\]",
    ),
    "family weights": (
        lambda: cw.LossFamily(omega=[1.0, 1.0, 1.0]).loss(
            LOGITS, TARGET, torch.zeros(0), class_counts=(9, 1)
        ),
        "must have 2 values",
    ),
    "no lambdas": (
        lambda: cw.condition(torch.nn.Linear(2, 2), cw.LossFamily()).forward_many(
            LOGITS, torch.zeros(0, 0)
        ),
        "at least one lambda, got none",
    ),
    "film init": (lambda: cw.FiLM(1, 64, init="identiy"), "did you mean 'identity'"),
    "rho": (lambda: cw.SAM([torch.zeros(1)], torch.optim.SGD, rho=-1), "rho must be >= 0 .*got -1"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_settings_are_named_with_the_value_received(case):
    call, message = CASES[case]
    with pytest.raises(cw.InputError, match=message) as caught:
        call()
    assert_one_sentence(caught)


def assert_one_sentence(caught):
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 250
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, cw.CurvewiseError)
