"""Weighted cross-entropy against the softmax score, and where the two labels cost the same."""

from itertools import pairwise

import numpy as np

from curvewise.figures.landscapes import plot_line_panels
from curvewise.losses.landscape import break_even_score, weighted_cross_entropy
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile

NAME = "fig-omega-softmax"
OMEGAS = (0.5, 0.7, 0.9, 0.99)  # those of the paper's sweeps; its text names none for the figure
SCORES = 1 / (1 + np.exp(-np.linspace(-9, 9, 181)))  # denser where losses are steep
BETA, TAU = 10, 2.0  # of the paper's numerical example
HIGHEST = 2.5  # where the drawn losses end; they have no maximum


def _collect(reading: Reading) -> Data:
    points: Rows = []
    crossings: Rows = []
    for omega in OMEGAS:
        costs = zip(SCORES, *weighted_cross_entropy(omega, SCORES), strict=True)
        points += [
            {"omega": omega, "p1": p1, "loss 0": majority, "loss 1": minority}
            for p1, majority, minority in costs
        ]
        crossing = break_even_score(BETA, omega=omega)
        crossings.append(
            {
                "omega": omega,
                "p1": crossing,
                "loss": float(weighted_cross_entropy(omega, crossing)[1]),
                "p1 with tau": break_even_score(BETA, omega=omega, tau=TAU),
            }
        )
    return {"": points, "crossings": crossings}


def _present(data: Data, profile: Profile) -> Outcome:
    crossings = data["crossings"]
    panels, marked = {}, {}
    for row in crossings:
        name = f"omega = {row['omega']:g}"
        rows = [point for point in data[""] if point["omega"] == row["omega"]]
        p1 = np.array([point["p1"] for point in rows])
        panels[name] = {
            f"label {label}": (p1, np.array([point[f"loss {label}"] for point in rows]))
            for label in (0, 1)
        }
        marked[name] = (row["p1"], row["loss"])
    figure = plot_line_panels(
        panels,
        xlabel="softmax score $p_1$",
        ylabels=["weighted cross-entropy"],
        points=marked,
        ylim=(0, HIGHEST),
        width=2.7,
        title="What a label costs, for $p_1$ from 0.0001 to 0.9999; dot: both cost the same",
    )
    plain = f"p1 of the plain softmax at tau = {TAU:g}, beta = {BETA}"
    table = [
        {
            "omega": row["omega"],
            "p1 where the losses cross": row["p1"],
            "loss there": row["loss"],
            plain: row["p1 with tau"],
        }
        for row in crossings
    ]
    return Outcome(
        verdict=_verdict(crossings),
        tables={"Where the losses of both labels cross": table},
        figures={NAME: figure},
    )


def _verdict(crossings: Rows) -> str:
    first, last = crossings[0], crossings[-1]
    scores = [row["p1"] for row in crossings]
    rises = all(low < high for low, high in pairwise(scores))
    start = "The paper's claim holds" if rises else "The paper's claim does not hold"
    return (
        f"{start}: as omega rises from {first['omega']:g} to {last['omega']:g} the crossing moves "
        f"from p1 = {first['p1']:.4f} to {last['p1']:.4f}; that tau does not move it is true of "
        f"the softmax of shifted logits only, for that of the plain ones is "
        f"{first['p1 with tau']:.4f} at omega = {first['omega']:g}, tau = {TAU:g}, beta = {BETA}."
    )


OMEGA_SOFTMAX = Experiment(
    name=NAME,
    shows="weighted cross-entropy of both labels against the softmax score, crossings marked",
    published="the crossing, where p1^omega = (1 - p1)^(1 - omega), rises with omega",
    collect=_collect,
    present=_present,
)
