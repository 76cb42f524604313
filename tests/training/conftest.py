"""What the tests of training share."""

import pytest
import torch


@pytest.fixture
def double():
    """Draw lambda in float64 too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
