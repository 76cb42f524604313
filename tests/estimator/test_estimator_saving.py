"""Estimators in the safe format: the same bits come back, and nothing is executed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import curvewise as cw
from curvewise.base.errors import InputError

RNG = np.random.default_rng(0)
AGE, JOB = RNG.normal(50, 10, 240), RNG.choice(["nurse", "smith", "pilot"], 240)
INCOME = np.where(RNG.random(240) < 0.1, np.nan, RNG.lognormal(3, 1, 240))
TABLE = pd.DataFrame({"age": AGE, "job": JOB, "income": INCOME})
RARE = np.where(TABLE["age"] + 5 * RNG.normal(size=240) > 63, "sick", "well")
SMALL = {"n_members": 3, "trees": 10, "steps": 30, "hidden": (8,), "random_state": 0}


@pytest.mark.parametrize(
    "estimator",
    [
        cw.LCTClassifier(**SMALL, calibration_fraction=0.3, prior=0.2),
        cw.VSClassifier(0.7, 0.1, 1.0, **SMALL),
        cw.VSClassifier((1, 2), **SMALL),  # a weight for each class
    ],
)
def test_a_loaded_estimator_says_the_same(estimator, tmp_path):
    estimator.fit(TABLE, RARE)
    loaded = cw.load(cw.save(estimator, tmp_path / "model.safetensors"))
    assert type(loaded) is type(estimator)
    assert loaded.get_params() == estimator.get_params()
    assert (loaded.classes_ == estimator.classes_).all()
    assert loaded.positive_class_ == "sick"
    np.testing.assert_array_equal(loaded.predict_proba(TABLE), estimator.predict_proba(TABLE))
    np.testing.assert_array_equal(loaded.score_samples(TABLE), estimator.score_samples(TABLE))
    point = estimator.choose_operating_point(max_fpr=0.2)
    assert loaded.choose_operating_point(max_fpr=0.2) == point
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(TABLE.rename(columns={"age": "years"}))
    for one in (estimator, loaded):  # both can be trained on
        one.set_params(warm_start=True, n_members=6).fit(TABLE, RARE)
    np.testing.assert_array_equal(loaded.predict_proba(TABLE), estimator.predict_proba(TABLE))


def test_parameters_of_numpy_are_saved_as_numbers(tmp_path):
    given = {"trees": np.int64(10), "n_members": np.int64(3), "prior": np.array([0.6, 0.4])}
    given |= {"learning_rate": np.float32(0.002), "random_state": np.int64(0)}
    made = cw.LCTClassifier(**{**SMALL, **given}).fit(TABLE, RARE)
    again = cw.load(cw.save(made, tmp_path / "model.safetensors"))
    assert np.array_equal(again.predict_proba(TABLE), made.predict_proba(TABLE))
    assert (again.trees, again.random_state) == (10, 0)


def test_what_cannot_be_saved_is_one_sentence_and_writes_nothing(tmp_path):
    fitted = cw.LCTClassifier(**SMALL).fit(TABLE, RARE)
    own = cw.LCTClassifier(**SMALL, network=lambda s, c: cw.build_network("mlp", in_shape=s))
    dates = np.where(RARE == "sick", *np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]"))
    with pytest.raises(InputError, match="a model is written to a file, got the folder"):
        cw.save(fitted, tmp_path)
    for estimator, words in (
        (3, "save takes a Model, an LCTClassifier or a VSClass"),
        (StandardScaler(), "save takes a Model"),
        (cw.LCTClassifier(), "must be fitted before it is saved"),
        (own.fit(TABLE, RARE), "pickle it instead"),
        (fitted.set_params(hidden=(9,)), "hidden and tau_range must be those of fit"),
        (cw.LCTClassifier(**SMALL).fit(TABLE, dates), "labels must be numbers or text"),
    ):
        with pytest.raises(InputError, match=words):
            cw.save(estimator, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
