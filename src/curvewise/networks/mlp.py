"""A multilayer perceptron for tables and for features of a backbone."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.sizes import require_size


class MLP(nn.Module):
    """Fully connected layers with ReLU between them: features (n, d) to logits (n, C).

    Parameters
    ----------
    n_features
        d, the columns of the input.
    hidden
        Width of each hidden layer; none at all makes it a logistic regression.

    >>> import torch
    >>> MLP(30, hidden=(128, 64))(torch.zeros(5, 30)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_features: int, n_classes: int = 2, hidden: Sequence[int] = (128, 64)
    ) -> None:
        super().__init__()
        require_size("n_features", n_features)
        require_size("n_classes", n_classes)
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InputError(f"hidden must be a list of layer widths, got {hidden!r}")
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(n_features, require_size("hidden", width)), nn.ReLU()]
            n_features = width
        self.body = nn.Sequential(*layers)
        self.linear = nn.Linear(n_features, n_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the output of the last hidden layer (n, F)."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of features (n, d)."""
        return cast(Tensor, self.linear(self.features(x)))
