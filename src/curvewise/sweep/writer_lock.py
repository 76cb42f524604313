"""One writer at a time: a lock that ends with the process that holds it."""

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from curvewise.sweep.records import StoreError


@contextmanager
def writer_lock(store: Path) -> Iterator[None]:
    """Hold the one permission to write, which the kernel takes back when the process ends.

    The file `STORE.lock` stays: were it removed, two processes could hold locks of one name.
    """
    try:
        descriptor = os.open(f"{store}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(f"the store {store} must be writable: {error.strerror}") from error
    try:
        _take(descriptor, store)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, store: Path) -> None:
    import fcntl  # here, so that stores can be read where there is no flock

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another process"
        raise StoreError(
            f"one process at a time may write to {store}, it is held by {holder}: wait until that "
            f"has ended, or stop it"
        ) from None
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = f"process {os.getpid()} on {socket.gethostname()} since {since}"
    with contextlib.suppress(OSError):  # a full disk: the lock holds, its message says less
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
