"""Files that earlier versions wrote still open, and say what they said: those in tests/kept.

They were written on 18 November 2026 at commit c65ec6f: a model by `curvewise train digits:8
--beta 20 --set epochs=2 --set network.hidden=4 --max-fpr 0.05 --reduction expected_mean`, an
`LCTClassifier(random_state=0, trees=2, n_members=2, hidden=(4,), steps=20)` fitted on rows.csv,
and the store of a sweep (spec.json) that was stopped before its last run.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import curvewise as cw
from command_line import command
from curvewise.sweep.executors import Serial
from curvewise.sweep.run import run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

KEPT = Path(__file__).parent / "kept"
EXPECTED = json.loads((KEPT / "expected.json").read_text())
A_PAIR = 1e-4  # of an AUC: processors round differently, so that two scores may change places


def test_a_model_is_measured_and_an_estimator_scores_as_before():
    words = ("evaluate", "digits:8", "--model", KEPT / "model.safetensors", "--json")
    found = json.loads(command(*words).out)
    assert found["auc"]["auc"] == pytest.approx(EXPECTED["model"]["auc"], abs=A_PAIR)
    assert found["at_threshold"]["threshold"] == pytest.approx(EXPECTED["model"]["threshold"])
    classifier = cw.load(KEPT / "estimator.safetensors")
    rows = pd.read_csv(KEPT / "rows.csv").drop(columns="y")
    scores = classifier.decision_function(rows)[: len(EXPECTED["estimator"])]
    np.testing.assert_allclose(scores, EXPECTED["estimator"], rtol=1e-5, atol=1e-6)


def test_a_store_opens_and_its_sweep_goes_on(tmp_path):
    place = Path(shutil.copy(KEPT / "runs.db", tmp_path))
    with Store(place, readonly=True) as store:
        before = {record.identity: record.state for record in store.runs("kept")}
        seconds = {i: store.run(i).seconds for i in before}
    assert sorted(before.values()) == ["done"] * 4 + ["pending"]
    assert set(before) == set(EXPECTED["runs"])  # identities have not changed

    spec, problems = Spec.from_dict(json.loads((KEPT / "spec.json").read_text())), Problems()
    with Store(place) as store:
        run_sweep(spec, store, Serial(), problems)
        for identity, run in EXPECTED["runs"].items():
            record = store.run(identity)
            assert record.state == "done"
            assert record.auc == pytest.approx(run["auc"], abs=A_PAIR)
            assert store.scores(identity).sum(dtype=float) == pytest.approx(run["scores"], rel=1e-4)
            if before[identity] == "done":  # and was not trained again
                assert record.seconds == seconds[identity]
