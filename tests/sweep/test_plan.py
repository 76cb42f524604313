"""Planned runs: what their identity depends on, and what it must not depend on."""

import hashlib
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, strategies as st

from curvewise.base.errors import InputError
from curvewise.sweep import plan
from curvewise.sweep.plan import PlannedRun

RUN = PlannedRun(
    task="digits:8",
    beta=100.0,
    seed=3,
    label="VS",
    method="vs",
    settings={"omega": 0.5, "gamma": 0.2, "tau": 2.0},
    network={"name": "mlp", "hidden": [64, 64]},
    features={},
    recipe={"epochs": 20, "lr": 0.1, "milestones": [], "clip_norm": None, "adaptive": False},
    evaluate={},
    number=7,
)
OTHERS = {
    "task": "digits:9",
    "beta": None,
    "seed": 4,
    "method": "constant-film",
    "settings": {"omega": 0.5, "gamma": 0.2, "tau": 2.5},
    "network": {"name": "mlp", "hidden": [64]},
    "features": {"pca": 64},
    "recipe": {**RUN.recipe, "adaptive": True},
    "evaluate": {"tau": 3.0},
    "validation": 0.2,
    "data": {"target": "default"},
}


def test_an_identity_stays_what_it_was():
    # Stores rely on it: a change here makes every finished run unknown.
    text = (
        '{"beta": 100, "data": {}, "evaluate": {}, "features": {}, "fingerprint": "abc", '
        '"method": "vs", "network": {"hidden": [64, 64], "name": "mlp"}, "numerics": 2, '
        '"recipe": {"adaptive": false, "clip_norm": null, "epochs": 20, "lr": 0.1, '
        '"milestones": []}, "seed": 3, "settings": {"gamma": 0.2, "omega": 0.5, "tau": 2}, '
        '"task": "digits:8", "validation": null}'
    )
    assert RUN.identity("abc") == hashlib.sha256(text.encode()).hexdigest()


def test_every_field_counts_but_label_and_number():
    assert set(OTHERS) | {"label", "number"} == {field.name for field in fields(PlannedRun)}
    changed = [replace(RUN, **{name: value}) for name, value in OTHERS.items()]
    identities = {run.identity("abc") for run in [RUN, *changed]}
    assert len(identities) == 1 + len(OTHERS)
    assert replace(RUN, label="other", number=8).identity("abc") == RUN.identity("abc")


def test_data_and_numerics_count(monkeypatch):
    before = RUN.identity("abc")
    assert RUN.identity("abd") != before
    monkeypatch.setattr(plan, "NUMERICS_VERSION", plan.NUMERICS_VERSION + 1)
    assert RUN.identity("abc") != before


def test_spelling_does_not_count():
    respelt = replace(
        RUN,
        beta=100,
        settings={"tau": 2, "gamma": 0.2, "omega": 0.5},
        network={"hidden": (64.0, 64), "name": "mlp"},
        recipe=dict(reversed(RUN.recipe.items())),
    )
    assert respelt.identity("abc") == RUN.identity("abc")
    # but true is not 1, nor is a text a number
    one, true, text = ({"omega": value} for value in (1, True, "1"))
    assert len({replace(RUN, settings=s).identity("abc") for s in (one, true, text)}) == 3


@given(st.floats(0, 1e6), st.integers(0, 2**62))
def test_an_identity_survives_json(number, seed):
    run = replace(RUN, seed=seed, settings={"omega": number}, evaluate={"tau": number})
    again = PlannedRun(**json.loads(json.dumps(vars(run))))
    assert again == run
    assert again.identity("abc") == run.identity("abc")


@given(st.integers(0, 2**62))
def test_large_seeds_do_not_run_together(seed):
    assert replace(RUN, seed=seed).identity("x") != replace(RUN, seed=seed + 1).identity("x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object])
def test_only_plain_finite_data_have_an_identity(value):
    with pytest.raises(InputError, match="plain, finite data, got"):
        replace(RUN, settings={"omega": [value]}).identity("abc")
