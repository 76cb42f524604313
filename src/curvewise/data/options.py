"""`SourceOptions`: what a data source may be told besides its argument."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from curvewise.base.errors import InputError

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class SourceOptions:
    """Settings of every source; a source refuses those that it has no use for.

    `progress` is called as progress(what, done, total) during long work.

    >>> SourceOptions(data_dir=Path("downloads")).data_folder.name
    'downloads'
    """

    data_dir: Path | None = None
    cache_dir: Path | None = None
    seed: int = 0
    image_size: int | None = None
    target: str | None = None
    positive: str | None = None
    group: str | None = None
    progress: Progress | None = None

    @property
    def data_folder(self) -> Path:
        """Where downloads are looked for: `data_dir`, else the folder `data` of this directory."""
        return Path("data") if self.data_dir is None else Path(self.data_dir)

    @property
    def cache_folder(self) -> Path:
        """Where decoded images are kept: `cache_dir`, else the user's cache folder."""
        if self.cache_dir is not None:
            return Path(self.cache_dir)
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curvewise"

    def refuse(self, source: str, *names: str) -> None:
        """Raise `InputError` if one of the named settings is given, for `source` ignores it."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                option = name.replace("_", "-")
                raise InputError(f"{source} must be read without --{option}, got {str(value)!r}")
