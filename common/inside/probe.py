"""Prints this interpreter's toolchain as one JSON object.

Run by a worker at start, outside any sandbox, with the interpreter that candidates get:
    python probe.py CACHE_DIR
Nothing of torch is imported (its version file is read), so it takes a fraction of a second and
never touches a GPU. Fields: see Toolchain and ToolchainPaths in common/build/toolchain.h; `error`
is set instead if there is no usable torch. Where nvcc comes from PyPI packages, a CUDA_HOME made of
links is made in CACHE_DIR.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig


def run(*argv):
    """Returns a program's standard output, empty if it is not there or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def package_version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def nvcc_version(cuda_home):
    found = re.search(r"V([0-9.]+)", run(os.path.join(cuda_home, "bin", "nvcc"), "--version"))
    return found.group(1) if found else ""


def link(target, name):
    """Makes `name` a link to `target`, whatever it was before; safe beside another process."""
    if os.path.islink(name) and os.readlink(name) == target:
        return
    temporary = f"{name}.{os.getpid()}"
    os.symlink(target, temporary)
    os.replace(temporary, name)


def make_cuda_home(root, cache_dir):
    """Makes a CUDA_HOME of links to the PyPI packages' folder `root` and returns its path.

    The packages have `lib` with versioned names only (libcudart.so.13); a linker wants lib64 and
    libcudart.so.
    """
    home = os.path.join(cache_dir, "cuda_home")
    os.makedirs(os.path.join(home, "lib64"), exist_ok=True)
    for folder in ("bin", "include", "nvvm"):
        link(os.path.join(root, folder), os.path.join(home, folder))
    library_dir = os.path.join(root, "lib")
    for library in sorted(os.listdir(library_dir)):
        target = os.path.join(library_dir, library)
        link(target, os.path.join(home, "lib64", library))
        plain = re.match(r"(lib.+\.so)\.[0-9.]+$", library)
        if plain:
            link(target, os.path.join(home, "lib64", plain.group(1)))
    return home


def find_cuda(site_packages, cache_dir):
    """Returns (CUDA_HOME, folders it needs), empty where there is no nvcc."""
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home and os.access(os.path.join(home, "bin", "nvcc"), os.X_OK):
            home = os.path.abspath(home)
            return home, [home, os.path.realpath(home)]
    for folder in site_packages:
        root = os.path.join(folder, "nvidia", "cu13")
        if os.access(os.path.join(root, "bin", "nvcc"), os.X_OK) and cache_dir:
            home = make_cuda_home(root, os.path.abspath(cache_dir))
            return home, [home, root]
    return "", []


def probe(cache_dir):
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return {"error": f"{sys.executable} has no torch: pip install torch==2.11.0"}
    torch_dir = os.path.abspath(list(spec.submodule_search_locations)[0])
    version = runpy.run_path(os.path.join(torch_dir, "version.py"))
    site_packages = [os.path.abspath(path) for path in sys.path
                     if path.rstrip("/").endswith(("site-packages", "dist-packages"))
                     and os.path.isdir(path)]
    if os.path.dirname(torch_dir) not in site_packages:
        site_packages.append(os.path.dirname(torch_dir))
    cuda_home, cuda_dirs = find_cuda(site_packages, cache_dir)
    gxx = shutil.which("g++", path="/usr/bin:/usr/local/bin:/bin") or ""
    return {
        "python_abi": sysconfig.get_config_var("SOABI").rsplit("-x86_64", 1)[0],
        "torch_version": str(version["__version__"]),
        "triton_version": package_version("triton"),
        "torch_cuda_version": version.get("cuda") or "",
        "nvcc_version": nvcc_version(cuda_home) if cuda_home else "",
        "gxx_version": run(gxx, "-dumpfullversion") if gxx else "",
        "libc": "-".join(platform.libc_ver()),
        "python": os.path.abspath(sys.executable),
        "python_prefix": sys.prefix,
        "python_base_prefix": sys.base_prefix,
        "python_include": sysconfig.get_path("include", scheme="posix_prefix"),
        "torch_dir": torch_dir,
        "site_packages": site_packages,
        "gxx": gxx,
        "cuda_home": cuda_home,
        "cuda_dirs": cuda_dirs,
    }


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1] if len(sys.argv) > 1 else "")))
