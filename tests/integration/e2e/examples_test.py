"""Every example ends with the verdict that its first lines announce."""

import os
import re
import unittest

from service import CANDIDATES, TASKS, Service, announced, verdict, wait_for_no_descendants

# Examples that need a GPU are built, and run where there is one.
_SKIPPED_FOLDERS = {"gpu"}


def examples():
    """Yields (task path, candidate path)."""
    tasks = {re.match(r"\d+", name).group(): os.path.join(TASKS, name)
             for name in sorted(os.listdir(TASKS)) if name[0].isdigit()}
    for folder, subfolders, names in os.walk(CANDIDATES):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED_FOLDERS]
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            yield tasks[re.match(r"\d+", name).group()], path


class ExamplesTest(unittest.TestCase):
    def test_verdicts(self):
        seen = set()
        self.addCleanup(wait_for_no_descendants)
        with Service() as service:
            for task, candidate in examples():
                with self.subTest(candidate=os.path.relpath(candidate, CANDIDATES)):
                    expected, policy = announced(candidate)
                    record, _ = service.evaluate(task, candidate, "--set", "timed_ms_max=100", *policy)
                    self.assertEqual({verdict(record)}, expected, record["verdict"])
                    seen |= expected
        self.assertEqual(seen, {"valid", "incorrect", "load_error", "runtime_error", "timeout",
                                "out_of_memory", "unparsable", "suspect"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
