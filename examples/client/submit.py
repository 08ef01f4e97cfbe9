#!/usr/bin/env python3
"""Submits one candidate to a pike service by gRPC, waits and prints the verdict.

usage: submit.py TASK.py CANDIDATE.py [CLIENT_KEY]

Needs `pip install grpcio grpcio-tools` and the generated modules of proto/pike/v1 in PYTHONPATH; README.md in this folder has
the two commands.
"""

import hashlib
import os
import pathlib
import sys
import time

import grpc

from pike.v1 import evaluation_pb2, evaluation_pb2_grpc, task_pb2, task_pb2_grpc, types_pb2

# One page of Evaluation.List may have 8 MiB; Python's gRPC takes 4 MiB unless told otherwise.
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", 16 << 20)]
# What another try may help against: the service restarts, or its queue is full.
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
RETRY_SECONDS = 2.0
TRIES_MAX = 60


def find_service() -> str:
    """The gRPC target, looked for where `pike` looks."""
    if "PIKE_SERVICE" in os.environ:
        return os.environ["PIKE_SERVICE"]
    folder = os.environ.get("PIKE_RUNTIME_DIR")
    if folder is None and "XDG_RUNTIME_DIR" in os.environ:
        folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "pike")
    runtime = pathlib.Path(folder or f"/tmp/pike-{os.geteuid()}")
    if (runtime / "endpoint").exists():
        return (runtime / "endpoint").read_text().strip()
    if (runtime / "pike.sock").exists():
        return f"unix:{runtime}/pike.sock"
    sys.exit(f"no service in {runtime}: start `pike up`, or set PIKE_SERVICE")


def evaluate(channel: grpc.Channel, task: pathlib.Path, candidate: pathlib.Path, client_key: str):
    """Registers, submits and watches; every step may be repeated. Returns the ended evaluation."""
    registered = task_pb2_grpc.TaskStub(channel).Register(
        task_pb2.RegisterTaskRequest(name=task.stem, source=task.read_bytes())
    )
    evaluations = evaluation_pb2_grpc.EvaluationStub(channel)
    record = evaluations.Submit(
        evaluation_pb2.SubmitRequest(
            client_key=client_key,  # repeating it returns the same evaluation
            task_version=registered.task.version,
            candidate_source=candidate.read_bytes(),
            candidate_name=candidate.name,
            policy=types_pb2.Policy(name="paper", timed_calls_max=50),
        )
    ).evaluation
    for change in evaluations.Watch(evaluation_pb2.WatchRequest(evaluation_id=record.evaluation_id)):
        record = change.evaluation
        print(f"{record.evaluation_id}: {types_pb2.Stage.Name(record.stage)}", file=sys.stderr)
    return record


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    task, candidate = (pathlib.Path(argument) for argument in sys.argv[1:3])
    digest = hashlib.sha256(task.read_bytes() + candidate.read_bytes()).hexdigest()
    client_key = sys.argv[3] if len(sys.argv) == 4 else f"submit.py-{digest[:32]}"
    record = None
    with grpc.insecure_channel(find_service(), options=CHANNEL_OPTIONS) as channel:
        for attempt in range(TRIES_MAX):
            try:
                record = evaluate(channel, task, candidate, client_key)
            except grpc.RpcError as error:
                if error.code() not in RETRYABLE or attempt + 1 == TRIES_MAX:
                    sys.exit(f"{error.code().name}: {error.details()}")
            # A watch that ends early is a service that stops.
            if record is not None and record.stage == types_pb2.STAGE_ENDED:
                break
            time.sleep(RETRY_SECONDS)
    if record is None or record.stage != types_pb2.STAGE_ENDED:
        sys.exit("the service stayed away")
    verdict = record.verdict
    print(types_pb2.VerdictKind.Name(verdict.kind), verdict.reason or f"{verdict.measurement.speedup:.2f}x")
    return 0 if verdict.kind == types_pb2.VERDICT_KIND_VALID else 1


if __name__ == "__main__":
    sys.exit(main())
