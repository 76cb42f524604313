"""What scikit-learn brings or fetches: `digits:D`, which needs no download, and `openml:ID`."""

import numpy as np

from curvewise.base.errors import InputError
from curvewise.data.tables import frame_task
from curvewise.data.task import SourceOptions, Task, split_rows

DEFAULT_DIGIT = "8"


def digits(argument: str, options: SourceOptions) -> Task:
    """Return one digit (8, unless `argument` names another) against the rest.

    1,797 images of 8 x 8 pixels as 64 features in [0, 1]; half of the rows, stratified and by seed,
    are the test part (Alpaydin and Kaynak 1998, UCI: test part of optdigits).

    >>> task = digits("8", SourceOptions())
    >>> task.class_names, task.x_train.shape, task.class_counts
    (('not 8', '8'), (898, 64), (811, 87))
    """
    digit = argument or DEFAULT_DIGIT
    if digit not in "0123456789" or len(digit) != 1:
        raise InputError(f"digits:D must name a digit from 0 to 9, got {digit!r}")
    from sklearn.datasets import load_digits

    pixels, numbers = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32)  # ink counts, from 0 to 16
    y = (numbers == int(digit)).astype(np.int64)
    train, test = split_rows(y, 0.5, seed=options.seed)
    names = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    return Task(
        name=f"digits:{digit}",
        kind="features",
        x_train=x[train],
        y_train=y[train],
        x_test=x[test],
        y_test=y[test],
        class_names=(f"not {digit}", digit),
        details={"feature_names": names},
    )


def openml(argument: str, options: SourceOptions) -> Task:
    """Return the task of a data set of OpenML (Vanschoren et al. 2014), by its number.

    Downloaded once, into the cache folder. The target is `options.target` or the one OpenML
    names; positive class, groups and split are as for `table:FILE`.
    """
    if not argument.isdecimal():
        raise InputError(f"openml:ID must have the number of a data set, got {argument!r}")
    from sklearn.datasets import fetch_openml

    folder = options.cache_folder / "openml"
    try:
        fetched = fetch_openml(
            data_id=int(argument),
            target_column=None,
            as_frame=True,
            data_home=str(folder.parent),  # it adds the folder itself
            parser="liac-arff",  # the faster one stumbles over categories that are numbers
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"openml:{argument} must be in {folder} or on openml.org within reach, got: {error}"
        ) from None
    target = options.target or fetched.details.get("default_target_attribute") or ""
    if not target or (options.target is None and "," in target):
        raise InputError(
            f"openml:{argument} needs its column of classes as --target, got {target!r}"
        )
    frame = fetched.frame
    frame.index = range(1, len(frame) + 1)
    return frame_task(frame, name=f"openml:{argument}", target=target, options=options)
