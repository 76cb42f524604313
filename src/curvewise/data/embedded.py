"""`digits`: scikit-learn's handwritten digits, which need no download."""

import numpy as np

from curvewise.base.errors import InputError
from curvewise.data.options import SourceOptions
from curvewise.data.task import Task, split_rows

DEFAULT_DIGIT = "8"


def digits(argument: str, options: SourceOptions) -> Task:
    """Return one digit (8, unless `argument` names another) against the rest.

    1,797 images of 8 x 8 pixels as 64 features in [0, 1]; half of the rows, stratified and by seed,
    are the test part (Alpaydin and Kaynak 1998, UCI: test part of optdigits).

    >>> task = digits("8", SourceOptions())
    >>> task.class_names, task.x_train.shape, task.class_counts
    (('not 8', '8'), (898, 64), (811, 87))
    """
    options.refuse("digits", "target", "positive", "group", "image_size")
    digit = argument or DEFAULT_DIGIT
    if digit not in "0123456789" or len(digit) != 1:
        raise InputError(f"digits:D must name a digit from 0 to 9, got {digit!r}")
    from sklearn.datasets import load_digits

    pixels, numbers = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32)  # ink counts, from 0 to 16
    y = (numbers == int(digit)).astype(np.int64)
    train, test = split_rows(y, 0.5, seed=options.seed)
    return Task(
        name=f"digits:{digit}",
        kind="features",
        x_train=x[train],
        y_train=y[train],
        x_test=x[test],
        y_test=y[test],
        class_names=(f"not {digit}", digit),
        details={
            "feature_names": [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
        },
    )
