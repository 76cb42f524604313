"""The page as a file: one piece, safe texts, scripts that its own policy allows."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from curvewise.base.errors import InputError
from curvewise.figures.sheets import COLORS
from curvewise.report import page
from curvewise.report.page import page_html, write_page
from page_samples import page_input, page_models

EVIL = ("<script>alert(1)</script>", "</script><!-- <b>&amp;\u2028")


class Reader(HTMLParser):
    """Collects elements and the texts of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.scripts, self.texts, self.within = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.within = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.within = ""

    def handle_data(self, data):
        if self.within == "script":
            self.scripts[-1] += data
        self.texts.append(data)


@pytest.fixture(scope="module")
def read():
    models = page_models()
    for model in models:
        model["settings"][EVIL[1]] = EVIL[0]
        model["fill"]["identity"] = EVIL[1]
    given = page_input(models, task=EVIL[0], class_names=EVIL, provenance={"command": EVIL[1]})
    reader = Reader()
    reader.feed(page_html(given))
    return reader


def test_texts_from_data_stay_texts_and_colours_are_those_of_the_figures(read):
    assert len([tag for tag, _ in read.tags if tag == "script"]) == 3
    assert not [tag for tag, _ in read.tags if tag == "b"]
    data = json.loads(read.scripts[0])
    assert (data["classes"], data["task"]) == (list(EVIL), EVIL[0])
    assert any(EVIL[0] in text and EVIL[1] in text for text in read.texts)
    assert any(f"const COLORS = {json.dumps(COLORS)};" in script for script in read.scripts)


def test_the_policy_allows_these_scripts_and_nothing_is_loaded_from_elsewhere(read):
    (policy,) = (
        attributes["content"]
        for tag, attributes in read.tags
        if tag == "meta" and "Security" in attributes.get("http-equiv", "")
    )
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    for script in read.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for _, attributes in read.tags:
        assert not {"src", "srcset", "data", "action"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML|eval\(", read.scripts[1])


def test_every_label_of_the_template_has_its_element_and_scripts_stay_short():
    html = page._file("page.html")
    ids = set(re.findall(r' id="([\w-]+)"', html))
    for target in re.findall(r'(?:for|aria-labelledby|href)="#?([\w-]+)"', html):
        assert target in ids
    for name in page.SCRIPTS:
        for target in re.findall(r'byId\("([\w-]+)"\)', page._file(f"{name}.js")):
            assert target in ids | {"bar-x", "bar-y"}, target
        assert len(page._file(f"{name}.js").splitlines()) <= 230, name


def test_a_page_is_whole_or_not_there_and_no_library_ends_it(tmp_path, monkeypatch):
    path = write_page(page_input(), tmp_path / "deep" / "report.html")
    before = path.read_bytes()
    assert before.rstrip().endswith(b"</html>")
    assert len(before) < 8e6
    monkeypatch.setattr("os.fsync", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_page(page_input(), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    page.plotly_script.cache_clear()
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "'</SCRIPT>'")
    with pytest.raises(InputError, match="would end it"):
        page_html(page_input())
    page.plotly_script.cache_clear()
