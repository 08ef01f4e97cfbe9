"""What a check of a task may take."""

import time


class OutOfBudget(Exception):
    """Something is left out; the text says why."""


class Budget:
    """Bounds what is begun. Time is the main thread's own: it stands still while the judge is frozen."""

    def __init__(self, ms_max: float, bytes_max: int) -> None:
        self._ms_max = ms_max
        self._bytes_max = bytes_max
        self._start = time.thread_time()

    def restart(self) -> None:
        self._start = time.thread_time()

    def need(self, expected_ms: float) -> None:
        """OutOfBudget if time is up, or for a step that takes twice as long as all may."""
        spent_ms = (time.thread_time() - self._start) * 1e3
        if spent_ms >= self._ms_max or expected_ms > 2 * self._ms_max:
            raise OutOfBudget("no time left")

    def need_bytes(self, expected: int) -> None:
        if expected > self._bytes_max:
            raise OutOfBudget(f"it takes some {expected >> 20} MiB of memory")
