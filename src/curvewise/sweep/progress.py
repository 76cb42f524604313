"""Run a sweep with the sources as its data, and show how it goes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from curvewise.sweep.executors import Executor
from curvewise.sweep.problems import Problems
from curvewise.sweep.run import SweepProgress, run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store

SECONDS_BETWEEN_LINES = 60.0


def sweep(spec: Spec, store: Store, executor: Executor, problems: Problems) -> SweepProgress:
    """Train what is missing of a sweep, with a bar, or a line a minute without a terminal."""
    try:
        with sweep_bar() as show:
            return run_sweep(
                spec,
                store,
                executor,
                problems.load,
                problems.describe,
                on_progress=show,
                on_read=_reading,
            )
    except KeyboardInterrupt:
        print(
            "curvewise: stopped; finished runs are kept, the same command goes on with the others",
            file=sys.stderr,
        )
        raise SystemExit(130) from None


def _reading(done: int, total: int) -> None:
    if total > 3 and sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rreading data {done}/{total}", end=end, file=sys.stderr, flush=True)


@contextmanager
def sweep_bar() -> Iterator[Callable[[SweepProgress], None]]:
    """Show runs done, rate, time left, and the best and mean AUC so far of each method."""
    if sys.stderr.isatty():
        with Live(console=Console(stderr=True), transient=True) as live:
            yield lambda progress: live.update(_panel(progress))
        return
    last = time.monotonic()

    def line(progress: SweepProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            areas = "; ".join(
                f"{label}: best {best:.4f}, mean {mean:.4f}"
                for label, (best, mean) in progress.best_and_mean().items()
            )
            print(f"{_counts(progress)}; {areas}", file=sys.stderr, flush=True)

    yield line


def _counts(progress: SweepProgress) -> str:
    left = progress.seconds_left
    parts = [f"{progress.done}/{progress.total} runs"]
    if left == left:  # not nan
        parts += [_rate(progress.per_second), f"{duration(left)} left"]
    parts += [f"{progress.failed} failed"] if progress.failed else []
    parts += [f"{progress.diverged} diverged"] if progress.diverged else []
    return ", ".join(parts)


def _rate(per_second: float) -> str:
    """Return runs a second, a minute or an hour, whichever is the first to give one.

    >>> _rate(2.5), _rate(0.02), _rate(0.005)
    ('2.5 a second', '1.2 a minute', '18.0 an hour')
    """
    if per_second >= 1:
        return f"{per_second:.1f} a second"
    if per_second * 60 >= 1:
        return f"{per_second * 60:.1f} a minute"
    return f"{per_second * 3600:.1f} an hour"


def _panel(progress: SweepProgress) -> Group:
    table = Table(box=None, pad_edge=False)
    for column in ("method", "runs", "best AUC", "mean AUC"):
        table.add_column(column)
    for label, (best, mean) in progress.best_and_mean().items():
        table.add_row(label, str(len(progress.areas[label])), f"{best:.4f}", f"{mean:.4f}")
    bar = ProgressBar(total=max(progress.total, 1), completed=progress.done, width=60)
    return Group(bar, _counts(progress), table)


def duration(seconds: float) -> str:
    """Return a length of time for people.

    >>> duration(42), duration(754), duration(9000)
    ('42 s', '13 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
