"""Replaces the build step of torch.utils.cpp_extension by a request to the build broker.

    build_hook.install(channel)

`channel` is a frames.FrameChannel. Afterwards `load` and `load_inline` need no compiler, ninja,
CUDA toolkit or PATH: where stock torch would run ninja, one frame with the sources' bytes and the
flags goes out, and the library that comes back is put where ninja would have put it. Everything
around that step (names, versions, locks, loading) stays stock.

From then on nothing else may receive from the channel; sending stays allowed, from any thread.
Threads may build at the same time; their requests are answered one after the other.

This is plumbing, never a gate: it runs in the candidate's process, which may do with it what it
likes. Frames: common/build/build_frame.h.
"""

import base64
import importlib.machinery
import os
import re
import sys
import tempfile
import threading

_MODULE = "torch.utils.cpp_extension"
_FILES_MAX = 64
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def install(channel):
    """Hooks torch.utils.cpp_extension, now or when it is first imported."""
    broker = _Broker(channel)
    if _MODULE in sys.modules:
        _patch(sys.modules[_MODULE], broker)
    else:
        sys.meta_path.insert(0, _Finder(broker))


class _Broker:
    """Sends requests and waits for their replies, one at a time."""

    def __init__(self, channel):
        self._build_lock = threading.Lock()
        self._channel = channel
        self._last_id = 0
        send_lock = threading.Lock()
        send = channel.send

        def send_whole(*args):
            with send_lock:
                send(*args)

        channel.send = send_whole  # frames of several threads must not mix

    def build(self, request):
        """Returns (reply, descriptor of the artifact or None)."""
        with self._build_lock:
            self._last_id += 1
            request["id"] = self._last_id
            self._channel.send(request)
            while True:
                reply, fds = self._channel.recv()
                for fd in fds[1:]:
                    os.close(fd)
                if reply.get("type") == "build_reply" and reply.get("id") == self._last_id:
                    return reply, fds[0] if fds else None
                if fds:
                    os.close(fds[0])


class _Finder:
    """Lets the module be imported as ever, then patches it.

    Lazy, because importing it costs time and may start CUDA, and most candidates never do.
    """

    def __init__(self, broker):
        self._broker = broker

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_and_patch(module):
            _exec_without_cuda(execute, module)
            _patch(module, self._broker)

        spec.loader.exec_module = exec_and_patch
        return spec


def _exec_without_cuda(execute, module):
    """Runs the module's body without its question whether there is a GPU, which calls cuInit.

    It asks only to print a warning.
    """
    import torch

    is_available = torch.cuda.is_available
    torch.cuda.is_available = lambda: True
    try:
        execute(module)
    finally:
        torch.cuda.is_available = is_available


def _patch(module, broker):
    def build_library(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_ldflags=None,
                      extra_include_paths=None, build_directory=None, with_cuda=False,
                      is_standalone=False, **ignored):
        suffix = module.EXEC_EXT if is_standalone else module.LIB_EXT
        request = {
            "type": "build",
            "name": name,
            "kind": "executable" if is_standalone else "library",
            "with_cuda": bool(with_cuda),
            "cflags": [str(flag).strip() for flag in extra_cflags or []],
            "cuda_cflags": [str(flag).strip() for flag in extra_cuda_cflags or []],
            "ldflags": [str(flag).strip() for flag in extra_ldflags or []],
        }
        request.update(_collect([str(source) for source in sources],
                                [str(path).strip() for path in extra_include_paths or []]))
        reply, fd = broker.build(request)
        if not reply.get("ok") or fd is None:
            if fd is not None:
                os.close(fd)
            raise RuntimeError(f"Error building extension '{name}': {reply.get('message', '')}")
        _keep(fd, os.path.join(build_directory, name + suffix))

    get_build_directory = module._get_build_directory

    def build_directory_or_private(name, verbose):
        try:
            return get_build_directory(name, verbose)
        except OSError:  # a folder that only exists, or is only writable, outside
            return tempfile.mkdtemp(prefix=f"{name}-")

    module._write_ninja_file_and_build_library = build_library
    module._get_build_directory = build_directory_or_private
    module.verify_ninja_availability = lambda: None
    module.is_ninja_available = lambda: True
    # These would run a compiler, or write beside torch's headers.
    module._check_and_build_extension_h_precompiler_headers = lambda *args, **kwargs: None
    module.remove_extension_h_precompiler_headers = lambda: None
    if module.CUDA_HOME is None:
        module.CUDA_HOME = "/usr/local/cuda"  # candidates ask whether there is one


def _keep(fd, path):
    """Writes the artifact to `path`, as a whole or not at all: an older one may be loaded."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
    with os.fdopen(fd, "rb") as artifact, open(temporary, "wb") as copy:
        while chunk := artifact.read(1 << 20):
            copy.write(chunk)
        os.fchmod(copy.fileno(), 0o755)
    os.replace(temporary, path)


def _is_toolchain(path):
    """Whether a folder is the same in the build's sandbox as here."""
    roots = ("/usr", sys.prefix, sys.base_prefix)
    return any(path == root or path.startswith(root + "/") for root in roots)


def _read(path):
    with open(path, "rb") as file:
        return file.read((1 << 20) + 1)  # one more than allowed, so that the broker refuses it


def _collect(sources, include_paths):
    """Returns `sources`, `headers` and `include_paths` of a request.

    Headers are the files that the sources include, directly or not, from beside them or from
    include paths outside the toolchain. Names are relative to the deepest folder that holds all of
    them, so that includes relative to a file go on working.
    """
    sources = [os.path.abspath(source) for source in sources]
    include_dirs = [os.path.abspath(path) for path in include_paths]
    own_dirs = [path for path in include_dirs if not _is_toolchain(path) and os.path.isdir(path)]
    contents = {}
    waiting = list(sources)
    if len(sources) > _FILES_MAX:
        raise RuntimeError(f"more than {_FILES_MAX} source files")
    while waiting and len(contents) <= _FILES_MAX:
        path = waiting.pop(0)
        if path in contents:
            continue
        contents[path] = _read(path)
        for included in _INCLUDE.findall(contents[path]):
            name = os.fsdecode(included)
            for folder in [os.path.dirname(path)] + own_dirs:
                found = os.path.normpath(os.path.join(folder, name))
                if os.path.isfile(found) and not _is_toolchain(found):
                    waiting.append(found)
                    break
    used_dirs = [folder for folder in own_dirs
                 if any(path.startswith(folder + "/") for path in contents if path not in sources)]
    root = os.path.commonpath([os.path.dirname(path) for path in contents] + used_dirs)
    names = {path: _plain(os.path.relpath(path, root)) for path in contents}

    def files(paths):
        return [{"name": names[path], "base64": base64.b64encode(contents[path]).decode()}
                for path in paths]

    return {
        "sources": files(sources),
        "headers": files(sorted(path for path in contents if path not in sources)),
        "include_paths": [_plain(os.path.relpath(path, root)) if path in own_dirs else path
                          for path in include_dirs if path in used_dirs or path not in own_dirs],
    }


def _plain(name):
    """Makes a relative path one of plain characters; the same part always becomes the same."""
    if name == ".":
        return name
    parts = [re.sub(r"[^A-Za-z0-9_.+-]", "_", part) for part in name.split("/")]
    return "/".join("_" + part[1:] if part[0] in ".-" else part for part in parts)
