"""Estimators in the safe format: the same bits come back, and nothing is executed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import curvewise as cw
from curvewise.base.errors import InputError

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, 240),
        "job": RNG.choice(["nurse", "smith", "pilot"], 240),
        "income": np.where(RNG.random(240) < 0.1, np.nan, RNG.lognormal(3, 1, 240)),
    }
)
RARE = np.where(TABLE["age"] + 5 * RNG.normal(size=240) > 63, "sick", "well")
SMALL = {"n_members": 3, "trees": 10, "steps": 30, "hidden": (8,), "random_state": 0}


@pytest.mark.parametrize(
    "estimator",
    [
        cw.LCTClassifier(**SMALL, calibration_fraction=0.3, prior=0.2),
        cw.VSClassifier(0.7, 0.1, 1.0, **SMALL),
        cw.VSClassifier((1, 2), **SMALL),  # a weight for each class
    ],
    ids=["lct", "vs", "weights"],
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


def test_a_file_that_could_not_be_loaded_is_not_written(tmp_path):
    def own(shape, n_classes):
        return cw.build_network("mlp", in_shape=shape)

    made = cw.LCTClassifier(**SMALL).fit(TABLE, RARE).set_params(hidden=(9,))
    days = np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]")[(RARE == "sick").astype(int)]
    for estimator, words in (
        (cw.LCTClassifier(), "must be fitted before it is saved"),
        (cw.LCTClassifier(**SMALL, network=own).fit(TABLE, RARE), "pickle it instead"),
        (made, "hidden and tau_range must be those of fit"),
        (cw.LCTClassifier(**SMALL).fit(TABLE, days), "labels must be numbers or text"),
    ):
        with pytest.raises(InputError, match=words):
            cw.save(estimator, tmp_path / "model.safetensors")
    for other in (StandardScaler(), 3):
        with pytest.raises(InputError, match="save takes a Model, an LCTClassifier or a VSClass"):
            cw.save(other, tmp_path / "file")
    with pytest.raises(InputError, match="a model is written to a file, got the folder"):
        cw.save(made.set_params(hidden=(8,)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_parameters_of_numpy_are_saved_as_numbers(tmp_path):
    given = {"trees": np.int64(10), "n_members": np.int64(3), "prior": np.array([0.6, 0.4])}
    given |= {"learning_rate": np.float32(0.002), "random_state": np.int64(0)}
    made = cw.LCTClassifier(**{**SMALL, **given}).fit(TABLE, RARE)
    again = cw.load(cw.save(made, tmp_path / "model.safetensors"))
    assert np.array_equal(again.predict_proba(TABLE), made.predict_proba(TABLE))
    assert (again.trees, again.random_state) == (10, 0)
