"""Repeats of a method's points: the same settings and data, other weights and draws of lambda."""

import pytest

from curvewise.base.errors import InputError
from curvewise.sweep.plan import stacks
from curvewise.sweep.spec import Spec

VS = {"method": "vs"}
LCT = {"method": "lct", "tau": "0:3:0.33"}


def spec(*methods, **more) -> Spec:
    return Spec.from_dict({"tasks": "digits:8", "methods": list(methods), **more})


def test_repeats_differ_in_weights_and_lambda_alone():
    entry = {**LCT, "omega": [0.5, 0.9], "rho": [0.0, 0.1]}
    runs = spec({**entry, "repeats": 3}, seeds=[0, 2]).runs()
    expected = []
    for seed in (0, 2):
        number = 0
        for omega in (0.5, 0.9):
            for rho in (0.0, 0.1):
                for _ in range(3):
                    own = 10_000 * seed + number
                    expected.append((omega, rho, number, own, own, seed))
                    number += 1
    names = ("rho", "seed_weights", "seed_lambda", "seed_order")
    found = [(r.settings["omega"], r.number, *(r.recipe[n] for n in names)) for r in runs]
    assert found == [(o, n, rho, w, lam, s) for o, rho, n, w, lam, s in expected]
    assert len({run.identity("x") for run in runs}) == len(runs) == 24
    once = spec(entry, seeds=[0, 2])
    assert once.runs() == spec({**entry, "repeats": 1}, seeds=[0, 2]).runs()
    assert "repeats" not in once.to_dict()["methods"][0]
    assert spec({**entry, "repeats": 3}).to_dict()["methods"][0]["repeats"] == 3


def test_repeats_move_the_numbers_that_make_runs_equal():
    # tau = 1 is number 1 here, and numbers 2 and 3 there: other seeds, other runs.
    made = spec({**VS, "tau": [0, 1]}, {**VS, "label": "b", "tau": [2, 1], "repeats": 2})
    assert len({run.identity("x") for run in made.runs()}) == made.size == 6


def test_repeats_stack():
    made = spec({**VS, "tau": [0, 1], "repeats": 20})
    assert stacks(made.runs(), [96] * 40) == [list(range(40))]


def test_equal_points_of_equal_numbers_are_found_among_repeats():
    with pytest.raises(InputError, match=r"must not share a run, .*'b' both have .*'tau': 1"):
        spec({**VS, "tau": [0, 1]}, {**VS, "label": "b", "tau": 1, "repeats": 2})


@pytest.mark.parametrize("value", [0, -1, 1001, 2.0, 1.5, True, "3", [2, 3], None])
def test_repeats_are_a_whole_number(value):
    with pytest.raises(InputError, match=r"repeats must be a whole number in \[1, 1000\], got"):
        spec({**VS, "repeats": value})


def test_repeats_count_in_the_size_of_a_grid():
    assert spec({**VS, "tau": [0, 1], "repeats": 1000}, seeds=[0, 1]).size == 4000
    with pytest.raises(InputError, match="1,000,000 points at most, got 2,000,000"):
        spec({**VS, "tau": list(range(2000)), "repeats": 1000})


def test_a_misspelt_one_is_told():
    with pytest.raises(InputError, match="'repeat' is no setting of vs; did you mean 'repeats'"):
        spec({**VS, "repeat": 3})
