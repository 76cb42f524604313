"""Loading weights: what is copied, what is left, what is refused."""

import copy

import pytest
import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.architectures import MLP, ResNeXt50, SmallCNN
from curvewise.networks.registry import load_weights

State = dict[str, Tensor]


def trained(n_classes: int = 2) -> State:
    """Return the weights of a small CNN whose BatchNorm statistics have moved."""
    network = SmallCNN(1, n_classes, width=2)
    network(torch.randn(5, 1, 8, 8))
    return {name: value.clone() for name, value in network.state_dict().items()}


def unchanged(network: nn.Module, before: State) -> bool:
    return all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_everything_is_copied() -> None:
    state, network = trained(), SmallCNN(1, width=2)
    kept = network.body[0].weight
    assert load_weights(network, state) == []
    assert unchanged(network, state)
    assert network.body[0].weight is kept  # the parameters an optimiser knows
    assert kept.requires_grad
    state["linear.bias"] += 1
    assert not unchanged(network, state)  # a copy, not a reference


def test_a_head_of_other_classes_is_left_and_named() -> None:
    state, network = trained(n_classes=7), SmallCNN(1, width=2)
    head = copy.deepcopy(network.linear.state_dict())
    assert load_weights(network, state) == ["linear.weight", "linear.bias"]
    assert unchanged(network.linear, head)
    assert unchanged(network.body, {k[5:]: v for k, v in state.items() if k.startswith("body.")})


def test_a_head_without_bias() -> None:
    network, other = (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, n, bias=False)) for n in (2, 5))
    assert load_weights(network, other.state_dict()) == ["1.weight"]
    assert torch.equal(network[0].weight, other[0].weight)


def test_imagenet_weights_into_two_classes() -> None:
    published, network = ResNeXt50(n_classes=1000), ResNeXt50(n_classes=2)
    # Files of PyTorch before 0.4.1 do not count batches.
    state = {k: v for k, v in published.state_dict().items() if "num_batches" not in k}
    assert load_weights(network, state) == ["fc.weight", "fc.bias"]
    assert torch.equal(network.layer4[2].conv3.weight, published.layer4[2].conv3.weight)
    assert int(network.bn1.num_batches_tracked) == 0


def test_other_number_formats_are_converted() -> None:
    state, network = {k: v.double() for k, v in trained().items()}, SmallCNN(1, width=2)
    load_weights(network, state)
    assert network.linear.weight.dtype == torch.float32
    assert network.body[2].num_batches_tracked.dtype == torch.int64
    assert torch.equal(network.linear.weight.double(), state["linear.weight"])


def without(name: str) -> State:
    state = trained()
    del state[name]
    return state


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (without("body.0.weight"), r"body\.0\.weight: expected \(2, 1, 3, 3\), got nothing$"),
        (without("body.2.running_mean"), r"body\.2\.running_mean: expected \(2,\), got nothing$"),
        (without("linear.bias"), r"linear\.bias: expected \(2,\), got nothing$"),
        (trained() | {"extra": torch.ones(3)}, r"extra: expected nothing, got \(3,\)$"),
        (trained() | {"epoch": 3}, r"epoch: expected nothing, got int$"),
        (trained() | {"linear.bias": [0.0, 0.0]}, r"linear\.bias: expected \(2,\), got list$"),
        (
            trained() | {"linear.weight": torch.ones(2, 9)},
            r"linear\.weight: expected \(2, 8\), got \(2, 9\)$",
        ),
        (  # other classes do not excuse other features
            trained() | {"linear.weight": torch.ones(5, 9), "linear.bias": torch.ones(5)},
            r"linear\.weight: expected \(2, 8\), got \(5, 9\); linear\.bias: .*got \(5,\)$",
        ),
        (  # a head that does not agree with itself
            trained() | {"linear.weight": torch.ones(5, 8)},
            r"linear\.weight: expected \(2, 8\), got \(5, 8\)$",
        ),
        (trained() | {"linear.weight": torch.tensor(1.0)}, r"linear\.weight: .*got \(\)$"),
    ],
)
def test_a_misfit_is_named(state: State, message: str) -> None:
    network = SmallCNN(1, width=2)
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(InputError, match=message) as caught:
        load_weights(network, state)
    assert str(caught.value).startswith("weights must fit SmallCNN (20 entries), but ")
    assert unchanged(network, before)


def test_many_misfits_are_one_error_that_names_three() -> None:
    network = SmallCNN(1, width=2)
    with pytest.raises(InputError) as caught:
        load_weights(network, SmallCNN(3, width=4).state_dict())
    message = str(caught.value)
    assert "body.0.weight: expected (2, 1, 3, 3), got (4, 3, 3, 3); body.2.weight" in message
    assert message.count("expected") == 3
    # All of 20 but the three counters and linear.bias, which has the same shape in both.
    assert message.endswith("; and 13 more")


def test_a_strict_head() -> None:
    with pytest.raises(InputError, match=r"linear\.weight: expected \(2, 64\), got \(3, 64\)"):
        load_weights(MLP(4), MLP(4, 3).state_dict(), strict_head=True)
    assert load_weights(MLP(4), MLP(4).state_dict(), strict_head=True) == []
