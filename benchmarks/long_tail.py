"""Many classes with a long tail: accuracy of head, middle and tail classes, and macro AUC.

Digits (8 x 8 pixels, 10 classes) and Fashion-MNIST (64 principal components), both cut to an
exponential long tail by `subsample_long_tail`: the last class is 20 (digits have too few rows for
more) or 100 times rarer than the first. Test parts stay balanced. Every method is an ensemble of 18
networks of one shape on the same features, trained as long; they differ in the loss only:

- CE: cross-entropy; CE, balanced: its probabilities for a uniform prior (what logit adjustment does
  after training, Menon et al. 2021, arXiv 2007.07314);
- logit adjustment: tau = 1 in training; LDAM (Cao et al. 2019, arXiv 1906.07413);
- LCT: `LCTClassifier` for a uniform prior, its networks only; with trees: as it is by default.

Means over three subsamples and seeds. Needs the Debian package dataset-fashion-mnist.

Targets
-------
- On both, mean recall over classes of LCT at least that of CE, of logit adjustment and of LDAM
  (ratios >= 1).
"""

import sys
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import curvewise as cw
from _measure import Result, main
from curvewise.data.fashion import fashion_mnist_files, read_part
from curvewise.data.task import SourceOptions
from curvewise.estimator.fitting import Settings
from curvewise.estimator.inputs import TableInputs
from curvewise.training.model import logits_at

QUESTION = "Does training over the family help with many classes, too?"
CAVEATS = (
    "LCT in the table is its networks alone (`trees=0`), so that only the losses differ.",
    "What matters with many classes is that the prior is corrected, before or after training;"
    " which loss does it hardly matters.",
    "On digits, cross-entropy with its probabilities shifted to a uniform prior costs nothing"
    " and beats LCT, logit adjustment and LDAM (0.9145).",
    "Three subsamples and seeds; test parts are balanced.",
)

SEEDS, MEMBERS = 3, 18
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
COLUMNS = ("mean recall", "head", "middle", "tail", "macro AUC")


def digits(seed: int) -> Arrays:
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    return long_tailed(*parts, ratio=20, seed=seed)


def fashion(seed: int) -> Arrays:
    (x, y), (x_test, y_test) = (read_part(*files) for files in fashion_mnist_files(SourceOptions()))
    flat, flat_test = x.reshape(len(x), -1) / 255.0, x_test.reshape(len(x_test), -1) / 255.0
    rows = cw.subsample_long_tail(y.astype(int), 100, seed=seed)
    pca = PCA(64, random_state=seed).fit(flat[rows])
    return pca.transform(flat[rows]), pca.transform(flat_test), y[rows].astype(int), y_test


def long_tailed(
    x: np.ndarray, x_test: np.ndarray, y: np.ndarray, y_test: np.ndarray, *, ratio: float, seed: int
) -> Arrays:
    rows = cw.subsample_long_tail(y, ratio, seed=seed)
    return x[rows], x_test, y[rows], y_test


def ldam(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> np.ndarray:
    """Return mean logits of an ensemble with the estimators' network and recipe."""
    inputs, settings = TableInputs(), Settings(n_members=MEMBERS)
    features = inputs.fit(x)
    recipe = settings.recipe(len(y), features.shape[1:], seed)
    fitted = cw.fit_stacked(
        lambda own: settings.build(features.shape[1:], int(y.max()) + 1, own),
        [cw.LDAMLoss() for _ in range(MEMBERS)],
        features,
        y,
        recipe,
    )
    blocks = np.concatenate(list(inputs.blocks(x_test)))
    none = torch.zeros(1, 0)
    return np.mean([logits_at(net, blocks, none)[0].numpy() for net in fitted.networks], axis=0)


def methods(seed: int, n_classes: int) -> dict[str, Callable[..., np.ndarray]]:
    """Return functions of (x, y, x_test) that give scores (n, C), the highest being predicted."""
    uniform = [1 / n_classes] * n_classes

    def estimator(made: cw.LCTClassifier | cw.VSClassifier) -> Callable[..., np.ndarray]:
        return lambda x, y, x_test: made.fit(x, y).predict_log_proba(x_test)

    settings = {"n_members": MEMBERS, "random_state": seed, "n_jobs": 2}
    return {
        "CE": estimator(cw.VSClassifier(**settings)),
        "CE, balanced": estimator(cw.VSClassifier(**settings, prior=uniform)),
        "logit adjustment": estimator(cw.VSClassifier(tau=1.0, **settings, prior=uniform)),
        "LDAM": lambda x, y, x_test: ldam(x, y, x_test, seed),
        "LCT": estimator(cw.LCTClassifier(**settings, trees=0, prior=uniform)),
        "LCT, with trees": estimator(cw.LCTClassifier(**settings, prior=uniform)),
    }


def judged(data: Callable[[int], Arrays], name: str) -> dict[str, np.ndarray]:
    """Return the columns of each method, means over seeds, and print them."""
    rows: dict[str, list[list[float]]] = {}
    for seed in range(SEEDS):
        x, x_test, y, y_test = data(seed)
        counts = np.bincount(y)
        for method, scored in methods(seed, len(counts)).items():
            scores = scored(x, y, x_test)
            predicted = scores.argmax(axis=1)
            parts = cw.accuracy_by_frequency(y_test, predicted, counts)
            recall = float(np.mean([np.mean(predicted[y_test == c] == c) for c in range(10)]))
            rows.setdefault(method, []).append([recall, *parts, cw.macro_auc(y_test, scores)])
    means = {method: np.mean(values, axis=0) for method, values in rows.items()}
    print(f"\n{name}: class counts {counts.tolist()}", file=sys.stderr)
    for method, values in means.items():
        shown = ", ".join(f"{c} {v:.4f}" for c, v in zip(COLUMNS, values, strict=True))
        print(f"  {method:18} {shown}", file=sys.stderr, flush=True)
    return means


def measure() -> list[Result]:
    results = []
    for name, data in (("digits, 20:1", digits), ("Fashion-MNIST, 100:1", fashion)):
        means = judged(data, name)
        ours = means["LCT"][0]
        for peer in ("CE", "logit adjustment", "LDAM"):
            theirs = means[peer][0]
            what = f"{name}: mean recall of LCT and {peer}"
            results.append(Result(what, ours, theirs, ours / theirs, 1.0, True, unit=""))
    return results


if __name__ == "__main__":
    main("Many classes with a long tail", measure, QUESTION, CAVEATS)
