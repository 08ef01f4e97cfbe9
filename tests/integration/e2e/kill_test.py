"""kill -9 of each process in mid-evaluation: one correct verdict, nothing locked, no orphan."""

import fcntl
import glob
import os
import signal
import unittest

from service import Service, verdict, wait_for_no_descendants

HERE = os.path.dirname(os.path.abspath(__file__))
TASK = os.path.join(HERE, "slow_task.py")
CANDIDATE = os.path.join(HERE, "slow_candidate.py")


class KillTest(unittest.TestCase):
    # One service for all five: each kill also has to leave something behind that the next can use.
    @classmethod
    def setUpClass(cls):
        cls.service = Service("--compile-slots", "1").__enter__()
        cls.addClassCleanup(wait_for_no_descendants)
        cls.addClassCleanup(cls.service.__exit__, None, None, None)

    def kill_once(self, stage, find):
        """Evaluates, kills what `find` names when progress first shows `stage`, returns the record."""
        killed = []

        def on_line(line):
            # "queued (compile)" is not yet "compile".
            if not killed and stage in line and f"({stage})" not in line:
                victims = find()
                self.assertTrue(victims, f"nothing to kill at {stage!r}: {line!r}")
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                killed.extend(victims)

        record, _ = self.service.evaluate(TASK, CANDIDATE, on_line=on_line)
        self.assertTrue(killed, f"never saw {stage!r}")
        self.assertEqual(verdict(record), "valid", record["verdict"])
        self.check_library(record)
        self.check_unlocked()
        return record

    def check_repeated(self, record):
        """The kill ended an attempt, which the verdict tells of."""
        self.assertTrue(record["verdict"]["evidence"].get("earlierAttempts"), record["verdict"])

    def check_library(self, record):
        """The library holds this evaluation once, with the same verdict."""
        listed = self.service.pike("list", "--json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(listed.stdout.count(record["evaluationId"]), 1)
        again = self.service.pike("get", record["evaluationId"], "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("VERDICT_KIND_VALID", again.stdout)

    def check_unlocked(self):
        locks = glob.glob(os.path.join(self.service.runtime, "locks", "*.lock"))
        self.assertTrue(locks)
        for path in locks:
            with open(path) as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if somebody holds it

    def test_coordinator(self):
        before = self.service.processes(name="pike-coordinator")
        record = self.kill_once("verify", lambda: before)
        # Another process, and the lease of before: nothing was done twice.
        after = self.service.processes(name="pike-coordinator")
        self.assertEqual(len(after), 1)
        self.assertNotEqual(before, after)
        self.assertEqual(record["attempt"], 1)
        self.assertNotIn("earlierAttempts", record["verdict"]["evidence"])

    def test_compile_worker(self):
        self.check_repeated(self.kill_once(
            "compile", lambda: self.service.processes(name="pike-compile-worker")))

    def test_gpu_worker(self):
        self.check_repeated(self.kill_once(
            "measure", lambda: self.service.processes(name="pike-gpu-worker")))

    def test_judge(self):
        # Idle ones, too: which one is at work cannot be seen from outside.
        self.check_repeated(self.kill_once(
            "measure", lambda: self.service.processes(argument="judge_main.py")))

    def test_runner(self):
        self.check_repeated(self.kill_once(
            "measure", lambda: self.service.processes(name="pike_slow")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
