"""What tasks are called in figures, and what was trained on them."""

from collections.abc import Iterable

from curvewise.paper.profiles import Profile

TITLES = {
    "cifar10:cat/dog": "CIFAR-10 cat/dog",
    "cifar100:household": "CIFAR-100 household",
    "dogs-vs-cats": "Dogs vs Cats",
    "melanoma": "Melanoma",
    "fashion-mnist:0/6": "Fashion-MNIST t-shirt/shirt",
    "fashion-mnist:2/4": "Fashion-MNIST pullover/coat",
    "fashion-mnist:1/3": "Fashion-MNIST trouser/dress",
    "fashion-mnist:3/6": "Fashion-MNIST dress/shirt",
    "fashion-mnist:4/6": "Fashion-MNIST coat/shirt",
    "fashion-mnist:5/7": "Fashion-MNIST sandal/sneaker",
    "fashion-mnist:7/9": "Fashion-MNIST sneaker/boot",
}


def title_of(task: str) -> str:
    """Return a task's name for readers.

    >>> title_of("cifar10:cat/dog"), title_of("digits:8")
    ('CIFAR-10 cat/dog', 'digits:8')
    """
    return TITLES.get(task, task)


def caption_of(profile: Profile, tasks: Iterable[str]) -> str:
    """Return the profile's caption for tasks of one or several sources.

    >>> caption_of(Profile(), ["cifar10:cat/dog", "cifar100:household"])
    'laptop profile: heads on 128 components of EfficientNet-Lite0 features'
    >>> print(caption_of(Profile("paper"), ["cifar10:cat/dog", "fashion-mnist:0/6"]))
    paper profile: ResNet-32 (cifar10); small CNN (fashion-mnist)
    """
    sources: dict[str, list[str]] = {}
    for source in dict.fromkeys(task.partition(":")[0] for task in tasks):
        sources.setdefault(profile.caption(source), []).append(source)
    if len(sources) == 1:
        return next(iter(sources))
    start = f"{profile.name} profile: "
    return start + "; ".join(
        f"{caption.removeprefix(start)} ({', '.join(own)})" for caption, own in sources.items()
    )
