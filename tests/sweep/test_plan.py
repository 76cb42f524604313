"""Planned runs and plans: what they depend on, and what they must not depend on."""

import hashlib
import itertools
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings, strategies as st
from test_spec import VS, spec, specs
from test_store import planned

from curvewise.base.errors import InputError
from curvewise.sweep import plan
from curvewise.sweep.plan import STACK_LIMIT, PlannedRun, ProblemInfo, make_plan, stacks
from curvewise.sweep.spec import Spec

RUN = planned()

OTHERS = {"task": "digits:9", "beta": None, "seed": 4, "method": "constant-film", "validation": 0.2}
OTHERS |= {"settings": {"omega": 0.5, "gamma": 0.2, "tau": 2.5}, "features": {"pca": 64}}
OTHERS |= {"network": {"name": "mlp", "hidden": [64]}, "recipe": {**RUN.recipe, "adaptive": True}}
OTHERS |= {"evaluate": {"tau": 2.0}, "data": {"target": "default"}}


def test_an_identity_stays_what_it_was():
    # Stores rely on it: a change here makes every finished run unknown.
    text = (
        '{"beta": 100, "data": {}, "evaluate": {"tau": 3}, "features": {}, "fingerprint": "abc", '
        '"method": "vs", "network": {"hidden": [64, 64], "name": "mlp"}, "numerics": 2, '
        '"recipe": {"clip_norm": null, "epochs": 20, "lr": 0.1, "seed_weights": 0}, "seed": 0, '
        '"settings": {"gamma": 0.2, "omega": 0.5, "tau": "0:3:0.33"}, '
        '"task": "digits:8", "validation": null}'
    )
    assert RUN.identity("abc") == hashlib.sha256(text.encode()).hexdigest()


def test_every_field_counts_but_label_and_number_if_it_is_plain_finite_data(monkeypatch):
    assert set(OTHERS) | {"label", "number"} == {field.name for field in fields(PlannedRun)}
    changed = [replace(RUN, **{name: value}) for name, value in OTHERS.items()]
    identities = {run.identity("abc") for run in [RUN, *changed]}
    assert len(identities) == 1 + len(OTHERS)
    assert replace(RUN, label="other", number=8).identity("abc") == RUN.identity("abc")
    before = RUN.identity("abc")  # data and numerics count, too
    assert RUN.identity("abd") != before
    for value in (float("nan"), {1, 2}):
        with pytest.raises(InputError, match="plain, finite data, got"):
            replace(RUN, settings={"omega": [value]}).identity("abc")
    monkeypatch.setattr(plan, "NUMERICS_VERSION", plan.NUMERICS_VERSION + 1)
    assert RUN.identity("abc") != before


def test_spelling_does_not_count():
    settings = {"tau": "0:3:0.33", "gamma": 0.2, "omega": 0.5}
    network, recipe = {"hidden": (64.0, 64), "name": "mlp"}, dict(reversed(RUN.recipe.items()))
    other = {"settings": settings, "network": network, "recipe": recipe, "evaluate": {"tau": 3}}
    assert replace(RUN, beta=100, **other).identity("abc") == RUN.identity("abc")
    # but true is not 1, nor is a text a number
    one, true, text = ({"omega": value} for value in (1, True, "1"))
    assert len({replace(RUN, settings=s).identity("abc") for s in (one, true, text)}) == 3


@given(st.floats(0, 1e6), st.integers(0, 2**62))
def test_an_identity_survives_json(number, seed):
    run = replace(RUN, seed=seed, settings={"omega": number}, evaluate={"tau": number})
    again = PlannedRun(**json.loads(json.dumps(vars(run))))
    assert again == run
    assert again.identity("abc") == run.identity("abc")


METHODS = [{"method": "vs", "grid": "paper"}, {"method": "lct", "grid": "paper"}]
GIVEN = {"tasks": ["digits:8", "digits:3"], "betas": [10, 100], "methods": METHODS}


def describe(run):
    return ProblemInfo(f"{run.task} {run.beta} {run.seed}", "features")


def test_every_run_is_in_one_stack_in_the_order_of_the_spec():
    rows, made = make_plan(Spec.from_dict(GIVEN).runs(), describe)
    assert len(rows) == 2 * 2 * 96
    known = {identity: (run, data) for run, identity, data in rows}
    members = [i for stack in made for i in stack.identities]
    assert sorted(members) == sorted(known)
    for stack in made:
        assert len(stack.runs) <= STACK_LIMIT
        assert [known[i] for i in stack.identities] == [(r, stack.fingerprint) for r in stack.runs]
    firsts = [(stack.runs[0].task, stack.runs[0].beta) for stack in made]
    assert firsts == sorted(firsts, key=[(t, b) for t in GIVEN["tasks"] for b in (10, 100)].index)


def test_other_networks_than_an_mlp_train_alone():
    def images(run):
        return ProblemInfo("x", "image")

    one = {**GIVEN, "tasks": ["a"], "betas": [10]}
    assert {len(s.runs) for s in make_plan(Spec.from_dict(one).runs(), images)[1]} == {1}
    flat = {**one, "network": {"name": "mlp"}}
    assert {len(s.runs) for s in make_plan(Spec.from_dict(flat).runs(), images)[1]} == {48}


def test_other_data_are_other_runs_and_reading_is_counted():
    seen = []
    spec = Spec.from_dict(GIVEN)
    first, _ = make_plan(spec.runs(), describe, on_read=lambda *counts: seen.append(counts))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert make_plan(spec.runs(), describe)[0] == first
    other, _ = make_plan(spec.runs(), lambda run: ProblemInfo("changed", "features"))
    assert {row[1] for row in first}.isdisjoint(row[1] for row in other)


@settings(max_examples=40, deadline=None)
@given(specs(), st.integers(1, 30))
def test_stacks_hold_every_run_once_with_what_one_program_needs(plain, limit):
    runs = Spec.from_dict(plain).runs()
    places = stacks(runs, [limit] * len(runs))
    assert places == stacks(Spec.from_dict(plain).runs(), [limit] * len(runs))
    assert sorted(itertools.chain(*places)) == list(range(len(runs)))
    assert all(place == sorted(place) and 1 <= len(place) <= limit for place in places)
    own = ("lr", "weight_decay", "seed_weights", "seed_lambda")
    keys = []
    for place in places:
        found = [
            (
                (r.task, r.beta, r.seed, r.network, r.features, r.data, r.evaluate),
                {name: value for name, value in r.recipe.items() if name not in own},
                [name for name, value in r.settings.items() if isinstance(value, str)],
                "family" if r.method in ("ce", "vs", "lct") else r.method,
                r.settings if r.method in ("focal", "auc-margin") else None,
                r.method in ("lct", "constant-film"),
            )
            for r in (runs[i] for i in place)
        ]
        assert all(key == found[0] for key in found)
        keys.append(repr(found[0]))
    # No more stacks than needed: all but the last of those that could be together are full.
    for key in set(keys):
        sizes = [len(place) for place, other in zip(places, keys, strict=True) if other == key]
        assert all(size == limit for size in sizes[:-1])


def sizes(made: Spec, limit: int = 96) -> list[int]:
    return [len(places) for places in stacks(made.runs(), [limit] * made.size)]


def test_fixed_vector_scaling_losses_share_a_stack_whatever_their_label():
    methods = [{**VS, "tau": [1, 2]}, {"method": "ce"}, {"method": "weighted-ce"}]
    methods += [{"method": "logit-adjustment", "lr": [0.1, 0.2]}, {**VS, "label": "b", "tau": 3}]
    assert sizes(spec(*methods)) == [7]
    assert sizes(spec(*methods, {"method": "focal", "rho": [0, 0.1]})) == [7, 1, 1]
    assert sizes(spec(*methods), 3) == [3, 3, 1]
    assert sizes(spec(seeds=[0, 1], betas=[10, 20])) == [1, 1, 1, 1]
    assert sizes(spec({**VS, "tau": [0, 1], "repeats": 20})) == [40]
