"""`openml:ID`: a table of openml.org, through scikit-learn."""

from curvewise.base.errors import InputError
from curvewise.data.options import SourceOptions
from curvewise.data.tables import frame_task
from curvewise.data.task import Task


def openml(argument: str, options: SourceOptions) -> Task:
    """Return the task of a data set of OpenML (Vanschoren et al. 2014), by its number.

    Downloaded once, into the cache folder. The target is `options.target` or the one OpenML
    names; positive class, groups and split are as for `table:FILE`.
    """
    options.refuse("openml:ID", "image_size")
    if not argument.isdecimal():
        raise InputError(f"openml:ID must have the number of a data set, got {argument!r}")
    from sklearn.datasets import fetch_openml

    folder = options.cache_folder / "openml"
    try:
        found = fetch_openml(
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
    target = options.target or found.details.get("default_target_attribute") or ""
    if not target or (options.target is None and "," in target):
        raise InputError(
            f"openml:{argument} needs its column of classes as --target, got {target!r}"
        )
    frame = found.frame
    frame.index = range(1, len(frame) + 1)
    return frame_task(frame, name=f"openml:{argument}", target=target, options=options)
