"""Fit every method on every fold of the KEEL tables and keep what it measured.

    python -m benchmarks.tabular.run --methods forest lightgbm --jobs 2
    python -m benchmarks.tabular.summary

The test half needs `--half test`: it is opened once, when nothing is to be decided any more. The
store fills repeat by repeat, and in random order within a repeat: a third of the time gives a
whole table, and the time left is honest. A killed run goes on where it was; a fit that fails is
reported and tried again by the next run.
"""

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch
from benchmarks.tabular.datasets import FOLDS, HALVES, choose, folds, load, seed_of
from benchmarks.tabular.measures import Cell, Measured, measure
from benchmarks.tabular.peers import METHODS
from benchmarks.tabular.results import Results

from curvewise.base.errors import InputError, did_you_mean

STORE = Path("out/tabular.db")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SECONDS_BETWEEN_LINES = 10

Outcome = tuple[Cell, Measured | Exception]


def cells_of(datasets: Iterable[str], methods: Iterable[str]) -> list[Cell]:
    """Return all cells, repeat by repeat, in an order by lot within a repeat."""
    methods = list(methods)
    cells = [
        Cell(name, fold, method)
        for name in datasets
        for fold in range(len(folds(load(name))))
        for method in methods
    ]
    return sorted(cells, key=lambda cell: (cell.fold // FOLDS, seed_of("order", *cell)))


def in_processes(cells: list[Cell], jobs: int) -> Iterator[Outcome]:
    """Measure cells in processes of one thread each, and yield them as they end."""
    for name in THREADS:
        os.environ[name] = "1"  # the processes read it when they start
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin_worker)
    try:
        futures = {pool.submit(measure, cell): cell for cell in cells}
        for future in as_completed(futures):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                raise error
            outcome = future.result() if error is None else error
            yield futures[future], outcome
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        parent.join()
        os._exit(1)  # else a worker whose parent was killed waits for work for ever

    threading.Thread(target=leave_with_parent, daemon=True).start()


def keep(outcomes: Iterable[Outcome], results: Results, total: int) -> int:
    """Store what comes in, print how it goes, return how many fits failed."""
    shown = first = 0.0
    failed = 0
    for count, (cell, outcome) in enumerate(outcomes, 1):
        if isinstance(outcome, Exception):
            failed += 1
            print(f"failed: {cell.method} on {cell.dataset}, fold {cell.fold}: {outcome!r}")
        else:
            results.add(outcome)
        now = time.monotonic()
        first = first or now  # the first fit also waits for the processes to start
        if count == total or now - shown >= SECONDS_BETWEEN_LINES:
            shown = now
            left = (now - first) / max(count - 1, 1) * (total - count)
            told = f"{spoken(left)} left" if count > 1 else "begun"
            print(f"{count}/{total} fits, {told}; last: {cell.method}", flush=True)
    return failed


def spoken(seconds: float) -> str:
    """Return a duration in words.

    >>> spoken(45), spoken(600), spoken(9000)
    ('45 s', '10 min', '2 h 30 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tabular.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help=", ".join(METHODS))
    parser.add_argument("--sets", nargs="+", help="data sets of the half; all unless given")
    parser.add_argument("--half", choices=HALVES, default="dev")
    parser.add_argument("--repeats", type=int, default=3, choices=(1, 2, 3))
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--again", action="store_true", help="forget these cells, measure anew")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    chosen = options(arguments)
    for name in chosen.methods:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}{did_you_mean(name, METHODS)}")
    cells = cells_of(choose(chosen.half, chosen.sets), chosen.methods)
    cells = [cell for cell in cells if cell.fold < chosen.repeats * FOLDS]
    with Results(chosen.store) as results:
        if chosen.again:
            print(f"{results.forget(cells)} cells forgotten")
        done = results.done()
        missing = [cell for cell in cells if cell not in done]
        print(f"{len(cells) - len(missing)} of {len(cells)} fits are there already", flush=True)
        try:
            failed = keep(in_processes(missing, chosen.jobs), results, len(missing))
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here (without --again)")
            return 130
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"error: {error}")
