"""Words that are no command end in one sentence with a way to the help; help is as it was."""

import io
import sys

import pytest

from command_line import command

WRONG = {
    "trian": "no such command 'trian'; did you mean 'train'? See curvewise --help",
    "nonsense": "no such command 'nonsense'; see curvewise --help",
    "sweep runn": "no such command 'runn'; did you mean 'run'? See curvewise sweep --help",
    "train": "missing argument 'source'; see curvewise train --help",
    "evaluate digits": "missing option '--model'; see curvewise evaluate --help",
    "evaluate digits --model m --max-fpr abc": "--max-fpr must be a valid number, got 'abc'; "
    "see curvewise evaluate --help",
    "train digits --seed=1.5": "--seed must be a valid integer, got '1.5'; "
    "see curvewise train --help",
}


@pytest.mark.parametrize("words", WRONG)
def test_one_sentence_with_a_way_to_the_help(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = command(*words.split())
    assert (ended.code, ended.out, ended.err) == (2, "", f"curvewise: {WRONG[words]}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "named"),
    [("train --nope", "--nope"), ("data check digits 8", "(8)"), ("train digits --out", "--out")],
)
def test_other_mistakes_are_one_line_too(words, named):
    ended = command(*words.split())
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert named in ended.err
    assert ended.err.startswith("curvewise: ")
    assert ended.err.endswith("--help\n")


@pytest.mark.parametrize("words", ["", "sweep", "data", "--help", "sweep run --help"])
def test_help_goes_to_standard_output(words):
    ended = command(*words.split())
    assert ended.code == (0 if "--help" in words else 2)
    assert "Usage: curvewise" in ended.out
    assert ended.err == ""


def test_an_answer_that_never_comes_is_a_no(tmp_path, monkeypatch):
    from PIL import Image

    from curvewise.data.cache import cached_images

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    Image.new("RGB", (8, 8)).save(tmp_path / "photo.png")
    cached_images([tmp_path / "photo.png"], 8, tmp_path / "cache")
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    ended = command("data", "clean", "--cache-dir", tmp_path / "cache")
    assert ended.code == 1
    assert ended.err.strip() == "Aborted."
    assert len(list((tmp_path / "cache").iterdir())) == 1
