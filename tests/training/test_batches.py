"""Mini-batches: what an epoch holds, with and without a minimum of the rarest class."""

from collections import Counter

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from curvewise.base.errors import InputError
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.training.batches import (
    epoch_batches,
    epoch_rows,
    seen_class_counts,
    steps_per_epoch,
)
from curvewise.training.loop import fit
from curvewise.training.recipe import Recipe

DRAWN = LossFamily(0.7, 0.2, LinearDensity(0.0, 3.0, 0.33))


@st.composite
def epochs(draw):
    """Labels of two to four classes in any order, a recipe with a minimum, and an epoch."""
    counts = draw(st.lists(st.integers(1, 60), min_size=2, max_size=4))
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    size = draw(st.integers(2, 40))
    minimum = draw(st.integers(1, size - 1))
    recipe = Recipe(
        epochs=3, batch_size=size, minority_per_batch=minimum, seed_order=draw(st.integers(0, 9))
    )
    return shuffled, counts, recipe, draw(st.integers(0, 5))


@settings(max_examples=400, deadline=None)
@given(epochs())
def test_every_batch_has_its_minimum_and_every_sample_its_turn(case):
    labels, counts, recipe, epoch = case
    rarest, size, minimum = counts.index(min(counts)), recipe.batch_size, recipe.minority_per_batch
    batches = [rows.tolist() for rows in epoch_rows(len(labels), epoch, recipe, labels)]
    labels = labels.tolist()
    held = [sum(labels[row] == rarest for row in rows) for rows in batches]
    assert min(held) >= minimum
    assert len(batches) == steps_per_epoch(counts, recipe)

    times = Counter(row for rows in batches for row in rows)
    assert set(times) == set(range(len(labels)))
    of_rarest = [n for row, n in times.items() if labels[row] == rarest]
    assert all(n == 1 for row, n in times.items() if labels[row] != rarest)
    assert max(of_rarest) - min(of_rarest) <= 1
    if sum(held) > min(counts):  # repeated: then no more than the minimum asks for
        assert held == [minimum] * len(batches)
    by_class = Counter(labels[row] for row in times.elements())
    assert seen_class_counts(counts, recipe) == tuple(
        float(by_class[c]) for c in range(len(counts))
    )

    # The batch size is kept; what is missing is missing at the end.
    sizes = [len(rows) for rows in batches]
    assert max(sizes) <= size
    assert sizes[:-2] == [size] * len(sizes[:-2])
    if len(sizes) > 1 and sizes[-2] < size:
        assert sizes[-1] == held[-1] == minimum
    # Dealt out evenly: full batches differ by one at most, the last has no more than those.
    assert max(held[:-1], default=0) - min(held[:-1], default=0) <= 1
    assert held[-1] <= max(held)
    # Nobody is in a batch twice, unless everybody is in it.
    for rows in batches:
        several = max(Counter(rows).values()) > 1
        assert not several or len({row for row in rows if labels[row] == rarest}) == min(counts)


@settings(max_examples=100, deadline=None)
@given(epochs())
def test_no_smaller_number_of_batches_would_do(case):
    _, counts, recipe, _ = case
    others, rarest = sum(counts) - min(counts), min(counts)
    steps = 1
    while others + max(rarest, steps * recipe.minority_per_batch) > steps * recipe.batch_size:
        steps += 1
    assert steps_per_epoch(counts, recipe) == steps


def test_an_epoch_is_a_function_of_seed_and_epoch():
    labels = (torch.arange(300) % 30 == 0).long()
    recipe = Recipe(epochs=2, batch_size=20, minority_per_batch=2)

    def rows(epoch, **changes):
        return torch.cat(list(epoch_rows(300, epoch, recipe.changed(**changes), labels)))

    assert rows(1).equal(rows(1))
    assert rows(1).equal(rows(1, seed_weights=5, seed_lambda=5))
    assert not rows(1).equal(rows(2))
    assert not rows(1).equal(rows(1, seed_order=5))
    first = [set(batch.tolist()) for batch in epoch_rows(300, 0, recipe, labels)]
    second = [set(batch.tolist()) for batch in epoch_rows(300, 1, recipe, labels)]
    assert not any(batch in second for batch in first)


@pytest.mark.parametrize(("n", "size"), [(40, 16), (48, 16), (5, 16)])
def test_without_a_minimum_all_samples_come_once_in_full_batches(n, size):
    recipe = Recipe(epochs=1, batch_size=size)
    batches = epoch_rows(n, 3, recipe)
    assert sorted(torch.cat(list(batches)).tolist()) == list(range(n))
    assert [len(rows) for rows in batches[:-1]] == [size] * (n // size - (n % size == 0))
    assert len(batches) == steps_per_epoch((n - 1, 1), recipe)
    assert seen_class_counts((n - 1, 1), recipe) == (n - 1.0, 1.0)


@pytest.mark.parametrize("draw", ["batch", "sample"])
def test_every_batch_or_sample_has_a_lambda_of_its_own(draw):
    labels = (torch.arange(21) >= 13).long()
    recipe = Recipe(epochs=1, batch_size=10, minority_per_batch=3, draw=draw)
    batches = list(epoch_batches(21, 0, DRAWN, recipe, labels=labels))
    assert [len(batch.rows) for batch in batches] == [10, 9, 3]
    lams = torch.cat([batch.lam.view(-1, 1) for batch in batches])
    assert len(lams) == (3 if draw == "batch" else 22)
    assert lams.unique().numel() == len(lams)
    if draw == "sample":
        assert [len(batch.lam) for batch in batches] == [10, 9, 3]


def test_a_minimum_needs_room_and_labels():
    with pytest.raises(InputError, match="must be less than batch_size = 8, got 8"):
        Recipe(epochs=1, batch_size=8, minority_per_batch=8)
    with pytest.raises(InputError, match=r"minority_per_batch must be .* got -1"):
        Recipe(epochs=1, minority_per_batch=-1)
    with pytest.raises(InputError, match="needs the labels"):
        epoch_rows(10, 0, Recipe(epochs=1, minority_per_batch=1))


def test_a_recipe_without_a_minimum_is_written_as_it_always_was():
    recipe = Recipe(epochs=1)
    assert "minority_per_batch" not in recipe.model_dump()
    assert "minority_per_batch" not in recipe.model_dump(mode="json")
    some = recipe.changed(minority_per_batch=3)
    assert some.model_dump()["minority_per_batch"] == 3
    assert Recipe(**some.model_dump()) == some != recipe
    assert Recipe(**recipe.model_dump()) == recipe
    assert some.changed(lr=0.5).minority_per_batch == 3
    assert some.changed(minority_per_batch=0) == recipe


def data(n=70):
    y = (torch.arange(n) % 14 == 0).long()
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(0)) + y[:, None], y


@pytest.mark.parametrize("draw", ["batch", "sample"])
@pytest.mark.parametrize("stop", [1, 4, 6, 8])
def test_a_stopped_run_goes_on_to_the_same_bits(draw, stop):
    x, y = data()
    recipe = Recipe(epochs=3, batch_size=16, minority_per_batch=3, lr=0.05, draw=draw)

    def train(seed=0, **more):
        torch.manual_seed(seed)
        network = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        fitted = fit(network, DRAWN, x, y, recipe, **more)
        return fitted, torch.cat([v.flatten() for v in fitted.network.state_dict().values()])

    whole, expected = train()
    assert whole.steps == 3 * 5
    first, _ = train(on_progress=lambda progress: progress.step == stop)
    second, weights = train(seed=5, state=first.state)
    assert weights.equal(expected)
    assert second.epoch_losses == whole.epoch_losses
    with pytest.raises(InputError, match=r"minority_per_batch = 3 \(got 0\)"):
        fit(
            torch.nn.Linear(5, 2), DRAWN, x, y, recipe.changed(minority_per_batch=0),
            state=first.state,
        )  # fmt: skip
