#!/usr/bin/env python3
"""Twenty candidates one at a time, then all at once: the same verdicts, and no timing in company.

  tests/gpu/twenty_on_gpu.py --pike ~/pike-0.1.0-linux-x86_64/bin --out /tmp/twenty --up-option=--gpus=0

The candidates are examples of every verdict, CUDA and Triton ones among them, and two that each take
more than half of the GPU's memory. Writes twenty.md beside the logs of a Run. Without a GPU:
--without-gpu --up-option=--gpus=simulated:1, which leaves the CUDA and Triton ones out.
"""

import concurrent.futures
import os
import sys
import time

import checked_run
import report
from checked_run import kind_of

HERE = os.path.dirname(os.path.abspath(__file__))
GREEDY = os.path.join(HERE, "greedy_candidate.py")
# Each: its file below examples/candidates, and how many that differ in a comment.
CANDIDATES = (("gpu/03_cuda_fused", 2), ("gpu/04_triton_rows", 2), ("incorrect/01_not_causal", 1),
              ("incorrect/03_first_answer_again", 1), ("incorrect/05_off_by_one", 1),
              ("incorrect/06_no_memory", 1), ("load_error/02_constructor_raises", 1),
              ("out_of_memory/02_takes_all", 1), ("runtime_error/04_raises", 1),
              ("runtime_error/05_segmentation_fault", 1), ("suspect/05_answers_unasked", 1),
              ("timeout/06_sleeps_in_forward", 1), ("unparsable/03_syntax_error", 1),
              ("valid/04_one_pass", 1), ("valid/05_one_product", 1), ("valid/06_hoisted_input", 1))
GREEDY_COUNT = 2
COUNT = 20
POLICY = ("timed_ms_max=200",)
COLUMNS = ("id", "candidate", "verdict alone", "verdict in company", "speedup alone", "in company",
           "waited s", "frozen s", "tried again")


def choose(arguments, folder):
    """[(task, candidate, expected, policy)] in files that all differ, without what cannot run here."""
    files = [(os.path.join(arguments.examples, "candidates", name + ".py"), name, copies)
             for name, copies in CANDIDATES] + [(GREEDY, "valid/04_greedy", GREEDY_COUNT)]
    tasks = os.path.join(arguments.examples, "tasks")
    by_number = {name[:2]: os.path.join(tasks, name) for name in os.listdir(tasks)}
    chosen = []
    for path, name, copies in files:
        expected, policy, needs_gpu = report.read_head(path)
        if needs_gpu and arguments.without_gpu:
            continue
        with open(path, encoding="utf-8") as file:
            source = file.read()
        for copy in range(copies):
            base = os.path.basename(name)
            target = os.path.join(folder, base + (f"_{copy + 1}" if copies > 1 else "") + ".py")
            with open(target, "w", encoding="utf-8") as file:
                file.write(source + f"# {copy + 1} of {copies}\n")
            chosen.append((by_number[base[:2]], target, expected, policy))
    return [each for each in chosen
            if any(text in os.path.basename(each[1]) for text in arguments.only)]


def evaluate(run, suite, candidate):
    """The record of one evaluation."""
    task, path, expected, policy = candidate
    words = [task, path]
    for assignment in [*POLICY, *policy]:
        words += ["--set", assignment]
    run.evaluate(suite, words, expected)
    name = os.path.basename(path)
    for (of_suite, of_name), record in list(run.records.items()):
        if of_suite == suite and os.path.basename(of_name) == name:
            return record
    run.check(False, f"{suite}: no record of {name}")
    return {}


def outcome_of(record):
    """What must not depend on company."""
    verdict = record.get("verdict", {})
    return kind_of(record), verdict.get("stage", ""), verdict.get("blame", "")


def intervals_of(records):
    """[(evaluation, device, operation, start, end)] as recorded."""
    return [(record["evaluationId"], each["deviceId"], each["operation"], int(each["startNs"]), int(each["endNs"]))
            for record in records for each in record.get("times", {}).get("intervals", [])]


def count_overlaps(run, intervals):
    """Checks that no timing has company; returns how many other pairs have."""
    neighbours = 0
    for number, (owner, device, operation, start, end) in enumerate(intervals):
        for other in intervals[number + 1 :]:
            is_beside = owner != other[0] and device == other[1] and start < other[4] and other[3] < end
            if not is_beside:
                continue
            if not run.check("measure" not in (operation, other[2]),
                             f"{operation} of {owner} overlaps {other[2]} of {other[0]} by "
                             f"{(min(end, other[4]) - max(start, other[3])) / 1e6:.3f} ms"):
                continue
            neighbours += 1
    return neighbours


def check_intervals(run, records):
    """No timing of the records in company, and enough was recorded to say so."""
    intervals = intervals_of(records)
    owners = {operation: {each[0] for each in intervals if each[2] == operation}
              for operation in ("setup", "jit", "first_call", "verify", "measure")}
    for record in records:
        is_missing = kind_of(record) == "valid" and record["evaluationId"] not in owners["measure"]
        run.check(not is_missing, f"{record.get('evaluationId')}: no timing is recorded")
    neighbours = count_overlaps(run, intervals)
    run.check(len(owners["measure"]) > 1, "fewer than two timings: nothing is shown")
    run.check(neighbours > 0, "nothing ran beside anything else: nothing is shown")
    counts = {operation: sum(each[2] == operation for each in intervals) for operation in owners}
    text = f"recorded intervals: {counts}; pairs side by side, none of them a timing: {neighbours}"
    run.say(text)
    return text


def compare(run, candidates, alone, together):
    """The table; checks that each verdict is the one of before."""
    rows = []
    for (_, path, _, _), one, other in zip(candidates, alone, together):
        name = os.path.basename(path)
        run.check(outcome_of(one) == outcome_of(other),
                  f"{name}: {outcome_of(one)} alone, {outcome_of(other)} in company")
        speedups = [report.number(each.get("verdict", {}).get("measurement", {}).get("speedup"))
                    for each in (one, other)]
        times = other.get("times", {})
        waited = sum(times.get(key, 0) for key in ("queuedCompileMs", "queuedRunMs", "lockWaitMs"))
        earlier = other.get("verdict", {}).get("evidence", {}).get("earlierAttempts", [])
        rows.append([other.get("evaluationId"), name, kind_of(one), kind_of(other), *speedups,
                     report.number(waited / 1000), report.number(times.get("frozenMs", 0) / 1000),
                     "; ".join(earlier)])
    return checked_run.table_of(COLUMNS, rows)


def main():
    parser = checked_run.run_on_gpu.common_parser(__doc__, budget=300)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT",
                        help="only candidates with one of these in their file's name")
    arguments = parser.parse_args()

    def test(run):
        candidates = choose(arguments, run.folder)
        run.say(f"{len(candidates)} candidates")
        if not arguments.without_gpu and arguments.only == [""]:
            run.check(len(candidates) == COUNT, f"not {COUNT} candidates")
        alone = [evaluate(run, "alone", each) for each in candidates]
        run.say("all at once")
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(candidates)) as pool:
            together = list(pool.map(lambda each: evaluate(run, "together", each), candidates))
        run.say(f"all at once took {time.monotonic() - began:.1f} s")
        for record, (_, path, expected, _) in zip(alone, candidates):
            run.check(kind_of(record) in expected, f"{os.path.basename(path)}: {kind_of(record)} alone")
        table = compare(run, candidates, alone, together)
        run.write("twenty.md", table + "\n\n" + check_intervals(run, [each for each in together if each]))

    return checked_run.run_test(arguments, test)


if __name__ == "__main__":
    sys.exit(main())
