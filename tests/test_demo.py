"""The demo's parts: the same loop trains both methods, and wrong options end in one sentence."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import digits  # noqa: E402


def test_both_methods_learn_and_the_figure_is_drawn(tmp_path):
    import curvewise as cw

    x, y, x_test, y_test = digits.load(digit=0, beta=20, seed=0)
    assert (len(y) - int(y.sum())) // 20 == int(y.sum())
    curves = {}
    for method, family in digits.families(omega=0.9, gamma=0.0).items():
        model = digits.train(family, x, y, seed=0, epochs=10)
        lam = family.at(tau=3.0) if family.drawn else family.at()
        with torch.no_grad():
            logits = model(x_test, lam)
        curves[method] = [cw.roc_curve(y_test, logits[:, 1] - logits[:, 0])]
        assert curves[method][0].auc > 0.9
    digits.draw(curves, "test", tmp_path / "bands.png")
    assert (tmp_path / "bands.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--beta", "0"], "beta must be >= 1"), (["--digit", "12"], "invalid choice")],
)
def test_wrong_options_end_in_one_sentence_and_code_2(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["digits.py", *options])
    with pytest.raises(SystemExit) as ended:
        digits.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
