"""Rows, tables and sums of a run of run_on_gpu.py. Plain functions, no processes."""

import json
import os

TEXT_MAX = 2000
REASON_MAX = 160
LAUNCH_BOUND = 0.9  # of the latency, until the call returned to the host
COLUMNS = ("suite", "task", "candidate", "expected", "verdict", "speedup", "ref_ms", "cand_ms", "bound",
           "queue_s", "compile_s", "build_s", "prepare_s", "verify_s", "measure_s", "total_s",
           "lock_s", "reason")


def candidates_in(folder):
    """Every Python file below `folder` but task.py, sorted."""
    found = []
    for path, _, names in os.walk(folder):
        found += [os.path.join(path, name) for name in names
                  if name.endswith(".py") and name != "task.py"]
    return sorted(found)


def read_head(path):
    """(expected verdicts, policy assignments, whether it needs a GPU) of a candidate."""
    expected, policy, needs_gpu = [], [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# expect:"):
                expected = line.split(":", 1)[1].replace(",", " ").split()
            elif line.startswith("# policy:"):
                policy = line.split(":", 1)[1].split()
            elif line.startswith("# needs: gpu"):
                needs_gpu = True
    return expected, policy, needs_gpu


def shorten(value):
    """The same JSON with long texts cut."""
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return value[: TEXT_MAX // 2] + " [...] " + value[-TEXT_MAX // 2 :]
    return value


def row_of(suite, record, expected):
    """What the table shows of an evaluation."""
    verdict = record.get("verdict", {})
    times = record.get("times", {})
    measurement = verdict.get("measurement", {})
    seconds = {name: times.get(name + "Ms", 0) / 1000
               for name in ("queuedCompile", "queuedRun", "compile", "prepare", "verify", "measure", "total")}
    return {
        "suite": suite,
        "task": record.get("taskName", ""),
        "candidate": "/".join(record.get("candidateName", "").split("/")[-2:]),
        "expected": expected or [],
        "verdict": verdict.get("kind", "none").removeprefix("VERDICT_KIND_").lower(),
        "blame": verdict.get("blame", "").removeprefix("BLAME_").lower(),
        "speedup": measurement.get("speedup"),
        "ref_ms": measurement.get("reference", {}).get("meanMs"),
        "cand_ms": measurement.get("candidate", {}).get("meanMs"),
        "clock": measurement.get("clock", ""),
        "bound": bound_of(measurement.get("reference", {})),
        "queue_s": seconds["queuedCompile"] + seconds["queuedRun"],
        "compile_s": seconds["compile"],
        "build_s": sum(build.get("buildMs", 0) for build in verdict.get("builds", [])) / 1000,
        "prepare_s": seconds["prepare"],
        "verify_s": seconds["verify"],
        "measure_s": seconds["measure"],
        "total_s": seconds["total"],
        "locks": {lock.get("operation", "?"): [lock.get("waitMs", 0) / 1000, lock.get("heldMs", 0) / 1000]
                  for lock in times.get("locks", [])},
        "lock_s": sum(lock.get("heldMs", 0) for lock in times.get("locks", [])) / 1000,
        "gpu_class": verdict.get("evidence", {}).get("gpuClass", ""),
        "reason": verdict.get("reason", "").replace("\n", " ")[:REASON_MAX],
    }


def bound_of(latency):
    """Whether the host or the GPU sets the pace of a program; empty if not known."""
    if not latency.get("meanMs") or not latency.get("returnMeanMs"):
        return ""
    return "launch" if latency["returnMeanMs"] >= LAUNCH_BOUND * latency["meanMs"] else "GPU"


def missing_row(suite, words, expected):
    """A row for a `pike eval` that printed no record."""
    row = row_of(suite, {"candidateName": os.path.basename(words[1])}, expected)
    return {**row, "reason": "no record"}


def is_as_expected(row):
    if row["expected"]:
        is_blame_right = row["verdict"] == "valid" or row["blame"] == "candidate"
        return row["verdict"] in row["expected"] and is_blame_right
    return row["verdict"] not in ("infra_error", "none")


def is_good(rows):
    return bool(rows) and all(is_as_expected(row) for row in rows)


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def one_line(row):
    mark = "" if is_as_expected(row) else f"  NOT AS EXPECTED ({', '.join(row['expected'])})"
    speed = f" {row['speedup']:.2f}x" if row["speedup"] else ""
    reason = f": {row['reason']}" if row["verdict"] != "valid" else ""
    return (f"{row['suite']} {row['task']} {os.path.basename(row['candidate'])} -> {row['verdict']}{speed} "
            f"({row['total_s']:.1f} s, lock {row['lock_s']:.2f} s){reason}{mark}")


def cell(row, column):
    value = row[column]
    if column == "expected":
        text = ", ".join(value) if is_as_expected(row) else f"**{', '.join(value) or 'no infra_error'}**"
    elif column in ("ref_ms", "cand_ms"):
        text = number(value, 3)
    elif isinstance(value, float) or value is None:
        text = number(value)
    else:
        text = str(value)
    return text.replace("|", "/")


def table_text(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in sorted(rows, key=lambda row: (row["suite"], row["task"], row["candidate"])):
        lines.append("| " + " | ".join(cell(row, column) for column in COLUMNS) + " |")
    return "\n".join(lines)


def sums(rows, seconds):
    """Counts and lock seconds per operation for each suite."""
    suites = {}
    for row in rows:
        suite = suites.setdefault(row["suite"], {"evaluations": 0, "as_expected": 0, "verdicts": {},
                                                 "lock_held_s": {}, "lock_wait_s": {}})
        suite["evaluations"] += 1
        suite["as_expected"] += is_as_expected(row)
        suite["verdicts"][row["verdict"]] = suite["verdicts"].get(row["verdict"], 0) + 1
        for operation, (wait_s, held_s) in row["locks"].items():
            for name, value in (("lock_wait_s", wait_s), ("lock_held_s", held_s)):
                suite[name][operation] = round(suite[name].get(operation, 0) + value, 3)
    for name, suite in suites.items():
        if seconds.get(name):
            suite["seconds"] = round(seconds[name], 1)
            suite["per_hour"] = round(suite["evaluations"] / seconds[name] * 3600)
    return {"seconds": {name: round(value, 1) for name, value in seconds.items()}, "suites": suites}


def write(out, rows, seconds):
    """Writes table.md and summary.json; returns the text of both for people."""
    table, summary = table_text(rows), sums(rows, seconds)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table + "\n")
    with open(os.path.join(out, "summary.json"), "w", encoding="utf-8") as file:
        json.dump({**summary, "rows": rows}, file, indent=1)
    return table + "\n" + json.dumps(summary, indent=1)
