"""Runs the file named by argv[1] with the build hook installed and reports how it went.

Sends {"type": "done", "result": <the file's RESULT>} or {"type": "failed", "text": <traceback>}.
"""

import os
import runpy
import sys
import traceback

sys.path.insert(0, "/pike/inside")
import build_hook
import frames

channel = frames.FrameChannel(int(os.environ["PIKE_FRAME_FD"]))
build_hook.install(channel)
try:
    channel.send({"type": "done", "result": runpy.run_path(sys.argv[1])["RESULT"]})
except BaseException:
    channel.send({"type": "failed", "text": traceback.format_exc()[-4000:]})
