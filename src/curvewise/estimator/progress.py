"""Progress of a fit as lines on the terminal."""

import sys
import time


class Printed:
    """Writes a line at every tenth of the steps, with the time it took so far."""

    def __init__(self, name: str) -> None:
        self.name, self.started, self.tenth = name, time.perf_counter(), 0

    def __call__(self, done: int, total: int) -> None:
        """Be told that so many of all steps are done."""
        tenth = 10 * done // total
        if tenth > self.tenth:
            self.tenth = tenth
            seconds = time.perf_counter() - self.started
            line = f"{self.name}: {10 * tenth} % of {total:,} steps, {seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)
