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
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from curvewise.base.machine import processor_names

TICKS = {  # of a logarithmic axis, by how far it reaches from end to end
    1.15: (0.94, 0.96, 0.98, 1, 1.02, 1.04, 1.06, 1.08),
    2.2: (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 1.8),
    1e9: (0.1, 0.2, 0.5, 1, 2, 3, 5, 10),
}


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


def at_most(what: str, value: float, limit: float, unit: str = "s") -> Result:
    """Return a value as a share of its limit; at most 1."""
    return Result(what, value, limit, value / limit, 1.0, False, unit)


def machine() -> str:
    """Describe this machine and the versions in use."""
    return (
        f"{processor_names()}, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {numpy.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )


def main(
    title: str, measure: Callable[[], list[Result]], question: str, caveats: tuple[str, ...] = ()
) -> None:
    """Run a benchmark from the command line: print its table, exit 1 if a target is missed.

    With `--record FILE.md` it writes a page, which begins with the question, and a picture.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--record", type=Path, help="also write a page and its picture here")
    options = parser.parse_args()
    results = measure()
    if options.json:
        rows = [{**asdict(result), "holds": result.holds} for result in results]
        print(json.dumps({"title": title, "machine": machine(), "results": rows}, indent=2))
    else:
        print("\n".join([title, answer(results), "", *table(results)]))
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        picture = options.record.with_suffix(".png")
        draw(results, picture)
        text = page(title, question, results, caveats, provenance(), picture.name)
        options.record.write_text(text)
    sys.exit(0 if all(result.holds for result in results) else 1)


def answer(results: list[Result]) -> str:
    """Return what came out in two sentences at most."""
    missed = [result for result in results if not result.holds]
    if not missed:
        return f"All {len(results)} targets are met."
    furthest = max(missed, key=_shortfall)
    return (
        f"{len(results) - len(missed)} of {len(results)} targets are met. Missed by most: "
        f"{furthest.what}, {furthest.ratio:.2f} where {_target(furthest)} is asked."
    )


def table(results: list[Result]) -> list[str]:
    """Return the lines of a Markdown table of the results."""
    lines = ["| what | ours | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    for r in results:
        values = " | ".join(_shown(value, r.unit) for value in (r.ours_seconds, r.peer_seconds))
        verdict = "met" if r.holds else "MISSED"
        lines.append(f"| {r.what} | {values} | {r.ratio:.2f} | {_target(r)} | {verdict} |")
    return lines


def provenance() -> list[str]:
    """Return command, date with revision, and machine."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return [
        f"`python {Path(sys.argv[0]).parent.name}/{Path(sys.argv[0]).name}`",
        f"{datetime.now(UTC):%Y-%m-%d}, at {revision or 'no revision'}",
        machine(),
        "times are medians, ratios medians over rounds of the ratio within a round",
    ]


def page(
    title: str,
    question: str,
    results: list[Result],
    caveats: tuple[str, ...],
    origin: list[str],
    picture: str,
) -> str:
    """Return the page: question, answer, table, picture, caveats, where it comes from."""
    numbered = [f"{number}. {caveat}" for number, caveat in enumerate(caveats, 1)]
    parts = [
        f"# {title}",
        f"**{question}**",
        answer(results),
        "\n".join(table(results)),
        f"![{answer(results)}]({picture})",
        *(["\n".join(numbered)] if numbered else []),
        "\n".join(f"- {line}" for line in origin),
    ]
    return "\n\n".join(parts) + "\n"


def draw(results: list[Result], path: Path) -> None:
    """Draw each ratio over its target: right of the line it is met."""
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(results)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, result in enumerate(reversed(results)):
        margin, color = 1 / (1 + _shortfall(result)), "C0" if result.holds else "C3"
        axes.plot([1, margin], [place, place], color=color, lw=2)
        axes.plot(margin, place, "o", color=color)
    axes.axvline(1, color="0.4", lw=1)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    shown = next(ticks for reach, ticks in TICKS.items() if high / low < reach)
    few = [tick for tick in shown if low <= tick <= high]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(few, [f"{tick:g}x" for tick in few])
    axes.set_yticks(range(len(results)), [result.what for result in reversed(results)])
    axes.set_xlabel("how far on the good side of the target")
    met = sum(result.holds for result in results)
    missed = "" if met == len(results) else " (red: missed)"
    axes.set_title(f"{met} of {len(results)} targets met{missed}", loc="left")
    figure.savefig(path, dpi=100, metadata={"Software": None})


def _target(result: Result) -> str:
    return f"{'>=' if result.at_least else '<='} {result.target:g}"


def _shortfall(result: Result) -> float:
    """Return by what share a target is missed, from -0.9; negative where it is met."""
    pair = (result.target, result.ratio) if result.at_least else (result.ratio, result.target)
    over, under = (max(value, 1e-3) for value in pair)
    return max(-0.9, over / under - 1)


def _shown(value: float, unit: str) -> str:
    return _duration(value) if unit == "s" else f"{value:.4f}"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
