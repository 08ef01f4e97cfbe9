"""The real service in a temporary folder, for end-to-end tests.

Nothing here waits for time: every wait is for a line of output, a process' end or a deadline.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

from processes import become_subreaper, descendants

BIN = os.environ["PIKE_BIN_DIR"]
PYTHON = os.environ["PIKE_PYTHON"]
PIKE = os.path.join(BIN, "pike")
# One for all tests: judge and runner are compiled once.
CACHE = os.path.join(os.path.dirname(os.path.abspath(BIN)), "test-cache")


class Lines:
    """Reads a child's output line by line, with a deadline."""

    def __init__(self, stream, sink=None):
        os.set_blocking(stream.fileno(), False)
        self._stream, self._buffer, self._sink = stream, b"", sink
        self._selector = selectors.DefaultSelector()
        self._selector.register(stream, selectors.EVENT_READ)

    def next(self, deadline):
        """The next line without its end, or None at the end of the stream."""
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise TimeoutError(f"no line in time; so far: {self._buffer!r}")
            chunk = os.read(self._stream.fileno(), 65536)
            if not chunk:
                if not self._buffer:
                    return None
                self._buffer += b"\n"
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        text = line.decode(errors="replace")
        if self._sink is not None:
            self._sink.append(text)
        return text


class Service:
    """`pike up` with its own runtime and state folders, without a GPU. Use as a context manager."""

    def __init__(self, *flags, ready_timeout_s=180, canaries="off"):
        self.folder = tempfile.mkdtemp(prefix="pike_e2e.")
        self.store = os.path.join(self.folder, "store")
        self.runtime = os.path.join(self.folder, "run")
        os.mkdir(self.runtime, 0o700)
        self.env = dict(os.environ, PIKE_RUNTIME_DIR=self.runtime, NO_COLOR="1")
        self.env.pop("PIKE_SERVICE", None)
        self.flags = flags
        self.canaries = canaries
        self.ready_timeout_s = ready_timeout_s
        self.log = os.path.join(self.folder, "up.log")

    def __enter__(self):
        become_subreaper()
        self._log_file = open(self.log, "wb")
        given = {flag.split("=", 1)[0] for flag in self.flags}
        usual = {"--cache-dir": CACHE, "--metrics-base-port": "off", "--gpus": "none",
                 "--canaries": self.canaries}
        flags = [f"{name}={value}" for name, value in usual.items() if name not in given]
        self.process = subprocess.Popen(
            [PIKE, "up", "--store", self.store, "--python", PYTHON, *flags, *self.flags],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log_file)
        self._lines = Lines(self.process.stdout)
        deadline = time.monotonic() + self.ready_timeout_s
        while True:
            line = self._lines.next(deadline)
            if line is None:
                raise RuntimeError(f"pike up ended with {self.process.wait()}: {self.log_text()}")
            if "ready" in line:
                return self

    def __exit__(self, *unused):
        try:
            self.stop()
        finally:
            self._log_file.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def log_text(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-8000:]

    def stop(self):
        """Stops the service as Ctrl-C does and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def pike(self, *arguments, timeout_s=300):
        """Runs one `pike` command to its end."""
        return subprocess.run([PIKE, *arguments], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=timeout_s)

    def evaluate(self, task, candidate, *flags, on_line=None, timeout_s=300):
        """Evaluates one candidate; returns (EvaluationRecord as a dict, exit status).

        `on_line(text)` sees every progress line as it comes.
        """
        with subprocess.Popen(
                [PIKE, "eval", task, candidate, "--json", *flags], env=self.env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            progress, deadline = [], time.monotonic() + timeout_s
            lines = Lines(child.stderr, progress)
            while (line := lines.next(deadline)) is not None:
                if on_line is not None:
                    on_line(line)
            output = child.stdout.read().decode(errors="replace")
            status = child.wait(timeout=30)
        records = [json.loads(text) for text in output.splitlines() if text.strip()]
        if len(records) != 1:
            raise AssertionError(f"expected one record, got {output!r}; progress: {progress}; "
                                 f"service: {self.log_text()}")
        return records[0], status

    def processes(self, *, name=None, argument=None):
        """Pids of this service's processes by name and by a piece of their command line."""
        return sorted(pid for pid, (process, line) in descendants(self.process.pid).items()
                      if (name is None or process == name[:15])
                      and (argument is None or argument in line))


def verdict(record):
    """Short name of a record's verdict: "valid", "runtime_error", ..."""
    return record["verdict"]["kind"].removeprefix("VERDICT_KIND_").lower()


def wait_for_no_descendants(deadline_s=30):
    """Waits until no process below this one is left; needs `become_subreaper`."""
    deadline = time.monotonic() + deadline_s
    while left := descendants(os.getpid()):
        if time.monotonic() > deadline:
            raise AssertionError(f"processes left over: {left}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                fd = os.pidfd_open(pid)
                try:
                    with selectors.DefaultSelector() as selector:
                        selector.register(fd, selectors.EVENT_READ)
                        selector.select(max(0.0, deadline - time.monotonic()))
                finally:
                    os.close(fd)
