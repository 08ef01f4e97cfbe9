"""Real workers and canaries: a good worker gets its certificate, one that misjudges gets no work."""

import json
import os
import shutil
import tempfile
import time
import unittest

from service import Service, verdict, wait_for_no_descendants

HERE = os.path.dirname(os.path.abspath(__file__))
SHARE = os.path.join(HERE, "../../../common")
TASK = os.path.join(HERE, "slow_task.py")
CANDIDATE = os.path.join(HERE, "slow_candidate.py")


def gpu_worker(service):
    """The GPU worker's record, or None."""
    listed = service.pike("workers", "--json")
    records = [json.loads(line) for line in listed.stdout.splitlines()]
    found = [record for record in records if record["kind"] == "WORKER_KIND_GPU"]
    return found[0] if found else None


class CanaryTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(wait_for_no_descendants)

    def wait_for(self, service, field, unlike="", timeout_s=240):
        """Waits until the GPU worker's record has another `field`, or fails; returns the record."""
        deadline = time.monotonic() + timeout_s
        while True:
            record = gpu_worker(service)
            if record and record.get(field, "") != unlike:
                return record
            self.assertLess(time.monotonic(), deadline, f"no {field}: {record}; {service.log_text()}")
            # The command itself takes its time, and nothing tells of a certificate.
            service.pike("version")

    def test_a_good_worker_is_certified_and_its_verdicts_say_so(self):
        with Service("--compile-slots", "1", "--gpu-slots", "1", canaries="on") as service:
            start = time.monotonic()
            worker = self.wait_for(service, "certificate")
            print(f"certified {time.monotonic() - start:.1f} s after it was ready")
            self.assertRegex(worker["certificate"], rf"^{worker['workerId']}/1/\d+$")
            self.assertNotIn("canaryFailure", worker)
            record, _ = service.evaluate(TASK, CANDIDATE)
            self.assertEqual(verdict(record), "valid", record["verdict"])
            self.assertEqual(record["verdict"]["evidence"]["certificate"], worker["certificate"])
            self.assertIn("passed", service.pike("workers").stdout)
            # The whole round, with the ones that crash, hang and leak.
            whole = self.wait_for(service, "certificate", unlike=worker["certificate"])
            self.assertRegex(whole["certificate"], rf"^{worker['workerId']}/2/\d+$")
            # Nobody's evaluations and nobody's task.
            self.assertEqual(len(service.pike("list", "--json").stdout.splitlines()), 1)
            self.assertNotIn("canary", service.pike("task", "list").stdout)

    def test_a_worker_that_misjudges_gets_no_work(self):
        share = tempfile.mkdtemp(prefix="pike_share.")
        os.chmod(share, 0o755)  # sandboxes have uids of their own
        self.addCleanup(shutil.rmtree, share)
        shutil.copytree(os.path.join(SHARE, "inside"), os.path.join(share, "inside"))
        shutil.copytree(os.path.join(SHARE, "canaries"), os.path.join(share, "canaries"))
        for folder in ("gpu_worker/judge", "gpu_worker/runner", "common/base"):
            shutil.copytree(os.path.join(SHARE, "..", folder), os.path.join(share, "native", folder))
        # A worker that calls this right looks as one that calls a wrong program right.
        shutil.copy(os.path.join(share, "canaries/good.py"), os.path.join(share, "canaries/wrong.py"))
        service = Service("--compile-slots", "1", "--gpu-slots", "1", canaries="on")
        service.env["PIKE_SHARE_DIR"] = share
        with service:
            worker = self.wait_for(service, "canaryFailure")
            self.assertEqual(worker["canaryFailure"], "canary 'wrong': valid instead of incorrect")
            self.assertEqual(worker["state"], "WORKER_STATE_DRAINING")
            record, _ = service.evaluate(TASK, CANDIDATE, "--set", "queue_timeout_ms=1000")
            self.assertEqual(verdict(record), "infra_error", record["verdict"])
            self.assertIn("draining", record["verdict"]["reason"])
            listed = service.pike("workers").stdout
            self.assertIn("FAILED", listed)
            self.assertIn(f"{worker['workerId']} gets no more work: canary 'wrong'", listed)


if __name__ == "__main__":
    unittest.main()
