"""Running an experiment: files, records, the pages made of them."""

import json
import shutil
from functools import partial
from unittest.mock import Mock

import pandas as pd
import pytest

from curvewise.base.errors import InputError
from curvewise.figures.frames import boxes
from curvewise.paper import running
from curvewise.paper.experiment import Claim, Experiment
from curvewise.paper.measures import gain
from curvewise.paper.profiles import Profile, both
from curvewise.paper.running import (
    draw,
    markdown_table,
    read_data,
    run_experiment,
    show,
    write_page,
)
from curvewise.sweep.executors import Serial
from curvewise.sweep.spec import Spec
from curvewise.sweep.work import Problems


def sweeps(profile):
    spec = {
        "name": "fig-test",
        "tasks": ["digits:8"],
        "betas": [20],
        "network": {"name": "mlp", "hidden": [4]},
        "recipe": {"epochs": 1},
        "methods": [{"method": "vs", "tau": [0.0, 1.0]}, {"method": "lct", "tau": "0:3:0"}],
    }
    return [Spec.from_dict(spec)]


EXPERIMENT = Experiment(
    name="fig-test",
    question="Does it run?",
    claims={
        "LCT leads": Claim(partial(gain, "mean"), published="by far"),
        "Untested": Claim(lambda data: None),
    },
    draw=lambda data, **sheet: boxes(data[""], x="method", **sheet),
    sweeps=sweeps,
    caveats=("A test.",),
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ran")
    shown = run_experiment(EXPERIMENT, Profile(), folder, Serial(), Problems(), "curvewise x")
    return folder, shown


@pytest.fixture(autouse=True)
def only_this(monkeypatch):
    monkeypatch.setattr(running, "EXPERIMENTS", {"fig-test": EXPERIMENT})


def test_all_files_are_there_and_a_second_start_trains_nothing(ran, tmp_path, monkeypatch):
    folder, shown = ran
    names = {"fig-test.csv", "fig-test.png", "fig-test.svg"}
    assert {file.name for file in shown.files} == names
    assert all((folder / name).stat().st_size > 0 for name in names)
    record = json.loads((folder / "fig-test.json").read_text())
    assert (record["models"], record["command"]) == (3, "curvewise x")
    assert len(pd.read_csv(folder / "fig-test.csv")) == 3
    assert shown.results["verdict"].to_list()[1] == "not tested here"
    monkeypatch.setattr("curvewise.sweep.run.train_stack", None)
    again = run_experiment(EXPERIMENT, Profile(), folder, Serial(), Problems(), "curvewise x")
    pd.testing.assert_frame_equal(again.results, shown.results)
    second = json.loads((folder / "fig-test.json").read_text())
    assert second["seconds"] == record["seconds"] > 0  # of training, whenever that was
    # Drawing needs the data files only.
    data = read_data("fig-test", [folder / "fig-test.csv"])
    again = show(EXPERIMENT, data)
    draw(EXPERIMENT, Profile(), data, again, tmp_path, ".png")
    pd.testing.assert_frame_equal(again.results, shown.results)
    assert (tmp_path / "fig-test.png").read_bytes() == (folder / "fig-test.png").read_bytes()


def test_pages_keep_what_was_written_by_hand_and_are_not_made_less_by_a_tiny_run(ran, tmp_path):
    path = tmp_path / "paper.md"
    assert write_page(ran[0], path) == (1, 0)
    path.write_text("# Mine\n\nWhat it means.\n\n" + running.START + "\n\noutdated\n")
    write_page(ran[0], path)
    text = path.read_text()
    assert text.startswith("# Mine\n\nWhat it means.\n\n" + running.START)
    assert "outdated" not in text
    assert "| [fig-test](paper/fig-test.md) | LCT leads | by far |" in text
    own = (tmp_path / "paper" / "fig-test.md").read_text()
    for part in ("**Does it run?**", "![Does it run?](fig-test.png)", "1. A test.", "3 models"):
        assert part in own
    assert (tmp_path / "paper" / "fig-test.png").is_file()
    with pytest.raises(InputError, match="has no results"):
        write_page(tmp_path, path)
    tiny = tmp_path / "tiny"
    shutil.copytree(ran[0], tiny)
    record = json.loads((tiny / "fig-test.json").read_text())
    (tiny / "fig-test.json").write_text(json.dumps({**record, "scale": "tiny"}))
    with pytest.raises(InputError, match="at the scale full, which that of laptop at tiny would"):
        write_page(tiny, path)
    assert path.read_text() == text
    assert write_page(tiny, tmp_path / "other.md") == (1, 0)


def test_pages_keep_experiments_without_new_results(ran, tmp_path, monkeypatch):
    path, empty = tmp_path / "paper.md", tmp_path / "other"
    write_page(ran[0], path)
    before = path.read_text()
    other = Experiment("fig-other", "Another?", EXPERIMENT.claims, sweeps=sweeps)
    monkeypatch.setattr(running, "EXPERIMENTS", {"fig-other": other, "fig-test": EXPERIMENT})
    empty.mkdir()
    for name in ("csv", "json"):
        content = (ran[0] / f"fig-test.{name}").read_text().replace("fig-test", "fig-other")
        (empty / f"fig-other.{name}").write_text(content)
    assert write_page(empty, path) == (1, 1)
    both_listed = path.read_text()
    assert both_listed.index("[fig-other]") < both_listed.index("[fig-test]")  # catalogue's order
    assert before.rpartition("| [fig-test]")[2] in both_listed
    assert write_page(tmp_path / "paper", path) == (2, 0)  # from its own folder
    assert path.read_text() == both_listed


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("fig-test.json", b'{"bad', "is no record of"),
        ("fig-test.json", b"[1]", "is no record of"),
        ("fig-test.csv", b"", "fig-test.csv was changed after it was written; run fig-test again"),
        ("fig-test.csv", b"a\n1\n", "cannot be used"),  # if the record has no checksums
        ("fig-test.csv", None, "lacks fig-test.csv; run its experiment again"),
        ("page.md", b"\xff\xfe", "must be a Markdown file in UTF-8"),
    ],
)
def test_damaged_files_are_one_sentence_and_leave_nothing(ran, tmp_path, name, content, told):
    folder, page = tmp_path / "copy", tmp_path / "copy" / "page.md"
    shutil.copytree(ran[0], folder)
    if told == "cannot be used":
        record = json.loads((folder / "fig-test.json").read_text())
        (folder / "fig-test.json").write_text(json.dumps(record | {"sums": {}}))
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=told):
        write_page(folder, page)
    assert not (folder / "page").exists()


def test_results_of_another_scale_and_runs_that_fail_are_refused(ran, tmp_path, monkeypatch):
    folder, _ = ran
    before = (folder / "fig-test.csv").read_bytes()
    tiny = Profile("laptop", "tiny")
    with pytest.raises(InputError, match="would replace: name another --out"):
        run_experiment(EXPERIMENT, tiny, folder, Serial(), Problems())
    assert (folder / "fig-test.csv").read_bytes() == before
    with pytest.raises(InputError, match="--out must be a folder"):
        run_experiment(EXPERIMENT, Profile(), folder / "fig-test.csv", Serial(), Problems())
    broken = Problems()
    monkeypatch.setattr(broken, "load", Mock(side_effect=OSError("a disk is full")))
    with pytest.raises(InputError, match=r"3 runs of fig-test failed, one of them with: .*disk"):
        run_experiment(EXPERIMENT, Profile(), tmp_path, Serial(), broken)


def test_a_page_needs_a_folder_and_a_file_and_profiles_what_they_know(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        write_page(tmp_path / "nowhere", tmp_path / "page.md")
    with pytest.raises(InputError, match="must be a file such as"):
        write_page(tmp_path, tmp_path / "page")
    with pytest.raises(InputError, match="profile must be one of"):
        Profile("desktop")
    with pytest.raises(InputError, match="a sweep must be over one of cifar10"):
        Profile().spec("a", ["digits:8"], both())


def test_captions_say_what_was_trained_and_tables_what_can_be_read():
    for profile, task, told in (
        (Profile("paper"), "dogs-vs-cats", "ResNeXt50 from random weights"),
        (Profile("paper", weights="a.pth"), "melanoma", "ResNeXt50 from ImageNet weights"),
        (Profile("laptop", "tiny"), "cifar10:1/2", "features, tiny scale: no result"),
        (Profile(), "digits:8", "a network of its own"),
    ):
        assert profile.caption([task]).endswith(told)
    rows = pd.DataFrame({"a": [0.25, 3.2e-12, None], "b": ["x", "", None], "c": [1.0, 2.0, 3.0]})
    assert markdown_table(rows).splitlines()[2:] == [
        "| 0.2500 | x | 1 |",
        "| 3.2e-12 | - | 2 |",
        "| - | - | 3 |",
    ]
