"""The learning rate as a function of the step, so that a resumed run needs no schedule state."""

from math import cos, pi

from curvewise.training.recipe import Recipe


def learning_rate(recipe: Recipe, step: int, steps: int, steps_per_epoch: int) -> float:
    """Return the learning rate of step 0 .. steps-1.

    Linear warm-up over `warmup_epochs`, times the schedule: constant, multiplied by `decay` at
    each milestone, or a half cosine from 1 to 0.

    >>> recipe = Recipe(epochs=4, schedule="step", milestones=(2,), lr=1.0)
    >>> [learning_rate(recipe, step, 4, 1) for step in range(4)]
    [1.0, 1.0, 0.1, 0.1]
    """
    rate = recipe.lr
    if recipe.schedule == "step":
        rate *= recipe.decay ** sum(step >= m * steps_per_epoch for m in recipe.milestones)
    elif recipe.schedule == "cosine":
        rate *= (1 + cos(pi * step / steps)) / 2
    warmup = recipe.warmup_epochs * steps_per_epoch
    return rate * min(1.0, (step + 1) / warmup) if warmup else rate
