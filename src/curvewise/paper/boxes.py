"""Box plots of AUC at three beta: Melanoma, or Dogs vs Cats where its images are not there."""

from collections.abc import Sequence

from curvewise.figures.curves import plot_spread
from curvewise.figures.panels import panel_axes, write_title
from curvewise.paper.areas import area_rows, cells_from, statistics_table
from curvewise.paper.bands import DOGS_CATS, MELANOMA
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading
from curvewise.paper.gains import (
    LCT,
    VS,
    ahead,
    beta_of,
    gain_table,
    gains,
    shifted_gains,
    shifted_table,
    told,
)
from curvewise.paper.profiles import Profile, both
from curvewise.stats.cells import CellAreas
from curvewise.stats.summary import cell_statistics, spread_by
from curvewise.sweep.spec import Spec

NAME = "fig-melanoma-box"
# Melanoma has 12 benign images to a malignant one as it is, by the paper's count.
BETAS: dict[str, tuple[float | None, ...]] = {
    MELANOMA: (None, 100, 200),
    DOGS_CATS: (10, 100, 200),
}


def _sweeps(profile: Profile) -> list[Spec]:
    task = MELANOMA if profile.melanoma else DOGS_CATS
    return [profile.spec(NAME, [task], both(), betas=BETAS[task])]


def _collect(reading: Reading) -> Data:
    return {"": area_rows(reading.cells(NAME))}


def _present(data: Data, profile: Profile) -> Outcome:
    cells = cells_from(data[""])
    task = cells[0].task
    lines = gains(cells)
    instead = "" if task == MELANOMA else " (in place of Melanoma, whose images were not there)"
    figure, (axes,) = panel_axes(1, 1, width=6.5, height=4.2)
    plot_spread(spread_by(cells, "beta"), ax=axes)
    write_title(figure, f"{title_of(task)}{instead}", caption_of(profile, [task]))
    return Outcome(
        verdict=verdict(cells) + (f" Shown on {title_of(task)}{instead}." if instead else ""),
        tables={
            "AUC by beta and method": statistics_table(cells),
            f"{LCT} less {VS}": gain_table(lines),
            **shifted_table(shifted_gains(cells)),
        },
        figures={NAME: figure},
    )


def verdict(cells: Sequence[CellAreas]) -> str:
    """Say whether VS gets worse and more spread out with beta, and whether LCT mends both."""
    lines = sorted(
        (line for line in cell_statistics(cells).lines if line.label == VS),
        key=lambda line: 0 if line.beta is None else line.beta,
    )
    first, last = lines[0], lines[-1]
    worse = last.mean < first.mean and last.std > first.std
    severe = [line for line in gains(cells) if beta_of(line) >= 100]
    mended = ahead(severe, ("mean", "std"))
    control = [line for line in shifted_gains(cells) if beta_of(line) >= 100]
    return (
        f"That AUC falls and spreads as beta grows {'holds' if worse else 'does not hold'} here: "
        f"VS goes from mean {first.mean:.4f}, std {first.std:.4f} to {last.mean:.4f}, "
        f"{last.std:.4f}. That LCT mends both {'holds' if mended else 'does not hold'}: at "
        f"beta >= 100 it has the better {told(severe)} (cells, average difference, one seed)"
        + (f"; beside VS at tau > 0 alone, {told(control)}." if control else ".")
    )


MELANOMA_BOX = Experiment(
    name=NAME,
    shows="AUC box plots of VS and VS + LCT at three beta on Melanoma, or Dogs vs Cats without it",
    published="AUC drops and its spread grows with beta; LCT addresses both",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
