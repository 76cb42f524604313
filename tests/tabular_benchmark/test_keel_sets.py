"""The 62 data sets, their base sets, the halves, the folds."""

import itertools
from collections import Counter

import numpy as np
import pytest
from benchmarks.tabular.datasets import (
    BASE_OF,
    BASES,
    LEAST_RATIO,
    Dataset,
    bases_of_half,
    choose,
    folds,
    load,
    names_of_half,
)
from benchmarks.tabular.measures import Cell
from benchmarks.tabular.run import cells_of

from curvewise.base.errors import InputError
from curvewise.data.registry import source_missing
from curvewise.data.tables import find_keel, read_keel
from curvewise.data.task import SourceOptions

missing = source_missing("keel")
needs_keel = pytest.mark.skipif(missing is not None, reason=str(missing))


def test_every_set_has_one_base_set_and_halves_alternate_by_it_and_are_kept_apart():
    names = [name for names in BASES.values() for name in names]
    assert len(names) == len(set(names)) == 62
    assert len(BASES) == 17
    assert all(name.startswith(base) for name, base in BASE_OF.items())
    dev = "abalone cleveland ecoli glass kr-vs-k lymphography poker winequality zoo"
    test = "car dermatology flare kddcup led7digit page-blocks shuttle yeast"
    assert [" ".join(bases_of_half(half)) for half in ("dev", "test")] == [dev, test]
    assert (len(names_of_half("dev")), len(names_of_half("test"))) == (40, 22)
    assert choose("dev", ["zoo-3", "glass2"]) == ["glass2", "zoo-3"]
    with pytest.raises(InputError, match=r"must be a set of the dev half.*yeast block"):
        choose("dev", ["yeast4"])
    with pytest.raises(InputError, match="did you mean 'zoo-3'"):
        choose("dev", ["zoo3"])


@needs_keel
def test_they_are_all_tables_of_the_family_with_the_ratio_and_share_no_row_across_base_sets():
    folder = find_keel("imbalanced/zoo-3", SourceOptions()).parent
    found = set()
    for path in folder.glob("*.dat"):
        frame, target = read_keel(path)
        counts = Counter(frame[target]).values()
        if max(counts) >= LEAST_RATIO * min(counts):
            found.add(path.stem)
    assert found == set(BASE_OF)
    rows = {base: Counter() for base in BASES}
    for base, names in BASES.items():
        for name in names:
            rows[base].update(set(map(tuple, load(name).x.astype(str).to_numpy())))
    for one, other in itertools.combinations(BASES, 2):
        assert not rows[one].keys() & rows[other].keys(), (one, other)
    assert all(max(rows[base].values()) > 1 for base, names in BASES.items() if len(names) > 1)


@needs_keel
def test_folds_test_each_row_once_a_repeat_and_cells_come_repeat_by_repeat():
    dataset = load("zoo-3")
    assert (dataset.x.shape, dataset.positives, dataset.ratio) == ((101, 16), 5, 96 / 5)
    parts = folds(dataset)
    for repeat in range(3):
        tested = np.concatenate([test for _, test in parts[5 * repeat : 5 * repeat + 5]])
        assert sorted(tested) == list(range(101))
    for one, other in zip(parts, folds(dataset), strict=True):
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))
        assert [dataset.y[part].sum() for part in one] == [4, 1]
    few = Dataset("few", "few", None, np.array([1] * 3 + [0] * 20))  # make fewer folds
    assert [[few.y[part].sum() for part in one] for one in folds(few)] == [[2, 1]] * 9
    with pytest.raises(InputError, match="3 positives or more, got 2"):
        folds(Dataset("fewer", "few", None, np.array([1, 1, 0, 0, 0])))
    cells = cells_of(["zoo-3", "glass4"], ["a", "b"])
    assert [cell.fold // 5 for cell in cells] == [0] * 20 + [1] * 20 + [2] * 20
    assert len(set(cells)) == 60
    assert Cell("glass4", 14, "b") in cells
    assert len({cell.method for cell in cells[:8]}) == 2
    assert cells == cells_of(["glass4", "zoo-3"], ["b", "a"])
