"""Sharpness-aware minimisation against LCT: AUC over rho on cat/dog at beta = 100."""

from math import sqrt
from typing import Any

from curvewise.figures.curves import Areas, plot_spread
from curvewise.figures.panels import panel_axes, write_title
from curvewise.paper.areas import area_rows, cells_from
from curvewise.paper.bands import CAT_DOG
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import LCT, VS
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import CellAreas
from curvewise.stats.summary import CellStatistics, cell_statistics
from curvewise.sweep.spec import Spec

NAME = "fig-sam"
RHO = (0.0, 0.05, 0.1, 0.3, 0.5, 0.8)
LCT_RHO = (0.0, 0.1)  # as in the paper
PUBLISHED_BEST = 0.1
LARGE = 0.5  # from here on the paper's models are naive
NAIVE = 0.55  # AUC below which a model hardly ranks at all


def label_of(method: str, rho: float) -> str:
    """Return how an arm is called: by its method and optimiser.

    >>> label_of("VS", 0.0), label_of("VS", 0.05)
    ('VS, SGD', 'VS, SAM 0.05')
    """
    return f"{method}, {optimizer_of(rho)}"


def optimizer_of(rho: float) -> str:
    """Return SAM with its rho, or SGD for 0."""
    return f"SAM {rho:g}" if rho else "SGD"


ARMS = {
    label_of(method, rho): (method, rho)
    for method, all_rho in ((VS, RHO), (LCT, LCT_RHO))
    for rho in all_rho
}


def _sweeps(profile: Profile) -> list[Spec]:
    methods: list[dict[str, Any]] = [
        {"method": "vs" if method == VS else "lct", "grid": "paper", "rho": rho, "label": label}
        for label, (method, rho) in ARMS.items()
    ]
    return [profile.spec(NAME, [CAT_DOG], methods)]


def _collect(reading: Reading) -> Data:
    return {"": area_rows(reading.cells(NAME))}


def _present(data: Data, profile: Profile) -> Outcome:
    (cell,) = cells_from(data[""])
    figure, (axes,) = panel_axes(1, 1, width=8, height=4.2)
    plot_spread(boxes_by_optimizer(cell), ax=axes)
    axes.set_xlabel("optimiser, SAM with its rho")
    write_title(figure, f"{title_of(CAT_DOG)}, beta = 100", caption_of(profile, [CAT_DOG]))
    lines = {line.label: line for line in cell_statistics([cell]).lines}
    return Outcome(
        verdict=verdict(lines),
        tables={"AUC by method and rho": sam_table(cell, lines)},
        figures={NAME: figure},
    )


def boxes_by_optimizer(cell: CellAreas) -> dict[str, Areas]:
    """Return the areas by optimiser, then method."""
    groups: dict[str, dict[str, Any]] = {}
    for label, (method, rho) in ARMS.items():
        if label in cell.areas:
            groups.setdefault(optimizer_of(rho), {})[method] = cell.areas[label]
    order = [optimizer_of(rho) for rho in RHO]
    return {name: groups[name] for name in order if name in groups}


def sam_table(cell: CellAreas, lines: dict[str, CellStatistics]) -> Rows:
    """Return one row an arm; those without a model that ended have no statistics."""
    rows: Rows = []
    for label, (method, rho) in ARMS.items():
        line = lines.get(label)
        rows.append(
            {
                "method": method,
                "rho": f"{rho:g}",
                "models": 0 if line is None else line.models,
                "diverged": cell.diverged.get(label, 0),
                "mean AUC": None if line is None else line.mean,
                "min": None if line is None else line.min,
                "max": None if line is None else line.max,
                "std": None if line is None else line.std,
                f"AUC < {NAIVE}": None if line is None else int((cell.areas[label] < NAIVE).sum()),
            }
        )
    return rows


def verdict(lines: dict[str, CellStatistics]) -> str:
    """Say which rho is best, what large ones do, and whether LCT with SGD is ahead of all."""
    plain = {rho: lines[label_of(VS, rho)] for rho in RHO if label_of(VS, rho) in lines}
    best = max(plain, key=lambda rho: plain[rho].mean)
    second = _second(plain, best) if best == PUBLISHED_BEST else PUBLISHED_BEST
    rival = None if second is None else plain.get(second)
    large = {rho: line for rho, line in plain.items() if rho >= LARGE}
    naive = bool(large) and all(line.mean < NAIVE for line in large.values())
    parts = [
        f"That rho = {PUBLISHED_BEST:g} is best "
        f"{_holds(best == PUBLISHED_BEST, plain[best], rival)}: of VS, "
        f"{optimizer_of(best)} has the highest mean AUC, {plain[best].mean:.4f}"
        + _next(plain, best),
        f"that rho >= {LARGE:g} gives naive classifiers {_holds(naive)}: "
        + ", ".join(f"{line.mean:.4f} at {rho:g}" for rho, line in large.items()),
    ]
    if 0.0 in plain and PUBLISHED_BEST in plain:
        sgd, sam = plain[0.0], plain[PUBLISHED_BEST]
        parts.append(
            f"that rho = {PUBLISHED_BEST:g} spreads more {_holds(sam.std > sgd.std)}: std "
            f"{sam.std:.4f} against {sgd.std:.4f} of SGD"
        )
    trained = lines.get(label_of(LCT, 0.0))
    if trained is not None:
        wins = trained.mean > plain[best].mean
        parts.append(
            "that LCT with SGD is better on average than every VS "
            f"{_holds(wins, trained, plain[best])}: {_beside(trained, plain[best])}"
        )
        both = lines.get(label_of(LCT, PUBLISHED_BEST))
        if both is not None:
            parts.append(
                "that LCT with SAM is less than LCT with SGD "
                f"{_holds(both.mean < trained.mean, both, trained)}: {_beside(both, trained)}"
            )
    return "; ".join(parts) + "."


def _next(plain: dict[float, CellStatistics], best: float) -> str:
    """Return in brackets who comes next, and how much of the distance may be chance."""
    rho = _second(plain, best)
    if rho is None:
        return ""
    return (
        f" (next {optimizer_of(rho)}, {plain[rho].mean:.4f}, the difference having a standard "
        f"error of {_error(plain[best], plain[rho]):.4f})"
    )


def _second(plain: dict[float, CellStatistics], best: float) -> float | None:
    return max((rho for rho in plain if rho != best), key=lambda r: plain[r].mean, default=None)


def _error(a: CellStatistics, b: CellStatistics) -> float:
    """Return the standard error of the difference of two means."""
    return sqrt(sum(line.std**2 / line.models for line in (a, b)))


def _beside(a: CellStatistics, b: CellStatistics) -> str:
    return f"{a.mean:.4f} against {b.mean:.4f} (standard error {_error(a, b):.4f})"


def _holds(claim: bool, a: CellStatistics | None = None, b: CellStatistics | None = None) -> str:
    """Say whether a claim holds; of two means within two standard errors it is undecided."""
    if a is not None and b is not None and abs(a.mean - b.mean) < 2 * _error(a, b):
        return "is undecided here"
    return "holds here" if claim else "does not hold here"


SAM_BOX = Experiment(
    name=NAME,
    shows="AUC box plots over rho = 0 to 0.8 on cat/dog, beta = 100: VS and LCT with SGD and SAM",
    published="rho = 0.1 is best and more spread out, rho >= 0.5 gives naive classifiers, "
    "LCT with SGD is better on average, LCT with SAM less so",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
