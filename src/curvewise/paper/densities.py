"""The linear densities that tau is drawn from."""

import numpy as np

from curvewise.figures.landscapes import plot_line_panels
from curvewise.losses.family import LinearDensity
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile

NAME = "fig-linear-density"
LOW, HIGH = 0.0, 3.0
HEIGHTS = (0.0, 0.15, 0.33, 0.66)  # at HIGH: those of the paper's sweeps
MIDDLE = (LOW + HIGH) / 2


def _collect(reading: Reading) -> Data:
    points: Rows = []
    summary: Rows = []
    for height in HEIGHTS:
        density = LinearDensity(LOW, HIGH, height)
        tau = np.linspace(LOW, HIGH, 61)
        values = zip(tau, density.pdf(tau), density.cdf(tau), strict=True)
        points += [{"height": height, "tau": x, "pdf": pdf, "cdf": cdf} for x, pdf, cdf in values]
        summary.append(
            {
                "height": height,
                "height at low": density.height_at_low,
                "mean": mean_of(density),
                "median": float(density.ppf(0.5)),
                "above the middle": 1 - float(density.cdf(MIDDLE)),
            }
        )
    return {"": points, "summary": summary}


def mean_of(density: LinearDensity) -> float:
    """Return the expectation; the density is a mixture of two triangles with theirs at 1/3, 2/3.

    >>> mean_of(LinearDensity(0.0, 3.0, 0.0))
    1.0
    """
    width = density.high - density.low
    share = density.height_at_high * width / 2  # of the triangle that rises
    return density.low + width * (1 + share) / 3


def _present(data: Data, profile: Profile) -> Outcome:
    lines: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {"PDF": {}, "CDF": {}}
    for row in data["summary"]:
        rows = [point for point in data[""] if point["height"] == row["height"]]
        tau = np.array([point["tau"] for point in rows])
        for panel, drawn in lines.items():
            values = np.array([point[panel.lower()] for point in rows])
            drawn[f"height at {HIGH:g}: {row['height']:g}"] = (tau, values)
    figure = plot_line_panels(
        lines,
        xlabel="tau",
        ylabels=["density", "cumulative probability"],
        title=f"Linear densities on [{LOW:g}, {HIGH:g}]",
    )
    table = [
        {
            f"height at {HIGH:g}": row["height"],
            f"height at {LOW:g}": row["height at low"],
            "mean": row["mean"],
            "median": row["median"],
            f"P(tau > {MIDDLE:g})": row["above the middle"],
        }
        for row in data["summary"]
    ]
    return Outcome(
        verdict=_verdict(data["summary"]),
        tables={f"Linear densities on [{LOW:g}, {HIGH:g}]": table},
        figures={NAME: figure},
    )


def _verdict(summary: Rows) -> str:
    first, last = summary[0], summary[-1]
    flat = min(summary, key=lambda row: abs(row["height"] - row["height at low"]))
    return (
        f"As the paper describes: height {first['height']:g} is a triangle (mean "
        f"{first['mean']:.4f}), {flat['height']:g} nearly uniform ({flat['height at low']:.4f} at "
        f"{LOW:g}, mean {flat['mean']:.4f}), {last['height']:g} nearly the opposite triangle "
        f"({last['height at low']:.4f} at {LOW:g}, mean {last['mean']:.4f}); the chance of tau > "
        f"{MIDDLE:g} goes from {first['above the middle']:.4f} to "
        f"{last['above the middle']:.4f}."
    )


LINEAR_DENSITY = Experiment(
    name=NAME,
    shows=f"PDFs and CDFs of tau's linear density on [{LOW:g}, {HIGH:g}] for four heights",
    published="uniform where both heights are equal, a triangle where one is 0 (no numbers given)",
    collect=_collect,
    present=_present,
)
