"""Running an experiment: files, records, the page made of them."""

import json
import re
import shutil

import pytest

from curvewise.base.errors import InputError
from curvewise.figures.curves import figure_of, plot_spread
from curvewise.paper import page as page_module
from curvewise.paper.experiment import Experiment, Outcome
from curvewise.paper.page import START, write_page
from curvewise.paper.profiles import Profile, both
from curvewise.paper.running import (
    draw_experiment,
    markdown_table,
    run_experiment,
    write_report,
)
from curvewise.sweep.executors import serial
from curvewise.sweep.problems import Problems
from curvewise.sweep.spec import Spec


def sweeps(profile):
    return [
        Spec.from_dict(
            {
                "name": "fig-test",
                "tasks": ["digits:8"],
                "betas": [20],
                "network": {"name": "mlp", "hidden": [4]},
                "recipe": {"epochs": 1},
                "methods": [{"method": "vs", "tau": [0.0, 1.0]}, {"method": "lct", "tau": "0:3:0"}],
            }
        )
    ]


def collect(reading):
    cells = reading.cells("fig-test")
    rows = [
        {"method": label, "auc": area}
        for cell in cells
        for label, areas in cell.areas.items()
        for area in areas
    ]
    return {"": rows, "records": [{"models": len(reading.records("fig-test"))}]}


def present(data, profile):
    areas = {}
    for row in data[""]:
        areas.setdefault(row["method"], []).append(row["auc"])
    table = [{"method": name, "best": max(own)} for name, own in areas.items()]
    return Outcome(
        f"{data['records'][0]['models']} models of the {profile.name} profile.",
        {"Best": table},
        {"fig-test": figure_of(plot_spread(areas))},
    )


EXPERIMENT = Experiment("fig-test", "Shows a test", "nothing", collect, present, sweeps)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ran")
    shown = run_experiment(EXPERIMENT, Profile(), folder, serial(), Problems(), "curvewise x")
    return folder, shown


def test_all_files_are_there(ran):
    folder, shown = ran
    names = {"fig-test.csv", "fig-test-records.csv", "fig-test.png", "fig-test.svg"}
    assert {file.name for file in shown.files} == names
    assert all((folder / name).stat().st_size > 0 for name in names)
    record = json.loads((folder / "fig-test.json").read_text())
    assert record["verdict"] == "3 models of the laptop profile."
    assert record["models"] == 3
    assert record["command"] == "curvewise x"


def test_a_second_start_trains_nothing_and_shows_the_same(ran, monkeypatch):
    folder, shown = ran
    before = json.loads((folder / "fig-test.json").read_text())
    monkeypatch.setattr("curvewise.sweep.run.train_stack", None)
    again = run_experiment(EXPERIMENT, Profile(), folder, serial(), Problems(), "curvewise x")
    assert again.outcome.tables == shown.outcome.tables
    record = json.loads((folder / "fig-test.json").read_text())
    assert record["seconds"] == before["seconds"] > 0  # of training, whenever that was


def test_drawing_needs_the_data_files_only(ran, tmp_path):
    folder, shown = ran
    for name in ("fig-test.csv", "fig-test-records.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    again = draw_experiment(EXPERIMENT, Profile(), tmp_path)
    assert again.outcome.tables == shown.outcome.tables
    assert again.outcome.verdict == shown.outcome.verdict
    same = (tmp_path / "fig-test.png").read_bytes() == (folder / "fig-test.png").read_bytes()
    assert same
    with pytest.raises(InputError, match="has no data of fig-test; run it first"):
        draw_experiment(EXPERIMENT, Profile(), tmp_path / "elsewhere")


def test_the_page_keeps_what_was_written_by_hand(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "EXPERIMENTS", {"fig-test": EXPERIMENT})
    folder, shown = ran
    path = tmp_path / "paper.md"
    assert write_page(folder, path) == (1, 0)
    path.write_text("# Mine\n\nWhat it means.\n\n" + START + "\n\nold\n")
    write_page(folder, path)
    text = path.read_text()
    assert text.startswith("# Mine\n\nWhat it means.\n\n" + START)
    assert "old" not in text
    assert markdown_table(shown.outcome.tables["Best"]) in text
    assert "![Shows a test](paper/fig-test.png)" in text
    assert re.search(r", 3 models, \d+ s of one core to train, ", text)
    assert (tmp_path / "paper" / "fig-test.png").is_file()
    with pytest.raises(InputError, match="has no results"):
        write_page(tmp_path, path)


def test_the_page_keeps_sections_that_it_has_no_results_of(ran, tmp_path, monkeypatch):
    other = Experiment("fig-other", "Shows another", "nothing", collect, present, sweeps)
    known = {"fig-other": other, "fig-test": EXPERIMENT}
    monkeypatch.setattr(page_module, "EXPERIMENTS", known)
    folder, _ = ran
    path = tmp_path / "paper.md"
    kept = "## fig-other\n\nKept as it was."
    path.write_text(f"# Mine\n\n{START}\n\n## fig-test\n\nold\n\n{kept}\n")
    assert write_page(folder, path) == (1, 1)
    text = path.read_text()
    assert kept in text
    assert "old" not in text
    assert text.index("## fig-other") < text.index("## fig-test")  # the catalogue's order
    before = path.read_bytes()
    assert write_page(tmp_path / "paper", path) == (1, 1)  # from its own folder
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("fig-test.json", b'{"bad', "is no record of"),
        ("fig-test.json", b"[1]", "is no record of"),
        ("fig-test.json", b"{}", "is no record of"),
        ("fig-test.csv", b"", "fig-test.csv was changed after it was written; run fig-test again"),
        ("fig-test.csv", b"\x00\xff", "was changed after it was written"),
        ("page.md", b"\xff\xfe", "must be a Markdown file in UTF-8"),
    ],
)
def test_damaged_files_are_one_sentence_and_leave_nothing(
    ran, tmp_path, monkeypatch, name, content, told
):
    monkeypatch.setattr(page_module, "EXPERIMENTS", {"fig-test": EXPERIMENT})
    folder = tmp_path / "copy"
    shutil.copytree(ran[0], folder)
    (folder / name).write_bytes(content)
    page = folder / "page.md" if name == "page.md" else tmp_path / "page.md"
    with pytest.raises(InputError, match=told):
        write_page(folder, page)
    assert not (page.parent / "page").exists()


def test_data_of_a_record_without_checksums_that_cannot_be_read(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "EXPERIMENTS", {"fig-test": EXPERIMENT})
    folder = tmp_path / "copy"
    shutil.copytree(ran[0], folder)
    record = json.loads((folder / "fig-test.json").read_text())
    del record["sums"]
    (folder / "fig-test.json").write_text(json.dumps(record))
    (folder / "fig-test.csv").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be used"):
        write_page(folder, tmp_path / "page.md")


def test_why_runs_failed_is_said(tmp_path):
    class Broken(Problems):
        def load(self, run):
            raise OSError("a disk is full")

    with pytest.raises(InputError, match=r"3 runs of fig-test failed, one of them with: .*disk"):
        run_experiment(EXPERIMENT, Profile(), tmp_path, serial(), Broken())


def test_results_of_another_scale_are_not_replaced(ran, tmp_path):
    folder, _ = ran
    before = (folder / "fig-test.csv").read_bytes()
    with pytest.raises(InputError, match="would replace: name another --out"):
        run_experiment(EXPERIMENT, Profile("laptop", "tiny"), folder, serial(), Problems())
    assert (folder / "fig-test.csv").read_bytes() == before
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="--out must be a folder"):
        run_experiment(EXPERIMENT, Profile(), file, serial(), Problems())
    tiny = run_experiment(
        EXPERIMENT, Profile("laptop", "tiny"), tmp_path / "tiny", serial(), Problems()
    )
    assert tiny.outcome.verdict.startswith("At the tiny scale nothing is")


def test_profiles_refuse_what_they_do_not_know():
    with pytest.raises(InputError, match="profile must be one of"):
        Profile("desktop")
    with pytest.raises(InputError, match="a sweep must be over one of cifar10"):
        Profile().spec("a", ["digits:8"], both())
    assert "random weights" in Profile("paper").caption("dogs-vs-cats")
    assert "no result" in Profile("laptop", "tiny").caption("cifar10:1/2")


def test_the_models_of_an_experiment_are_a_page_too(ran, tmp_path):
    folder, _ = ran
    (written,) = write_report(EXPERIMENT, Profile(), folder)
    assert written == folder / "fig-test.html"
    assert "digits:8" in written.read_text()
    without = Experiment("fig-test", "Shows a test", "nothing", collect, present)
    assert write_report(without, Profile(), tmp_path) == []


def test_a_page_is_not_made_less_by_a_tiny_run(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "EXPERIMENTS", {"fig-test": EXPERIMENT})
    path, tiny = tmp_path / "paper.md", tmp_path / "tiny"
    write_page(ran[0], path)
    before = path.read_bytes()
    shutil.copytree(ran[0], tiny)
    record = json.loads((tiny / "fig-test.json").read_text())
    (tiny / "fig-test.json").write_text(json.dumps({**record, "scale": "tiny"}))
    with pytest.raises(InputError, match="at the scale full, which that of laptop at tiny would"):
        write_page(tiny, path)
    assert path.read_bytes() == before
    assert write_page(tiny, tmp_path / "other.md") == (1, 0)


def test_a_page_needs_a_folder_and_a_file(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        write_page(tmp_path / "nowhere", tmp_path / "page.md")
    with pytest.raises(InputError, match="must be a file such as"):
        write_page(tmp_path, tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_a_missing_picture_leaves_the_page_as_it_was(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "EXPERIMENTS", {"fig-test": EXPERIMENT})
    folder, page = tmp_path / "copy", tmp_path / "page.md"
    shutil.copytree(ran[0], folder)
    (folder / "fig-test.png").unlink()
    with pytest.raises(InputError, match=r"lacks fig-test\.png; run its experiment again"):
        write_page(folder, page)
    assert not page.exists()
    assert not (tmp_path / "page").exists()
    beside = tmp_path / "page"
    beside.mkdir()
    (beside / "fig-test.json").write_text("{")  # damaged, and replaced
    assert write_page(ran[0], page) == (1, 0)
    assert json.loads((beside / "fig-test.json").read_text())["name"] == "fig-test"
