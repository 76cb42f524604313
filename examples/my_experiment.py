"""An experiment to copy: LCT beside VS on handwritten digits at 50:1."""

from typing import Any

from curvewise.figures.frames import boxes
from curvewise.paper.experiment import Claim, Data, Experiment
from curvewise.paper.measures import gains, within
from curvewise.paper.profiles import Profile, both
from curvewise.sweep.spec import Spec

NAME = "my-experiment"


def sweeps(profile: Profile) -> list[Spec]:
    """Return what is trained: the paper's 48 settings of both arms on three subsamples."""
    few = profile.scale == "tiny"
    few_arms = [{"method": "vs", "tau": [0, 2]}, {"method": "lct", "tau": ["0:3:0", "0:3:0.33"]}]
    spec = {
        "name": NAME,
        "tasks": ["digits:8"],
        "betas": [50],
        "seeds": [0, 1, 2],
        "network": {"name": "mlp", "hidden": [16]},
        "recipe": {"epochs": 2 if few else 40},
        "methods": few_arms if few else both(),
    }
    return [Spec.from_dict(spec)]


def draw(data: Data, **sheet: Any) -> Any:
    """Draw a box for each subsample and method; title and caption come with the sheet."""
    return boxes(data[""], x="seed", hue="method", xlabel="subsample", **sheet)


EXPERIMENT = Experiment(
    name=NAME,
    question="Does LCT beat VS on handwritten digits at 50:1?",
    sweeps=sweeps,
    draw=draw,
    claims={
        **gains("mean", "min", "std", unit="subsamples"),
        "All models rank well: the mean AUC is above 0.9": Claim(
            lambda data: float(data[""]["auc"].mean()), within(0.9, 1)
        ),
    },
    caveats=("One digit against the rest, small networks.",),
)
