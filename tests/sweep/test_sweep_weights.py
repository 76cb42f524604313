"""Sweeps whose networks start from weights in a file."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from curvewise.base.errors import InputError
from curvewise.networks.registry import build_network
from curvewise.sweep.executors import Serial
from curvewise.sweep.plan import make_plan
from curvewise.sweep.run import run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems


def spec_with(weights, **network):
    return Spec.from_dict(
        {
            "tasks": ["digits:8"],
            "network": {"name": "mlp", "hidden": [6], "weights": str(weights), **network},
            # One step that moves nothing, so that the scores are those of the file's weights.
            "recipe": {"epochs": "none", "steps": 1, "lr": 1e-12},
            "methods": [{"method": "vs", "tau": [0.0, 1.0]}],
        }
    )


def save(path, seed, hidden=6):
    network = build_network("mlp", in_shape=(64,), hidden=(hidden,), seed=seed)
    save_file(network.state_dict(), path)
    return network


def test_models_start_from_the_weights_of_a_file(tmp_path):
    network = save(tmp_path / "start.safetensors", seed=5)
    spec, problems = spec_with(tmp_path / "start.safetensors"), Problems()
    with Store(tmp_path / "runs.db") as store:
        run_sweep(spec, store, Serial(), problems)
        found = [store.scores(record.identity) for record in store.runs("sweep", state="done")]
    problem = problems.load(spec.runs()[0])
    with torch.no_grad():
        logits = network(torch.from_numpy(problem.x_test))
    expected = (logits[:, 1] - logits[:, 0]).numpy()
    assert len(found) == 2
    for scores in found:
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_other_weights_under_the_same_name_are_another_run(tmp_path):
    path, identities = tmp_path / "start.safetensors", []
    for seed in (5, 6):
        save(path, seed)
        plan = make_plan(spec_with(path).runs(), Problems().describe)
        identities.append({identity for _, identity, _ in plan.rows})
    assert not identities[0] & identities[1]


def test_weights_that_are_not_there_or_do_not_fit(tmp_path):
    missing = spec_with(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"there is no weights file .*none\.safetensors"):
        make_plan(missing.runs(), Problems().describe)
    save(tmp_path / "wide.safetensors", seed=0, hidden=7)
    problems = Problems()
    with Store(tmp_path / "runs.db") as store:
        done = run_sweep(
            spec_with(tmp_path / "wide.safetensors"),
            store,
            Serial(),
            problems,
        )
        reasons = [record.message for record in store.runs("sweep", state="failed")]
    assert done.failed == 2
    assert all("weights must fit MLP" in reason for reason in reasons)


@pytest.mark.parametrize(
    "network", [{"weights": 3, "name": "mlp"}, {"weights": "a.pth"}], ids=["number", "no name"]
)
def test_weights_are_a_file_of_a_named_network(network):
    with pytest.raises(InputError, match="weights must be a file for a named network"):
        Spec.from_dict({"tasks": ["digits:8"], "network": network, "methods": [{"method": "ce"}]})
