"""Networks by name and their weights: what is built and loaded, what is refused."""

import copy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.networks.architectures import MLP, ResNeXt50, SmallCNN
from curvewise.networks.registry import build_network, input_statistics, load_weights

IMAGE = (3, 32, 32)


def same(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize(
    ("name", "in_shape", "options", "n_features"),
    [
        ("mlp", (30,), {}, 64),
        ("mlp", [30], {"hidden": [5]}, 5),
        ("mlp", np.zeros((7, 30)).shape[1:], {"hidden": ()}, 30),
        ("small-cnn", IMAGE, {"width": 4}, 16),
        *((f"resnet{depth}", (1, 28, 28), {"width": 8}, 32) for depth in (20, 32, 44, 56)),
        ("resnext50-32x4d", (4, 64, 64), {}, 2048),
    ],
)
def test_what_is_built(name, in_shape, options, n_features):
    network = build_network(name, in_shape=in_shape, n_classes=3, **options)
    x = torch.randn(2, *in_shape)
    assert network.features(x).shape == (2, n_features)
    assert network(x).shape == (2, 3)
    if name.startswith("resnet"):
        assert f"resnet{network.depth}" == name


@pytest.mark.parametrize(
    ("size", "stride"), [((4, 4), 1), ((63, 63), 1), ((64, 64), 2), ((300, 96), 2), ((256, 256), 8)]
)
def test_the_small_cnn_takes_larger_steps_over_larger_images(size, stride):
    network = build_network("small-cnn", in_shape=(3, *size))
    first = network.body[0]
    assert (first.stride, first.kernel_size) == ((stride, stride), (2 * stride + 1,) * 2)
    assert network(torch.randn(2, 3, *size)).shape == (2, 2)
    assert build_network("small-cnn", in_shape=(3, *size), stride=1).body[0].stride == (1, 1)


def test_a_seed_makes_the_weights_and_the_global_state_is_used_without_one_only():
    for name, in_shape in (("mlp", (30,)), ("small-cnn", IMAGE), ("resnet20", IMAGE)):
        before = torch.get_rng_state()
        first = build_network(name, in_shape=in_shape, seed=7)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(99)
        assert same(first, build_network(name, in_shape=in_shape, seed=7))
        assert not same(first, build_network(name, in_shape=in_shape, seed=8))
        assert same(first, build_network(name, in_shape=in_shape, seed=np.int64(7)))
    torch.manual_seed(3)
    first = build_network("mlp", in_shape=(3,))
    assert not same(first, build_network("mlp", in_shape=(3,)))
    torch.manual_seed(3)
    with pytest.raises(InputError):
        build_network("mlp", in_shape=(3,), seed=7, hidden=(4, 0))
    assert same(first, build_network("mlp", in_shape=(3,)))


def fake_network(name, *, in_chans, num_classes, **options):
    """What a network of timm looks like from outside."""
    if options.keys() - {"drop_rate"}:
        raise TypeError(f"unexpected keyword argument {next(iter(options))!r}")
    network = nn.Sequential(nn.Linear(in_chans, num_classes))
    network.pretrained_cfg = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
    network.options = options
    return network


def test_timm_is_given_channels_classes_and_options(monkeypatch):
    names = ["resnet18", "vit_tiny"]
    known = {"is_model": lambda name: name.split(".")[0] in names, "list_models": lambda: names}
    fake = SimpleNamespace(**known, create_model=fake_network)
    monkeypatch.setitem(sys.modules, "timm", fake)
    network = build_network("timm:resnet18.a1", in_shape=(5, 8, 8), n_classes=4, drop_rate=0.1)
    assert (network[0].in_features, network[0].out_features) == (5, 4)
    assert network.options == {"drop_rate": 0.1}
    assert input_statistics(network) == ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    first, second = (build_network("timm:resnet18", in_shape=IMAGE, seed=1) for _ in range(2))
    assert same(first, second)
    with pytest.raises(InputError, match="got 'resnet81'; did you mean 'resnet18'"):
        build_network("timm:resnet81", in_shape=IMAGE)
    with pytest.raises(InputError, match=r"timm:resnet18 must be given options .*'width'"):
        build_network("timm:resnet18", in_shape=IMAGE, width=3)


@pytest.mark.parametrize(
    ("failure", "seen"),
    [
        ("import torchvision_that_is_not_there", "ModuleNotFoundError: No module named"),
        ("raise RuntimeError('no operator torchvision::nms')", "RuntimeError: no operator"),
        ("raise AttributeError('partly\\ninitialized')", "AttributeError: partly$"),
        (None, "ModuleNotFoundError: import of timm halted"),
    ],
)
def test_timm_cannot_be_imported(failure, seen, tmp_path, monkeypatch):
    if failure is None:
        monkeypatch.setitem(sys.modules, "timm", None)
    else:
        (tmp_path / "timm.py").write_text(failure, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "timm", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=f"pip install timm.* gave {seen}"):
        build_network("timm:resnet18", in_shape=IMAGE)
    assert sys.modules.get("timm") is None


def trained(n_classes=2):
    """Return the weights of a small CNN whose BatchNorm statistics have moved."""
    network = SmallCNN(1, n_classes, width=2)
    network(torch.randn(5, 1, 8, 8))
    return {name: value.clone() for name, value in network.state_dict().items()}


def unchanged(network, before):
    return all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_everything_is_copied_and_converted_also_imagenet_weights_into_two_classes():
    state, network = trained(), SmallCNN(1, width=2)
    kept = network.body[0].weight
    assert load_weights(network, {name: value.double() for name, value in state.items()}) == []
    assert unchanged(network, state)
    assert network.body[0].weight is kept  # the parameters an optimiser knows
    assert kept.requires_grad
    load_weights(network, state)
    state["linear.bias"] += 1
    assert not unchanged(network, state)  # a copy, not a reference
    published, network = ResNeXt50(n_classes=1000), ResNeXt50(n_classes=2)
    assert input_statistics(network) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert input_statistics(MLP(3)) is None
    # Files of PyTorch before 0.4.1 do not count batches.
    state = {k: v for k, v in published.state_dict().items() if "num_batches" not in k}
    assert load_weights(network, state) == ["fc.weight", "fc.bias"]
    assert torch.equal(network.layer4[2].conv3.weight, published.layer4[2].conv3.weight)
    assert int(network.bn1.num_batches_tracked) == 0


def test_a_head_of_other_classes_is_left_and_named_or_refused():
    state, network = trained(n_classes=7), SmallCNN(1, width=2)
    head = copy.deepcopy(network.linear.state_dict())
    assert load_weights(network, state) == ["linear.weight", "linear.bias"]
    assert unchanged(network.linear, head)
    assert unchanged(network.body, {k[5:]: v for k, v in state.items() if k.startswith("body.")})
    # A head without bias is one, too.
    network, other = (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, n, bias=False)) for n in (2, 5))
    assert load_weights(network, other.state_dict()) == ["1.weight"]
    assert torch.equal(network[0].weight, other[0].weight)
    with pytest.raises(InputError, match=r"linear\.weight: expected \(2, 64\), got \(3, 64\)"):
        load_weights(MLP(4), MLP(4, 3).state_dict(), strict_head=True)
    assert load_weights(MLP(4), MLP(4).state_dict(), strict_head=True) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"body.0.weight": None}, r"body\.0\.weight: expected \(2, 1, 3, 3\), got nothing$"),
        ({"linear.bias": None}, r"linear\.bias: expected \(2,\), got nothing$"),
        ({"extra": torch.ones(3)}, r"extra: expected nothing, got \(3,\)$"),
        ({"epoch": 3}, r"epoch: expected nothing, got int$"),
        ({"linear.bias": [0.0, 0.0]}, r"linear\.bias: expected \(2,\), got list$"),
        # Other classes do not excuse other features, nor a head that does not agree with itself.
        ({"linear.weight": torch.ones(5, 9), "linear.bias": torch.ones(5)}, r"\(5, 9\); .*\(5,\)$"),
        ({"linear.weight": torch.ones(5, 8)}, r"linear\.weight: expected \(2, 8\), got \(5, 8\)$"),
        ({"linear.weight": torch.tensor(1.0)}, r"linear\.weight: .*got \(\)$"),
    ],
)
def test_a_misfit_is_named(changes, message):
    network, state = SmallCNN(1, width=2), trained() | changes
    state = {name: value for name, value in state.items() if value is not None}
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(InputError, match=message) as caught:
        load_weights(network, state)
    assert str(caught.value).startswith("weights must fit SmallCNN (20 entries), but ")
    assert unchanged(network, before)


def test_many_misfits_are_one_error_that_names_three():
    network = SmallCNN(1, width=2)
    with pytest.raises(InputError) as caught:
        load_weights(network, SmallCNN(3, width=4).state_dict())
    message = str(caught.value)
    assert "body.0.weight: expected (2, 1, 3, 3), got (4, 3, 3, 3); body.2.weight" in message
    assert message.count("expected") == 3
    # All of 20 but the three counters and linear.bias, which has the same shape in both.
    assert message.endswith("; and 13 more")
