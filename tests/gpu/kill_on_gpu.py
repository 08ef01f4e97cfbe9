#!/usr/bin/env python3
"""kill -9 of runner, judge and supervisor while the candidate's kernels run.

  tests/gpu/kill_on_gpu.py --pike ~/pike-0.1.0-linux-x86_64/bin --out /tmp/kills --up-option=--gpus=0

After each: one verdict, the right one, with the attempt that was lost in its evidence; GPU memory
back, no lock held, no process of the killed sandbox left, the next candidate valid. Writes kills.md
beside the logs of a Run. Without a GPU: --without-gpu --up-option=--gpus=simulated:1.
"""

import fcntl
import glob
import os
import signal
import sys
import threading
import time
import typing

import checked_run
from checked_run import kind_of, processes

HERE = os.path.dirname(os.path.abspath(__file__))
TASK = os.path.join(os.path.dirname(HERE), "integration", "e2e", "slow_task.py")
BUSY = os.path.join(HERE, "busy_candidate.py")
POLICY = ["--set", "correctness_trials=5", "--set", "warmup_calls=1", "--set", "timed_calls_max=3",
          "--set", "timed_ms_max=10", "--set", "first_call_timeout_ms=30000",
          "--set", "call_timeout_ms=20000", "--set", "load_timeout_ms=60000"]
WORKER = "pike-gpu-worker"
FRESH_S = 2.5  # the long call takes 3 s: the kill must come sooner after its kernels were queued
BUSY_PERCENT = 50
POLL_S = 0.02
CALL_DEADLINE_S = 60
EVALUATION_DEADLINE_S = 90
GONE_DEADLINE_S = 20
NEXT_DEADLINE_S = 45
MEMORY_MARGIN_MIB = 300
COLUMNS = ("killed", "in call", "processes", "GPU % at the kill", "verdict", "attempt", "earlier",
           "total s", "MiB before", "MiB after", "next", "next s")


class Kill(typing.NamedTuple):
    what: str
    call: int  # of the candidate
    attempt: int  # that gives the verdict
    earlier: tuple  # words of the evidence on the one that was lost


KILLS = (Kill("runner", 3, 1, ("its process ended in a verified call", "signal 9")),
         Kill("judge", 8, 1, ("the judge ended in a timed call",)),
         Kill("supervisor", 8, 2, ("attempt 1",)))


def victims_of(run, kill, runner):
    """Pids to kill; the warm judges die, too: which one is at work cannot be seen from outside."""
    if kill.what == "runner":
        return [runner]
    alive = run.processes()
    if kill.what == "supervisor":
        return [pid for pid, (name, _) in alive.items() if name == WORKER]
    return [pid for pid, (name, line) in alive.items()
            if "judge_main.py" in line and name.startswith("python")]


def sandbox_of(run, pid):
    """Every process of the sandbox that `pid` is in, or all below a supervisor."""
    alive = run.processes()
    top = pid
    while alive.get(top, ("",))[0] != WORKER:
        above = processes.parent_of(top)
        if alive.get(above, (WORKER,))[0] == WORKER:
            break
        top = above
    return {processes.identity(each) for each in [top, *processes.descendants(top)]} - {None}


def wait_until(is_so, deadline_s, step_s=POLL_S):
    """The value of is_so() once it is true, or its last one."""
    deadline = time.monotonic() + deadline_s
    while not (value := is_so()) and time.monotonic() < deadline:
        time.sleep(step_s)
    return value


def kill_in_call(run, kill, evaluation):
    """Waits for the call, kills; what died as identities, and the row's first cells."""
    wanted = f"pike_call_{kill.call}"

    def find():
        runners = [pid for pid, (name, _) in run.processes().items() if name == wanted]
        return runners or not evaluation.is_alive()

    found = wait_until(find, CALL_DEADLINE_S)
    seen = time.monotonic()
    runner = found[0] if isinstance(found, list) else None
    if not run.check(runner, f"{kill.what}: the candidate never came to call {kill.call}"):
        return set(), [kill.what, kill.call, 0, None]
    victims = victims_of(run, kill, runner)
    doomed = set().union(*(sandbox_of(run, pid) for pid in victims))
    load = None
    if run.is_on_gpu:  # nvidia-smi looks at the last second or less
        wait_until(lambda: run.ask_gpu("utilization.gpu") >= BUSY_PERCENT, FRESH_S - 1, 0.1)
        load = run.ask_gpu("utilization.gpu")
        run.check(load > 0, f"{kill.what}: nothing ran on the GPU in call {kill.call}")
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    late = time.monotonic() - seen
    run.say(f"killed {kill.what} {victims} {late:.2f} s into call {kill.call}, GPU at {load} %")
    run.check(victims and late < FRESH_S, f"{kill.what}: killed {victims} after {late:.2f} s")
    return doomed, [kill.what, kill.call, len(victims), load]


def check_verdict(run, kill, record):
    """One verdict, the right one, and it tells of the lost attempt."""
    verdict = record.get("verdict", {})
    earlier = verdict.get("evidence", {}).get("earlierAttempts", [])
    run.check(kind_of(record) == "valid", f"{kill.what}: {kind_of(record)}: {verdict.get('reason')}")
    run.check(record.get("attempt") == kill.attempt and len(earlier) == 1
              and all(word in earlier[0] for word in kill.earlier),
              f"{kill.what}: attempt {record.get('attempt')}, earlier: {earlier}")
    identifier = record.get("evaluationId", "none")
    run.check(run.pike("list", "--json").count(f'"{identifier}"') == 1, f"{identifier} is not listed once")
    run.check(f'"{verdict.get("kind")}"' in run.pike("get", identifier, "--json"),
              f"{identifier} has another verdict now")
    return [kind_of(record), record.get("attempt"), "; ".join(earlier),
            round(record.get("times", {}).get("totalMs", 0) / 1000, 1)]


def check_unlocked(run, kill):
    locks = glob.glob(os.path.join(run.env["PIKE_RUNTIME_DIR"], "locks", "*.lock"))
    run.check(locks, "no lock files found")
    for path in locks:
        with open(path, encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                run.check(False, f"{kill.what}: {os.path.basename(path)} is still locked")


def check_cleaned(run, kill, doomed, before):
    """Processes gone, memory back, nothing locked."""
    left = doomed

    def are_gone():
        nonlocal left
        left = {each for each in left if processes.identity(each[0]) == each}
        return not left

    run.check(wait_until(are_gone, GONE_DEADLINE_S), f"{kill.what}: still alive: {left}")
    after = None
    if run.is_on_gpu:
        wait_until(lambda: run.ask_gpu("memory.used") <= before + MEMORY_MARGIN_MIB, GONE_DEADLINE_S, 0.5)
        after = run.ask_gpu("memory.used")
        run.check(after <= before + MEMORY_MARGIN_MIB, f"{kill.what}: {before} MiB before, {after} after")
    check_unlocked(run, kill)
    return [before, after]


def evaluate_good(run, suite):
    """(verdict, seconds) of the task's reference."""
    began = time.monotonic()
    run.evaluate(suite, [TASK, "reference", *POLICY], ["valid"])
    took = time.monotonic() - began
    verdict = kind_of(run.records.get((suite, "reference"), {}))
    run.check(verdict == "valid" and took < NEXT_DEADLINE_S, f"{suite}: {verdict} after {took:.1f} s")
    return [verdict, round(took, 1)]


def busy_candidate(run, call):
    """A file with the candidate whose call number `call` is the long one."""
    with open(BUSY, encoding="utf-8") as file:
        source = file.read()
    path = os.path.join(run.folder, f"busy_in_call_{call}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source.replace("LONG_CALL = 3", f"LONG_CALL = {call}"))
    return path


def idle_memory(run):
    """MiB in use, the least of some readings: the last runner may be on its way out."""
    if not run.is_on_gpu:
        return None
    readings = [run.ask_gpu("memory.used")]
    for _ in range(2):
        time.sleep(0.5)
        readings.append(run.ask_gpu("memory.used"))
    return min(readings)


def kill_once(run, kill):
    """One evaluation with a kill in its middle; a row of the table."""
    before = idle_memory(run)
    words = [TASK, busy_candidate(run, kill.call), *POLICY]
    thread = threading.Thread(target=run.evaluate, args=(kill.what, words, ["valid"]))
    thread.start()
    try:
        doomed, cells = kill_in_call(run, kill, thread)
        thread.join(min(EVALUATION_DEADLINE_S, max(0, run.left_s())))
    finally:
        if thread.is_alive():
            run.check(False, f"{kill.what}: no verdict in time")
            run.stop_service()
            thread.join()
    record = next((record for (suite, _), record in run.records.items() if suite == kill.what), {})
    if not run.check(record, f"{kill.what}: no record"):
        return cells
    cells += check_verdict(run, kill, record)
    cells += check_cleaned(run, kill, doomed, before)
    return cells + evaluate_good(run, f"after {kill.what}")


def main():
    arguments = checked_run.run_on_gpu.common_parser(__doc__, budget=150).parse_args()
    rows = []

    def test(run):
        evaluate_good(run, "before")  # a judge stays, so memory is compared with that
        for kill in KILLS:
            rows.append(kill_once(run, kill))
            run.write("kills.md", checked_run.table_of(COLUMNS, rows))

    return checked_run.run_test(arguments, test)


if __name__ == "__main__":
    sys.exit(main())
