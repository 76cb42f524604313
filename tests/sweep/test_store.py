"""A store keeps what it is given, all of a stack or nothing, whatever happens to its process."""

import hashlib
import json
import math
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.sweep.plan import PlannedRun, Problem, Result
from curvewise.sweep.store import Record, Store, StoreError
from curvewise.sweep.store_file import packed, unpacked

N_TEST, N_VALIDATION = 300, 40
VERSIONS = {"curvewise": "0.1.0", "torch": "2"}


def planned(number: int = 0, **changes) -> PlannedRun:
    values = {"task": "digits:8", "beta": 100.0, "seed": 0, "label": "VS", "method": "vs"}
    values |= {"settings": {"omega": 0.5, "gamma": 0.2, "tau": "0:3:0.33"}, "features": {}}
    values |= {"network": {"name": "mlp", "hidden": [64, 64]}, "evaluate": {"tau": 3.0}}
    recipe = {"epochs": 20, "lr": 0.1, "seed_weights": number, "clip_norm": None}
    return PlannedRun(**{**values, "recipe": recipe, "number": number, **changes})


def listed(*runs: PlannedRun, fingerprint: str = "f0") -> list[tuple[PlannedRun, str, str]]:
    return [(run, run.identity(fingerprint), fingerprint) for run in runs]


def scores_of(identity: str, n: int = N_TEST) -> np.ndarray:
    seed = int(hashlib.sha256(identity.encode()).hexdigest()[:8], 16)
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def auc_of(identity: str) -> float:
    return int(hashlib.sha256(identity.encode()).hexdigest()[:6], 16) / 2**24


def result(identity: str, state: str = "done", **changes) -> Result:
    metrics = {"auc": auc_of(identity), "auprc": 0.5}
    values = {"metrics": metrics, "scores": scores_of(identity), "seconds": 1.5}
    return Result(identity, state, **{**values, **changes})


def problem(fingerprint: str = "f0", validation: bool = True) -> Problem:
    generator = np.random.default_rng(0)
    y = [(generator.random(n) < 0.1).astype(np.int64) for n in (500, N_TEST, N_VALIDATION)]
    train, test, kept = ((np.zeros((len(part), 2), np.float32), part) for part in y)
    kept = kept if validation else (None, None)
    return Problem(*train, *test, fingerprint, ("other", "eight"), "features", None, *kept)


def missing(store: Store, sweep: int | str) -> list[str]:
    """Return what is still to be trained, in the order of the sweep."""
    states = ("pending", "failed")
    return list(dict.fromkeys(r.identity for r in store.runs(sweep) if r.state in states))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        yield opened


def test_a_run_comes_back_as_it_was_planned_and_recorded(store, tmp_path):
    runs = listed(planned(0), planned(1, beta=None, validation=0.2, features={"pca": 64}))
    sweep = store.add_sweep("two", {"name": "two", "seeds": [0]}, runs)
    assert [record.run for record in store.runs(sweep)] == [run for run, _, _ in runs]
    assert store.run(runs[0][1]) == Record(runs[0][1], "f0", runs[0][0], "pending", 0, {}, 0.0)
    store.add_problem(problem(), "digits:8", 100.0, 0)
    metrics = {"auc": 0.93, "threshold": math.inf, "low": -math.inf, "ece": math.nan, "n": 3}
    kept = scores_of("v", N_VALIDATION)
    measured = result(runs[0][1], metrics=metrics, validation_scores=kept, seconds=2.25)
    store.record([measured], "box", VERSIONS)
    store.close()
    with Store(tmp_path / "runs.db", readonly=True) as again:
        found = again.run(runs[0][1])
        assert (found.run, found.state, found.attempts) == (runs[0][0], "done", 1)
        assert (found.machine, found.versions, found.seconds) == ("box", VERSIONS, 2.25)
        assert math.isnan(found.metrics.pop("ece"))
        assert found.metrics == {name: value for name, value in metrics.items() if name != "ece"}
        assert found.auc == 0.93
        assert found.finished.endswith("+00:00")
        read = again.scores(runs[0][1])
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, scores_of(runs[0][1]))
        np.testing.assert_array_equal(again.scores(runs[0][1], "validation"), kept)
        assert math.isnan(again.run(runs[1][1]).auc)
    ((outcome,),) = sqlite3.connect(store.path).execute("SELECT outcome FROM runs WHERE auc > 0")
    assert json.loads(outcome)["metrics"]["ece"] is None  # strict JSON


def test_a_problem_is_kept_once(store):
    store.add_problem(problem(), "digits:8", 100.0, 3)
    store.add_problem(problem(), "digits:8", 100.0, 3)
    store.add_problem(problem("f1", validation=False), "digits:7", None, 0)
    np.testing.assert_array_equal(store.labels("f0"), problem().y_test)
    np.testing.assert_array_equal(store.labels("f0", "validation"), problem().y_validation)
    assert store.labels("f0").dtype == np.int64
    known = store.problem("f0")
    assert (known.task, known.beta, known.seed) == ("digits:8", 100.0, 3)
    assert known.class_names == ["other", "eight"]
    assert known.class_counts == [(problem().y_train == c).sum() for c in (0, 1)]
    assert store.problem("f1").beta is None
    with pytest.raises(InputError, match="must have a validation part"):
        store.labels("f1", "validation")
    with pytest.raises(InputError, match="got 'f9'"):
        store.labels("f9")


def test_the_same_sweep_twice_is_one_and_known_runs_are_only_linked(store):
    runs = listed(*(planned(i) for i in range(4)))
    first = store.add_sweep("a", {"seeds": [0]}, runs)
    store.record([result(runs[1][1])], "box", VERSIONS)
    assert store.add_sweep("a", {"seeds": [0]}, runs) == first
    # One run under two labels is trained once and listed twice; a third time is no other.
    relabelled = listed(*(planned(i, label=label) for i, label in ((1, "b"), (9, "b"), (9, "c"))))
    second = store.add_sweep("b", {"seeds": [0]}, [*relabelled, relabelled[0]])
    assert second != first
    listing = [(s.name, s.spec, s.runs) for s in store.sweeps()]
    assert listing == [("a", {"seeds": [0]}, 4), ("b", {"seeds": [0]}, 3)]
    assert len(list(store.runs())) == 5
    assert [r.run.label for r in store.runs("a")] == ["VS"] * 4
    assert [r.run for r in store.runs("b")] == [run for run, _, _ in relabelled]
    assert [r.state for r in store.runs("b")] == ["done", "pending", "pending"]
    assert missing(store, "b") == [relabelled[1][1]]
    done = store.runs("b", state="done")
    assert [(r.identity, r.run.label) for r in done] == [(runs[1][1], "b")]


def test_a_spec_that_returns_is_the_latest_again_and_nothing_is_trained_twice(store):
    old, new = listed(planned(0), planned(1)), listed(planned(0), planned(2))
    first = store.add_sweep("a", {"n": 1}, old)
    other = store.add_sweep("b", {"n": 1}, old)
    store.record([result(identity) for _, identity, _ in old], "box", VERSIONS)
    second = store.add_sweep("a", {"n": 2}, new)
    assert missing(store, "a") == [new[1][1]]  # the name stands for its latest sweep
    store.record([result(new[1][1])], "box", VERSIONS)
    third = store.add_sweep("a", {"n": 1}, old)
    assert [r.identity for r in store.runs("a")] == [identity for _, identity, _ in old]
    assert missing(store, "a") == []
    assert len(list(store.runs(second))) == 2
    assert store.add_sweep("a", {"n": 1}, old) == third > second > other > first
    listing = [(s.name, s.spec["n"], s.runs) for s in store.sweeps()]
    assert listing == [("b", 1, 2), ("a", 2, 2), ("a", 1, 2)]
    assert len(list(store.runs())) == 3
    # Changed data replace the runs of a sweep, and lose none.
    new = listed(planned(0), planned(1), fingerprint="f1")
    assert store.add_sweep("a", {"n": 1}, new) == third
    assert missing(store, third) == [identity for _, identity, _ in new]
    assert store.run(old[0][1]).state == "done"


def test_finished_are_done_and_diverged_runs_in_whatever_order_they_are_listed(store):
    runs = listed(*(planned(i) for i in (3, 1, 2, 0)))
    ids = [identity for _, identity, _ in runs]
    sweep, backward = store.add_sweep("a", {}, runs), store.add_sweep("b", {}, runs[::-1])
    states = ("done", "failed", "diverged")
    results = [result(i, state, scores=None) for i, state in zip(ids, states, strict=False)]
    assert store.record(results, "b", {}) == 3
    assert store.finished([*ids, "unknown"]) == {ids[0], ids[2]}
    assert store.finished(ids[1:]) == {ids[2]}
    assert missing(store, backward) == [ids[3], ids[1]]
    assert [r.identity for r in store.runs(backward)] == ids[::-1]
    assert [r.identity for r in store.runs(sweep, state="failed")] == [ids[1]]


def test_a_finished_run_is_never_written_again_and_attempts_count(store):
    done, diverged, failed = (i for _, i, _ in listed(*(planned(i) for i in range(3))))
    store.add_sweep("a", {}, listed(*(planned(i) for i in range(3))))
    first = [result(done), result(diverged, "diverged"), result(failed, "failed", message="no")]
    store.record(first, "box", VERSIONS)
    other = {"metrics": {"auc": 0.0}, "scores": np.zeros(N_TEST, np.float32)}
    again = [result(done, "failed", **other), result(diverged, **other), result(failed, **other)]
    assert store.record(again, "other", {}) == 1
    for identity, state in ((done, "done"), (diverged, "diverged")):
        found = store.run(identity)
        assert (found.state, found.attempts, found.machine) == (state, 1, "box")
        assert found.auc == auc_of(identity)
        np.testing.assert_array_equal(store.scores(identity), scores_of(identity))
    found = store.run(failed)
    assert (found.state, found.attempts, found.message, found.auc) == ("done", 2, "", 0.0)
    np.testing.assert_array_equal(store.scores(failed), other["scores"])
    assert store.record([result(failed), result(failed)], "box", {}) == 0


def test_the_scores_of_a_failed_attempt_do_not_outlive_it(store):
    ((_, identity, _),) = runs = listed(planned())
    store.add_sweep("a", {}, runs)
    store.record([result(identity, "failed"), result(identity, "diverged", scores=None)], "box", {})
    with pytest.raises(InputError, match=r"must have test scores, .* state is diverged"):
        store.scores(identity)


def test_a_bad_result_keeps_the_whole_stack_out(store):
    runs = listed(*(planned(i) for i in range(3)))
    store.add_sweep("a", {}, runs)
    store.add_problem(problem(), "digits:8", 100.0, 0)
    last = runs[2][1]
    for bad, message in (
        (result("unknown"), "planned run, got 'unknown'"),
        (result(last, "finished"), "must be one of 'done'.*got 'finished'"),
        (result(last, scores=np.zeros(7, "f4")), r"test scores must .* \(300,\), got \(7,\)"),
        (result(last, scores=np.zeros((300, 1), "f4")), r"\(300, 1\)"),
        (result(last, validation_scores=np.zeros(9, "f4")), r"validation .* \(40,\), got \(9,\)"),
    ):
        with pytest.raises(InputError, match=message):
            store.record([result(runs[0][1]), bad, result(runs[1][1])], "box", {})
        assert {r.state for r in store.runs()} == {"pending"}
    with pytest.raises(InputError, match="it has none and its state is pending"):
        store.scores(runs[0][1])
    assert store.record([result(runs[0][1])], "box", {}) == 1


def test_bad_questions_are_answered_in_one_sentence(store):
    store.add_sweep("fashions", {}, listed(planned()))
    for call, message in (
        (lambda s: s.status("fashion"), r"one of 'fashions' in .*did you mean 'fashions'\?"),
        (lambda s: s.status(17), "got 17"),
        (lambda s: s.runs("x"), "got 'x'"),
        (lambda s: s.runs(state="finished"), "must be one of 'pending'"),
        (lambda s: s.run("abc"), "got 'abc'"),
        (lambda s: s.scores("abc"), "got 'abc'"),
        (lambda s: s.scores("abc", "tests"), "did you mean 'test'"),
        (lambda s: s.labels("f0", "tests"), "did you mean 'test'"),
        (lambda s: s.add_sweep("none", {}, []), "one run or more, 'none' has none"),
    ):
        with pytest.raises(InputError, match=message):
            call(store)


@given(
    arrays(np.float32, st.integers(0, 50), elements=st.floats(width=32)),
    arrays(np.int64, st.integers(0, 50)),
)
def test_packing_keeps_every_bit(scores, labels):
    for array, kind in ((scores, "<f4"), (labels, "<i8")):
        found = unpacked(packed(array, kind), kind)
        assert found.tobytes() == array.tobytes()
        assert found.shape == array.shape
    wide = np.linspace(-3, 3, 20)[::2]  # neither float32 nor contiguous
    assert unpacked(packed(wide, "<f4"), "<f4").tolist() == wide.astype(np.float32).tolist()


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_status_is_what_plain_loops_find(chance, n):
    runs = listed(
        *(planned(i, task=chance.choice("pqr"), label=chance.choice("VS")) for i in range(n))
    )
    results = []
    for _, identity, _ in runs:
        state = chance.choice(["done", "done", "diverged", "failed"])
        metrics = {"auc": chance.choice([math.nan, chance.random()])}
        results.append(result(identity, state, metrics=metrics, seconds=chance.random()))
    with TemporaryDirectory() as folder, Store(Path(folder) / "runs.db") as store:
        store.add_sweep("all", {}, runs)
        store.add_sweep("half", {}, runs[::2])
        store.record(results[: -(-n * 3 // 4)], "box", {})
        for sweep in (None, "all", "half"):
            for by_task in (True, False):
                check_status(store, sweep, by_task)


def check_status(store: Store, sweep: str | None, by_task: bool) -> None:
    groups: dict[tuple[str | None, str], list[Record]] = {}
    for record in store.runs(sweep):
        key = (record.run.task if by_task else None, record.run.label)
        groups.setdefault(key, []).append(record)
    found = store.status(sweep, by_task=by_task)
    assert [(row["task"], row["label"]) for row in found] == list(groups)
    for row, members in zip(found, groups.values(), strict=True):
        for state in ("pending", "done", "diverged", "failed"):
            assert row[state] == sum(member.state == state for member in members)
        done = [m.auc for m in members if m.state == "done" and not math.isnan(m.auc)]
        expected = (np.mean(done), min(done), max(done)) if done else (math.nan,) * 3
        found_areas = (row["mean_auc"], row["min_auc"], row["max_auc"])
        np.testing.assert_allclose(found_areas, expected)
        assert row["seconds"] == pytest.approx(sum(member.seconds for member in members))


def test_nothing_is_written_by_a_reader(store):
    store.add_sweep("a", {}, listed(planned()))
    with Store(store.path, readonly=True) as reader:
        for call in (
            lambda: reader.add_sweep("b", {}, listed(planned())),
            lambda: reader.add_problem(problem(), "t", None, 0),
            lambda: reader.record([result(planned().identity("f0"))], "box", {}),
            lambda: reader.writing().__enter__(),
        ):
            with pytest.raises(StoreError, match=r"runs\.db must be opened for writing"):
                call()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM runs")


def test_a_full_disk_loses_nothing_and_the_store_goes_on(store):
    runs = listed(*(planned(i) for i in range(40)))
    sweep = store.add_sweep("a", {}, runs)
    ids = [identity for _, identity, _ in runs]
    store.record([result(i) for i in ids[:10]], "box", {})
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(StoreError, match=r"the disk is full.*nothing recorded so far is lost"):
        store.record([result(i) for i in ids[10:]], "box", {})
    assert issubclass(StoreError, CurvewiseError)
    assert missing(store, sweep) == ids[10:]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.record([result(i) for i in ids[10:]], "box", {}) == 30
    np.testing.assert_array_equal([store.scores(i) for i in ids], [scores_of(i) for i in ids])
