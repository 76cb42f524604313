"""The public names: where they live, how they load, and the examples in their docstrings."""

import doctest
import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys

import pytest

import curvewise

MODULES = [found.name for found in pkgutil.walk_packages(curvewise.__path__, "curvewise.")]
WITH_EXAMPLES = ("losses.family", "networks.conditioning", "training.optimizers")
HEAVY = ("torch", "numpy", "scipy", "matplotlib", "sklearn", "pandas")


@pytest.mark.parametrize("name", [name for name in curvewise.__all__ if name != "__version__"])
def test_a_public_name_is_the_one_at_its_home(name: str) -> None:
    value = getattr(curvewise, name)
    home = importlib.import_module(curvewise._HOME_OF[name])
    assert value is getattr(home, name)
    assert value.__module__ == home.__name__  # defined there, not passed on
    assert value.__doc__


def test_errors_version_and_names() -> None:
    assert issubclass(curvewise.InputError, curvewise.CurvewiseError)
    assert issubclass(curvewise.InputError, ValueError)
    assert curvewise.__version__ == importlib.metadata.version("curvewise")
    assert sorted(curvewise.__all__) == dir(curvewise)
    with pytest.raises(AttributeError, match="'curvewise' has no attribute 'vs_los'"):
        _ = curvewise.vs_los
    assert not hasattr(curvewise, "torch")


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, curvewise\n"
        f"assert not set({HEAVY}) & set(sys.modules)\n"
        "curvewise.LossFamily\n"
        "assert 'torch' in sys.modules and 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["curvewise", *MODULES])
def test_docstring_examples_are_true(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    found = doctest.testmod(module)
    assert found.failed == 0
    assert found.attempted or name.removeprefix("curvewise.") not in WITH_EXAMPLES
