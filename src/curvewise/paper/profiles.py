"""Profiles: the paper's protocol to the letter, or with networks that two cores can train.

Both keep the settings, pairs and statistics. "paper" trains ResNet-32 for 500 epochs on CIFAR and a
pretrained ResNeXt50 on photographs. "laptop" trains heads on frozen EfficientNet-Lite0 features of
photographs (their 128 leading principal components) and small networks on the 64 leading principal
components of Fashion-MNIST's pixels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curvewise.base.errors import require, require_choice
from curvewise.losses.registry import METHODS
from curvewise.sweep.spec import Spec, expanded_task

PROFILES = ("laptop", "paper")
SCALES = ("full", "tiny")
VALIDATION = 0.25  # of the training data, to choose a model by, or to see that training has settled

# Chosen on Fashion-MNIST pairs 0/3, 0/6, 1/3, 2/4 and 2/6: with this decay the AUC of VS is the
# same after 20 epochs and after 60, that of LCT lower by 0.004 at most; without it rare samples
# are learnt by heart. It pulls weights to 0, so FiLM must start as the identity (the default): else
# it would be pulled to forget everything.
SETTLED = {"preset": "quick", "weight_decay": 5e-3, "epochs": 20}
FROZEN = {"embed": "efficientnet-lite0", "pca": 128}
# What is trained on each source: entries of a spec, and what figures call the network.
Kind = dict[str, Any]
HEAD: Kind = {
    "called": "heads on 128 components of EfficientNet-Lite0 features",
    "network": {"name": "mlp", "hidden": [64]},
    "recipe": {**SETTLED, "weight_decay": 1e-2},  # chosen on Dogs vs Cats
    "features": FROZEN,
}
RESNET: Kind = {"called": "ResNet-32", "network": {"name": "resnet32"}}
RESNET |= {"recipe": {"preset": "paper-cifar"}}
RESNEXT: Kind = {"called": "ResNeXt50", "network": {"name": "resnext50-32x4d"}}
RESNEXT |= {"data": {"image_size": 256}}
KINDS: dict[str, dict[str, Kind]] = {
    "laptop": {
        **dict.fromkeys(("cifar10", "cifar100"), HEAD | {"features": {**FROZEN, "size": 96}}),
        **dict.fromkeys(("dogs-vs-cats", "melanoma"), HEAD | {"data": {"image_size": 96}}),
        "fashion-mnist": {
            "called": "small networks on 64 principal components",
            "network": {"name": "mlp", "hidden": [64, 64]},
            "features": {"pca": 64},
            "recipe": SETTLED,
        },
    },
    "paper": {
        **dict.fromkeys(("cifar10", "cifar100"), RESNET),
        "dogs-vs-cats": RESNEXT | {"recipe": {"preset": "paper-dogs-cats"}},
        "melanoma": RESNEXT | {"recipe": {"preset": "paper-melanoma"}},
        # Not in the paper, which has photographs only: the small CNN, trained like CIFAR's.
        "fashion-mnist": {
            "called": "small CNN",
            "network": {"name": "small-cnn"},
            "recipe": {"preset": "paper-cifar", "augment": "none"},
        },
    },
}
OWN = {"called": "a network of its own"}  # an experiment's that makes its specs itself
PIXELS = "networks of two layers of 64 on all 784 pixels"  # where components are not asked for


@dataclass(frozen=True)
class Profile:
    """How experiments are run.

    `weights` is the file with ImageNet weights of ResNeXt50 that the profile "paper" starts from;
    without it those networks start from random weights, and figures say so. `melanoma` says whether
    its images are there; figures that show them take Dogs vs Cats in their place otherwise.
    """

    name: str = "laptop"
    scale: str = "full"
    weights: str | None = None
    melanoma: bool = False

    def __post_init__(self) -> None:
        require_choice("profile", self.name, PROFILES)
        require_choice("scale", self.scale, SCALES)

    def caption(self, tasks: Iterable[str], *, pixels: bool = False) -> str:
        """Say under a figure what was trained on tasks, images taken as pixels or as usual.

        Nothing where nothing is trained.

        >>> print(Profile("paper").caption(["cifar10:cat/dog", "fashion-mnist:0/6"]))
        paper profile: ResNet-32 (cifar10); small CNN (fashion-mnist)
        """
        sources: dict[str, list[str]] = {}
        for source in dict.fromkeys(map(source_of, tasks)):
            text = KINDS[self.name].get(source, OWN)["called"]
            if text == RESNEXT["called"]:
                text += f" from {'ImageNet' if self.weights else 'random'} weights"
            if pixels and self.name == "laptop" and source in KINDS["laptop"]:
                text = PIXELS
            sources.setdefault(text, []).append(source)
        if len(sources) > 1:
            sources = {f"{text} ({', '.join(own)})": own for text, own in sources.items()}
        tiny = ", tiny scale: no result" if self.scale == "tiny" else ""
        return f"{self.name} profile: {'; '.join(sources)}{tiny}" if sources else ""

    def spec(
        self,
        name: str,
        tasks: Sequence[str],
        methods: Sequence[Mapping[str, Any]],
        *,
        betas: Sequence[float | None] = (100,),
        seeds: Sequence[int] = (0,),
        recipe: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Spec:
        """Return a sweep over tasks of one source, with the network and recipe of this profile.

        `methods` are as in a spec's file; `recipe` changes the source's recipe; `more` are further
        entries of a spec (validation, evaluate, network, features).

        >>> spec = Profile().spec("a", ["cifar10:3/5"], [{"method": "vs", "grid": "paper"}])
        >>> spec.size, spec.features.embed
        (48, 'efficientnet-lite0')
        """
        sources, known = {source_of(task) for task in tasks}, KINDS[self.name]
        one = len(sources) == 1 and sources <= known.keys()
        require(one, f"a sweep must be over one of {', '.join(known)}, got {sorted(sources)}")
        kind = known[sources.pop()]
        pretrained = self.weights and kind["called"] == RESNEXT["called"]
        given = {
            "name": name,
            "tasks": list(tasks),
            "betas": list(betas),
            "seeds": list(seeds),
            "data": kind.get("data", {}),
            "features": kind.get("features", {}),
            "network": kind["network"] | ({"weights": self.weights} if pretrained else {}),
            "recipe": {**kind["recipe"], **(recipe or {})},
            "methods": [dict(method) for method in methods],
            **more,
        }
        return Spec.from_dict(_tiny(given) if self.scale == "tiny" else given)

    def specs(self, name: str, tasks: Sequence[str], methods: Any, **more: Any) -> list[Spec]:
        """Return a sweep for each source of the tasks, called NAME-SOURCE.

        >>> [spec.name for spec in Profile().specs("a", ["cifar10:3/5", "melanoma"], both())]
        ['a-cifar10', 'a-melanoma']
        """
        by_source: dict[str, list[str]] = {}
        for task in tasks:
            by_source.setdefault(f"{name}-{source_of(task)}", []).append(task)
        return [self.spec(called, own, methods, **more) for called, own in by_source.items()]


def source_of(task: str) -> str:
    """Return the source of a task: what stands before the colon."""
    return task.partition(":")[0]


def both() -> list[dict[str, Any]]:
    """Return the paper's two arms with their 48 settings each."""
    return [{"method": "vs", "grid": "paper"}, {"method": "lct", "grid": "paper"}]


def _tiny(given: dict[str, Any]) -> dict[str, Any]:
    """Return a spec of few tasks, betas, seeds, settings, epochs; images have 64 pixels a side."""
    methods = []
    for method in given["methods"]:
        grid = METHODS[method["method"]].paper if method.pop("grid", None) else None
        lists = {**(grid or {}), **method}
        long = [name for name, values in lists.items() if isinstance(values, list | tuple)]
        # The first values of lists: two of the last one, one of the others.
        first = {name: list(lists[name])[: 1 + (name == long[-1])] for name in long}
        methods.append(lists | first)
    return given | {
        "tasks": [task for text in given["tasks"] for task in expanded_task(text)][:3],
        "betas": given["betas"][:2],
        "seeds": given["seeds"][:2],
        "recipe": given["recipe"] | {"epochs": 2},
        "data": {name: 64 if name == "image_size" else v for name, v in given["data"].items()},
        "methods": methods,
    }
