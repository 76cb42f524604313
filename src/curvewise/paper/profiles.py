"""Profiles: the paper's protocol to the letter, or with networks that two cores can train.

Both keep the settings, pairs and statistics. "paper" trains ResNet-32 for 500 epochs on CIFAR and a
pretrained ResNeXt50 on photographs. "laptop" trains heads on frozen EfficientNet-Lite0 features of
photographs (their 128 leading principal components) and small networks on the 64 leading principal
components of Fashion-MNIST's pixels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curvewise.base.errors import InputError, require_choice
from curvewise.losses.registry import METHODS
from curvewise.sweep.spec import Spec, expanded_task

PROFILES = ("laptop", "paper")
SCALES = ("full", "tiny")
TINY = {
    "epochs": 2,
    "tasks": 3,
    "betas": 2,
    "seeds": 2,
    "settings": 2,
}  # enough to see that everything works

# Chosen on Fashion-MNIST pairs 0/3, 0/6, 1/3, 2/4 and 2/6: with this decay the AUC of VS is the
# same after 20 epochs and after 60, that of LCT lower by 0.004 at most; without it rare samples
# are learnt by heart. It pulls weights to 0, so FiLM must start as the identity (the default): else
# it would be pulled to forget everything.
SETTLED = {"preset": "quick", "weight_decay": 5e-3}
HEAD: dict[str, Any] = {
    "network": {"name": "mlp", "hidden": [64]},
    "recipe": {**SETTLED, "weight_decay": 1e-2, "epochs": 20},  # chosen on Dogs vs Cats
}
FROZEN = {"embed": "efficientnet-lite0", "pca": 128}
LAPTOP: dict[str, dict[str, Any]] = {
    "cifar10": {**HEAD, "features": {**FROZEN, "size": 96}},
    "cifar100": {**HEAD, "features": {**FROZEN, "size": 96}},
    "dogs-vs-cats": {
        **HEAD,
        "features": FROZEN,
        "data": {"image_size": 96},
    },
    "melanoma": {**HEAD, "features": FROZEN, "data": {"image_size": 96}},
    "fashion-mnist": {
        "network": {"name": "mlp", "hidden": [64, 64]},
        "features": {"pca": 64},
        "recipe": {**SETTLED, "epochs": 20},
    },
}
PAPER: dict[str, dict[str, Any]] = {
    "cifar10": {"network": {"name": "resnet32"}, "recipe": {"preset": "paper-cifar"}},
    "cifar100": {"network": {"name": "resnet32"}, "recipe": {"preset": "paper-cifar"}},
    "dogs-vs-cats": {
        "network": {"name": "resnext50-32x4d"},
        "recipe": {"preset": "paper-dogs-cats"},
        "data": {"image_size": 256},
    },
    "melanoma": {
        "network": {"name": "resnext50-32x4d"},
        "recipe": {"preset": "paper-melanoma"},
        "data": {"image_size": 256},
    },
    # Not in the paper, which has photographs only: the small CNN, trained like CIFAR's networks.
    "fashion-mnist": {
        "network": {"name": "small-cnn"},
        "recipe": {"preset": "paper-cifar", "augment": "none"},
    },
}
NETWORKS = {  # as figures name them
    ("laptop", "cifar10"): "heads on 128 components of EfficientNet-Lite0 features",
    ("laptop", "cifar100"): "heads on 128 components of EfficientNet-Lite0 features",
    ("laptop", "dogs-vs-cats"): "heads on 128 components of EfficientNet-Lite0 features",
    ("laptop", "melanoma"): "heads on 128 components of EfficientNet-Lite0 features",
    ("laptop", "fashion-mnist"): "small networks on 64 principal components",
    ("paper", "cifar10"): "ResNet-32",
    ("paper", "cifar100"): "ResNet-32",
    ("paper", "dogs-vs-cats"): "ResNeXt50",
    ("paper", "melanoma"): "ResNeXt50",
    ("paper", "fashion-mnist"): "small CNN",
}
PIXELS = "networks of two layers of 64 on all 784 pixels"  # where components are not asked for


@dataclass(frozen=True)
class Profile:
    """How experiments are run.

    `weights` is the file with ImageNet weights of ResNeXt50 that the profile "paper" starts from;
    without it those networks start from random weights, and figures say so. `melanoma` says whether
    its images are there; figures that show them take Dogs vs Cats in their place otherwise.

    >>> Profile("laptop").caption("cifar10:cat/dog")
    'laptop profile: heads on 128 components of EfficientNet-Lite0 features'
    """

    name: str = "laptop"
    scale: str = "full"
    weights: str | None = None
    melanoma: bool = False

    def __post_init__(self) -> None:
        require_choice("profile", self.name, PROFILES)
        require_choice("scale", self.scale, SCALES)

    def caption(self, task: str, *, pixels: bool = False) -> str:
        """Say under a figure what was trained on a task, its images taken as pixels or as usual."""
        raw = pixels and self.name == "laptop"
        text = f"{self.name} profile: {PIXELS if raw else NETWORKS[self.name, _source(task)]}"
        if self.name == "paper" and "ResNeXt" in text:
            text += " from ImageNet weights" if self.weights else " from random weights"
        return text + (", tiny scale: no result" if self.scale == "tiny" else "")

    def caption_of(self, tasks: Iterable[str], *, pixels: bool = False) -> str:
        """Return the caption for tasks of one or several sources; nothing where nothing is trained.

        >>> print(Profile("paper").caption_of(["cifar10:cat/dog", "fashion-mnist:0/6"]))
        paper profile: ResNet-32 (cifar10); small CNN (fashion-mnist)
        """
        sources: dict[str, list[str]] = {}
        for source in dict.fromkeys(_source(task) for task in tasks):
            sources.setdefault(self.caption(source, pixels=pixels), []).append(source)
        if len(sources) < 2:
            return next(iter(sources), "")
        start = f"{self.name} profile: "
        own = [
            f"{text.removeprefix(start)} ({', '.join(names)})" for text, names in sources.items()
        ]
        return start + "; ".join(own)

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
        kind = _kind(self.name, tasks)
        network = dict(kind["network"])
        if self.weights and network["name"] == "resnext50-32x4d":
            network["weights"] = self.weights
        given = {
            "name": name,
            "tasks": list(tasks),
            "betas": list(betas),
            "seeds": list(seeds),
            "data": kind.get("data", {}),
            "features": kind.get("features", {}),
            "network": network,
            "recipe": {**kind["recipe"], **(recipe or {})},
            "methods": [dict(method) for method in methods],
            **more,
        }
        return Spec.from_dict(_tiny(given) if self.scale == "tiny" else given)


def both(method: str = "lct") -> list[dict[str, Any]]:
    """Return the paper's two arms with their 48 settings each.

    >>> [arm["method"] for arm in both()]
    ['vs', 'lct']
    """
    return [{"method": "vs", "grid": "paper"}, {"method": method, "grid": "paper"}]


def _source(task: str) -> str:
    return task.partition(":")[0]


def _kind(profile: str, tasks: Sequence[str]) -> dict[str, Any]:
    sources = {_source(task) for task in tasks}
    known = LAPTOP if profile == "laptop" else PAPER
    if len(sources) != 1 or not sources <= known.keys():
        raise InputError(f"a sweep must be over one of {', '.join(known)}, got {sorted(sources)}")
    return known[sources.pop()]


def _tiny(given: dict[str, Any]) -> dict[str, Any]:
    """Return a spec of few tasks, betas, seeds, settings, epochs; images have 64 pixels a side."""
    tasks = [task for text in given["tasks"] for task in expanded_task(text)]
    recipe = {**given["recipe"], "epochs": TINY["epochs"]}
    data = {**given["data"], "image_size": 64} if "image_size" in given["data"] else given["data"]
    return {
        **given,
        "tasks": tasks[: TINY["tasks"]],
        "betas": given["betas"][: TINY["betas"]],
        "seeds": given["seeds"][: TINY["seeds"]],
        "recipe": recipe,
        "data": data,
        "methods": [_few_settings(method) for method in given["methods"]],
    }


def _few_settings(method: dict[str, Any]) -> dict[str, Any]:
    """Return a method with the first values of its lists, two of the last and one of the others."""
    grid = method.pop("grid", None)
    paper = METHODS[method["method"]].paper if grid else None
    lists = {**(paper or {}), **method}
    long = [name for name, values in lists.items() if isinstance(values, list | tuple)]
    return {
        name: list(values)[: TINY["settings"] if name == long[-1] else 1]
        if name in long
        else values
        for name, values in lists.items()
    }
