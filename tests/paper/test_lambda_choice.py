"""What to draw: the settings of each choice, where they are scored, which is called best."""

from math import sqrt

import numpy as np
import pytest
from on_digits import run_on_digits
from scipy import stats

from curvewise.losses.registry import parse_setting
from curvewise.paper.csv_files import read_rows, rounded
from curvewise.paper.lambda_choice import CHOICES, LAMBDA_CHOICE, SCORED
from curvewise.paper.profiles import Profile
from curvewise.paper.running import STORE
from curvewise.sweep.store import Store


def made_up(means, stds=None, middle=None):
    """Return 27 models a choice and place with the given mean and std of AUC."""
    shape = stats.zscore(np.sin(np.arange(27)), ddof=1)
    rows = []
    for choice, drawn in CHOICES.items():
        for scored in SCORED if drawn else (None,):
            mean = (middle or means)[choice] if scored == "middle" else means[choice]
            areas = mean + (stds or {}).get(choice, 0.01) * shape
            place = {"task": "cifar10:cat/dog", "beta": 100, "seed": 0, "method": "VS + LCT"}
            values = {"omega": 0.5, "gamma": 0, "tau": "0:3:0"}
            rows += [
                {"choice": choice, "scored": scored, **place, **values, "auc": area}
                for area in areas
            ]
    return rounded({"": rows})


def verdict_of(*given, **more):
    return LAMBDA_CHOICE.present(made_up(*given, **more), Profile()).verdict


MEANS = {"VS": 0.70, "omega": 0.71, "gamma": 0.72, "tau": 0.74, "all three": 0.73}
CALM = {"tau": 0.005}


def test_every_choice_has_27_models_that_draw_it_alone():
    specs = LAMBDA_CHOICE.sweeps(Profile())
    assert len(specs) == 9
    assert len({spec.name for spec in specs}) == 9
    assert all(spec.name.startswith(LAMBDA_CHOICE.name) for spec in specs)
    seen = []
    for spec in specs:
        runs = spec.runs()
        assert len(runs) == len({str(run.settings) for run in runs}) == 27
        drawn = {
            tuple(name for name, value in run.settings.items() if isinstance(value, str))
            for run in runs
        }
        (names,) = drawn
        (scored,) = {tuple(run.evaluate.items()) for run in runs}
        assert tuple(name for name, _ in scored) == names
        seen.append(names)
    assert seen == [(), *(names for names in list(CHOICES.values())[1:] for _ in range(2))]


def test_models_are_scored_at_the_top_and_in_the_middle():
    for spec in LAMBDA_CHOICE.sweeps(Profile()):
        for run in spec.runs():
            for name, value in run.evaluate.items():
                density = parse_setting(name, run.settings[name])
                top = spec.name.endswith("-top")
                expected = density.high if top else (density.low + density.high) / 2
                assert value == pytest.approx(expected)


def test_both_places_have_the_same_models():
    specs = {spec.name: spec for spec in LAMBDA_CHOICE.sweeps(Profile())}
    for choice in ("omega", "gamma", "tau", "all-three"):
        top, middle = (specs[f"fig-lambda-choice-{choice}-{place}"].runs() for place in SCORED)
        for one, other in zip(top, middle, strict=True):
            assert {**vars(one), "evaluate": None} == {**vars(other), "evaluate": None}
            assert one.evaluate != other.evaluate


def test_densities_fall_are_flat_and_rise():
    spec = next(s for s in LAMBDA_CHOICE.sweeps(Profile()) if "all-three" in s.name)
    for name, texts in spec.methods[0].settings.items():
        falling, flat, rising = (parse_setting(name, text) for text in texts)
        most = 2 / (falling.high - falling.low)
        assert falling.height_at_high == 0
        assert flat.height_at_high == pytest.approx(most / 2, rel=0.02)
        assert rising.height_at_high == pytest.approx(most, rel=0.02)


def test_the_table_has_the_statistics_of_each_choice():
    (rows,) = LAMBDA_CHOICE.present(made_up(MEANS, CALM), Profile()).tables.values()
    assert len(rows) == 9
    by_place = {(row["lambda"], row["scored at"]): row for row in rows}
    row = by_place["gamma", "gamma = 0.4"]
    assert (row["models"], row["mean AUC"], row["std"]) == pytest.approx((27, 0.72, 0.01), abs=1e-6)
    assert row["mean less that of tau"] == pytest.approx(-0.02, abs=1e-6)
    welch = stats.ttest_ind_from_stats(0.72, 0.01, 27, 0.74, 0.005, 27, equal_var=False)
    assert row["standard error"] == pytest.approx(-0.02 / welch.statistic, rel=1e-4)
    assert row["standard error"] == pytest.approx(sqrt((0.01**2 + 0.005**2) / 27), rel=1e-4)
    assert by_place["none (VS)", None]["mean AUC"] == pytest.approx(0.70)
    assert by_place["all three", "omega = 0.99, gamma = 0.4, tau = 3"]["mean less that of tau"] < 0
    assert by_place["tau", "tau = 3"]["standard error"] is None


def test_the_claim_holds_where_tau_is_best_and_calmer_than_vs():
    assert "best choice holds here" in verdict_of(MEANS, CALM)
    assert "best choice fails here" in verdict_of(MEANS, {"tau": 0.02})
    beaten = {**MEANS, "omega": 0.76}
    told = verdict_of(beaten, CALM)
    assert "best choice fails here" in told
    assert "0.7400, -0.0200 to the best other, lambda = omega (standard error 0.0022)" in told
    for near in (0.739, 0.741):
        assert "best choice is undecided here" in verdict_of({**MEANS, "omega": near}, CALM)
    assert "-0.0600 to the best other, VS" in verdict_of({**MEANS, "VS": 0.8}, CALM)
    torn = verdict_of(MEANS, CALM, middle=beaten)
    assert "best choice holds at the top, but in the middle fails here" in torn


def test_diverged_models_are_left_out():
    data = made_up(MEANS, CALM)
    before = LAMBDA_CHOICE.present(data, Profile())
    data[""].append({**data[""][-1], "auc": None})
    assert LAMBDA_CHOICE.present(data, Profile()).tables == before.tables


def test_the_figure_has_a_group_for_each_choice():
    outcome = LAMBDA_CHOICE.present(made_up(MEANS), Profile())
    (axes,) = outcome.figures["fig-lambda-choice"].axes
    assert [tick.get_text().split("\n")[0] for tick in axes.get_xticklabels()] == [
        "VS", "lambda = omega", "lambda = gamma", "lambda = tau", "lambda = all three"
    ]  # fmt: skip
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert [len(line.get_ydata()) for line in dots] == [27] * 9
    assert axes.get_xticklabels()[3].get_text() == "lambda = tau\nat 3\nor 1.5"
    assert "laptop profile" in axes.get_title()


def test_it_is_collected_from_a_store(tmp_path):
    run_on_digits(LAMBDA_CHOICE, tmp_path)
    rows = read_rows(tmp_path / "fig-lambda-choice.csv")
    assert len(rows) == 18
    with Store(tmp_path / STORE) as store:
        for choice, drawn in CHOICES.items():
            for scored in SCORED if drawn else (None,):
                name = f"fig-lambda-choice-{choice.lower().replace(' ', '-')}-{scored or 'top'}"
                own = [r for r in rows if (r["choice"], r["scored"]) == (choice, scored)]
                records = store.runs(name)
                assert [row["auc"] for row in own] == pytest.approx(
                    [record.auc for record in records], rel=1e-6
                )
