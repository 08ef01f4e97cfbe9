"""What was acknowledged survives a restart, and a CUDA extension is built where no GPU is."""

import os
import tempfile
import unittest

from service import CANDIDATES, TASKS, Service, verdict, wait_for_no_descendants

HERE = os.path.dirname(os.path.abspath(__file__))
TASK = os.path.join(HERE, "slow_task.py")
HONEST = os.path.join(HERE, "honest_candidate.py")


class LibraryTest(unittest.TestCase):
    def test_verdict_stays_after_a_restart(self):
        self.addCleanup(wait_for_no_descendants)
        with tempfile.TemporaryDirectory(prefix="pike_e2e_store.") as store:
            with Service(store=store) as service:
                record, status = service.evaluate(TASK, HONEST)
                self.assertEqual((verdict(record), status), ("valid", 0), record["verdict"])
                self.assertEqual(service.stop(), 0)
            with Service(store=store) as service:
                again = service.pike("get", record["evaluationId"], "--json")
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertIn("VERDICT_KIND_VALID", again.stdout)
                self.assertIn(record["evaluationId"], service.pike("list").stdout)

    def test_cuda_extension_is_built_by_the_compile_worker(self):
        self.addCleanup(wait_for_no_descendants)
        folder = os.path.join(CANDIDATES, "gpu")
        name = next(name for name in sorted(os.listdir(folder)) if "cuda" in name)
        number = name.split("_")[0]
        task = next(entry for entry in sorted(os.listdir(TASKS)) if entry.startswith(number))
        with Service() as service:
            record, _ = service.evaluate(os.path.join(TASKS, task), os.path.join(folder, name))
        builds = record["verdict"]["builds"]
        self.assertTrue(builds, record)
        self.assertTrue(all(build.get("artifactSha256") for build in builds), builds)


if __name__ == "__main__":
    unittest.main(verbosity=2)
