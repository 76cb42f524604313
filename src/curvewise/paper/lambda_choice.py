"""Which of omega, gamma and tau to train over: each alone, or all three at once."""

from math import sqrt
from typing import Any

import numpy as np

from curvewise.figures.hyper import plot_choices
from curvewise.paper.areas import area_rows
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import Floats
from curvewise.sweep.spec import Spec

NAME = "fig-lambda-choice"
TASK, BETA = "cifar10:cat/dog", 100
# The paper gives neither settings nor where models are scored; these are ours. Constants are
# three a setting, densities fall to 0, are flat, or rise from 0, as far as two digits go.
CONSTANTS: dict[str, list[float]] = {
    "omega": [0.5, 0.7, 0.9],
    "gamma": [0.0, 0.2, 0.4],
    "tau": [0.0, 1.5, 3.0],
}
DENSITIES = {
    "omega": ["0.5:0.99:0", "0.5:0.99:2.04", "0.5:0.99:4.08"],
    "gamma": ["0:0.4:0", "0:0.4:2.5", "0:0.4:5"],
    "tau": ["0:3:0", "0:3:0.33", "0:3:0.66"],
}
# The paper scores lambda = tau at the top, 3; the middle shows whether that decides anything.
SCORED = {
    "top": {"omega": 0.99, "gamma": 0.4, "tau": 3.0},
    "middle": {"omega": 0.745, "gamma": 0.2, "tau": 1.5},
}
CHOICES: dict[str, tuple[str, ...]] = {
    "VS": (),
    "omega": ("omega",),
    "gamma": ("gamma",),
    "tau": ("tau",),
    "all three": ("omega", "gamma", "tau"),
}


def choice_spec(choice: str, scored: str, profile: Profile) -> Spec:
    """Return the 27 models of a choice, scored at the top or the middle of what they draw."""
    drawn = CHOICES[choice]
    lists = {name: DENSITIES[name] if name in drawn else CONSTANTS[name] for name in CONSTANTS}
    return profile.spec(
        _sweep_name(choice, scored),
        [TASK],
        [{"method": "lct" if drawn else "vs", **lists}],
        betas=[BETA],
        evaluate={name: SCORED[scored][name] for name in drawn},
    )


def _sweep_name(choice: str, scored: str) -> str:
    return f"{NAME}-{choice.lower().replace(' ', '-')}-{scored}"


def _parts() -> list[tuple[str, str]]:
    """Return every choice with where it is scored; VS has nothing to be scored at."""
    return [
        (choice, scored) for choice, drawn in CHOICES.items() for scored in SCORED
        if drawn or scored == "top"
    ]  # fmt: skip


def _sweeps(profile: Profile) -> list[Spec]:
    return [choice_spec(choice, scored, profile) for choice, scored in _parts()]


def _collect(reading: Reading) -> Data:
    rows: Rows = []
    for choice, scored in _parts():
        place = {"choice": choice, "scored": scored if CHOICES[choice] else None}
        rows += [{**place, **row} for row in area_rows(reading.cells(_sweep_name(choice, scored)))]
    return {"": rows}


def _present(data: Data, profile: Profile) -> Outcome:
    areas: dict[tuple[str, str], Floats] = {
        (choice, scored): np.array(
            [
                row["auc"]
                for row in data[""]
                if row["choice"] == choice
                and row["scored"] in (None, scored)
                and row["auc"] is not None
            ],
            dtype=np.float64,
        )
        for choice, scored in _parts()
    }
    title = f"{TASK}, beta = {BETA} ({profile.caption(TASK)})"
    return Outcome(
        verdict=verdict(areas),
        tables={"AUC by what is drawn": choice_table(areas)},
        figures={NAME: plot_choices(_groups(areas), title=title)},
    )


def _groups(areas: dict[tuple[str, str], Floats]) -> dict[str, dict[str, Floats]]:
    """Return the areas by choice, as named below the figure, and by where they are scored."""
    groups: dict[str, dict[str, Floats]] = {}
    for (choice, scored), values in areas.items():
        drawn = CHOICES[choice]
        ends = [[f"{SCORED[place][name]:g}" for name in drawn] for place in SCORED]
        below = "\nor ".join(", ".join(numbers) for numbers in ends)
        choice_name = f"lambda = {choice}\nat {below}" if drawn else "VS"
        name = f"LCT scored at the {scored} of the range" if drawn else "VS"
        groups.setdefault(choice_name, {})[name] = values
    return groups


def choice_table(areas: dict[tuple[str, str], Floats]) -> Rows:
    """Return a row for each choice and place: statistics of AUC, and the mean less that of tau."""
    rows: Rows = []
    for (choice, scored), values in areas.items():
        less, error = _difference(values, areas["tau", scored])
        rows.append(
            {
                "lambda": choice if CHOICES[choice] else "none (VS)",
                "scored at": ", ".join(
                    f"{name} = {SCORED[scored][name]:g}" for name in CHOICES[choice]
                )
                or None,
                "models": len(values),
                "mean AUC": float(values.mean()),
                "min": float(values.min()),
                "max": float(values.max()),
                "std": _std(values),
                "mean less that of tau": None if choice == "tau" else less,
                "standard error": None if choice == "tau" else error,
            }
        )
    return rows


def verdict(areas: dict[tuple[str, str], Floats]) -> str:
    """Say whether lambda = tau is ahead of all others in the mean, and calmer than VS.

    Ahead means by two standard errors; within two of the best other is undecided.
    """
    vs = areas["VS", "top"]
    told, judged = [], []
    for scored in SCORED:
        tau = areas["tau", scored]
        others = {"VS": vs} | {
            choice: values
            for (choice, place), values in areas.items()
            if place == scored and choice not in ("VS", "tau")
        }
        rival = max(others, key=lambda choice: float(others[choice].mean()))
        ahead, error = _difference(tau, others[rival])
        calmer = _std(tau) < _std(vs)
        near = abs(ahead) < 2 * error
        judged.append("fails" if not calmer or (ahead < 0 and not near) else
                      "is undecided" if near else "holds")  # fmt: skip
        told.append(
            f"scored at the {scored} of the range its mean AUC is {float(tau.mean()):.4f}, "
            f"{ahead:+.4f} to the best other, {_called(rival)} (standard error {error:.4f}), and "
            f"its standard deviation {_std(tau):.4f}"
        )
    result = judged[0] if len(set(judged)) == 1 else " at the top, but in the middle ".join(judged)
    return (
        f"The paper's claim that lambda = tau is the best choice {result} here: "
        f"{'; '.join(told)}; VS has a mean of {float(vs.mean()):.4f} and a standard deviation of "
        f"{_std(vs):.4f}."
    )


def _called(choice: str) -> str:
    return f"lambda = {choice}" if CHOICES[choice] else choice


def _difference(a: Floats, b: Floats) -> tuple[float, float]:
    """Return the difference of two means, a - b, and its standard error."""
    error = sqrt(_std(a) ** 2 / len(a) + _std(b) ** 2 / len(b))
    return float(a.mean() - b.mean()), error


def _std(values: Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


LAMBDA_CHOICE = Experiment(
    name=NAME,
    shows="AUC box plots of LCT with lambda = omega, gamma, tau, all three; 27 settings each",
    published="lambda = tau is the best choice (settings and evaluation are not published)",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
