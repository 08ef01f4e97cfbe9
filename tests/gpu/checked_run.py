"""A Run that keeps whole records, sees processes and GPU memory, and collects what did not hold."""

import json
import os
import subprocess
import sys

import run_on_gpu

sys.path.insert(0, os.path.join(run_on_gpu.ROOT, "tests", "integration", "e2e"))

import processes

QUERY_TIMEOUT_S = 20


class CheckedRun(run_on_gpu.Run):
    """One service for one test. Everything it starts ends in `end`."""

    def __init__(self, arguments):
        super().__init__(arguments)
        self.records = {}  # by suite and candidate's name
        self.failures = []
        self.is_on_gpu = run_on_gpu.has_gpu() and not arguments.without_gpu

    def _note(self, suite, line, expected):
        try:
            record = json.loads(line)
            self.records[suite, record["candidateName"]] = record
        except (ValueError, KeyError):
            pass
        return super()._note(suite, line, expected)

    def check(self, is_true, text):
        """Notes `text` as a failure unless `is_true`; goes on in any case."""
        if not is_true:
            self.failures.append(text)
            self.say("FAILED: " + text)
        return bool(is_true)

    def processes(self):
        """{pid: (name, command line)} of the service."""
        return processes.descendants(self.service.pid)

    def pike(self, *arguments):
        """The output of one `pike` command."""
        return subprocess.run([self.pike_program, *arguments], env=self.env, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout

    def ask_gpu(self, what):
        """A number that nvidia-smi knows (of several GPUs the sum), or None without a GPU."""
        if not self.is_on_gpu:
            return None
        done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True)
        return sum(int(line) for line in done.stdout.split())

    def write(self, name, text):
        with open(os.path.join(self.arguments.out, name), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        print(text, flush=True)


def table_of(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = ["" if cell is None else str(cell).replace("|", "/").replace("\n", " ") for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kind_of(record):
    return record.get("verdict", {}).get("kind", "none").removeprefix("VERDICT_KIND_").lower()


def run_test(arguments, test):
    """Starts the service, runs test(run), stops it in all cases; the exit status."""
    if arguments.skip_without_gpu and not run_on_gpu.has_gpu():
        print("no GPU here")
        return 77
    processes.become_subreaper()
    run = CheckedRun(arguments)
    try:
        if run.check(run.start_service(), "the service did not start"):
            test(run)
    finally:
        run.end()
    left = processes.descendants(os.getpid())
    for pid in left:
        os.kill(pid, 9)
    run.failures += [f"left over: {left}"] if left else []
    print("\n".join(["FAILED: " + text for text in run.failures] or ["all held"]), flush=True)
    return 1 if run.failures else 0
