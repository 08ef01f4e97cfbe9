#!/usr/bin/env python3
"""Runs an unpacked bundle on this machine: doctor, service, examples, hostile and faulty candidates, suites.

  tests/gpu/run_on_gpu.py --pike ~/pike-0.1.0-linux-x86_64/bin --out /tmp/out
  tests/gpu/run_on_gpu.py --pike build/release/bin --out out --suite level3 TASKS CANDIDATES

Needs nothing but Python and the bundle. Writes facts.txt (this machine and `pike doctor`),
results.jsonl (each evaluation), table.md, summary.json, service.log and progress.log to --out, each
of bounded size, and ends every process it started. Exit status: 0 if every candidate of the examples
and of the hostile ones got the verdict that its head announces and every evaluation of a suite
ended without an infra_error, else 1.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LOG_HEAD_BYTES = 4 << 20
LOG_TAIL_BYTES = 1 << 20
RESULTS_BYTES_MAX = 14 << 20
STOP_S = 40
FAULTS_AT_ONCE = 2  # each hurts its neighbours, which are tried again alone: more only wait

FACTS = """uname -r; date -u; id; grep PRETTY /etc/os-release; nproc; head -n 3 /proc/meminfo; df -h / /tmp
python3 --version; g++ --version | head -n 1; command -v setpriv prlimit bwrap nvcc g++ cc
ls -l /dev/nvidia* /dev/fuse /dev/shm; cat /proc/driver/nvidia/version; ldconfig -p | grep -E 'libcuda|libnvidia-ml'
nvidia-smi; nvidia-smi --query-gpu=uuid,name,persistence_mode,compute_mode,mig.mode.current,clocks.sm --format=csv
nvidia-smi -q -d CLOCK,PERFORMANCE,ECC | head -n 80
grep -E 'cgroup|nvidia' /proc/self/mounts; cat /proc/self/cgroup; cat /sys/fs/cgroup/cgroup.controllers
cat /sys/fs/cgroup/cgroup.subtree_control
sysctl kernel.apparmor_restrict_unprivileged_userns kernel.unprivileged_userns_clone user.max_user_namespaces
env | grep -E '^(LD_|CUDA|NVIDIA|TORCH|PATH|PYTHON|NCCL)'; ulimit -a"""


class CappedFile:
    """A file that keeps the head and the tail of what is written to it."""

    def __init__(self, path, head=LOG_HEAD_BYTES, tail=LOG_TAIL_BYTES):
        self._file, self._left, self._tail_max = open(path, "wb", buffering=0), head, tail
        self._tail, self._tail_bytes, self._dropped = collections.deque(), 0, 0
        self._lock = threading.Lock()

    def write(self, data):
        with self._lock:
            head, rest = data[: self._left], data[self._left :]
            self._file.write(head)
            self._left -= len(head)
            if not rest:
                return
            self._tail.append(rest)
            self._tail_bytes += len(rest)
            while self._tail_bytes > self._tail_max and len(self._tail) > 1:
                self._tail_bytes -= len(self._tail[0])
                self._dropped += len(self._tail.popleft())

    def close(self):
        with self._lock:
            if self._dropped:
                self._file.write(f"\n[... {self._dropped} bytes left out ...]\n".encode())
            self._file.write(b"".join(self._tail))
            self._file.close()


class Run:
    """One run: its folders, its clock, its service."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.began = time.monotonic()
        self.deadline = self.began + arguments.budget
        os.makedirs(arguments.out, exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix="pike_gpu.")
        os.mkdir(os.path.join(self.folder, "run"), 0o700)
        self.env = dict(os.environ, NO_COLOR="1", PIKE_RUNTIME_DIR=os.path.join(self.folder, "run"),
                        XDG_DATA_HOME=os.path.join(self.folder, "data"))
        self.env.pop("PIKE_SERVICE", None)
        self.pike_program = os.path.join(os.path.abspath(arguments.pike), "pike")
        self.progress = CappedFile(os.path.join(arguments.out, "progress.log"))
        self.results = CappedFile(os.path.join(arguments.out, "results.jsonl"), RESULTS_BYTES_MAX, 0)
        self.rows = []
        self.seconds = {}
        self.service = None
        self._lock = threading.Lock()

    def say(self, text):
        line = f"[{time.monotonic() - self.began:7.1f} s] {text}"
        print(line, flush=True)
        self.progress.write(line.encode() + b"\n")

    def left_s(self):
        return self.deadline - time.monotonic()

    def note_facts(self):
        """The machine, and what `pike doctor` says about it."""
        done = subprocess.run(["/bin/bash", "-c", FACTS], stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.env)
        flags = ["--python", self.arguments.python] if self.arguments.python else []
        doctor = subprocess.run([self.pike_program, "doctor", *flags], env=self.env, timeout=120,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        with open(os.path.join(self.arguments.out, "facts.txt"), "wb") as file:
            file.write(done.stdout[:1 << 20] + b"\n---- pike doctor\n" + doctor.stdout[:1 << 20])
        self.say(f"pike doctor ended with {doctor.returncode}:")
        for line in doctor.stdout.decode(errors="replace").splitlines():
            self.say("  " + line)

    # ---- the service ---------------------------------------------------------------------------

    def start_service(self):
        """Starts `pike up` and waits until it is ready."""
        began = time.monotonic()
        command = [self.pike_program, "up", *self.arguments.up_option]
        if self.arguments.python:
            command += ["--python", self.arguments.python]
        self.say("starting " + " ".join(command))
        log = CappedFile(os.path.join(self.arguments.out, "service.log"))
        self.service = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        ready = threading.Event()
        self.log_pump = threading.Thread(target=self._pump, args=(log, ready))
        self.log_pump.start()
        ready.wait(min(self.arguments.ready_timeout, max(1, self.left_s())))
        self.seconds["ready"] = time.monotonic() - began
        is_ready = ready.is_set() and self.service.poll() is None
        self.say(f"{'ready' if is_ready else 'NOT READY'} after {self.seconds['ready']:.1f} s")
        return is_ready

    def _pump(self, log, ready):
        for line in self.service.stdout:
            log.write(line)
            text = line.decode(errors="replace").rstrip()
            if not ready.is_set():
                self.say("  up: " + text[:300])
            if "is ready" in text:
                ready.set()
        ready.set()  # it ended
        log.close()

    def stop_service(self):
        if self.service is None:
            return
        self.service.send_signal(signal.SIGTERM)
        try:
            status = self.service.wait(STOP_S)
            self.say(f"the service ended with {status}")
        except subprocess.TimeoutExpired:
            self.say(f"the service did not end in {STOP_S} s: killed")
            os.killpg(self.service.pid, signal.SIGKILL)
            self.service.wait()
        self.log_pump.join(STOP_S)

    # ---- evaluations ---------------------------------------------------------------------------

    def evaluate(self, suite, words, expected=None):
        """One `pike eval`; its records become rows as they come."""
        if self.left_s() < 1:
            return
        command = [self.pike_program, "eval", *words, "--json", *self.arguments.eval_option]
        with subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            watchdog = threading.Timer(max(0.1, self.left_s()), child.send_signal, [signal.SIGINT])
            watchdog.start()
            errors = collections.deque(maxlen=20)
            pump = threading.Thread(target=lambda: errors.extend(child.stderr))
            pump.start()
            count = 0
            for line in child.stdout:
                count += self._note(suite, line, expected)
            pump.join()
            status = child.wait()
            watchdog.cancel()
        if count == 0 or status not in (0, 1):
            text = b" | ".join(errors).decode(errors="replace").replace("\n", " ")
            self.say(f"{suite}: `pike eval {' '.join(words)}` ended with {status}: {text[-600:]}")
            if count == 0:
                with self._lock:
                    self.rows.append(report.missing_row(suite, words, expected))

    def _note(self, suite, line, expected):
        try:
            record = json.loads(line)
        except ValueError:
            return 0
        row = report.row_of(suite, record, expected)
        with self._lock:
            self.rows.append(row)
            number = len(self.rows)
        self.results.write(json.dumps({"suite": suite, **report.shorten(record)}).encode() + b"\n")
        self.say(f"{number:4} {report.one_line(row)}")
        return 1

    def run_announced(self, suite, candidates, task_of):
        """Candidates whose heads say what to expect, each with its own policy."""
        with concurrent.futures.ThreadPoolExecutor(self.arguments.parallel) as pool:
            jobs = []
            for path in candidates:
                expected, policy, needs_gpu = report.read_head(path)
                if needs_gpu and self.arguments.without_gpu:
                    continue
                words = [task_of(path), path]
                for assignment in policy:
                    words += ["--set", assignment]
                jobs.append(pool.submit(self.evaluate, suite, words, expected))
            for job in jobs:
                job.result()

    def run_faults(self, folder):
        """Each candidate that breaks something on the GPU, with a good one right after it."""
        task, good = os.path.join(folder, "task.py"), os.path.join(folder, "good", "well_behaved.py")

        def evaluate_both(path):
            expected, policy, _ = report.read_head(path)
            settings = [word for assignment in policy for word in ("--set", assignment)]
            self.evaluate("faults", [task, path, *settings], expected)
            self.evaluate("faults", [task, good], report.read_head(good)[0])

        paths = [path for path in report.candidates_in(folder) if path != good]
        with concurrent.futures.ThreadPoolExecutor(FAULTS_AT_ONCE) as pool:
            list(pool.map(evaluate_both, paths))

    def run_suite(self, name, tasks, candidates):
        words = ["--suite", tasks]
        for folder in candidates:
            words += ["--candidates", folder]
        self.evaluate(name, words)

    def timed(self, name, function, *arguments):
        """Runs one part if there is time left; its seconds go to the summary."""
        if self.left_s() < 5:
            self.say(f"{name}: left out, the budget of {self.arguments.budget} s is used up")
            return
        began, before = time.monotonic(), len(self.rows)
        self.say(f"---- {name}")
        function(*arguments)
        took = time.monotonic() - began
        self.seconds[name] = took
        count = len(self.rows) - before
        self.say(f"---- {name}: {count} evaluations in {took:.1f} s, {count / took * 3600:.0f} per hour")
        report.write(self.arguments.out, self.rows, self.seconds)

    def run_parts(self):
        """All that was asked for, in order."""
        arguments = self.arguments
        if arguments.examples:
            tasks = os.path.join(arguments.examples, "tasks")
            by_number = {name[:2]: os.path.join(tasks, name) for name in sorted(os.listdir(tasks))}
            self.timed("references", self.run_suite, "references", tasks, ["reference"])
            self.timed("examples", self.run_announced, "examples",
                       report.candidates_in(os.path.join(arguments.examples, "candidates")),
                       lambda path: by_number[os.path.basename(path)[:2]])
        if arguments.hostile:
            self.timed("hostile", self.run_announced, "hostile",
                       report.candidates_in(arguments.hostile),
                       lambda _: os.path.join(arguments.hostile, "task.py"))
        if arguments.faults:
            self.timed("faults", self.run_faults, arguments.faults)
        for name, tasks, *candidates in arguments.suite:
            self.timed(name, self.run_suite, name, tasks, candidates)

    def end(self):
        self.stop_service()
        shutil.rmtree(self.folder, ignore_errors=True)
        if shutil.which("nvidia-smi"):
            used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"],
                                  capture_output=True, text=True, timeout=30)
            self.say(f"GPU memory in use at the end: {used.stdout.strip()}")
        table = report.write(self.arguments.out, self.rows, self.seconds)
        print(table, flush=True)
        self.results.close()
        self.progress.close()


def common_parser(description, budget):
    """The options of everything here that runs a service."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--pike", required=True, help="folder of the programs, bin/ of the bundle")
    parser.add_argument("--out", required=True, help="folder for tables and logs")
    parser.add_argument("--python", default="", help="Python with PyTorch (default: as pike up)")
    parser.add_argument("--examples", default=os.path.join(ROOT, "examples"),
                        help="folder with tasks/ and candidates/; empty: none")
    parser.add_argument("--without-gpu", action="store_true", help="leave out what needs a GPU")
    parser.add_argument("--skip-without-gpu", action="store_true",
                        help="end at once with status 77 on a machine without one")
    parser.add_argument("--budget", type=float, default=budget, help="seconds for all, then it ends")
    parser.add_argument("--ready-timeout", type=float, default=240, help="seconds for pike up")
    parser.add_argument("--up-option", action="append", default=[], metavar="WORD",
                        help="for pike up, as in --up-option=--gpus=all; repeatable")
    parser.add_argument("--eval-option", action="append", default=[], metavar="WORD",
                        help="for each pike eval, as in --eval-option=--atol=1e-2; repeatable")
    return parser


def parse_arguments():
    parser = common_parser(__doc__, budget=540)
    parser.add_argument("--hostile", default=os.path.join(ROOT, "tests/integration/hostile"),
                        help="folder with task.py and candidates; empty: none")
    parser.add_argument("--faults", default="",
                        help="folder with task.py, faulty candidates and good/well_behaved.py, as "
                        "tests/gpu/faults; empty: none")
    parser.add_argument("--suite", action="append", nargs="+", default=[], metavar="WORD",
                        help="NAME TASKS CANDIDATES...: folders, or reference; repeatable")
    parser.add_argument("--parallel", type=int, default=8, help="pike eval at once in the examples")
    arguments = parser.parse_args()
    for words in arguments.suite:
        if len(words) < 3:
            parser.error("--suite wants NAME TASKS CANDIDATES...")
    return arguments


def has_gpu():
    return os.path.exists("/dev/nvidia0")


def main():
    arguments = parse_arguments()
    if arguments.skip_without_gpu and not has_gpu():
        print("no GPU here")
        return 77
    run = Run(arguments)
    try:
        run.note_facts()
        if run.start_service():
            run.run_parts()
    finally:
        run.end()
    return 0 if report.is_good(run.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
