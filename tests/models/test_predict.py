"""Predicting images: pixels as in training, a row for each file, in bounded memory."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import curvewise as cw
from command_line import command, done
from curvewise.data import image_files as images
from curvewise.data.image_files import decoded_batches, find_images
from curvewise.models.predict import Scorer, predict, score_images


def noise(path, seed, shape=(31, 45, 3), low=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(low, low + 120, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of photographs of two sizes and formats, and the model trained on it."""
    place = tmp_path_factory.mktemp("trained")
    for name, count, low in (("crack", 20, 100), ("sound", 60, 0)):
        for i in range(count):
            ending, shape = ("png", (31, 45, 3)) if i % 2 else ("jpg", (64, 20, 3))
            noise(place / "parts" / name / f"{i}.{ending}", i, shape, low)
    words = ("train", f"folder:{place / 'parts'}", "--image-size", "16", "--out", place / "model")
    done(*words, "--cache-dir", place / "cache", "--set", "epochs=4")
    return place


def test_scores_are_those_of_the_training_pipeline(trained, tmp_path):
    task = cw.load_task(f"folder:{trained / 'parts'}", image_size=16, cache_dir=trained / "cache")
    model = cw.load(trained / "model" / "model.safetensors")
    out = tmp_path / "scores.csv"
    words = ("--model", trained / "model", "--out", out, "--calibrated", "--max-fpr", "0.25")
    summary = json.loads(done("predict", trained / "parts", *words, "--prior", "0.02", "--json"))
    found = pd.read_csv(out, keep_default_na=False)
    assert list(found) == ["path", "score", "positive", "class", "probability", "note"]
    expected = sorted(str(path) for path in (trained / "parts").rglob("*.*"))
    assert found["path"].tolist() == expected
    # The same numbers as of the arrays that were trained and tested on, whatever their order.
    pixels = np.concatenate([task.x_train, task.x_test])
    for column, known in (
        ("score", model.scores(pixels)),
        ("probability", model.probabilities(pixels, prior=0.02)),
    ):
        np.testing.assert_allclose(np.sort(found[column]), np.sort(known), rtol=1e-4, atol=1e-5)
    point = cw.choose_operating_point(task.y_test, model.scores(task.x_test), max_fpr=0.25)
    assert summary["threshold"] == pytest.approx(point.threshold, rel=1e-5)
    called = found["score"] >= summary["threshold"]
    assert (found["positive"] == called).all()
    assert (found["class"] == np.where(called, "crack", "sound")).all()
    assert summary == {
        "rows": 80, "positive": int(called.sum()), "threshold": summary["threshold"],
        "threshold_from": "FPR at most 0.25 on the model's test part", "out": str(out),
        "unreadable": 0,
    }  # fmt: skip


def test_the_model_may_come_first_and_inputs_be_mixed(trained, tmp_path):
    one = trained / "parts" / "crack" / "4.jpg"
    out = tmp_path / "deep" / "scores.csv"
    model = trained / "model" / "model.safetensors"
    printed = done("predict", model, one, trained / "parts", one, "--out", out)
    called = pd.read_csv(out)["positive"].sum()
    assert printed.startswith(f"80 rows, {called} called positive at threshold 0 (")
    assert printed.endswith(f"): {out}\n")
    assert pd.read_csv(out)["path"][0] == str(one)
    done("predict", model, one, "--out", out, "--overwrite")
    assert len(pd.read_csv(out)) == 1


def test_broken_images_keep_their_row_without_a_score(trained, tmp_path):
    good = noise(tmp_path / "in" / "b.png", 3)
    (tmp_path / "in" / "a.png").write_bytes(b"")
    (tmp_path / "in" / "c.jpg").write_text("not an image")
    noise(tmp_path / "in" / ".hidden" / "d.png", 1)
    noise(tmp_path / "in" / "sub" / ".e.png", 1)
    (tmp_path / "in" / "notes.txt").write_text("no image, and none that is asked for")
    out = tmp_path / "scores.csv"
    ended = command("predict", tmp_path / "in", "--model", trained / "model", "--out", out)
    assert ended.code == 0
    assert ended.err.startswith("curvewise: warning: 2 of 3 images unreadable: ")
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[1] == [str(tmp_path / "in" / "a.png"), "", "", "", "the file is empty"]
    assert rows[2][0] == str(good)
    assert float(rows[2][1]) == pytest.approx(_alone(trained, good), rel=1e-5)
    assert rows[2][2] in ("0", "1")
    assert rows[2][4] == ""
    assert rows[3][1:4] == ["", "", ""]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "scores.csv"]


def _alone(trained, path):
    scorer = Scorer(cw.load(trained / "model" / "model.safetensors"))
    return score_images(scorer, [path])["score"][0]


@pytest.mark.parametrize("count", [1, 5, 100])
def test_batches_hold_a_few_images_and_lose_no_place(trained, tmp_path, monkeypatch, count):
    files = [noise(tmp_path / f"{i}.png", i) for i in range(9)]
    for i in (0, 4, 5, 8):
        files[i].write_bytes(b"")
    monkeypatch.setattr(images, "MOST_IMAGES", count)
    batches = list(decoded_batches(files, (3, 16, 16)))
    assert max(len(reasons) for _, reasons in batches) == min(count, 9)
    unread = [bool(reason) for _, reasons in batches for reason in reasons]
    assert unread == [i in (0, 4, 5, 8) for i in range(9)]
    monkeypatch.setattr(images, "MOST_IMAGES", 256)
    monkeypatch.setattr(images, "BATCH_BYTES", count * 3 * 16 * 16)
    seen = []
    scorer = Scorer(cw.load(trained / "model" / "model.safetensors"), calibrated=True)
    with pytest.warns(UserWarning, match="4 of 9 images unreadable"):
        frame = score_images(scorer, files, lambda *step: seen.append(step))
    assert seen == [("scoring images", min(9, done), 9) for done in range(count, 9 + count, count)]
    assert (
        frame["score"].isna().tolist() == (frame["note"] == "the file is empty").tolist() == unread
    )
    for i in (1, 2, 3, 6, 7):
        assert frame["score"][i] == pytest.approx(_alone(trained, files[i]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("size", "most"), [(16, 256), (600, 7)])
def test_the_larger_the_images_the_smaller_the_batch(tmp_path, monkeypatch, size, most):
    monkeypatch.setattr(images, "decode", lambda _, size, channels: np.zeros((3, size, size), "u1"))
    batches = decoded_batches([tmp_path] * (most + 1), (3, size, size))
    assert [len(pixels) for pixels, _ in batches] == [most, 1]


def test_grey_is_that_of_itu_r_601_and_keeps_what_is_grey(tmp_path):
    path = noise(tmp_path / "a.png", 0, (20, 20, 3))
    ((pixels, _),) = decoded_batches([path], (1, 20, 20))
    red, green, blue = np.asarray(Image.open(path)).astype(int).transpose(2, 0, 1)
    expected = (19595 * red + 38470 * green + 7471 * blue + 2**15) >> 16
    assert pixels.shape == (1, 1, 20, 20)
    np.testing.assert_array_equal(pixels[0, 0], expected)
    shades = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    Image.fromarray(shades[0, 0]).save(tmp_path / "shades.png")
    ((pixels, _),) = decoded_batches([tmp_path / "shades.png"], (1, 16, 16))
    np.testing.assert_array_equal(pixels, shades)  # a file of the right size stays as it is
    for shape in ((3, 8, 9), (4, 8, 8), (64,)):
        with pytest.raises(cw.InputError, match="square images with 1 or 3 channels"):
            next(decoded_batches([path], shape))


def test_a_model_of_grey_arrays_scores_colour_files_of_any_size(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (80, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "grey.npz", x=x, y=np.arange(80) % 4 == 0)
    source, model = f"npz:{tmp_path / 'grey.npz'}", tmp_path / "model"
    done("train", source, "--out", model, "--set", "epochs=1")
    small = tmp_path / "in" / "same.png"
    small.parent.mkdir()
    Image.fromarray(x[5]).save(small)
    noise(tmp_path / "in" / "wide.jpg", 0, (50, 90, 3))
    predict([tmp_path / "in"], model / "model.safetensors", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    known = cw.load(model / "model.safetensors").scores(x[5:6, None])
    assert found["score"][0] == pytest.approx(float(known[0]), rel=1e-5)
    assert np.isfinite(found["score"]).all()


def test_images_are_found_in_the_order_of_their_names(tmp_path):
    for name in ("b.JPG", "a.png", "c/z.webp", "c/a.tiff", "note.txt", ".x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in find_images([tmp_path])]
    assert found == ["a.png", "b.JPG", "c/a.tiff", "c/z.webp"]
    with pytest.raises(cw.InputError, match=r"trained on images .*note\.txt"):
        find_images([tmp_path / "note.txt"])
    strange = tmp_path / "photo.dat"
    strange.touch()
    assert find_images([strange]) == [strange]  # named by the user, so meant


def test_settings_of_a_scorer(trained):
    model = cw.load(trained / "model" / "model.safetensors")
    assert Scorer(model).threshold == 0
    assert Scorer(model, threshold=-1.5).threshold == -1.5
    pixels = np.random.default_rng(0).integers(0, 256, (9, 3, 16, 16), dtype=np.uint8)
    scores = Scorer(model).columns(pixels)["score"]
    called = Scorer(model, threshold=scores[4]).columns(pixels)["positive"]
    assert called.tolist() == [int(score >= scores[4]) for score in scores]  # the fifth one, too
    assert Scorer(model, tau=1.0).lam.tolist() == [[1.0]]
    assert Scorer(model, tau=3.0, rule={"max_fpr": 0.5}).lam.tolist() == [[3.0]]  # its own lambda
    model.record.pop("test_roc")
    with pytest.raises(cw.InputError, match="without a test part: give a --threshold"):
        Scorer(model, rule={"min_tpr": 0.5})
    model.objective = cw.FocalLoss()
    with pytest.raises(cw.InputError, match="need the vector-scaling loss, got FocalLoss"):
        Scorer(model, calibrated=True)
    model.class_names = ("a", "b", "c")
    with pytest.raises(cw.InputError, match="two classes, got 3"):
        Scorer(model)


def test_a_model_of_arrays_predicts_arrays(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 5 == 0
    x = rng.normal(size=(100, 3)) + y[:, None]
    np.savez(tmp_path / "features.npz", x=x, y=y)
    model, out = tmp_path / "model", tmp_path / "out.csv"
    done("train", f"npz:{tmp_path / 'features.npz'}", "--out", model, "--set", "epochs=1")
    new = rng.normal(size=(7, 3)).astype(np.float32)
    known = cw.load(model / "model.safetensors").scores(new)
    for array in ("x", "x_test"):
        np.savez(tmp_path / "new.npz", **{array: new}, x_train=x[:9])
        done("predict", tmp_path / "new.npz", "--model", model, "--out", out, "--overwrite")
        found = pd.read_csv(out)
        assert list(found) == ["row", "score", "positive", "class"]
        assert found["row"].tolist() == list(range(7))
        np.testing.assert_allclose(found["score"], known, rtol=1e-5, atol=1e-6)
    ended = command("predict", tmp_path, "--model", model)
    assert "this model takes 3 numbers a sample, as npz:features.npz has them: give" in ended.err
    for wrong, message in (
        (new[:, :2], "samples of shape (3,), got (2,)"),
        (new[:0], "x of wrong.npz must have a row or more"),
        (np.full((2, 3), np.nan), "x of wrong.npz must be finite, got nan in row 0"),
    ):
        np.savez(tmp_path / "wrong.npz", x=wrong)
        assert message in command("predict", tmp_path / "wrong.npz", "--model", model).err


def test_ctrl_c_writes_nothing(trained, tmp_path, monkeypatch):
    def interrupted(path, size, channels):
        raise KeyboardInterrupt

    monkeypatch.setattr(images, "decode", interrupted)
    words = ("--model", trained / "model", "--out", tmp_path / "scores.csv")
    ended = command("predict", trained / "parts", *words)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == "curvewise: stopped; nothing was written\n"
    assert list(tmp_path.iterdir()) == []
