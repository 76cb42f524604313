"""`LCTClassifier` and `VSClassifier`: three lines from a table with a rare class to a model."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from curvewise.base.errors import InputError, require_open
from curvewise.estimator.choosing import PointClassifier
from curvewise.estimator.settings import Settings


class LCTClassifier(PointClassifier):
    """Classifier for a rare class: an ensemble over a family of losses, with nothing to tune.

    Takes tables (DataFrames with their types, categories and gaps, or arrays) and images
    (n, H, W, C). Members differ in omega, gamma, the density of tau, input scaling and
    seed; each leaves out a sixth of the rows, and what they say of those decides how much each
    counts. Probabilities are calibrated by the closed form of the loss, whatever it was.

    Parameters
    ----------
    n_members
        How many networks are trained together; 18 are three input scalings by six folds.
    trees
        Extremely randomised trees that are grown beside the networks of a table: so many up to
        3,333 rows, fewer above, none above 20,000. They count by how they rank rows they left out;
        0 leaves the family of losses to itself.
    hidden
        Widths of the layers (tables and backbones).
    tau_range
        What tau is drawn from.
    steps, batch_size
        Length of training and rows a step; None chooses both by the number of rows (a small
        network with convolutions always trains 600 steps).
    learning_rate, weight_decay
        Those of AdamW.
    backbone
        For images: "efficientnet-lite0" trains on its features (extra ``[pretrained]``). None
        trains a small network with convolutions.
    network
        A function (in_shape, n_classes) -> nn.Module that ends in a linear layer, instead.
    prior
        Share of the rare class (of each class, if more than two) where the model will be used; None
        takes that of the training rows.
    calibration_fraction
        Share of the rows that `fit` sets aside for `choose_operating_point`.
    warm_start
        With a larger `n_members`, a second `fit` trains the new members only.
    n_jobs
        Threads, as in scikit-learn: None is one, -1 all.
    random_state, verbose
        As in scikit-learn.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.95], random_state=0)
    >>> clf = LCTClassifier(n_members=6, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        n_members: int = 18,
        *,
        trees: int = 300,
        hidden: Sequence[int] = (64, 64),
        tau_range: tuple[float, float] = (0.0, 3.0),
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 1.0,
        backbone: str | None = None,
        network: Callable[[tuple[int, ...], int], nn.Module] | None = None,
        prior: float | Sequence[float] | None = None,
        calibration_fraction: float = 0.0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_members = n_members
        self.trees = trees
        self.hidden = hidden
        self.tau_range = tau_range
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.backbone = backbone
        self.network = network
        self.prior = prior
        self.calibration_fraction = calibration_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _settings(self) -> Settings:
        given = self.tau_range
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
            raise InputError(f"tau_range must be (low, high), got {given!r}")
        return Settings.of(self, tau=tuple(given))


class VSClassifier(PointClassifier):
    """As `LCTClassifier`, with one fixed vector-scaling loss: members differ in scaling and seed.

    `omega`, `gamma` and `tau` are those of `vs_loss`; their defaults are cross-entropy. The other
    parameters are those of `LCTClassifier`; trees grow only if asked for.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.95], random_state=0)
    >>> VSClassifier(tau=1.0, n_members=6, random_state=0).fit(X, y).classes_
    array([0, 1])
    """

    def __init__(
        self,
        omega: float | Sequence[float] = 0.5,
        gamma: float = 0.0,
        tau: float = 0.0,
        *,
        n_members: int = 18,
        trees: int = 0,
        hidden: Sequence[int] = (64, 64),
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 1.0,
        backbone: str | None = None,
        network: Callable[[tuple[int, ...], int], nn.Module] | None = None,
        prior: float | Sequence[float] | None = None,
        calibration_fraction: float = 0.0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.omega = omega
        self.gamma = gamma
        self.tau = tau
        self.n_members = n_members
        self.trees = trees
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.backbone = backbone
        self.network = network
        self.prior = prior
        self.calibration_fraction = calibration_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _settings(self) -> Settings:
        if not isinstance(self.omega, Sequence) or isinstance(self.omega, str):
            require_open("omega", self.omega, 0, 1)  # at an end one class would count for nothing
        return Settings.of(self, fixed=(self.omega, self.gamma, self.tau))
