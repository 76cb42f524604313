"""The version, and the machine that runs it: processors, devices, threads, memory, packages."""

import gc
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from curvewise.base.errors import InputError

if TYPE_CHECKING:
    import torch

VERSION = "0.1.0"

# Part of every run's identity: raise it by hand whenever the same run gives another result.
NUMERICS_VERSION = 2


def machine() -> str:
    """Name this machine's kind, without its name."""
    return f"{platform.system()} {platform.machine()}, {processor_names()}"


def processor_names(listing: Path = Path("/proc/cpuinfo")) -> str:
    """Name this machine's processors and their number, as Linux lists them or as Python knows."""
    lines = listing.read_text().splitlines() if listing.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.processor() or "unknown processor"
    return f"{len(models) or os.cpu_count() or 1} x {model}"


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not every system can be asked
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Return the versions that matter."""
    from importlib.metadata import version

    return {
        "curvewise": VERSION,
        "torch": version("torch"),
        "numpy": version("numpy"),
        "python": platform.python_version(),
    }


def choose_device(name: str) -> "torch.device":
    """Return the device; "auto" is a GPU if there is one."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f'device must be "auto", "cpu" or "cuda", got {name!r}') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {name!r} was asked for, but this machine has no usable GPU")
    return device


def this_command() -> str:
    """Return the command that runs, as it was typed."""
    return shlex.join(["curvewise", *sys.argv[1:]])


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def old_objects_spared() -> Iterator[None]:
    """Keep the garbage collector from what was there before, inside the block.

    Steps of small stacks make so many short-lived objects that it walks through all modules many
    times a second, an eighth of the time.

    >>> with old_objects_spared():
    ...     gc.get_freeze_count() > 0
    True
    """
    if gc.get_freeze_count():  # somebody froze what is theirs, or we are inside such a block
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def keep_freed_memory() -> bool:
    """Tell the C library to reuse what training frees; return whether it could be told.

    The activations of an image batch are some 8 MB each. By default such blocks go back to the
    system when freed, and the next step faults every page in again: 75,000 faults and a seventh
    of the time of a ResNet-32 step. It holds for the process, changes no result, and lets it keep
    as much as it once needed.

    >>> keep_freed_memory() in (True, False)
    True
    """
    import ctypes

    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt, trim_threshold, map_threshold = ctypes.CDLL(None).mallopt, -1, -3  # <malloc.h>
    return all([mallopt(map_threshold, 2**30), mallopt(trim_threshold, 2**30)])
