"""Hostile candidates end with the right verdict inside their deadline and hurt nobody after them."""

import os
import shutil
import unittest

from service import HOSTILE, Service, announced, verdict, wait_for_no_descendants

TASK = os.path.join(HOSTILE, "task.py")
HONEST = os.path.join(HOSTILE, "09_well_behaved.py")
QUICK = ("--set", "timed_ms_max=50", "--set", "timed_calls_max=10")
DISK_BYTES_MAX = 256 << 20


class HostileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(wait_for_no_descendants)
        cls.service = cls.enterClassContext(Service("--compile-slots", "1"))

    def check(self, name):
        path = os.path.join(HOSTILE, name)
        expected, policy = announced(path)
        free_before = shutil.disk_usage(self.service.folder).free
        record, _ = self.service.evaluate(TASK, path, *QUICK, *policy)
        self.assertIn(verdict(record), expected, record["verdict"])
        self.assertEqual(record["attempt"], 1, record["verdict"])
        used = free_before - shutil.disk_usage(self.service.folder).free
        self.assertLess(used, DISK_BYTES_MAX, "it filled the disk")
        after, _ = self.service.evaluate(TASK, HONEST, *QUICK)
        self.assertEqual((verdict(after), after["attempt"]), ("valid", 1), after["verdict"])


def _add_tests():
    names = [name for name in sorted(os.listdir(HOSTILE)) if name[0].isdigit()]
    assert len(names) >= 9, names
    for name in names:
        setattr(HostileTest, "test_" + name.removesuffix(".py"),
                lambda self, name=name: self.check(name))


_add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=2)
