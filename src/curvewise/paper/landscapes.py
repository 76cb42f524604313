"""Loss landscapes over the logits, with the line on which both labels cost the same."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isclose, log
from typing import Any

import numpy as np

from curvewise.figures.landscapes import plot_landscapes
from curvewise.losses.landscape import BreakEven, Landscape, loss_landscape, score_of, separated
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile

BETA = 10
PLAIN = {"omega": 0.5, "gamma": 0.0, "tau": 0.0}  # cross-entropy
# The paper's text does not say which values its panels have. These are the values of its sweeps;
# gamma = 0.6 is of the 512 models' grid, for the other one ends at 0.4.
TAU = {"tau": (0.0, 1.0, 2.0, 3.0)}
ALL = {"omega": (0.5, 0.7, 0.9, 0.99), "gamma": (0.0, 0.2, 0.4, 0.6), **TAU}
PUBLISHED_SCORE = {("tau", 2.0): 0.99}  # the appendix' numerical example
EXACT = 1e-5  # relative; the files have seven digits

Varied = Mapping[str, Sequence[float]]


def _collect(varied: Varied, reading: Reading) -> Data:
    found: dict[str, Landscape] = {}
    lines: Rows = []
    for name, values in varied.items():
        for value in values:
            setting: dict[str, Any] = {**PLAIN, name: value}
            label = _label(name, value)
            found[label] = loss_landscape(BETA, **setting)
            line = found[label].line
            lines.append(
                {
                    "panel": label,
                    "varied": name,
                    "beta": BETA,
                    **setting,
                    "alpha": line.alpha,
                    "slope": line.slope,
                    "intercept": line.intercept,
                }
            )
    z = next(iter(found.values())).z
    points = [
        {"z0": z0, "z1": z1, **{label: one.difference[i, j] for label, one in found.items()}}
        for i, z1 in enumerate(z)
        for j, z0 in enumerate(z)
    ]
    return {"": points, "lines": lines}


def _label(name: str, value: float) -> str:
    return f"{name} = {value:g}"


def landscapes_from(data: Data) -> dict[str, Landscape]:
    """Return the landscapes by panel, from the rows of their points and lines."""
    z = np.unique([row["z0"] for row in data[""]])
    return {
        line["panel"]: Landscape(
            z,
            np.array([row[line["panel"]] for row in data[""]], float).reshape(len(z), len(z)),
            BreakEven(line["alpha"], line["slope"], line["intercept"]),
        )
        for line in data["lines"]
    }


def _present(name: str, data: Data, profile: Profile) -> Outcome:
    found, lines = landscapes_from(data), data["lines"]
    names = list(dict.fromkeys(line["varied"] for line in lines))
    others = ", ".join(f"{key} = {value:g}" for key, value in PLAIN.items() if names != [key])
    title = f"beta = {BETA}; where not said {others}; white line: both labels cost the same"
    told = _tau_verdict(lines) if names == ["tau"] else _verdict(lines)
    right, total = np.sum([separated(one) for one in found.values()], axis=0)
    sides = f"the line parts the signs of the difference at {right:,} of {total:,} points"
    return Outcome(
        verdict=f"{told}; {sides}. Nothing is trained, so this is the same under every profile.",
        tables={f"Break-even line z1 = slope z0 + intercept at beta = {BETA}": _table(lines)},
        figures={name: plot_landscapes(found, title=title)},
    )


def _table(lines: Rows) -> Rows:
    return [
        {
            **{key: line[key] for key in ("omega", "gamma", "tau", "alpha", "slope", "intercept")},
            "softmax p1 on the line at z0 = 0": score_of(line["intercept"]),
            "p1 (published)": PUBLISHED_SCORE.get((line["varied"], line["tau"])),
        }
        for line in lines
    ]


def _last(lines: Rows, varied: str) -> dict[str, float]:
    """Return the line at the largest value of what is varied."""
    return max((line for line in lines if line["varied"] == varied), key=lambda line: line[varied])


def _tau_verdict(lines: Rows) -> str:
    """Say whether tau shifts the line by tau log(beta) and leaves its slope alone."""
    exact = all(
        isclose(line["slope"], 1, rel_tol=EXACT)
        and isclose(line["intercept"], line["tau"] * log(line["beta"]), rel_tol=EXACT)
        for line in lines
    )
    last = _last(lines, "tau")
    start = "The paper's claim holds" if exact else "The paper's claim does not hold"
    return (
        f"{start}: tau shifts the line by tau log(beta), {last['intercept']:.4f} at tau = "
        f"{last['tau']:g}, and leaves its slope at {last['slope']:g}"
    )


def _verdict(lines: Rows) -> str:
    """Say what each of the three does to the line, and whether it is what the paper derives."""
    omega, gamma, tau = (_last(lines, name) for name in ("omega", "gamma", "tau"))
    exact = (
        isclose(gamma["slope"], gamma["beta"] ** gamma["gamma"], rel_tol=EXACT)
        and isclose(tau["intercept"], tau["tau"] * log(tau["beta"]), rel_tol=EXACT)
        and gamma["intercept"] == 0 < omega["intercept"]
        and omega["slope"] == tau["slope"] == 1
    )
    start = "The paper's description holds" if exact else "The paper's description does not hold"
    return (
        f"{start}: omega = {omega['omega']:g} lifts the line by {omega['intercept']:.4f}, tau = "
        f"{tau['tau']:g} by {tau['intercept']:.4f}, and gamma = {gamma['gamma']:g} turns it about "
        f"the origin to slope {gamma['slope']:.4f}, so that gamma favours class 1 only where "
        f"z0 > 0 (a condition that the paper's text lacks)"
    )


def _landscape_experiment(name: str, shows: str, published: str, varied: Varied) -> Experiment:
    return Experiment(
        name=name,
        shows=shows,
        published=published,
        collect=partial(_collect, varied),
        present=partial(_present, name),
    )


BREAK_EVEN_TAU = _landscape_experiment(
    "fig-break-even-tau",
    "loss of label 1 less loss of label 0 over the logits, for four tau, beta = 10",
    "tau shifts the loss landscape by tau log(beta); softmax p1 of 0.99 on the line at tau = 2",
    TAU,
)
CONTOURS = _landscape_experiment(
    "fig-contours",
    "loss of label 1 less loss of label 0 over the logits, for omega, gamma and tau, beta = 10",
    "omega and tau shift the break-even line, gamma turns it (values of the panels not given: "
    "those of the sweeps here)",
    ALL,
)
