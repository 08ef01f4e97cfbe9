"""Compiles the judge's and the runner's native parts with g++ for the Python that runs this script.

  python build_native.py --cache-dir ~/.cache/pike

Prints one JSON line: {"native_dir", "judge", "runner", "built", "seconds"}. A finished build is found
by the digest of compiler, Python, torch, flags and sources; several processes may ask at once. The
exit code is 1 with the compiler's output on standard error if it fails. Standard library only;
torch is imported only when something must be compiled.
"""

import argparse
import concurrent.futures
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from typing import Dict, List

INSIDE_DIR = os.path.dirname(os.path.abspath(__file__))
SOURCE_DIRS = ("gpu_worker/judge", "gpu_worker/runner", "common/base")
JUDGE = "_pike_judge.so"
RUNNER = "_pike_runner.abi3.so"
SHARED = ["gpu_worker/runner/cuda_driver.cc", "gpu_worker/runner/packed_copy.cc"]  # of the runner, in the judge too
FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-pthread"]
PY_LIMITED_API = "0x030A0000"


class BuildFailed(Exception):
    """The text is for people."""


def find_source_dir() -> str:
    """Beside this folder where installed, else the root of the source tree."""
    installed = os.path.join(os.path.dirname(INSIDE_DIR), "native")
    return installed if os.path.isdir(installed) else os.path.dirname(os.path.dirname(INSIDE_DIR))


def find_torch_dir() -> str:
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildFailed(f"{sys.executable} has no torch: pip install torch")
    return list(spec.submodule_search_locations)[0]


def list_sources(source_dir: str, folder: str, ending: str) -> List[str]:
    path = os.path.join(source_dir, folder)
    return sorted(f"{folder}/{name}" for name in os.listdir(path) if name.endswith(ending))


def compiler_version(cxx: str) -> str:
    try:
        done = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildFailed(f"no C++ compiler {cxx!r}: apt install g++ ({error})") from None
    # Without the program's own name: c++ and g++ are one.
    return done.stdout.splitlines()[0].split(" ", 1)[-1]


def digest_of(cxx: str, source_dir: str, torch_dir: str) -> str:
    digest = hashlib.sha256()
    with open(os.path.join(torch_dir, "version.py"), "rb") as file:
        torch_version = file.read()
    facts = [compiler_version(cxx), sys.version, sysconfig.get_config_var("SOABI") or "", torch_dir]
    digest.update(repr((facts, torch_version, FLAGS, PY_LIMITED_API)).encode())
    sources = [
        source
        for folder in SOURCE_DIRS
        for ending in (".h", ".cc")
        for source in list_sources(source_dir, folder, ending)
        if not source.startswith("common/base") or ending == ".h"
    ]
    for source in sources:
        with open(os.path.join(source_dir, source), "rb") as file:
            content = file.read()
        digest.update(f"{source} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def run(command: List[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)}\n{done.stderr[-8000:]}")


def compile_all(compiler: List[str], source_dir: str, torch_dir: str, out_dir: str) -> None:
    """Writes both extensions to `out_dir`."""
    import torch

    python = ["-isystem", sysconfig.get_path("include")]
    includes = [os.path.join(torch_dir, "include", part) for part in ("", "torch/csrc/api/include")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    torch_flags = [abi, *(flag for folder in includes for flag in ("-isystem", folder))]
    extra: Dict[str, List[str]] = {
        "gpu_worker/judge": [*python, *torch_flags],
        "gpu_worker/runner": [*python, f"-DPy_LIMITED_API={PY_LIMITED_API}"],
    }
    objects: Dict[str, List[str]] = {folder: [] for folder in extra}
    commands = []
    for folder, flags in extra.items():
        sources = list_sources(source_dir, folder, ".cc")
        for source in sources + (SHARED if folder.endswith("judge") else []):
            output = os.path.join(out_dir, f"{os.path.basename(folder)}_{source.replace('/', '_')}.o")
            objects[folder].append(output)
            path = os.path.join(source_dir, source)
            command = [*compiler, *FLAGS, *flags, "-I", source_dir, "-c", path, "-o", output]
            # Files with torch's headers take longest: first, so that they have company.
            is_slow = os.path.basename(source).startswith(("python_", "torch_"))
            commands.insert(0 if is_slow else len(commands), command)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(run, commands))
    libraries = ["-L", os.path.join(torch_dir, "lib"), "-ltorch_python", "-ltorch_cpu", "-lc10", "-ldl"]
    link = [compiler[-1], "-shared", "-pthread", "-Wl,-z,now"]
    judge, runner = (os.path.join(out_dir, name) for name in (JUDGE, RUNNER))
    run([*link, "-o", judge, *objects["gpu_worker/judge"], *libraries])
    run([*link, "-o", runner, *objects["gpu_worker/runner"], "-ldl"])
    for path in sum(objects.values(), []):
        os.unlink(path)
    os.chmod(out_dir, 0o755)


def build(cache_dir: str, source_dir: str, cxx: str, launcher: str) -> Dict[str, object]:
    """Finds or makes the build; returns the facts that are printed."""
    start = time.monotonic()
    torch_dir = find_torch_dir()
    digest = digest_of(cxx, source_dir, torch_dir)
    os.makedirs(cache_dir, exist_ok=True)
    final_dir = os.path.join(os.path.abspath(cache_dir), f"native-{digest[:32]}")
    built = False
    with open(final_dir + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(final_dir):
            work_dir = tempfile.mkdtemp(prefix="native-", suffix=".part", dir=cache_dir)
            try:
                compiler = [launcher, cxx] if launcher else [cxx]
                compile_all(compiler, source_dir, torch_dir, work_dir)
                os.rename(work_dir, final_dir)
                built = True
            finally:
                shutil.rmtree(work_dir, ignore_errors=True)
    return {
        "native_dir": final_dir,
        "judge": os.path.join(final_dir, JUDGE),
        "runner": os.path.join(final_dir, RUNNER),
        "built": built,
        "seconds": round(time.monotonic() - start, 3),
    }


def point_link(link: str, target: str) -> None:
    """Makes `link` a symbolic link to `target` in one step."""
    part = f"{link}.{os.getpid()}"
    os.symlink(target, part)
    os.replace(part, link)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compiles the native parts of judge and runner.")
    parser.add_argument("--cache-dir", required=True, help="folder that keeps finished builds")
    parser.add_argument("--source-dir", default=find_source_dir(), help="root of our C++ sources")
    parser.add_argument("--cxx", default="g++", help="C++20 compiler")
    parser.add_argument("--launcher", default="", help="compiler launcher, for example ccache")
    parser.add_argument("--link", default="", help="symbolic link to make to the finished folder")
    arguments = parser.parse_args()
    try:
        facts = build(
            arguments.cache_dir, arguments.source_dir, arguments.cxx, arguments.launcher
        )
        if arguments.link:
            point_link(arguments.link, str(facts["native_dir"]))
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
