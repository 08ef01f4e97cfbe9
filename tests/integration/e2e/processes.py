"""Who is alive below a process, from /proc."""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    """Makes orphans of our descendants our children, so that none can hide from `descendants`."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _stat(pid):
    """(parent pid, state, name, start time) of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            text = f.read().decode(errors="replace")
    except OSError:
        return None
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), fields[0], name, int(fields[19])


def _cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(root):
    """All live processes below `root` as {pid: (name, command line)}; zombies do not count."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = _stat(int(entry))
            if stat is not None:
                table[int(entry)] = stat
    children = {}
    for pid, (parent, *_) in table.items():
        children.setdefault(parent, []).append(pid)
    found, queue = {}, list(children.get(root, []))
    while queue:
        pid = queue.pop()
        queue.extend(children.get(pid, []))
        if table[pid][1] != "Z":
            found[pid] = (table[pid][2], _cmdline(pid))
    return found


def parent_of(pid):
    """Its parent's pid; 0 if it is gone."""
    stat = _stat(pid)
    return stat[0] if stat else 0


def identity(pid):
    """(pid, start time), which no other process ever has, or None if it is gone or a zombie."""
    stat = _stat(pid)
    return (pid, stat[3]) if stat and stat[1] != "Z" else None
