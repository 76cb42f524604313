"""Files to be right and wrong about, and what commands made of them: each is made once."""

import numpy as np
import pytest

import curvewise as cw
from command_line import ILL, ROWS, done, people, pictures

SPEC = """
name = "tiny"
tasks = ["digits:8", "digits:3"]
betas = [20, 50]
seeds = [0]
network = { name = "mlp", hidden = [8] }
recipe = { preset = "quick", epochs = 1 }
methods = [
    { method = "vs", omega = [0.5, 0.9], gamma = [0, 0.2], tau = [1] },
    { method = "lct", tau = ["0:3:0.33"], rho = [0.0, 0.1] },
    { method = "focal" },
    { method = "unconditioned", tau = ["0:3:0.33"] },
]
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Tables, images, weights and scores, models of a table and of images, and an estimator."""
    place = tmp_path_factory.mktemp("made")
    tables = {
        "good": people(),
        "nothing_known": people()[["outcome"]].assign(age=np.nan),
        "without_age": people().drop(columns="age").assign(weight=1.5),
        "numbered": people(code=[f"id{row}" for row in range(ROWS)]),
        "word_after_training": people(age="old"),
        "elsewhere": people(city="Paris"),
        "gaps": people().assign(outcome=lambda all_: all_["outcome"].mask(np.arange(ROWS) < 21)),
        "new": people()[150:],
        "scores": people()[["outcome"]].assign(score=people()["age"] / 9, age=ILL * 1, word="x"),
    }
    for name, frame in tables.items():
        frame.to_csv(place / f"{name}.csv", index=False)
    (place / "empty.csv").write_bytes(b"")
    (place / "tiny.toml").write_text(SPEC)
    np.savez(place / "images.npz", x=np.zeros((4, 12, 12), np.uint8))
    np.savez(place / "labels.npz", y=np.zeros(4))
    pictures(place / "parts", crack=8, sound=24)
    zero = pictures(place / "zero", crack=8, sound=24)
    (zero / "sound" / "3.png").write_bytes(b"")
    (place / "blank.jpg").write_bytes(b"")
    table = ("train", f"table:{place / 'good.csv'}", "--target", "outcome", "--set", "epochs=3")
    done(*table, "--max-fpr", "0.1", "--out", place / "people")
    done(*table, "--tau", "2", "--set", "epochs=1", "--out", place / "fixed")
    images = ("train", f"folder:{place / 'parts'}", "--image-size", "12", "--set", "epochs=1")
    done(*images, "--cache-dir", place / "cache", "--out", place / "photos")
    estimator = cw.LCTClassifier(n_members=2, steps=30, trees=0, random_state=0)
    estimator.fit(people()[:150].drop(columns="outcome"), people()["outcome"][:150])
    cw.save(estimator, place / "estimator.safetensors")
    return place


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A sweep of two tasks and two betas, four methods, some settings of the loss and of rho."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "tiny.toml").write_text(SPEC)
    done("sweep", "run", folder / "tiny.toml", "--executor", "serial")
    return folder / "tiny.db"
