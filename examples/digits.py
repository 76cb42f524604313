"""Train with one fixed loss and over a family of losses, and compare the ROC curves.

Task: one handwritten digit (scikit-learn's embedded set) against the rest, with 100 times fewer
positives than negatives in training. For each of 12 settings of omega and gamma a small network
is trained twice: with the vector-scaling loss at one tau (VS), and with tau drawn anew for every
mini-batch and fed to the network (VS + LCT). This is the PyTorch loop of a library user.

    python examples/digits.py --out out/demo
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import curvewise as cw

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLORS = {"VS": "#0072B2", "VS + LCT": "#D55E00"}  # told apart in print and by the colour-blind


def load(digit: int, beta: float, seed: int) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """Return training images and labels at imbalance beta, and the untouched test half."""
    x, label = load_digits(return_X_y=True)
    x, y = x / 16.0, (label == digit).astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(
        x, y, test_size=0.5, stratify=y, random_state=seed
    )
    rows = cw.subsample_to_beta(y_train, beta, seed=seed)
    tensors = (torch.tensor(part, dtype=torch.float32) for part in (x_train[rows], x_test))
    x_small, x_test_tensor = tensors
    return x_small, torch.tensor(y_train[rows]), x_test_tensor, y_test


def train(family: cw.LossFamily, x: Tensor, y: Tensor, seed: int, epochs: int = 60) -> nn.Module:
    """One loop for both methods: a family that draws nothing is an ordinary loss."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    model = cw.condition(network, family)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    class_counts = torch.bincount(y).tolist()
    for _ in range(epochs):
        for rows in torch.randperm(len(y), generator=generator).split(128):
            lam = family.draw(1, generator=generator)[0]
            optimizer.zero_grad()
            loss = family.loss(model(x[rows], lam), y[rows], lam, class_counts=class_counts)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    return model


def families(omega: float, gamma: float) -> dict[str, cw.LossFamily]:
    """Return the two methods at one setting."""
    drawn = cw.LinearDensity(0.0, 3.0, height_at_high=0.33)
    return {
        "VS": cw.LossFamily(omega, gamma, tau=2.0),
        "VS + LCT": cw.LossFamily(omega, gamma, tau=drawn),
    }


def draw(curves: dict[str, list[cw.RocCurve]], title: str, path: Path) -> None:
    """Draw the mean, range and standard deviation of each method's curves."""
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    for method, group in curves.items():
        band = cw.roc_band(group)
        areas = [curve.auc for curve in group]
        label = f"{method}: mean AUC {np.mean(areas):.3f}, min {min(areas):.3f}"
        axes.plot(band.fpr, band.mean, color=COLORS[method], label=label)
        for edge, style in ((band.low, "--"), (band.high, "-.")):
            axes.plot(band.fpr, edge, style, color=COLORS[method], linewidth=0.8)
        low, high = band.mean - band.std, np.minimum(band.mean + band.std, 1)
        axes.fill_between(band.fpr, low, high, color=COLORS[method], alpha=0.15, linewidth=0)
    axes.set(xlabel="False positive rate", ylabel="True positive rate", title=title)
    axes.legend(loc="lower right", title="solid mean, dashed min, dash-dotted max, shade std")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train all models, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the figure")
    parser.add_argument("--digit", type=int, default=8, choices=range(10), help="the rare digit")
    parser.add_argument("--beta", type=float, default=100.0, help="negatives per positive")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the networks are too small to share
    try:
        x, y, x_test, y_test = load(options.digit, options.beta, seed=0)
    except cw.InputError as error:
        parser.error(str(error))
    settings = list(product((0.5, 0.7, 0.9, 0.99), (0.0, 0.2, 0.4)))
    curves: dict[str, list[cw.RocCurve]] = {}
    scores: dict[str, list[np.ndarray]] = {}
    for seed, setting in enumerate(track(settings, "training 24 networks")):
        for method, family in families(*setting).items():
            model = train(family, x, y, seed)
            lam = family.at(tau=3.0) if family.drawn else family.at()
            with torch.no_grad():
                logits = model(x_test, lam)
            score = (logits[:, 1] - logits[:, 0]).numpy()
            scores.setdefault(method, []).append(score)
            curves.setdefault(method, []).append(cw.roc_curve(y_test, score))
    title = f"Digit {options.digit} against the rest, {int(y.sum())} positives among {len(y)}"
    table = Table("method", "mean AUC", "min", "max", "std", "mean score: AUC (95 %)", title=title)
    for method, group in curves.items():
        areas = np.array([curve.auc for curve in group])
        interval = cw.auc_interval(y_test, np.mean(scores[method], axis=0))
        numbers = [
            f"{value:.4f}" for value in (areas.mean(), areas.min(), areas.max(), areas.std())
        ]
        table.add_row(
            method, *numbers, f"{interval.auc:.4f} ({interval.low:.4f}-{interval.high:.4f})"
        )
    console = Console()
    console.print(table)
    path = options.out / "roc_bands.png"
    draw(curves, title, path)
    console.print(f"ROC bands drawn in {path}")


if __name__ == "__main__":
    main()
