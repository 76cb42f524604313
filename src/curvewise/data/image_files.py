"""From lists of image files, labels and a split to a `Task` on the image cache."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.data.cache import cached_images
from curvewise.data.mapped import mapped_rows
from curvewise.data.options import SourceOptions
from curvewise.data.task import Task

# Of ImageNet's training pixels, on the scale 0 to 1: what pretrained networks expect.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageFiles:
    """Files with a label each, and which of them are the test part.

    `fixed_split` says that no seed moves a file from one part to the other.
    """

    files: Sequence[Path]
    labels: NDArray[np.int64]
    test: NDArray[np.bool_]
    groups: NDArray[Any] | None = None
    fixed_split: bool = False

    def train_first(self) -> "ImageFiles":
        """Return the same with the test part at the end, each part in its order."""
        order = np.argsort(self.test, kind="stable")
        return replace(
            self,
            files=[self.files[row] for row in order],
            labels=self.labels[order],
            test=self.test[order],
            groups=None if self.groups is None else self.groups[order],
        )

    def task(
        self,
        name: str,
        class_names: tuple[str, ...],
        options: SourceOptions,
        *,
        image_size: int,
        source: str,
        deviations: Sequence[str] = (),
    ) -> Task:
        """Return the files as a task; `image_size` is what the options' own replaces.

        The cache keeps the order of the files and knows nothing of the seed's split, so that
        another seed decodes nothing anew; of a fixed split, each part is a view of it.
        """
        ordered = self.train_first() if self.fixed_split else self
        size = image_size if options.image_size is None else options.image_size
        cached = cached_images(
            ordered.files, size, options.cache_folder, label=name, progress=options.progress
        )
        labels, test = ordered.labels[cached.kept], ordered.test[cached.kept]
        train_rows, test_rows = np.flatnonzero(~test), np.flatnonzero(test)
        return Task(
            name=name,
            kind="image",
            x_train=mapped_rows(cached.images, train_rows),
            y_train=labels[train_rows],
            x_test=mapped_rows(cached.images, test_rows),
            y_test=labels[test_rows],
            class_names=class_names,
            groups=None if ordered.groups is None else ordered.groups[cached.kept][train_rows],
            details={
                "source": source,
                "mean": list(IMAGENET_MEAN),
                "std": list(IMAGENET_STD),
                "image_size": size,
                "deviations": list(deviations),
                "broken": [{"file": file, "reason": reason} for file, reason in cached.broken],
            },
        )
