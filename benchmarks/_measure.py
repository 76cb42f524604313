"""How every benchmark here measures, judges and prints.

Machines are noisy, so contenders run interleaved and what counts is the median over rounds of
the ratio within a round.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy
import sklearn
import torch

from curvewise.base.machine import processor_names


@dataclass(frozen=True)
class Result:
    """One measured ratio beside its target; `unit` is "s", or "" for what is no time."""

    what: str
    ours_seconds: float
    peer_seconds: float
    ratio: float
    target: float
    at_least: bool
    unit: str = "s"

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target


def interleave(
    functions: dict[str, Callable[[], object]], rounds: int, calls: int = 1
) -> dict[str, list[float]]:
    """Return seconds per call of each function, one entry a round."""
    for function in functions.values():  # warm-up: caches, thread pools, first allocations
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                function()
            times[name].append((time.perf_counter() - start) / calls)
    return times


def faster(what: str, ours: list[float], peer: list[float], target: float) -> Result:
    """How many times faster than the peer; at least `target`."""
    ratio = statistics.median(p / o for o, p in zip(ours, peer, strict=True))
    return Result(what, statistics.median(ours), statistics.median(peer), ratio, target, True)


def cost(what: str, ours: list[float], peer: list[float], target: float) -> Result:
    """Our time as a multiple of the peer's; at most `target`."""
    ratio = statistics.median(o / p for o, p in zip(ours, peer, strict=True))
    return Result(what, statistics.median(ours), statistics.median(peer), ratio, target, False)


def machine() -> str:
    """Describe this machine and the versions in use."""
    return (
        f"{processor_names()}, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {numpy.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )


def main(title: str, measure: Callable[[], list[Result]]) -> None:
    """Run a benchmark from the command line: print its table, exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--record", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args()
    results = measure()
    if options.json:
        rows = [{**asdict(result), "holds": result.holds} for result in results]
        print(json.dumps({"title": title, "machine": machine(), "results": rows}, indent=2))
    else:
        print(table(title, results))
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(table(title, results))
    sys.exit(0 if all(result.holds for result in results) else 1)


def table(title: str, results: list[Result]) -> str:
    """Return the results as a Markdown page with command, machine and date."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    lines = [
        f"# {title}",
        "",
        f"`python {Path(sys.argv[0]).parent.name}/{Path(sys.argv[0]).name}`, "
        f"{datetime.now(UTC):%Y-%m-%d}, at {revision or 'no revision'}. {machine()}. Times are "
        "medians, ratios medians over rounds of the ratio within a round.",
        "",
        "| what | ours | peer | ratio | target | |",
        "|---|---|---|---|---|---|",
    ]
    for r in results:
        sign = ">=" if r.at_least else "<="
        verdict = "met" if r.holds else "MISSED"
        lines.append(
            f"| {r.what} | {_shown(r.ours_seconds, r.unit)} | {_shown(r.peer_seconds, r.unit)} "
            f"| {r.ratio:.2f} | {sign} {r.target:g} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def _shown(value: float, unit: str) -> str:
    return _duration(value) if unit == "s" else f"{value:.4f}"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
