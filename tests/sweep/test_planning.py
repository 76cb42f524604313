"""A plan depends on the spec and the data, on nothing else."""

from curvewise.sweep.plan import STACK_LIMIT, ProblemInfo, make_plan
from curvewise.sweep.spec import Spec

GIVEN = {
    "tasks": ["digits:8", "digits:3"],
    "betas": [10, 100],
    "methods": [{"method": "vs", "grid": "paper"}, {"method": "lct", "grid": "paper"}],
}


def describe(run):
    return ProblemInfo(f"{run.task} {run.beta} {run.seed}", "features")


def test_every_run_is_in_one_stack():
    plan = make_plan(Spec.from_dict(GIVEN).runs(), describe)
    assert len(plan.rows) == 2 * 2 * 96
    identities = [identity for _, identity, _ in plan.rows]
    assert len(set(identities)) == len(identities)
    assert sorted(i for stack in plan.stacks for i in stack.identities) == sorted(identities)
    assert max(len(stack.runs) for stack in plan.stacks) <= STACK_LIMIT
    for stack in plan.stacks:
        assert len({(run.task, run.beta, run.seed) for run in stack.runs}) == 1
    known = {identity: run for run, identity, _ in plan.rows}
    assert all(
        known[identity] is run
        for stack in plan.stacks
        for run, identity in zip(stack.runs, stack.identities, strict=True)
    )


def test_stacks_come_in_the_order_of_the_spec():
    plan = make_plan(Spec.from_dict(GIVEN).runs(), describe)
    firsts = [(stack.runs[0].task, stack.runs[0].beta) for stack in plan.stacks]
    assert firsts == sorted(firsts, key=[(t, b) for t in GIVEN["tasks"] for b in (10, 100)].index)


def test_other_networks_than_an_mlp_train_alone():
    def images(run):
        return ProblemInfo("x", "image")

    one = {**GIVEN, "tasks": ["a"], "betas": [10]}
    assert {len(s.runs) for s in make_plan(Spec.from_dict(one).runs(), images).stacks} == {1}
    flat = {**one, "network": {"name": "mlp"}}
    assert {len(s.runs) for s in make_plan(Spec.from_dict(flat).runs(), images).stacks} == {48}


def test_other_data_are_other_runs_and_reading_is_counted():
    seen = []
    spec = Spec.from_dict(GIVEN)
    first = make_plan(spec.runs(), describe, on_read=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    again = make_plan(spec.runs(), describe)
    assert [row[1] for row in first.rows] == [row[1] for row in again.rows]
    other = make_plan(spec.runs(), lambda run: ProblemInfo("changed", "features"))
    assert {row[1] for row in first.rows}.isdisjoint(row[1] for row in other.rows)
