"""Frames over a Unix stream socket, as common/sandbox/frame_channel.h reads and writes them.

A frame is a u32 little-endian length and that many bytes of UTF-8 JSON; descriptors travel with
the first byte. Standard library only.
"""

import array
import json
import os
import socket
import struct
from typing import Any, Iterable, List, Tuple

FRAME_BYTES_MAX = 8 << 20
FRAME_FDS_MAX = 16


class FrameChannel:
    """One end of a channel. Not thread-safe, except that one thread may send while one receives."""

    def __init__(self, fd: int) -> None:
        """Takes over the inherited descriptor `fd`; children will not inherit it."""
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, obj: Any, fds: Iterable[int] = ()) -> None:
        """Sends `obj` as JSON; `fds` stay the caller's. OSError if the peer is gone."""
        payload = json.dumps(obj, separators=(",", ":"), allow_nan=False).encode()
        fds = list(fds)
        if len(payload) > FRAME_BYTES_MAX:
            raise ValueError(f"frame of {len(payload)} bytes, at most {FRAME_BYTES_MAX}")
        if len(fds) > FRAME_FDS_MAX:
            raise ValueError(f"{len(fds)} descriptors, at most {FRAME_FDS_MAX}")
        data = memoryview(struct.pack("<I", len(payload)) + payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
        if sent < len(data):
            self._socket.sendall(data[sent:], socket.MSG_NOSIGNAL)

    def recv(self) -> Tuple[Any, List[int]]:
        """Waits for a frame: (object, descriptors). The descriptors are the caller's to close.

        EOFError if the peer has closed its end, ValueError if the frame is not ours.
        """
        fds: List[int] = []
        try:
            (length,) = struct.unpack("<I", self._read(4, fds, is_start=True))
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"frame of {length} bytes, at most {FRAME_BYTES_MAX}")
            return json.loads(self._read(length, fds, is_start=False)), fds
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise

    def close(self) -> None:
        self._socket.close()

    def _read(self, length: int, fds: List[int], is_start: bool) -> bytes:
        data = bytearray()
        room = socket.CMSG_SPACE(FRAME_FDS_MAX * array.array("i").itemsize)
        while len(data) < length:
            part, ancillary, _, _ = self._socket.recvmsg(
                min(length - len(data), 1 << 16), room, socket.MSG_CMSG_CLOEXEC
            )
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                    fds.extend(numbers)
            if not part:
                if is_start and not data:
                    raise EOFError("peer has closed the channel")
                raise ValueError("peer has closed the channel in mid-frame")
            data += part
        return bytes(data)
