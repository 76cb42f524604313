"""Models and states survive a round trip to disk; wrong, changed and cut files are refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import curvewise as cw
from curvewise.models.saving import FORMAT, load, load_state, save, save_state, write_tensors
from curvewise.training.loop import fit
from curvewise.training.model import Model, NetworkSpec
from curvewise.training.recipe import Recipe

DRAWN = cw.LossFamily(0.7, cw.LinearDensity(0.0, 0.5, 1.0), cw.LinearDensity(0.0, 3.0, 0.33))
SPEC = NetworkSpec("mlp", (4,), options={"hidden": [8]})
OBJECTIVES = [cw.LossFamily(tau=1.0, reduction="expected_mean"), DRAWN, cw.FocalLoss(1.5)]
OBJECTIVES += [cw.LDAMLoss(0.4, 10.0), cw.AUCMarginLoss(0.9)]


def data():
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(60) % 6 == 0).long()
    return torch.randn(60, 4, generator=generator) + y[:, None], y


def trained(objective=DRAWN, **settings):
    recipe = Recipe(**{"epochs": 2, "batch_size": 16, "scale_lambda": True, **settings})
    if not isinstance(objective, cw.LossFamily):
        recipe = recipe.changed(scale_lambda=False)
    fitted = fit(SPEC.build(seed=1), objective, *data(), recipe)
    about = {"preprocessing": {"columns": ["a", "b"]}, "record": {"losses": fitted.epoch_losses}}
    names, counts = ("benign", "<b>mal</b>"), fitted.class_counts
    return Model(fitted.network, SPEC, objective, recipe, names, counts, **about)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_a_model_comes_back_as_it_was_from_plain_safetensors_and_json(objective, tmp_path):
    model = trained(objective)
    path = save(model, tmp_path / "deep" / "model.safetensors")
    found = load(path)
    x, _ = data()
    np.testing.assert_array_equal(found.scores(x), model.scores(x))
    for name in ("spec", "recipe", "class_names", "class_counts", "preprocessing", "record"):
        assert getattr(found, name) == getattr(model, name)
    assert found.objective.drawn == objective.drawn
    if isinstance(objective, cw.LossFamily):
        assert found.objective == objective
    else:
        for ours, theirs in zip(objective.parameters(), found.objective.parameters(), strict=True):
            assert torch.equal(ours, theirs)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["model.safetensors"]
    assert "network.linear.weight" in load_file(path)
    header = path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")]
    about = json.loads(json.loads(header)["__metadata__"]["curvewise"])
    assert about["format"] == FORMAT
    assert about["versions"]["curvewise"] == cw.__version__


def fit_state():
    recipe = Recipe(epochs=2, batch_size=16, ema_decay=0.5, optimizer="adamw", rho=0.1)
    return fit(SPEC.build(1), DRAWN, *data(), recipe, on_progress=lambda p: p.step == 3).state


def changed(path, old, new):
    path.write_bytes(path.read_bytes().replace(old, new))


SPOILT = {  # how a file is spoilt, and what is said of it
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:2000]), "not a whole Curvewise file"),
    "one bit": (
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
        "was changed after it was written",
    ),
    "one word": (lambda path: changed(path, b"benign", b"malign"), "was changed after"),
    "empty": (lambda path: path.write_bytes(b""), "is not a whole Curvewise file"),
    "foreign": (lambda path: save_file({"w": torch.zeros(2)}, path), "not a Curvewise model"),
    "state": (lambda path: save_state(fit_state(), path), "the format curvewise-1, got a state"),
    "future": (
        lambda path: write_tensors(path, {}, {"kind": "model", "format": "curvewise-9"}),
        "got a model in curvewise-9",
    ),
    "gone": (lambda path: path.unlink(), "there is no file"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_file_is_a_clear_error(how, tmp_path):
    path = save(trained(), tmp_path / "model.safetensors")
    spoil, message = SPOILT[how]
    spoil(path)
    with pytest.raises(cw.InputError, match=message) as caught:
        load(path)
    assert "model.safetensors" in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o007])
def test_files_can_be_read_by_those_whom_the_umask_lets(umask, tmp_path):
    before = os.umask(umask)
    try:
        (tmp_path / "other").touch()
        path = save(trained(), tmp_path / "model.safetensors")
        kept = save_state(fit_state(), tmp_path / "state.safetensors")
        save(trained(), path)  # in the place of another
    finally:
        os.umask(before)
    expected = (tmp_path / "other").stat().st_mode
    assert expected & 0o777 == 0o666 & ~umask
    assert path.stat().st_mode == kept.stat().st_mode == expected


def test_a_training_state_on_disk_goes_on_bit_for_bit(tmp_path):
    state = fit_state()
    found = load_state(save_state(state, tmp_path / "state.safetensors"))
    recipe = Recipe(**state.recipe)
    by_memory = fit(SPEC.build(2), DRAWN, *data(), recipe, state=state).network.state_dict()
    by_disk = fit(SPEC.build(3), DRAWN, *data(), recipe, state=found).network.state_dict()
    assert all(torch.equal(by_memory[name], by_disk[name]) for name in by_disk)


def test_writing_never_leaves_half_a_file(tmp_path, monkeypatch):
    path = save(trained(), tmp_path / "model.safetensors")
    before = path.read_bytes()

    def full(*arguments):
        Path(arguments[1]).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr("curvewise.models.saving.save_file", full)
    with pytest.raises(OSError, match="no space left"):
        save(trained(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_lambda_is_of_the_trained_range_and_probabilities_are_its_closed_form():
    model, (x, _) = trained(), data()
    assert model.lam().tolist() == [[0.5, 3.0]]
    np.testing.assert_array_equal(model.scores(x), model.scores(x, tau=3.0, gamma=0.5))
    with pytest.raises(cw.InputError, match=r"lambda = \['gamma', 'tau'\], got omega = 0.5"):
        model.scores(x, omega=0.5)
    expected = cw.calibrated_probability(
        model.logits(x, tau=1.0, gamma=0.2), class_counts=model.class_counts, omega=0.7,
        gamma=0.2, tau=1.0, prior=0.01,
    )  # fmt: skip
    found = model.probabilities(x, prior=0.01, tau=1.0, gamma=0.2)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(cw.InputError, match="need the vector-scaling loss, got FocalLoss"):
        trained(cw.FocalLoss()).probabilities(x)
