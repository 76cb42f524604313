"""Where LCT's gain comes from: conditioning, the extra layer, or the randomised loss.

Every control has one part of LCT. Repeats of two settings tell chance from settings.
"""

from collections.abc import Sequence
from itertools import product
from math import sqrt

import numpy as np

from curvewise.figures.controls import plot_arm_differences
from curvewise.losses.registry import METHODS
from curvewise.paper.areas import (
    area_rows,
    cells_from,
    summary_table,
    without_empty_notes,
)
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import CellAreas, labels_of
from curvewise.stats.dyadic import holm_rows, pair_tests, task_differences
from curvewise.stats.ensemble_growth import with_ensembles
from curvewise.sweep.spec import Spec

NAME, REPEATED = "table-controls", "table-controls-repeats"
ARMS = ("vs", "constant-film", "unconditioned", "lct")
VS, FILM, DRAWN, LCT = (METHODS[name].label for name in ARMS)
FOUR = "mean of 4 VS"
# By the part of the data that holds them: each arm's models, and the ensembles of VS.
PARTS = {**{name: METHODS[name].label for name in ARMS}, "mean-of-4": FOUR}
COLORS = {VS: 0, LCT: 1, FILM: 2, DRAWN: 3, FOUR: 4}
REPEATED_TASKS = [f"fashion-mnist:{pair}" for pair in ("0/6", "1/3", "2/4", "4/6", "5/7")]
REPEATS = 12
SURE = 0.05


def _sweeps(profile: Profile) -> list[Spec]:
    arms = [{"method": name, "grid": "paper"} for name in ARMS]
    repeats = 2 if profile.scale == "tiny" else REPEATS
    two = {"omega": [0.5, 0.9], "gamma": 0.2, "repeats": repeats}
    repeated = [{"method": "vs", "tau": 2.0, **two}, {"method": "lct", "tau": "0:3:0.33", **two}]
    return [
        profile.spec(NAME, ["fashion-mnist:pairs"], arms, seeds=(0, 1)),
        profile.spec(REPEATED, REPEATED_TASKS, repeated),
    ]


def _collect(reading: Reading) -> Data:
    cells = [with_ensembles(cell, VS, FOUR, ("omega", "gamma")) for cell in reading.cells(NAME)]
    rows = area_rows(cells)
    parts = {part: [row for row in rows if row["method"] == label] for part, label in PARTS.items()}
    return {**parts, "repeats": area_rows(reading.cells(REPEATED))}


def _present(data: Data, profile: Profile) -> Outcome:
    cells = cells_from([row for part in PARTS for row in data[part]])
    known = labels_of(cells)
    controls = [name for name in (FILM, DRAWN, FOUR) if name in known]
    contrasts = [*((VS, name) for name in (*controls, LCT)), *((name, LCT) for name in controls)]
    tests = holm_rows([row for a, b in contrasts for row in pair_tests(cells, a, b)])
    noise = noise_table(cells, cells_from(data["repeats"]))
    pairs = len({cell.task for cell in cells})
    seeds = len({cell.seed for cell in cells})
    differences = arm_differences(cells, (LCT, *controls))
    title = (
        f"AUC of each method less that of {VS}, {pairs} Fashion-MNIST pairs, {seeds} seeds averaged"
        f"\n({profile.caption('fashion-mnist')})"
    )
    return Outcome(
        verdict=verdict(tests, noise),
        tables={
            "Averages over pairs and seeds (each mean of 4 VS costs four trainings, and there are "
            "a quarter as many, which alone raises min and lowers max)": summary_table(cells),
            f"Each method against {VS} (Holm's correction is for this table and the next)": (
                without_empty_notes([row for row in tests if row["against"] == VS])
            ),
            f"{LCT} against its controls": (
                without_empty_notes([row for row in tests if row["against"] != VS])
            ),
            "Chance and settings: std of AUC of one setting trained again with other weights and "
            "draws, beside that over all settings": noise,
        },
        figures={NAME: plot_arm_differences(differences, COLORS, title=title)},
    )


def arm_differences(
    cells: Sequence[CellAreas], arms: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """Return mean, minimum and std of AUC of each arm less that of VS, a value a pair."""
    return {
        f"{name} of AUC": {
            arm: list(task_differences(cells, VS, arm, statistic).values()) for arm in arms
        }
        for name, statistic in (
            ("mean", "mean"),
            ("minimum", "min"),
            ("lower is better: std", "std"),
        )
    }


def noise_table(cells: Sequence[CellAreas], repeated: Sequence[CellAreas]) -> Rows:
    """Return a row for each method and repeated setting: std over repeats, std over settings.

    Both are root mean squares over the tasks that were repeated, at the same seed. The ratio of
    variances is above 1 where a setting is more a matter of luck than most.
    """
    places = {(cell.task, cell.seed) for cell in repeated}
    there = [cell for cell in cells if (cell.task, cell.seed) in places]
    rows: Rows = []
    for method in labels_of(repeated):
        over = _pooled_std([cell.areas[method] for cell in there if method in cell.areas])
        own = [cell for cell in repeated if method in cell.areas]
        omegas = sorted({settings["omega"] for cell in own for settings in cell.settings[method]})
        groups = {
            (omega, cell.task): [
                float(area)
                for area, settings in zip(cell.areas[method], cell.settings[method], strict=True)
                if settings["omega"] == omega
            ]
            for omega, cell in product(omegas, own)
        }
        for omega in omegas:
            within = _pooled_std([areas for (o, _), areas in groups.items() if o == omega])
            rows.append(
                {
                    "method": method,
                    "omega": omega,
                    "tasks": len(own),
                    "models": sum(len(areas) for (o, _), areas in groups.items() if o == omega),
                    "std over repeats": within,
                    "std over settings": over,
                    "ratio of variances": within**2 / over**2 if over else float("nan"),
                }
            )
    return rows


def _pooled_std(groups: Sequence[Sequence[float] | np.ndarray]) -> float:
    """Return the root of the mean variance of groups of two values or more, nan without any."""
    found = [float(np.var(group, ddof=1)) for group in groups if len(group) > 1]
    return sqrt(float(np.mean(found))) if found else float("nan")


def verdict(tests: Rows, noise: Rows) -> str:
    """Say which part of LCT the difference of mean AUC comes from, if there is one."""
    means = {(row["against"], row["method"]): row for row in tests if row["AUC"] == "mean"}
    gain = means[VS, LCT]
    controls = [a for a, b in means if b == LCT and a != VS]
    told = "; ".join(
        f"{name} {means[VS, name]['difference']:+.4f}, p = {means[VS, name]['p (Holm)']:.2g}"
        for name in controls
    )
    start = (
        f"Against VS the mean AUC of LCT is {gain['difference']:+.4f} (better on {gain['better']} "
        f"of {gain['pairs']} pairs, p = {gain['p (Holm)']:.2g} after Holm, pairs sharing classes), "
        f"that of the controls: {told}. "
    )
    beaten = [name for name in controls if _is_ahead(means[name, LCT])]
    level = [name for name in controls if name not in beaten]
    if not _is_ahead(gain):
        end = "So LCT has no sure gain over VS here that conditioning could explain."
    elif FILM in beaten and DRAWN in beaten:
        end = "LCT is ahead of the layer alone and of the draws alone: conditioning itself helps"
        end += f", though {FOUR} does as well." if FOUR in level else "."
    else:
        end = (
            f"LCT is ahead of VS but not surely of {' or '.join(level)}: the gain is not shown to "
            f"come from conditioning."
        )
    return f"{start}{end}{_chance(noise)}"


def _chance(noise: Rows) -> str:
    """Say how much one setting varies when it is trained again, beside all settings."""
    shares: dict[str, list[float]] = {}
    for row in noise:
        if row["ratio of variances"] == row["ratio of variances"]:
            shares.setdefault(row["method"], []).append(row["ratio of variances"])
    told = " and ".join(f"{np.mean(own):.2g} ({name})" for name, own in shares.items())
    return f" One setting trained again has {told} of the variance over settings." if told else ""


def _is_ahead(row: dict[str, float]) -> bool:
    return row["difference"] > 0 and row["p (Holm)"] < SURE


CONTROLS = Experiment(
    name=NAME,
    shows="VS, its four-model mean, LCT and the controls that have one part of LCT each: 45 "
    "Fashion-MNIST pairs, two seeds",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
