"""Every benchmark states its targets, prints JSON on demand and exits 1 when one is missed."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("[a-z]*.py"))
sys.path.insert(0, str(FOLDER))

import _measure  # noqa: E402


@pytest.mark.parametrize("script", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_states_its_targets_and_imports_what_is_there(script):
    tree = ast.parse(script.read_text())
    if script in SCRIPTS:
        assert "Targets\n-------" in (ast.get_docstring(tree) or "")
        assert "main(" in script.read_text()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("curvewise."):
            module = importlib.import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def test_contenders_are_interleaved_and_compared_within_a_round():
    ours, peer = [1.0, 2.0, 4.0], [3.0, 6.0, 8.0]
    assert _measure.faster("", ours, peer, 2.5).ratio == 3.0
    assert _measure.cost("", ours, peer, 0.3).ratio == pytest.approx(1 / 3)
    assert _measure.faster("", ours, peer, 2.5).holds
    assert not _measure.faster("", ours, peer, 3.5).holds
    assert not _measure.cost("", ours, peer, 0.3).holds
    calls = []
    times = _measure.interleave({n: lambda n=n: calls.append(n) for n in "ab"}, rounds=2)
    assert calls == ["a", "b", "a", "b", "a", "b"]  # the first pair is the warm-up
    assert {name: len(values) for name, values in times.items()} == {"a": 2, "b": 2}


@pytest.mark.parametrize(("target", "code"), [(2.0, 0), (4.0, 1)])
def test_main_exits_by_the_verdict_and_records(target, code, monkeypatch, capsys, tmp_path):
    page = tmp_path / "folder" / "page.md"
    monkeypatch.setattr(sys, "argv", ["some_speed.py", "--json", "--record", str(page)])
    result = _measure.faster("it", [1.0], [3.0], target)
    with pytest.raises(SystemExit) as stopped:
        _measure.main("A title", lambda: [result], "Is it fast?", ("One caveat.",))
    assert stopped.value.code == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["results"][0]["ratio"] == 3.0
    assert printed["results"][0]["holds"] is (code == 0)
    text = page.read_text()
    assert ("MISSED" in text) is (code == 1)
    assert ("Missed by most: it, 3.00 where >= 4 is asked." in text) is (code == 1)
    assert "**Is it fast?**" in text
    assert "1. One caveat." in text
    assert page.with_suffix(".png").stat().st_size > 1000
