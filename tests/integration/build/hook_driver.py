"""Runs the file named by argv[1] with the build hook installed and reports how it went.

Sends {"type": "done", "result": <the file's RESULT>} or {"type": "failed", "text": <traceback>}.
With IS_WITHOUT_TOOLS in the environment it fails where anything that could build is in sight.
"""

import glob
import os
import runpy
import shutil
import sys
import traceback

sys.path.insert(0, "/pike/inside")
import build_hook
import frames


def tools_in_sight():
    """Compilers on PATH, and every nvcc where a toolkit may lie."""
    found = [path for name in ("nvcc", "g++", "ninja") if (path := shutil.which(name))]
    for folder in ("/usr/local", "/usr/lib", *(f"{path}/nvidia" for path in sys.path if path)):
        found += glob.glob(f"{glob.escape(folder)}/*/bin/nvcc")
    return found


channel = frames.FrameChannel(int(os.environ["PIKE_FRAME_FD"]))
build_hook.install(channel)
try:
    if "IS_WITHOUT_TOOLS" in os.environ and (found := tools_in_sight()):
        raise RuntimeError(f"not hidden: {found}")
    channel.send({"type": "done", "result": runpy.run_path(sys.argv[1])["RESULT"]})
except BaseException:
    channel.send({"type": "failed", "text": traceback.format_exc()[-4000:]})
