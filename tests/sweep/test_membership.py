"""Which runs a sweep has: those of the spec that was registered last under its name."""

import pytest
from test_store import VERSIONS, listed, planned, result

from curvewise.sweep.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        yield opened


def test_a_spec_that_returns_is_the_latest_again_and_nothing_is_trained_twice(store):
    old, new = listed(planned(0), planned(1)), listed(planned(0), planned(2))
    first = store.add_sweep("a", {"n": 1}, old)
    other = store.add_sweep("b", {"n": 1}, old)
    store.record([result(identity) for _, identity, _ in old], "box", VERSIONS)
    second = store.add_sweep("a", {"n": 2}, new)
    assert store.missing("a") == [new[1][1]]
    store.record([result(new[1][1])], "box", VERSIONS)
    third = store.add_sweep("a", {"n": 1}, old)
    assert [r.identity for r in store.runs("a")] == [identity for _, identity, _ in old]
    assert store.missing("a") == []
    assert len(list(store.runs(second))) == 2
    assert store.add_sweep("a", {"n": 1}, old) == third > second > other > first
    assert [(s.name, s.spec["n"], s.runs) for s in store.sweeps()] == [
        ("b", 1, 2), ("a", 2, 2), ("a", 1, 2),
    ]  # fmt: skip
    assert len(list(store.runs())) == 3


def test_finished_are_those_that_need_no_training(store):
    ids = [identity for _, identity, _ in listed(*(planned(i) for i in range(5)))]
    store.add_sweep("a", {}, listed(*(planned(i) for i in range(4))))
    states = ("done", "diverged", "failed")
    store.record([result(i, s, scores=None) for i, s in zip(ids, states, strict=False)], "b", {})
    assert store.finished(ids) == set(ids[:2])
    assert store.finished(ids[1:]) == {ids[1]}
