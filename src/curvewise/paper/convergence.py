"""Is training at its end? All arms and controls again, three times as long, with validation.

Once on the usual components of the pixels, on which recipes were chosen, and once on all pixels.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from curvewise.figures.controls import plot_arm_differences
from curvewise.losses.registry import METHODS
from curvewise.paper.areas import area_rows, cells_from, without_empty_notes
from curvewise.paper.controls import (
    COLORS,
    DRAWN,
    FILM,
    FOUR,
    LCT,
    VS,
    arm_differences,
)
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import SHIFTED, shifted
from curvewise.paper.profiles import Profile
from curvewise.paper.settled import ARMS, FLAT, VALIDATION, flat_table, verdict
from curvewise.stats.cells import Measured
from curvewise.stats.dyadic import holm_rows, pair_tests
from curvewise.stats.ensemble_growth import with_ensembles
from curvewise.sweep.spec import Spec

EPOCHS = {"laptop": (20, 60), "paper": (167, 500)}
PARTS = ("shorter", "longer")
# Chosen on validation parts of pairs 0/6 and 2/4: with twice the usual decay AUC is the same after
# 20 epochs and after 60 for VS and for LCT (within 0.006) and higher for both; with four times it,
# many models of both fall to chance. Of all 45 pairs five in 2,880 do, none of them VS.
PIXEL_DECAY = 1e-2
OTHERS = (LCT, FILM, DRAWN, FOUR)
HOLM = "Holm's correction is for this table"
STATISTICS = ("max", "mean", "min", "std")
SETTINGS = {"omega": [0.5, 0.9], "gamma": 0.2}  # with four tau, or densities of it: eight
PLACE = ("task", "seed", "method", "omega", "gamma", "tau")  # what tells a model from others


def epochs_of(profile: Profile) -> tuple[int, int]:
    """Return the two lengths of training that are compared."""
    return (1, 2) if profile.scale == "tiny" else EPOCHS[profile.name]


def _sweeps(profile: Profile, name: str, pixels: bool) -> list[Spec]:
    more: dict[str, Any] = {"features": {}} if pixels else {}
    recipe: dict[str, Any] = {"weight_decay": PIXEL_DECAY} if pixels else {}
    if profile.name == "paper":
        # The cosine of this preset fits any number of epochs; milestones would not.
        recipe = {"preset": "quick", "film_init": "paper"}
    specs = []
    for part, epochs in zip(PARTS, epochs_of(profile), strict=True):
        methods = [
            {
                "method": arm,
                **SETTINGS,
                "tau": list((METHODS[arm].paper or {})["tau"]),
                "epochs": epochs,
            }
            for arm in ARMS.values()
        ]
        specs.append(
            profile.spec(
                f"{name}-{part}",
                ["fashion-mnist:pairs"],
                methods,
                seeds=(0, 1),
                validation=VALIDATION,
                recipe=recipe,
                **more,
            )
        )
    return specs


def _collect(reading: Reading, name: str) -> Data:
    # A file each: they would be long together.
    return {part: _rows(reading, f"{name}-{part}") for part in PARTS}


def _rows(reading: Reading, sweep: str) -> Rows:
    """Return the areas of a sweep's models and of the ensembles of VS, those on validation too."""
    validation = {
        _key({"method": run.label, **run.settings, "task": run.task, "seed": run.seed}): value
        for run, value in (
            (record.run, record.metrics["validation_auc"]) for record in reading.records(sweep)
        )
    }
    cells = [with_ensembles(cell, VS, FOUR, ("omega", "gamma")) for cell in reading.cells(sweep)]
    return [{**row, "validation_auc": validation.get(_key(row))} for row in area_rows(cells)]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def _present(data: Data, profile: Profile, name: str, pixels: bool) -> Outcome:
    epochs = epochs_of(profile)
    both = (data["shorter"], data["longer"])
    flat = flat_table(*both, epochs)
    cells = [cells_from(rows) for rows in both]
    tests = _tests(epochs, cells, OTHERS)
    later = [shifted(own) for own in cells]
    control = _tests(epochs, later, (LCT,)) if all(later) else []
    pairs, seeds = (len({row[key] for row in data["longer"]}) for key in ("task", "seed"))
    title = (
        f"After {epochs[1]} epochs: AUC of each method less that of {VS}, {pairs} Fashion-MNIST "
        f"pairs, {seeds} seeds averaged\n({profile.caption('fashion-mnist', pixels=pixels)})"
    )
    figure = plot_arm_differences(arm_differences(cells[1], OTHERS), COLORS, title=title)
    return Outcome(
        verdict=verdict(flat, tests, control, epochs),
        tables={
            f"AUC after {epochs[0]} and {epochs[1]} epochs, averages over pairs, seeds and "
            f"settings; on validation, a pair is settled if it changes by {FLAT:g} at most": flat,
            f"Each method against {VS} on the test part ({HOLM})": without_empty_notes(tests),
            **({SHIFTED: without_empty_notes(control)} if control else {}),
        },
        figures={name: figure},
    )


def _tests(
    epochs: tuple[int, int], cells: Sequence[Sequence[Measured]], arms: Sequence[str]
) -> Rows:
    """Compare arms with VS after either number of epochs; Holm's correction is for all rows."""
    return holm_rows(
        [
            {"epochs": number, **row}
            for number, own in zip(epochs, cells, strict=True)
            for arm in arms
            for row in pair_tests(own, VS, arm, STATISTICS)
        ]
    )


def _experiment(name: str, *, pixels: bool) -> Experiment:
    of = "all 784 pixels of " if pixels else ""
    return Experiment(
        name=name,
        shows="all arms and controls after training and after training three times as long, AUC "
        f"on validation: {of}45 Fashion-MNIST pairs, two seeds",
        published="",
        sweeps=partial(_sweeps, name=name, pixels=pixels),
        collect=partial(_collect, name=name),
        present=partial(_present, name=name, pixels=pixels),
    )


CONVERGENCE = _experiment("table-convergence", pixels=False)
CONVERGENCE_PIXELS = _experiment("table-convergence-pixels", pixels=True)
