"""Judge and runners as processes: what is honest passes, what is not ends with the right outcome."""

import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge_driver import LINEAR_TASK, Bench, linear


class LinearTest(unittest.TestCase):
    """One task with candidates that differ in one line."""

    @classmethod
    def setUpClass(cls):
        cls.bench = Bench(LINEAR_TASK)

    @classmethod
    def tearDownClass(cls):
        cls.bench.close()

    def evaluate(self, body, **policy):
        return self.bench.evaluate(linear(body), **policy)

    def check_mismatch(self, body, text):
        result = self.evaluate(body)[-2]
        self.assertEqual((result["outcome"], result["side"]), ("mismatch", "candidate"), result)
        self.assertIn(text, result["correctness"]["first_failure"])
        return result

    def test_the_task_is_described(self):
        opened = self.bench.opened
        self.assertEqual(opened["type"], "task_ready", opened)
        self.assertEqual(opened["inputs"], [{"path": "out[0]", "dtype": "float32", "shape": [16, 32]}])
        self.assertEqual(opened["outputs"], [{"path": "out", "dtype": "float32", "shape": [16, 32]}])

    def test_an_honest_candidate_passes_and_is_timed(self):
        first, verified, measured, ended = self.evaluate("return y")
        self.assertEqual([r["outcome"] for r in (first, verified, measured)], ["done"] * 3)
        self.assertEqual(ended, {"type": "ended", "violation": ""})
        correctness = measured["correctness"]
        self.assertEqual((correctness["calls_compared"], correctness["calls_passed"]), (18, 18))
        self.assertEqual(measured["reference"]["calls_passed"], 18)
        self.assertFalse(correctness["input_mutated"])
        self.assertEqual(correctness["outputs"][0]["elements"], 512)
        samples = measured["samples"]
        self.assertEqual({len(values) for values in samples.values()}, {10})
        for side in ("candidate", "reference"):
            for claim, wall in zip(samples[f"{side}_claim_ns"], samples[f"{side}_wall_ns"]):
                self.assertGreater(claim, 0)
                self.assertGreater(wall, claim)

    def test_wrong_values(self):
        result = self.check_mismatch("return y + 0.1", "elements out of tolerance")
        output = result["correctness"]["outputs"][0]
        self.assertAlmostEqual(output["max_abs_error"], 0.1, places=5)
        self.assertEqual(len(output["first_mismatch"]), 2)

    def test_wrong_shape_dtype_structure(self):
        self.check_mismatch("return y[:, :1]", "expected shape [16, 32], got [16, 1]")
        self.check_mismatch("return y.double()", "expected dtype float32, got float64")
        self.check_mismatch("return (y,)", "expected a tensor, got a tuple of 1")
        self.check_mismatch("return y.sum()", "got []")
        self.check_mismatch("return None", "expected a tensor, got None")

    def test_outputs_that_cannot_cross(self):
        self.check_mismatch("return object()", "object of type object")
        self.check_mismatch("return y.to_sparse()", "not plain and dense")
        self.check_mismatch("return y.to('meta')", "out: a tensor")
        self.check_mismatch("return torch.zeros(1 << 20)", "outputs larger than")

    def test_not_a_number(self):
        self.check_mismatch("y[3, 4] = float('nan'); return y", "got nan")
        result = self.check_mismatch("y[0, 1] = float('inf'); return y", "first at [0, 1]")
        self.assertEqual(result["correctness"]["outputs"][0]["max_abs_error"], "inf")

    def test_a_frozen_first_answer_is_caught(self):
        body = "self.kept = getattr(self, 'kept', y); return self.kept"
        result = self.check_mismatch(body, "call 2")
        self.assertEqual(result["op"], "verify")

    def test_an_answer_that_turns_wrong_while_timed_is_caught(self):
        result = self.check_mismatch("return y if self.calls < 12 else y * 0", "call 12")
        self.assertEqual(result["op"], "measure")

    def test_a_kept_input_keeps_its_values(self):
        body = """
        before = getattr(self, 'input', x)
        assert self.calls == 1 or torch.equal(before, self.copy)
        self.input, self.copy = x, x.clone()
        return y"""
        self.assertEqual(self.evaluate(body)[-2]["outcome"], "done")

    def test_a_changed_input_is_reported_only(self):
        result = self.evaluate("x.zero_(); return y")[-2]
        self.assertEqual(result["outcome"], "done")
        self.assertTrue(result["correctness"]["input_mutated"])

    def test_an_input_whose_memory_is_dropped(self):
        result = self.evaluate("x.set_(torch.zeros(3)); return y")[-2]
        self.assertEqual(result["outcome"], "done", result)

    def test_outputs_of_other_layouts(self):
        result = self.evaluate("return y.t().contiguous().t()")[-2]
        self.assertEqual(result["outcome"], "done", result)
        result = self.evaluate("return torch.nn.Parameter(y)")[-2]
        self.assertEqual(result["outcome"], "done", result)

        result = self.evaluate("with torch.inference_mode(): return self.right(x, scale)")[-2]
        self.assertEqual(result["outcome"], "done", result)

    def test_what_a_lazy_output_computes_is_on_the_clock(self):
        body = """
        class Lazy(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                time.sleep(0.02)
                return super().__torch_function__(function, types, args, kwargs or {})
        return y.as_subclass(Lazy)"""
        result = self.evaluate(body)[-2]
        self.assertEqual(result["outcome"], "done", result)
        self.assertGreater(min(result["samples"]["candidate_claim_ns"]), 20_000_000)

    def test_a_call_that_raises(self):
        result = self.evaluate("if self.calls == 3: raise ValueError('no \\\\udc80 luck')\n        return y")[-2]
        self.assertEqual((result["outcome"], result["side"]), ("call_failed", "candidate"), result)
        self.assertEqual((result["error_type"], result["kind"], result["call"]), ("ValueError", "exception", 3))
        self.assertIn("luck", result["text"])
        self.assertNotIn("runner_main", result["text"])
        result = self.evaluate("raise MemoryError()")[-2]
        self.assertEqual((result["outcome"], result["kind"]), ("call_failed", "memory"))
        result = self.evaluate("torch.empty(1 << 50)")[-2]
        self.assertEqual((result["outcome"], result["kind"]), ("call_failed", "memory"))

    def test_a_runner_that_dies_in_a_call(self):
        for body in ("os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"):
            result = self.evaluate(f"{body}")[-2]
            self.assertEqual((result["outcome"], result["side"]), ("runner_gone", "candidate"), result)

    def test_a_call_that_does_not_end(self):
        result = self.evaluate("time.sleep(60)", first_call_timeout_ms=300)[-2]
        self.assertEqual((result["outcome"], result["side"]), ("call_timeout", "candidate"), result)
        self.assertLess(result["elapsed_ms"], 10000)

    def test_records_that_nobody_asked_for(self):
        send = """
        import socket
        for fd in range(3, 64):
            try:
                s = socket.socket(fileno=os.dup(fd))
                if s.type == socket.SOCK_SEQPACKET: s.send({message})
                s.close()
            except OSError: pass
        return y"""
        judge_fds = f"/proc/{self.bench.judge.pid}/fd"
        before = os.listdir(judge_fds)
        with_fds = "b'x'); socket.send_fds(s, [b'x'], [0, 1, 2]"
        for message in ("b''", "b'x'", "bytes(17480)", "bytes(100000)", with_fds):
            result = self.evaluate(send.replace("{message}", message))[-2]
            self.assertEqual((result["outcome"], result["side"]), ("violation", "candidate"), result)
        self.assertEqual(len(os.listdir(judge_fds)), len(before))

    def test_a_record_before_its_call(self):
        early = """
        if self.calls == 2:
            import socket, threading
            def late():
                time.sleep(0.2)
                for fd in range(3, 64):
                    try:
                        s = socket.socket(fileno=os.dup(fd))
                        if s.type == socket.SOCK_SEQPACKET: s.send(b'early')
                        s.close()
                    except OSError: pass
            threading.Thread(target=late).start()
        return y"""
        candidate, reference = self.bench.start_runners(linear(early))
        try:
            self.bench.begin(candidate.judge_end.fileno(), reference.judge_end.fileno())
            self.assertEqual(self.bench.judge.request({"type": "first_call"})["outcome"], "done")
            one = {"type": "verify", "calls": 1}
            self.assertEqual(self.bench.judge.request(one)["outcome"], "done")
            # The sockets are shared with the judge, so its queue can be looked at from here.
            self.assertTrue(candidate.judge_end.recv(1, 2))  # 2: MSG_PEEK
            result = self.bench.judge.request(one)
            self.assertEqual((result["outcome"], result["side"]), ("violation", "candidate"), result)
            self.bench.judge.request({"type": "end"})
        finally:
            candidate.stop()
            reference.stop()

    def test_held_time_is_not_charged_and_abort_ends(self):
        # A candidate that tells when it has begun, and when it has slept longer than it may.
        pipes = [self.bench.write(name, "") for name in ("begun", "slept")]
        for pipe in pipes:
            os.unlink(pipe)
            os.mkfifo(pipe)
        begun, slept = (f"open({pipe!r}, 'w').close()" for pipe in pipes)
        body = f"{begun}; time.sleep(9); {slept}; return y"
        candidate, reference = self.bench.start_runners(linear(body))
        try:
            fds = candidate.judge_end.fileno(), reference.judge_end.fileno()
            self.bench.begin(*fds, first_call_timeout_ms=8000)
            channel = self.bench.judge.channel
            channel.send({"type": "first_call"})
            open(pipes[0]).close()
            channel.send({"type": "hold"})
            open(pipes[1]).close()
            channel.send({"type": "resume"})
            self.assertEqual(channel.recv()[0]["outcome"], "done")
            channel.send({"type": "verify", "calls": 50})
            channel.send({"type": "abort"})
            self.assertEqual(channel.recv()[0]["outcome"], "aborted")
            self.bench.judge.request({"type": "end"})
        finally:
            candidate.stop()
            reference.stop()


class CallContentsTest(unittest.TestCase):
    """What a runner is told, byte by byte."""

    def test_a_call_holds_its_input_and_nothing_secret(self):
        import array
        import socket

        header = struct.Struct("<IIQQQQQQIIII")
        bench = Bench(LINEAR_TASK)
        ours, judges = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.settimeout(20)
            bench.begin(judges.fileno(), judges.fileno())
            bench.judge.channel.send({"type": "first_call"})
            record, ancillary, _, _ = ours.recvmsg(1 << 16, socket.CMSG_SPACE(16))
            magic, kind, nonce, seed, *rest = header.unpack_from(record)
            self.assertEqual((len(record), magic, kind), (17480, 0x4B495031, 3))
            self.assertFalse(ancillary, "there is no input yet")
            self.assertEqual((rest[:3], rest[4:]), ([0, 0, 0], [0, 0, 0, 0]))
            self.assertGreater(rest[3], 16 * 32 * 4)
            self.assertFalse(any(record[header.size :]))
            ready = header.pack(magic, 4, nonce, *[0] * 9) + bytes(17480 - header.size)
            memory = os.open("/proc/self/mem", os.O_RDONLY)
            socket.send_fds(ours, [ready], [memory])
            os.close(memory)

            record, ancillary, _, _ = ours.recvmsg(1 << 16, socket.CMSG_SPACE(16))
            magic, kind, second, no_seed, claim, returned, inputs, outputs, status, flags, tensors, text = (
                header.unpack_from(record)
            )
            self.assertEqual((len(record), magic, kind), (17480, 0x4B495031, 1))
            self.assertEqual((no_seed, claim, returned, outputs, status, flags, tensors), (0, 0, 0, 0, 0, 0, 1))
            self.assertEqual(len({nonce, seed, second}), 3)
            self.assertEqual(record[72 : 72 + text], b"(TF4000000000000000)")
            used = 72 + text, 72 + 4096 + 208
            self.assertFalse(any(record[used[0] : 72 + 4096]) or any(record[used[1] :]))
            fds = array.array("i", ancillary[0][2])
            self.assertEqual([os.fstat(fd).st_size for fd in fds], [inputs])
            with self.assertRaises(OSError):
                os.ftruncate(fds[0], 0)
            with self.assertRaises(OSError):
                os.pwrite(fds[0], b"x", 0)
            with self.assertRaises(OSError):
                os.open(f"/proc/self/fd/{fds[0]}", os.O_RDWR | os.O_TRUNC)
            content = os.pread(fds[0], 1 << 20, 0)
            self.assertFalse(any(content[16 * 32 * 4 :]))
            # The public seed is not the one the input was made with.
            import torch

            torch.manual_seed(seed)
            self.assertNotEqual(torch.randn(16, 32).numpy().tobytes(), content[: 16 * 32 * 4])
        finally:
            ours.close()
            judges.close()
            bench.close()


if __name__ == "__main__":
    unittest.main()
