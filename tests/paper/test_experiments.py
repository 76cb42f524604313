"""Every experiment: its declaration, its data, its pages; recorded models in place of training."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from recorded_sweeps import record_sweep

from curvewise.paper.experiment import Reading, results
from curvewise.paper.profiles import Profile
from curvewise.paper.running import (
    EXPERIMENTS,
    draw,
    read_data,
    read_record,
    show,
    write_data,
    write_page,
)
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DATA = RESULTS / "paper"
TRAINED = [name for name, one in EXPERIMENTS.items() if one.sweeps(Profile())]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_declaration_is_whole_and_its_data_are_written_as_read_and_judged(name, tmp_path):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert experiment.question.endswith("?")
    assert experiment.claims
    for text in (experiment.question, *experiment.caveats, *experiment.claims):
        assert len(text.split()) <= 30
    for profile in (Profile(), Profile("paper"), Profile("laptop", "tiny")):
        assert all(spec.name.startswith(name) for spec in experiment.sweeps(profile))
    data = read_data(name, [DATA / file for file in read_record(name, DATA)["data"]])
    for file in write_data(name, data, tmp_path):
        before, again = (pd.read_csv(folder / file.name) for folder in (DATA, tmp_path))
        pd.testing.assert_frame_equal(before, again, rtol=1e-12)
    assert set(results(experiment.claims, data)["verdict"]) <= {"holds", "partly", "does not hold"}


def test_pages_and_figures_are_what_their_data_say_and_nothing_lies_beside(tmp_path, monkeypatch):
    page, figures = tmp_path / "paper.md", {}

    def keep(figure, path, **_):
        figures[path.stem] = figure

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", keep)  # to write them takes seconds
    page.write_bytes((RESULTS / "paper.md").read_bytes())
    assert write_page(DATA, page) == (len(EXPERIMENTS), 0)
    assert page.read_text() == (RESULTS / "paper.md").read_text()
    for file in sorted((tmp_path / "paper").glob("*.md")):
        assert file.read_text() == (DATA / file.name).read_text()
    pictures = {picture.stem: picture.stat().st_size for picture in DATA.glob("*.png")}
    assert figures.keys() == pictures.keys() == {*EXPERIMENTS} - {"table-samples"}
    assert min(pictures.values()) > 10_000
    for name, figure in figures.items():
        finding = re.escape(EXPERIMENTS[name].finding)
        title = finding or "(Holds|Partly|Does not hold): .*\\)\\."
        assert re.fullmatch(title, " ".join(figure.get_suptitle().split()))
        assert 1 <= len([axes for axes in figure.axes if axes.get_label() != "<colorbar>"]) <= 6
        assert figure.get_figwidth() <= 11
    kinds = r"(-[\w-]+)?\.(csv|json|md|png)"
    for file in DATA.iterdir():
        assert any(re.fullmatch(name + kinds, file.name) for name in EXPERIMENTS)


@pytest.mark.parametrize("name", TRAINED)
def test_recorded_models_become_claims_a_table_and_a_figure(name, tmp_path):
    """From a store of made-up scores, two of whose models diverged, to what is shown."""
    experiment, profile = EXPERIMENTS[name], Profile("laptop", "tiny")
    specs = experiment.sweeps(profile)
    few = name in ("fig-eval-lambda", "fig-hyper-metrics")  # each model counts
    lost = iter([] if few else [True, False, True])
    with Store(tmp_path / "runs.db") as store:
        for spec in specs:
            record_sweep(store, spec, diverged=lambda run: next(lost, False))
        reading = Reading(profile, store, Problems(), [spec.name for spec in specs])
        data = experiment.collect(reading)
    files = write_data(name, data, tmp_path)
    if "areas" not in data or len(data["areas"]):
        assert sum(len(rows) for rows in data.values()) >= min(sum(spec.size for spec in specs), 4)
    again = read_data(name, files)
    shown = show(experiment, again)
    assert len(shown.results) == len(experiment.claims)
    assert len(shown.table)
    draw(experiment, profile, again, shown, tmp_path, ".svg")
    assert "tiny scale: no result" in (tmp_path / f"{name}.svg").read_text()


def test_models_are_read_with_their_names_and_scores(tmp_path):
    spec = EXPERIMENTS["table-pairs-fashion"].sweeps(Profile("laptop", "tiny"))[0]
    with Store(tmp_path / "runs.db") as store:
        scores = record_sweep(store, spec)
        models = Reading(Profile(), store, Problems(), [spec.name]).models(spec.name, scores=True)
        assert set(models["method"]) == {"VS", "VS + LCT"}
        for row in models.itertuples():
            np.testing.assert_array_equal(row.score, scores[row.identity])
            np.testing.assert_array_equal(row.y, store.labels(row.fingerprint))
