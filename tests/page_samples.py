"""Models made of random numbers, to make pages of."""

from itertools import product

import numpy as np

from curvewise.report.page_input import CopyTexts, Page, page_models as frame_of


def page_models(
    n=400, share=0.1, models=4, betas: tuple = (100.0,), seeds=1, ties=False
) -> list[dict]:
    """Two methods with two settings, the second method somewhat better."""
    found = []
    for beta, seed in product(betas, range(seeds)):
        rng = np.random.default_rng(seed)
        y = (np.arange(n) < share * n).astype(np.int64)
        for (method, label), k in product(enumerate(("VS", "VS + LCT")), range(models)):
            score = rng.normal(size=n) + (1 + 0.3 * method + 0.05 * k) * y
            score = (score.round(1) if ties else score).astype(np.float32)
            tau = f"0:3:{0.1 * k:.1f}" if method else float(k)
            model = {"method": label, "beta": beta, "seed": seed, "seconds": 0.5, "n_train": n}
            model |= {"settings": {"omega": (0.5, 0.9)[k % 2], "tau": tau}, "y": y, "score": score}
            model["log_odds"] = score - 1.5 if k % 2 == 0 else None
            found.append({**model, "fill": {"identity": f"{beta}-{seed}-{label}-{k}"}})
    return found


def page_input(models: list[dict] | None = None, **changes: object) -> Page:
    given = {"task": "digits:8", "class_names": ("not 8", "8"), "train_counts": {100.0: (811, 8)}}
    given["models"] = frame_of(page_models() if models is None else models)
    given["copy"] = CopyTexts("predict {identity} --threshold={threshold}", "at({threshold})")
    given["provenance"] = {"command": "curvewise report"}
    return Page(**(given | changes))
