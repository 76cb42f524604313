"""Mini-batches: what an epoch holds, with and without a minimum of the rarest class."""

from collections import Counter

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from curvewise.training.batches import draw_places, epoch_rows, seen_class_counts, steps_per_epoch
from curvewise.training.recipe import Recipe


@st.composite
def epochs(draw):
    """Labels of two to four classes in any order, a recipe with a minimum, and an epoch."""
    counts = draw(st.lists(st.integers(1, 60), min_size=2, max_size=4))
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    size = draw(st.integers(2, 40))
    minimum, seed = draw(st.integers(1, size - 1)), draw(st.integers(0, 9))
    recipe = Recipe(epochs=3, batch_size=size, minority_per_batch=minimum, seed_order=seed)
    return shuffled, counts, recipe, draw(st.integers(0, 5))


@settings(max_examples=400)
@given(epochs())
def test_every_batch_has_its_minimum_and_every_sample_its_turn(case):
    labels, counts, recipe, epoch = case
    rarest, size, minimum = counts.index(min(counts)), recipe.batch_size, recipe.minority_per_batch
    batches = [rows.tolist() for rows in epoch_rows(labels, epoch, recipe)]
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
    assert seen_class_counts(counts, recipe) == tuple(by_class[c] for c in range(len(counts)))

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

    # No smaller number of batches would do.
    steps, others = 1, sum(counts) - min(counts)
    while others + max(min(counts), steps * minimum) > steps * size:
        steps += 1
    assert len(batches) == steps


def test_an_epoch_is_a_function_of_seed_and_epoch():
    labels = (torch.arange(300) % 30 == 0).long()
    recipe = Recipe(epochs=2, batch_size=20, minority_per_batch=2)

    def rows(epoch, **changes):
        return torch.cat(list(epoch_rows(labels, epoch, recipe.changed(**changes))))

    assert rows(1).equal(rows(1))
    assert rows(1).equal(rows(1, seed_weights=5, seed_lambda=5))
    assert not rows(1).equal(rows(2))
    assert not rows(1).equal(rows(1, seed_order=5))
    first, second = ({frozenset(b.tolist()) for b in epoch_rows(labels, e, recipe)} for e in (0, 1))
    assert first.isdisjoint(second)


@pytest.mark.parametrize(("n", "size"), [(40, 16), (48, 16), (5, 16)])
def test_without_a_minimum_all_samples_come_once_in_full_batches(n, size):
    recipe = Recipe(epochs=1, batch_size=size)
    batches = epoch_rows(torch.zeros(n), 3, recipe)
    assert sorted(torch.cat(list(batches)).tolist()) == list(range(n))
    assert [len(rows) for rows in batches[:-1]] == [size] * (n // size - (n % size == 0))
    assert len(batches) == steps_per_epoch((n - 1, 1), recipe)
    assert seen_class_counts((n - 1, 1), recipe) == (n - 1.0, 1.0)


def test_every_batch_or_sample_has_a_lambda_of_its_own():
    recipe = Recipe(epochs=1, batch_size=10, minority_per_batch=3)
    batches = epoch_rows((torch.arange(21) >= 13).long(), 0, recipe)
    assert [len(rows) for rows in batches] == [10, 9, 3]
    assert draw_places(batches, recipe) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    per_sample = draw_places(batches, recipe.changed(draw="sample"))
    assert per_sample == [slice(0, 10), slice(10, 19), slice(19, 22)]
