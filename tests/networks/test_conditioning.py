"""FiLM against plain loops, and the adapter on networks of many shapes."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import curvewise as cw

FAMILY = cw.LossFamily(tau=cw.LinearDensity(0.0, 3.0, 0.33))
FIXED = cw.LossFamily(tau=2.0)
THREE = torch.tensor([3.0])


class Named(nn.Module):
    """A network whose head has a name and is registered first, so that order alone misleads."""

    def __init__(self, name: str, head: nn.Module):
        super().__init__()
        self.name = name
        self.add_module(name, head)
        self.body = nn.Linear(6, 8)
        self.gain = nn.Parameter(torch.ones(8))  # a parameter that belongs to no layer

    def forward(self, x: Tensor) -> Tensor:
        return self.get_submodule(self.name)(torch.relu(self.body(x)) * self.gain)


def flat_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def modulate_by_loop(film: cw.FiLM, features: Tensor, lam: Tensor, channel_dim: int) -> Tensor:
    out = torch.empty_like(features)
    inputs, outputs = features.movedim(channel_dim, 1), out.movedim(channel_dim, 1)
    for sample in range(len(features)):
        own = lam if lam.dim() == 1 else lam[sample]
        sigma, mu = (
            last.weight @ (first.weight @ own + first.bias).clamp(min=0) + last.bias
            for first, _, last in (film.sigma, film.mu)
        )
        for feature in range(film.n_features):
            outputs[sample, feature] = sigma[feature] * inputs[sample, feature] + mu[feature]
    return out


def lambda_fed(film: cw.FiLM, lam: Tensor) -> Tensor:
    """Return lambda as the sigma MLP receives it."""
    received: list[Tensor] = []
    with film.sigma.register_forward_pre_hook(lambda _, inputs: received.append(inputs[0])):
        film(torch.ones(1, film.n_features), lam)
    return received[0]


def test_film_has_the_parameters_of_the_paper_and_may_start_as_the_identity():
    film = cw.FiLM(1, 64)
    for mlp in (film.sigma, film.mu):
        weights = [p for name, p in mlp.named_parameters() if name.endswith("weight")]
        assert sum(weight.numel() for weight in weights) == 1 * 128 + 128 * 64 == 8320
    assert parameter_count(film) == 2 * (8320 + 128 + 64)
    features = torch.randn(5, 4, 3, 3)
    assert torch.equal(cw.FiLM(1, 4, init="identity")(features, THREE), features)
    assert not torch.allclose(cw.FiLM(1, 4, init="paper")(features, THREE), features)


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize(
    ("shape", "channel_dim"), [((5, 4), 1), ((5, 4), -1), ((5, 4, 3, 2), 1), ((5, 3, 4), -1)]
)
def test_film_is_the_formula(shape, channel_dim, per_sample):
    film = cw.FiLM(2, 4, hidden=7, channel_dim=channel_dim).double()
    features = torch.randn(shape, dtype=torch.float64)
    lam = torch.rand((5, 2) if per_sample else (2,), dtype=torch.float64) * 3
    expected = modulate_by_loop(film, features, lam, channel_dim)
    torch.testing.assert_close(film(features, lam), expected, rtol=1e-12, atol=1e-12)


def test_scaled_lambda_runs_from_minus_one_to_one():
    film = cw.FiLM(2, 4, lambda_ranges=[(0.0, 3.0), (0.5, 0.99)])
    lams = torch.tensor([[0.0, 0.5], [1.5, 0.745], [3.0, 0.99]])
    expected = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    torch.testing.assert_close(lambda_fed(film, lams), expected, rtol=0, atol=1e-6)
    scaled = cw.condition(flat_network(), FAMILY, scale_lambda=True)
    assert lambda_fed(scaled.film, FAMILY.at(tau=3.0)).item() == 1
    assert lambda_fed(scaled.film, FAMILY.at(tau=0.0)).item() == -1
    raw = torch.tensor([[0.0], [1e-9], [0.1], [0.37], [3.0]])
    assert torch.equal(lambda_fed(cw.FiLM(1, 4), raw), raw)


NETWORKS = {
    "sequential": (flat_network, "2"),
    "bare linear": (lambda: nn.Linear(6, 2), ""),
    "fc": (lambda: Named("fc", nn.Linear(8, 2)), "fc"),
    "head": (lambda: Named("head", nn.Linear(8, 2)), "head"),
    "linear": (lambda: Named("linear", nn.Linear(8, 2)), "linear"),
    "classifier": (
        lambda: Named("classifier", nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))),
        "classifier.2",
    ),
    "output": (lambda: Named("output", nn.Linear(8, 2)), "output"),  # not looked for
    "nested": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Sequential(flat_network())), "1.0.2"),
}


@pytest.mark.parametrize(("make", "last"), NETWORKS.values(), ids=NETWORKS)
def test_the_last_linear_layer_is_found_or_named(make, last):
    network, x = make(), torch.randn(5, 6)
    layer = last if last == "output" else None
    conditioned = cw.condition(network, FAMILY, "both", init="identity", layer=layer)
    assert conditioned.linear is network.get_submodule(last)
    assert torch.equal(conditioned(x, THREE), network(x))


@pytest.mark.parametrize("at", ["penultimate", "logits", "both"])
def test_at_says_where_film_stands(at):
    network, x = flat_network(), torch.randn(5, 6)
    conditioned = cw.condition(network, FAMILY, at, init="paper")
    features = network[:2](x)
    logits = network[2](features if at == "logits" else conditioned.film(features, THREE))
    expected = logits if at == "penultimate" else conditioned.film_logits(logits, THREE)
    assert torch.equal(conditioned(x, THREE), expected)


@pytest.mark.parametrize("more", [nn.Softmax(-1), nn.ReLU(), nn.ReLU(inplace=True)])
def test_a_network_that_goes_on_after_its_linear_layer_is_refused(more):
    conditioned = cw.condition(nn.Sequential(nn.Linear(6, 2), more), FAMILY)
    with pytest.raises(cw.InputError, match="must end in the linear layer"):
        conditioned(torch.randn(5, 6), THREE)


def test_the_network_stays_as_it_was_shares_its_parameters_and_nothing_drawn_adds_nothing():
    network = Named("fc", nn.Linear(8, 2))
    children, x = dict(network.named_modules()), torch.randn(5, 6)
    before = network(x)
    conditioned = cw.condition(network, FAMILY)
    conditioned(x, THREE)
    assert dict(network.named_modules()) == children
    assert torch.equal(network(x), before)
    shared = {id(parameter) for parameter in conditioned.parameters()}
    assert {id(parameter) for parameter in network.parameters()} <= shared
    network, x = flat_network(), torch.randn(5, 6)
    conditioned = cw.condition(network, FIXED, "both")
    assert parameter_count(conditioned) == parameter_count(network)
    for lam in (None, FIXED.at(), FIXED.draw(5)):
        assert torch.equal(conditioned(x, lam), network(x))


@pytest.mark.parametrize("family", [FAMILY, FIXED])
def test_many_lambda_cost_one_pass_through_the_body(family):
    network, x, passes = flat_network(), torch.randn(5, 6), []
    conditioned, lams = cw.condition(network, family, "both"), family.draw(4)
    singles = torch.stack([conditioned(x, lam) for lam in lams])
    network[0].register_forward_hook(lambda *_: passes.append(1))
    assert torch.equal(conditioned.forward_many(x, lams), singles)
    assert singles.shape == (4, 5, 2)
    assert len(passes) == 1


def test_copies_saved_weights_and_compiled_and_functional_calls_give_the_same_logits():
    conditioned, x = cw.condition(flat_network(), FAMILY), torch.randn(5, 6)
    other = cw.condition(flat_network(), FAMILY)
    assert not torch.equal(other(x, THREE), conditioned(x, THREE))
    other.load_state_dict(conditioned.state_dict())
    for twin in (other, pickle.loads(pickle.dumps(conditioned)), copy.deepcopy(conditioned)):
        assert torch.equal(twin(x, THREE), conditioned(x, THREE))
    twin.linear.weight.data.zero_()
    assert conditioned.linear.weight.any()
    compiled = torch.compile(conditioned, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, THREE), conditioned(x, THREE))
    other = cw.condition(flat_network(), FAMILY)
    called = torch.func.functional_call(conditioned, other.state_dict(), (x, THREE))
    assert torch.equal(called, other(x, THREE))


def test_gradients_reach_film_and_body_and_a_float64_network_has_a_float64_film():
    conditioned = cw.condition(flat_network(), FAMILY, "both", init="paper")
    conditioned(torch.randn(5, 6), THREE).square().sum().backward()
    assert all(parameter.grad.any() for parameter in conditioned.parameters())
    conditioned = cw.condition(flat_network().double(), FAMILY, "both")
    assert {parameter.dtype for parameter in conditioned.parameters()} == {torch.float64}
    # Draws are float32 by default, and must serve such a network too.
    logits = conditioned(torch.randn(5, 6, dtype=torch.float64), FAMILY.draw(5))
    assert logits.dtype == torch.float64
