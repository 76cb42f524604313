"""Specs: one file to runs, everything wrong said at once, stacks from the spec alone."""

import itertools
import json

import pytest
from hypothesis import given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.sweep.spec import Spec, read_spec
from curvewise.training.recipe import PRESETS, Recipe, preset

EXAMPLE = """
name = "fashion-pairs"
tasks = ["fashion-mnist:pairs"]
betas = [100]
seeds = [0, 2]
validation = 0.2
network = { name = "mlp", hidden = [64, 64] }
features = { pca = 64 }
evaluate = { tau = 2.5 }
[recipe]
preset = "tabular"
epochs = 20
clip_norm = "none"
[[methods]]
method = "vs"
grid = "paper"
[[methods]]
method = "lct"
label = "ours"
omega = [0.5, 0.7, 0.9, 0.99]
gamma = [0.0, 0.2, 0.4]
tau = ["0:3:0", "0:3:0.15", "0:3:0.33", "0:3:0.66"]
rho = [0.0, 0.1]
"""


def spec(*methods, **more) -> Spec:
    return Spec.from_dict({"tasks": "digits:8", "methods": list(methods) or [VS], **more})


VS = {"method": "vs"}
LCT = {"method": "lct", "tau": "0:3:0.33"}


def test_a_file_becomes_the_runs_it_lists(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(EXAMPLE)
    read = read_spec(file)
    runs = read.runs()
    assert read.name == "fashion-pairs"
    assert read.size == len(runs) == 45 * 2 * (48 + 96)
    # The same as loops in the order of the file, written out.
    expected = []
    omegas, gammas = (0.5, 0.7, 0.9, 0.99), (0.0, 0.2, 0.4)
    taus = {"VS": (0, 1, 2, 3), "ours": ("0:3:0", "0:3:0.15", "0:3:0.33", "0:3:0.66")}
    for task in [f"fashion-mnist:{a}/{b}" for a in range(10) for b in range(a + 1, 10)]:
        for seed in (0, 2):
            for label, rhos in (("VS", (0.0,)), ("ours", (0.0, 0.1))):
                grid = itertools.product(omegas, gammas, taus[label], rhos)
                for number, (omega, gamma, tau, rho) in enumerate(grid):
                    own = 10_000 * seed + number
                    seeds = {"seed_weights": own, "seed_order": seed, "seed_lambda": own}
                    recipe = preset("tabular", epochs=20, clip_norm=None, rho=rho, **seeds)
                    lam = {} if label == "VS" else {"tau": 2.5}
                    values = {"omega": omega, "gamma": gamma, "tau": tau}
                    expected.append((task, seed, label, number, values, recipe, lam))
    got = [
        (r.task, r.seed, r.label, r.number, r.settings, Recipe(**r.recipe), r.evaluate)
        for r in runs[:500]
    ]
    assert got == expected[:500]
    assert [(r.task, r.seed, r.label, r.number) for r in runs] == [row[:4] for row in expected]
    assert {(r.beta, r.validation) for r in runs} == {(100.0, 0.2)}
    assert runs[0].network == {"name": "mlp", "hidden": [64, 64]}
    assert runs[0].features == {"pca": 64}
    assert json.loads(json.dumps(vars(runs[-1]))) == vars(runs[-1])
    assert len({run.identity("data") for run in runs[:288]}) == 288


def test_what_is_left_out_has_its_default(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text('tasks = "digits:8"\n[[methods]]\nmethod = "focal"\n')
    (run,) = read_spec(file).runs()
    assert read_spec(file).name == "small"
    assert (run.beta, run.seed, run.label, run.number) == (None, 0, "focal", 0)
    assert run.settings == {"focus": 2.0}
    assert run.network == {"name": None}
    assert run.features == run.evaluate == run.data == {}
    assert run.validation is None
    assert Recipe(**run.recipe) == Recipe(**PRESETS["quick"])


def test_spelling_changes_no_identity_and_pairs_are_of_ten_classes():
    one = spec({**VS, "omega": [0.5, 1], "tau": [2, 3], "rho": [0, 0.1]}, betas=100)
    other = {"rho": [0.0, 0.1], "tau": [2.0, 3.0], "label": "other", "omega": [0.50, 1.0]}
    two = spec({**other, **VS}, betas=[100.0], recipe={"lr": 0.1, "preset": "quick"})
    assert [r.identity("x") for r in one.runs()] == [r.identity("x") for r in two.runs()]
    assert spec({**LCT, "tau": "0.0:3.0:.33"}).runs() == spec(LCT).runs()
    made = spec(tasks=["digits:8", "folder:pairs", "cifar10:pairs"])
    assert made.size == len(made.all_tasks) == 47
    assert made.all_tasks[:4] == ("digits:8", "folder:pairs", "cifar10:0/1", "cifar10:0/2")


def test_lambda_counts_only_where_a_model_is_scored_at_it():
    methods = [LCT, {**LCT, "label": "gamma too", "gamma": "0:0.4:1"}]
    methods += [{**LCT, "label": "gamma", "tau": 0, "gamma": "0:0.4:1"}]
    methods += [{**LCT, "method": "unconditioned"}, {"method": "constant-film", "tau": 2}, VS]
    runs = spec(*methods, evaluate={"tau": 2, "gamma": 0.1}).runs()
    given = [{"tau": 2.0}, {"tau": 2.0, "gamma": 0.1}, {"gamma": 0.1}]
    assert [run.evaluate for run in runs] == [*given, {}, {}, {}]
    with pytest.warns(UserWarning, match="tau = 5 is outside 0:3:0.33"):
        spec(LCT, evaluate={"tau": 5})


def test_any_recipe_setting_may_be_in_a_grid():
    step = {**VS, "schedule": "step", "milestones": [[2, 4], [3]], "epochs": [5, 6]}
    runs = spec(step).runs()
    # the recipe's own order: epochs, then milestones
    found = [(run.recipe["epochs"], run.recipe["milestones"]) for run in runs]
    assert found == [(5, [2.0, 4.0]), (5, [3.0]), (6, [2.0, 4.0]), (6, [3.0])]
    (run,) = spec({**step, "milestones": [2, 4], "epochs": 5}).runs()
    assert run.recipe["milestones"] == [2.0, 4.0]
    runs = spec({**VS, "clip_norm": [0.5, "none"], "augment": ["none", "flip"]}).runs()
    found = [(run.recipe["clip_norm"], run.recipe["augment"]) for run in runs]
    assert found == [(0.5, "none"), (0.5, "flip"), (None, "none"), (None, "flip")]
    (run,) = spec({**VS, "steps": 7}).runs()
    assert (run.recipe["epochs"], run.recipe["steps"]) == (None, 7)


def test_repeats_differ_in_weights_and_lambda_alone():
    entry = {**LCT, "omega": [0.5, 0.9], "rho": [0.0, 0.1]}
    runs = spec({**entry, "repeats": 3}, seeds=[0, 2]).runs()
    expected = []
    for seed in (0, 2):
        number = 0
        for omega in (0.5, 0.9):
            for rho in (0.0, 0.1):
                for _ in range(3):
                    own = 10_000 * seed + number
                    expected.append((omega, number, rho, own, own, seed))
                    number += 1
    names = ("rho", "seed_weights", "seed_lambda", "seed_order")
    found = [(r.settings["omega"], r.number, *(r.recipe[n] for n in names)) for r in runs]
    assert found == expected
    assert len({run.identity("x") for run in runs}) == len(runs) == 24
    once = spec(entry, seeds=[0, 2])
    assert once.runs() == spec({**entry, "repeats": 1}, seeds=[0, 2]).runs()
    assert "repeats" not in once.to_dict()["methods"][0]
    assert spec({**entry, "repeats": 3}).to_dict()["methods"][0]["repeats"] == 3
    # tau = 1 is number 1 here, and numbers 2 and 3 there: other seeds, other runs.
    made = spec({**VS, "tau": [0, 1]}, {**VS, "label": "b", "tau": [2, 1], "repeats": 2})
    assert len({run.identity("x") for run in made.runs()}) == made.size == 6


WRONG = [
    ({"tasks": []}, "tasks: must list at least one value, got"),
    ({"tasks": [3]}, "tasks.0 must be a valid string, got 3"),
    ({"tasks": ["a", "b", "a"]}, "tasks: must differ, got 'a' twice"),
    ({"tasks": ["cifar10:pairs", "cifar10:0/1"]}, "must differ, got 'cifar10:0/1' twice"),
    ({"tasks": "cifar100:pairs"}, "got 'cifar100:pairs'; did you mean 'cifar10'"),
    ({"betas": [100, 100.0]}, "betas: must differ, got 100.0 twice"),
    ({"betas": [0.5]}, "betas.0 must be greater than or equal to 1, got 0.5"),
    ({"seeds": [0, True]}, "seeds.1 must be a valid integer, got True"),
    ({"betas": ["100"]}, "betas.0 must be a valid number, got '100'"),
    ({"seeds": [10**9 + 1]}, "seeds.0 must be less than or equal to 1000000000, got 1000000001"),
    ({"seeds": [1, 1]}, "seeds: must differ, got 1 twice"),
    ({"seeds": 3}, r"seeds: must be a list, such as \[0, 1, 2\], got 3"),
    ({"seeds": []}, r"seeds: must list at least one value, got \[\]"),
    ({"validation": 1.0}, "validation must be less than 1, got 1.0"),
    ({"name": ""}, "name must have at least 1 character"),
    ({"features": {"size": 96}}, "features: size goes together with embed, got size = 96 alone"),
    ({"features": {"size": 4, "embed": "x"}}, "features.size must be .* equal to 8, got 4"),
    ({"data": {"image_size": 0}}, "data.image_size must be greater than or equal to 1, got 0"),
    ({"network": {"name": "mlp", "hiden": [3]}}, "got 'hiden'; did you mean 'hidden'"),
    ({"network": {"hidden": [3]}}, "network: needs a name to take hidden"),
    ({"network": {"weights": "a.pth"}}, "weights must be a file for a named network"),
    ({"network": {"weights": 3, "name": "mlp"}}, "weights must be a file for a named network"),
    ({"network": {"name": "resnet32"}, "features": {"pca": 4}}, "must be an mlp .* got 'resnet32'"),
    ({"recipe": {"preset": "quik"}}, "did you mean 'quick'"),
    ({"recipe": {"epoch": 3, "lr": -1}}, "lr must.*'epoch' is no setting; did you mean 'epochs'"),
    ({"recipe": {"seed_order": 1}}, "seed_order follows from the sweep's seeds"),
    ({"evaluate": {"tau": 3}, "methods": [{**LCT, "method": "unconditioned"}]}, "no method with F"),
    ({"evaluate": {"omega": 1.5}}, r"omega must be in \[0, 1\]"),
    ({"methods": []}, r"at least one \[\[methods\]\] table, got \[\]"),
    ({"methods": VS}, r"at least one \[\[methods\]\] table, got {'method': 'vs'}"),
    (
        {"methods": [{"label": "a"}]},
        "number 1 .*method must be one of 'ce', 'weighted-ce'.*got None",
    ),
    ({"methods": [VS, VS]}, "labels must differ, got 'VS' twice"),
    ({"methods": [VS, {**VS, "label": "b"}]}, "must not share a run, but 'VS' and 'b' both"),
    (
        {"methods": [{**VS, "tau": [0, 1]}, {**VS, "label": "b", "tau": 1, "repeats": 2}]},
        "must not share a run, .*'b' both have .*'tau': 1",
    ),
    ({"seeds": list(range(11)), "methods": [{**VS, "tau": list(range(100_000))}]}, "1,100,000"),
]
WRONG_METHODS = [
    ({"method": "focl"}, "did you mean 'focal'"),
    ({"method": "vs", "label": 3}, "label must be a text, got 3"),
    *(
        ({**VS, "repeats": bad}, r"repeats must be a whole number in \[1, 1000\], got")
        for bad in (0, 1001, 2.0, True)
    ),
    ({**VS, "repeat": 3}, "'repeat' is no setting of vs; did you mean 'repeats'"),
    ({**VS, "tau": list(range(2000)), "repeats": 1000}, "1,000,000 points at most, got 2,000,000"),
    ({"method": "vs", "bathc_size": 2}, "'bathc_size' is no setting of vs; did you mean 'batch_s"),
    ({"method": "vs", "seed_weights": 2}, "seed_weights follows from the sweep's seeds"),
    ({"method": "vs", "tau": "0:3:0"}, "tau of vs must be a number, got the density '0:3:0'"),
    ({"method": "vs", "tau": []}, r"tau must list at least one value, got \[\]"),
    ({"method": "vs", "lr": []}, r"lr must list at least one value, got \[\]"),
    ({"method": "vs", "tau": [2, 3, 2.0]}, "values of tau must differ, got 2.0 twice"),
    ({"method": "vs", "lr": [1, 1.0]}, "recipes of a grid must differ, got lr = 1.0 twice"),
    ({"method": "vs", "lr": [0.1, -1]}, "lr must be greater than 0, got -1"),
    ({"method": "vs", "schedule": "step"}, "milestones go together"),
    ({"method": "vs", "grid": "papr"}, "grid must be \"paper\", got 'papr'"),
    ({"method": "vs", "grid": "paper", "tau": 1}, "tau is in the paper's grid"),
    ({"method": "ce", "grid": "paper"}, "grid is for vs, lct, .*; ce has none"),
    ({"method": "lct", "tau": ["0:3:0", 2]}, "needs a density .* in every run, got .*tau = 2.0"),
    ({"method": "lct", "tau": ["0:3:0.33", "0:3:.33"]}, "must differ, got '0:3:0.33' twice"),
    ({"method": "lct", "tau": "0:3:0.7"}, "height_at_high must be in .*got 0.7"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    WRONG + [({"methods": [entry]}, message) for entry, message in WRONG_METHODS],
    ids=range(len(WRONG) + len(WRONG_METHODS)),
)
def test_what_cannot_be_meant_is_refused(change, message):
    with pytest.raises(InputError, match=message) as caught:
        Spec.from_dict({"tasks": "digits:8", "methods": [VS], **change})
    assert "\n" not in str(caught.value)


def test_everything_wrong_is_said_at_once(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(
        "betas = 0.5\nseed = 1\nvalidation = 2\n[network]\nname = 'mpl'\n[features]\npac = 3\n"
        "[recipe]\nlr = -1\n[evaluate]\ntua = 3\n[[methods]]\nmethod = 'vs'\nfocus = 2\n"
        "gamma = -1\n[[methods]]\nmethod = 'lct'\n"
    )
    with pytest.raises(InputError) as caught:
        read_spec(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: ")
    parts = "betas.0 must|'seed' is no setting; did you mean 'seeds'|validation must|tasks must be"
    parts += "|did you mean 'mlp'|did you mean 'pca'|recipe: lr must be greater than 0|mean 'tau'"
    parts += "|number 1 (vs): gamma must be >= 0|focus belongs to focal|number 2 (lct): lct needs a"
    assert [part for part in parts.split("|") if part not in text] == []
    assert "\n" not in text


def test_files_that_are_no_spec(tmp_path):
    file = tmp_path / "a.toml"
    for unreadable in (file, tmp_path):  # one that is not there, and a folder
        with pytest.raises(InputError, match="cannot read the spec"):
            read_spec(unreadable)
    for content in (b"tasks = [", b"tasks = '\xff'"):
        file.write_bytes(content)
        with pytest.raises(InputError, match="must be a TOML file in UTF-8"):
            read_spec(file)
    with pytest.raises(InputError, match="a spec must be a table, got 3"):
        Spec.from_dict(3)


METHOD_ENTRIES = st.sampled_from(
    [
        {"method": "vs", "grid": "paper"},
        {"method": "vs", "omega": [0.5, 1], "tau": 2},
        {"method": "vs", "omega": [0.6, 0.7], "repeats": 3},
        {"method": "lct", "tau": ["0:3:.33", "0:3:0"], "gamma": [0, "0:0.4:2"]},
        {"method": "unconditioned", "tau": "0:3:0"},
        {"method": "focal", "focus": [1, 2], "rho": [0, 0.1]},
        {"method": "ce", "schedule": "step", "milestones": [[2, 3], [4]], "clip_norm": "none"},
        {"method": "auc-margin", "lr": [0.1, 0.2], "weight_decay": [0, 1e-4]},
        {"method": "constant-film", "tau": [1, 2]},
    ]
)


@st.composite
def specs(draw):
    entries = draw(st.lists(METHOD_ENTRIES, min_size=1, max_size=4, unique_by=repr))
    return {
        "name": draw(st.text(min_size=1)),
        "tasks": draw(st.sampled_from(["digits:8", ["digits:8", "keel:yeast4"]])),
        "betas": draw(st.sampled_from([100, [10, 20.5]])),
        "seeds": draw(st.lists(st.integers(0, 50), min_size=1, max_size=3, unique=True)),
        "recipe": draw(st.sampled_from([{}, {"preset": "tabular", "ema_decay": "none"}])),
        "data": draw(st.sampled_from([{}, {"target": "y", "image_size": 8}])),
        "features": draw(st.sampled_from([{}, {"pca": 3}])),
        "methods": [{**entry, "label": f"{n}"} for n, entry in enumerate(entries)],
    }


@settings(max_examples=40, deadline=None)
@given(specs())
def test_a_spec_survives_json(plain):
    made = Spec.from_dict(plain)
    # Sorted keys, too: a store may keep them so.
    again = Spec.from_dict(json.loads(json.dumps(made.to_dict(), sort_keys=True)))
    assert again == made
    assert again.runs() == made.runs()
    assert len(made.runs()) == made.size
    for run in made.runs():
        assert (run.data, run.features) == (plain["data"], plain["features"])
