"""One thread for each test process, as two run at a time on two cores; no figures left open."""

import sys
from collections.abc import Iterator

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("whatever the clock says", deadline=None)
hypothesis.settings.load_profile("whatever the clock says")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Close what pyplot knows: some tests import it, and then it keeps every figure."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
