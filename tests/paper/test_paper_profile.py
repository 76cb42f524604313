"""The paper's protocol end to end at a tiny scale, on generated files in the original layouts."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curvewise.data import folders
from curvewise.paper.profiles import Profile
from curvewise.paper.running import EXPERIMENTS, run_experiment
from curvewise.sweep.executors import Serial
from curvewise.sweep.work import Problems

RNG = np.random.default_rng(0)
TEN = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FURNITURE = ["bed", "chair", "couch", "table", "wardrobe"]
ELECTRONICS = ["clock", "keyboard", "lamp", "telephone", "television"]


def shaded(labels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Noise that is a little brighter for higher labels, so that there is something to learn."""
    noise = RNG.integers(0, 200, (len(labels), *shape))
    return (noise + 5 * labels.reshape(-1, *[1] * len(shape))).clip(0, 255).astype(np.uint8)


def write_cifar(folder: Path, key: bytes, parts: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True)
    for name, labels in parts.items():
        content = {b"data": shaded(labels, (3072,)), key: labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content))


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    base = tmp_path_factory.mktemp("data")
    ten = np.repeat(np.arange(10), 60)
    cifar10 = {f"data_batch_{n}": ten for n in range(1, 6)} | {"test_batch": ten[::3]}
    write_cifar(base / "cifar-10-batches-py", b"labels", cifar10)
    meta = {b"label_names": [name.encode() for name in TEN]}
    (base / "cifar-10-batches-py" / "batches.meta").write_bytes(pickle.dumps(meta))
    hundred = np.repeat(np.arange(10), 40)
    write_cifar(base / "cifar-100-python", b"fine_labels", {"train": hundred, "test": hundred[::4]})
    names = {b"fine_label_names": [name.encode() for name in FURNITURE + ELECTRONICS]}
    (base / "cifar-100-python" / "meta").write_bytes(pickle.dumps(names))
    (base / "fashion-mnist").mkdir()
    for part, count in (("train", 300), ("t10k", 15)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), count)
        for kind, array in (("images-idx3", shaded(labels, (28, 28))), ("labels-idx1", labels)):
            (base / "fashion-mnist" / f"{part}-{kind}-ubyte").write_bytes(idx(array))
    photos = base / "dogs-vs-cats" / "train"
    photos.mkdir(parents=True)
    for label, animal in enumerate(("cat", "dog")):
        for number in range(260):
            pixels = shaded(np.array([8 * label]), (70, 80, 3))[0]
            Image.fromarray(pixels).save(photos / f"{animal}.{number}.jpg")
    return base


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["paper", "laptop"])
def test_everything_runs(profile, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "VALIDATION_SAMPLES", 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    problems = Problems(data_dir=data_dir, cache_dir=tmp_path / "cache")
    if profile == "laptop":
        pytest.importorskip("efficientnet_lite_pytorch")
    trained, tiny = set(), Profile(profile, "tiny")
    for name, experiment in EXPERIMENTS.items():
        shown = run_experiment(experiment, tiny, tmp_path / "out", Serial(), problems)
        assert json.loads((tmp_path / "out" / f"{name}.json").read_text())["data"]
        assert len(shown.results) == len(experiment.claims)
        assert all(file.stat().st_size > 0 for file in shown.files)
        assert name.startswith("table") or any(file.suffix == ".png" for file in shown.files)
        trained |= {run.network["name"] for spec in experiment.sweeps(tiny) for run in spec.runs()}
    wanted = {"paper": {"resnet32", "resnext50-32x4d", "small-cnn"}, "laptop": {"mlp"}}
    assert trained == wanted[profile]
