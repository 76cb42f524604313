"""Models made of random numbers, to make pages of."""

from itertools import product

import numpy as np

from curvewise.report.page_input import CopyTexts, Page, page_models as frame_of


def page_models(
    n: int = 400,
    share: float = 0.1,
    models: int = 4,
    betas: tuple = (100.0,),
    seeds: int = 1,
    ties: bool = False,
) -> list[dict]:
    """Two methods with two settings, the second method somewhat better."""
    found = []
    for beta, seed in product(betas, range(seeds)):
        rng = np.random.default_rng(seed)
        y = (np.arange(n) < share * n).astype(np.int64)
        for (method, label), k in product(enumerate(("VS", "VS + LCT")), range(models)):
            score = rng.normal(size=n) + (1 + 0.3 * method + 0.05 * k) * y
            score = (score.round(1) if ties else score).astype(np.float32)
            found.append(
                {
                    "method": label,
                    "beta": beta,
                    "seed": seed,
                    "y": y,
                    "score": score,
                    "settings": {
                        "omega": (0.5, 0.9)[k % 2],
                        "tau": f"0:3:{0.1 * k:.1f}" if method else float(k),
                    },
                    "log_odds": score - 1.5 if k % 2 == 0 else None,
                    "fill": {"identity": f"{beta}-{seed}-{label}-{k}"},
                    "seconds": 0.5,
                    "n_train": n,
                }
            )
    return found


def page_input(models: list[dict] | None = None, **changes: object) -> Page:
    given = {
        "task": "digits:8",
        "class_names": ("not 8", "8"),
        "models": frame_of(page_models() if models is None else models),
        "train_counts": {100.0: (811, 8)},
        "copy": CopyTexts("predict {identity} --threshold={threshold}", "at({threshold})"),
        "provenance": {"command": "curvewise report"},
    }
    return Page(**(given | changes))
