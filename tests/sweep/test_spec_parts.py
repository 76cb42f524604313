"""Names of tasks that stand for many."""

from curvewise.sweep.spec import Spec, expanded_task


def test_all_pairs_of_ten_classes():
    assert expanded_task("cifar10:pairs") == [
        f"cifar10:{a}/{b}" for a in range(10) for b in range(10) if a < b
    ]
    assert expanded_task("folder:pairs") == ["folder:pairs"]
    tasks = ["digits:8", "fashion-mnist:pairs"]
    assert Spec.from_dict({"tasks": tasks, "methods": [{"method": "vs"}]}).size == 46
