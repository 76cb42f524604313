"""Beyond the paper: LCT less VS as the imbalance grows from 5 to 500, several seeds each."""

from collections.abc import Sequence

import numpy as np

from curvewise.figures.panels import RangeLine, plot_range_panels
from curvewise.paper.areas import area_rows, cells_from
from curvewise.paper.bands import CAT_DOG
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import LCT, SHIFTED, VS, gains, paired_table, shifted_gains, told
from curvewise.paper.profiles import Profile, both
from curvewise.stats.differences import CellDifference, over_seeds, values_of
from curvewise.stats.paired import BETTER
from curvewise.sweep.spec import Spec

NAME = "fig-beta"
TASKS = ((CAT_DOG,), ("fashion-mnist:0/6", "fashion-mnist:2/4"))
BETAS = (5, 10, 20, 50, 100, 200, 500)
SEEDS = (0, 1, 2)
SHOWN = ("mean", "min", "std")


def _sweeps(profile: Profile) -> list[Spec]:
    return [
        profile.spec(_sweep(tasks), list(tasks), both(), betas=BETAS, seeds=SEEDS)
        for tasks in TASKS
    ]


def _sweep(tasks: Sequence[str]) -> str:
    return f"{NAME}-{tasks[0].partition(':')[0]}"


def _collect(reading: Reading) -> Data:
    return {"": area_rows([cell for tasks in TASKS for cell in reading.cells(_sweep(tasks))])}


def _present(data: Data, profile: Profile) -> Outcome:
    cells = cells_from(data[""])
    lines, control = gains(cells), shifted_gains(cells)
    tasks = list(dict.fromkeys(line.task for line in lines))
    seeds = len({line.seed for line in lines})
    figure = plot_range_panels(
        {_panel(name): range_lines(lines, name) for name in SHOWN},
        ylabel=f"{LCT} less {VS}",
        title=f"{LCT} less {VS}: average of {seeds} seeds, bars from the lowest to the highest",
        caption=caption_of(profile, tasks),
    )
    return Outcome(
        verdict=verdict(lines, control),
        tables={
            f"{LCT} less {VS} over {seeds} seeds": beta_table(lines),
            f"{LCT} less {VS} over all tasks and betas": paired_table(cells, unit="task"),
            **({SHIFTED: beta_table(control)} if control else {}),
        },
        figures={NAME: figure},
    )


def _panel(statistic: str) -> str:
    return f"{statistic} of AUC ({'higher' if BETTER[statistic] > 0 else 'lower'} is better)"


def range_lines(lines: Sequence[CellDifference], statistic: str) -> dict[str, RangeLine]:
    """Return for each task its difference over beta, with the range of its seeds."""
    found = over_seeds(lines, statistic).lines
    drawn = {}
    for task in dict.fromkeys(line.task for line in found):
        own = [line for line in found if line.task == task]
        drawn[title_of(task)] = RangeLine(
            x=[float(line.beta or 1) for line in own],
            y=[line.average for line in own],
            low=[line.low for line in own],
            high=[line.high for line in own],
        )
    return drawn


def beta_table(lines: Sequence[CellDifference]) -> Rows:
    """Return one row a task and beta: average difference, and at how many seeds LCT is better."""
    found = {
        name: {(line.task, line.beta): line for line in over_seeds(lines, name).lines}
        for name in SHOWN
    }
    rows: Rows = []
    for place in dict.fromkeys((line.task, line.beta) for line in lines):
        row = {"task": place[0], "beta": place[1]}
        for name in SHOWN:
            line = found[name].get(place)
            row[name] = None if line is None else line.average
            row[f"{name}: LCT better"] = "-" if line is None else f"{line.better} of {line.seeds}"
        rows.append(row)
    return rows


def verdict(lines: Sequence[CellDifference], control: Sequence[CellDifference] = ()) -> str:
    """Say what LCT gains at each beta on average, and whether that grows."""
    by_beta, average = _by_beta(lines)
    betas = list(by_beta)
    low, high = betas[0], betas[-1]
    # Averages of neighbouring beta may cross by chance: the trend is told by all of them.
    slope = float(np.polyfit(np.log(betas), list(average.values()), 1)[0]) if low < high else 0.0
    grows = slope > 0 and average[high] > 0
    text = (
        f"That LCT's advantage grows with the imbalance {'holds' if grows else 'does not hold'} "
        f"here: its gain in mean AUC is {_told_by_beta(average)}; at beta = {low:g} it has the "
        f"better {told(by_beta[low], SHOWN)}, at beta = {high:g} the better "
        f"{told(by_beta[high], SHOWN)} (task and seed, average difference)."
    )
    if control:
        text += f" Beside VS without tau = 0 the gain is {_told_by_beta(_by_beta(control)[1])}."
    return text


def _by_beta(
    lines: Sequence[CellDifference],
) -> tuple[dict[float, list[CellDifference]], dict[float, float]]:
    """Return the differences by beta, and the averages of those of the mean."""
    betas = sorted({line.beta for line in lines if line.beta is not None})
    found = {beta: [line for line in lines if line.beta == beta] for beta in betas}
    return found, {beta: float(np.mean(values_of(own, "mean"))) for beta, own in found.items()}


def _told_by_beta(average: dict[float, float]) -> str:
    return ", ".join(f"{value:+.4f} at {beta:g}" for beta, value in average.items())


BETA = Experiment(
    name=NAME,
    shows="VS + LCT less VS in mean, min and std of AUC as beta grows from 5 to 500, three seeds",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
