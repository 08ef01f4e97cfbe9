#!/usr/bin/env python3
"""Rules of this repository that the compiler cannot check; every finding is 'file:line: reason'.

usage: tidy.py [--root DIR] [--binaries FILE...]
Reads the files that git tracks (all files below DIR where it is no git checkout). Exit status 1 if anything was found.
"""

import argparse
import os
import re
import subprocess
import sys

CPP = (".h", ".cc", ".cu", ".cuh")
CODE_FOLDERS = ("common", "coordinator", "compile_worker", "gpu_worker", "agents", "cli")
LINE_LENGTH_MAX = 100
FILE_LINES_MAX = 400

# Files over FILE_LINES_MAX lines, each with the reason.
LONG_FILES: dict[str, str] = {
    "tests/unit/common/worker_session_test.cc": "one scripted coordinator serves every fact of the session",
    "tests/integration/sandbox_test.cc": "one fixture serves every fact of containment",
}

# What a folder may include of ours besides itself. The longest matching folder counts.
ALLOWED_INCLUDES = {
    "common/base": [],
    "common/device": ["common/base"],
    "common/sandbox": ["common/base"],
    "common/build": ["common/base", "common/sandbox"],
    "common/service": ["common/base", "common/build"],
    "coordinator/core": ["common/base"],
    "coordinator/store": ["coordinator/core", "common/base"],
    "coordinator/rpc": ["coordinator/core", "coordinator/store", "common/base", "common/service"],
    "coordinator/server": ["coordinator", "common/base", "common/service"],
    "compile_worker/core": ["common/base"],
    "compile_worker/server": ["compile_worker", "common"],
    "gpu_worker/core": ["common/base"],
    "gpu_worker/judge": ["gpu_worker/core", "gpu_worker/runner", "common/base"],
    "gpu_worker/runner": [],
    "gpu_worker/supervisor": ["gpu_worker/core", "gpu_worker/judge", "gpu_worker/runner", "common"],
    "gpu_worker/server": ["gpu_worker", "common"],
    "cli": ["common"],
}
THIRD_PARTY = re.compile(r"(absl|catch2|google|grpc|grpcpp|nlohmann|prometheus|CLI|torch|openssl)/|sqlite3\.h|Python\.h")

# core/ decides and does nothing else.
CORE_INCLUDE = re.compile(
    r"<(grpc|google/protobuf|hiredis|prometheus|torch|ATen|c10|cuda|nvml|sqlite3|thread>|mutex>|shared_mutex>|"
    r"condition_variable>|atomic>|future>|random>|fstream>|filesystem>|unistd|sys/|fcntl)|"
    r"absl/container/(flat|node)_hash|<unordered_|\.pb\.h|common/base/(mailbox|mutex|file|unique_fd|log)\.h"
)
CORE_CALL = re.compile(
    r"\b(steady_clock|system_clock)::now\b|\b(rand|srand|random|getenv|time|clock_gettime|gettimeofday)\s*\(|"
    r"\babsl::Now\b|\bstd::this_thread\b"
)
# The judge and the runner are loaded into a Python whose C++ ABI need not be the system's.
NATIVE_INCLUDE = re.compile(r"[<\"](absl/|google/protobuf|grpc|prometheus|.*\.pb\.h|common/(sandbox|build|service)/)")
NATIVE_LIBRARY = re.compile(r"lib(absl_|protobuf|grpc|gpr\.|prometheus)")
RUNNER_LIBRARY = re.compile(r"lib(torch|c10|absl_|protobuf|grpc|gpr\.|prometheus)")

SLEEP = re.compile(r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|clock_nanosleep)\b|(?<![\w.])sleep\s*\(")
BANNED = [
    (re.compile(r"\bcatch\s*\(\s*\.\.\.\s*\)"), "catch (...) swallows what it does not know; name the type"),
    (re.compile(r"\.detach\s*\("), "no detached threads; a thread is a member that its owner joins"),
    (re.compile(r"\bstd::async\b"), "no std::async; a thread is a member that its owner joins"),
    (re.compile(r"\babsl::(Mutex|MutexLock|CondVar)\b"), "absl::Mutex blinds the thread sanitizer; use common/base/mutex.h"),
]
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
TODO = re.compile(r"\bTODO\b(?!\s*\(#\d+\))")
FIXME = re.compile(r"\bFIXME\b")
MACHINE_PATH = re.compile(r"(?<![\w$}])/(home|Users)/\w")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"][^>"]+[>"])')
COMMENTED_SOURCE = re.compile(r"^\s*#.*\b[\w/]+\.(cc|cu)\b(?!.*\bper\b)")


class Checker:
    """Collects findings over the files of one tree."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.findings: list[str] = []
        self.paths = tracked_files(root)
        self.known = set(self.paths)

    def add(self, path: str, line: int, reason: str) -> None:
        self.findings.append(f"{path}:{line}: {reason}")

    def read(self, path: str) -> list[str]:
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")

    def run(self) -> None:
        cmake: dict[str, list[str]] = {}
        for path in self.paths:
            name = os.path.basename(path)
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                cmake[path] = self.read(path)
                self.check_cmake(path, cmake[path])
            elif path.endswith(CPP):
                lines = self.read(path)
                self.check_cpp(path, lines)
                self.check_own_header(path, lines)
            elif path.endswith((".py", ".proto", ".sh")) or path.startswith("deploy/"):
                self.check_text(path, self.read(path))
        self.check_sources_registered(cmake)

    # ---- one file ------------------------------------------------------------------------------

    def check_text(self, path: str, lines: list[str]) -> None:
        """What holds for every file that people write."""
        is_rule_file = path.startswith("tests/tidy/")
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                self.add(path, number, "tab; indent with spaces")
            if is_rule_file:
                continue
            if TODO.search(line):
                self.add(path, number, "TODO without an issue number, write TODO(#n)")
            if FIXME.search(line):
                self.add(path, number, "FIXME is not for main: repair it or open an issue")
            if MACHINE_PATH.search(line):
                self.add(path, number, "absolute path of one machine")
        count = len(lines) - (1 if lines and lines[-1] == "" else 0)
        if count > FILE_LINES_MAX and path not in LONG_FILES:
            self.add(path, count, f"{count} lines, over {FILE_LINES_MAX}: split it, or list it in LONG_FILES with a reason")

    def check_cpp(self, path: str, lines: list[str]) -> None:
        self.check_text(path, lines)
        is_core = "/core/" in path and not path.startswith("tests/")
        is_native = path.startswith(("gpu_worker/judge/", "gpu_worker/runner/"))
        own = without_raw_strings(lines)
        for number, (line, bare) in enumerate(zip(own, without_comments(own)), 1):
            if len(lines[number - 1]) > LINE_LENGTH_MAX:
                self.add(path, number, f"line of {len(lines[number - 1])} characters, over {LINE_LENGTH_MAX}")
            for pattern, reason in BANNED:
                if pattern.search(bare):
                    self.add(path, number, reason)
            if path.endswith((".h", ".cuh")) and USING_NAMESPACE.search(bare):
                self.add(path, number, "using namespace in a header reaches everyone who includes it")
            if path.startswith("tests/") and SLEEP.search(bare):
                self.add(path, number, "a test waits for an event, never for time")
            if is_core and CORE_CALL.search(bare):
                self.add(path, number, "core/ reads no clock, environment or chance; take it as an argument")
            include = INCLUDE.match(line)
            if include:
                self.check_include(path, number, include.group(1), is_core, is_native)

    def check_include(self, path: str, number: int, target: str, is_core: bool, is_native: bool) -> None:
        if is_core and CORE_INCLUDE.search(target):
            self.add(path, number, f"core/ must not include {target}: it decides and does nothing else")
        if is_native and NATIVE_INCLUDE.search(target):
            self.add(path, number, f"judge and runner must not include {target}: they live in a foreign Python")
        name = target.strip('<>"')
        if target.startswith("<"):
            if name.startswith(tuple(folder + "/" for folder in CODE_FOLDERS)):
                self.add(path, number, f'ours in quotes: "{name}"')
            return
        if THIRD_PARTY.match(name):
            self.add(path, number, f"third party in angle brackets: <{name}>")
            return
        if not is_native and "/" not in name:
            self.add(path, number, f'"{name}": ours are included by their path from the root of the repository')
            return
        if name.endswith(".pb.h"):
            return
        folder = owner_folder(path)
        if folder is None or path.startswith("tests/"):
            return
        allowed = [folder, *ALLOWED_INCLUDES[folder]]
        if "/" in name and not any(name.startswith(entry + "/") for entry in allowed):
            self.add(path, number, f'{folder} must not include "{name}" (allowed: {", ".join(allowed)})')

    def check_own_header(self, path: str, lines: list[str]) -> None:
        """A source includes its own header first: that is what proves that the header stands alone."""
        header = os.path.splitext(path)[0] + ".h"
        if path.endswith(".h") or header not in self.known:
            return
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            if include:
                if include.group(1).strip('"') != header:
                    self.add(path, number, f'the first include must be "{header}"')
                return

    def check_cmake(self, path: str, lines: list[str]) -> None:
        self.check_text(path, lines)
        for number, line in enumerate(lines, 1):
            if path.endswith("CMakeLists.txt") and COMMENTED_SOURCE.search(line):
                self.add(path, number, "commented-out source; delete the line or build the file")

    # ---- the tree ------------------------------------------------------------------------------

    def check_sources_registered(self, cmake: dict[str, list[str]]) -> None:
        """Every source is named in a CMakeLists.txt: of its folder, of one above, or by its path from the root."""
        words: dict[str, set[str]] = {}
        for path, lines in cmake.items():
            text = "\n".join(line.split("#", 1)[0] for line in lines)
            words.setdefault(os.path.dirname(path), set()).update(re.findall(r"[\w./-]+", text))
        from_root = {word.lstrip("/") for folder in words.values() for word in folder if word.startswith("/")}
        for path in self.paths:
            if not path.endswith((".cc", ".cu")) or not path.startswith((*CODE_FOLDERS, "tests/")) or path in from_root:
                continue
            folder = os.path.dirname(path)
            while True:
                if os.path.relpath(path, folder or ".") in words.get(folder, ()):
                    break
                if not folder:
                    kind = "test" if path.startswith("tests/") else "source"
                    self.add(path, 1, f"{kind} is named in no CMakeLists.txt, so nothing builds it")
                    break
                folder = os.path.dirname(folder)


def tracked_files(root: str) -> list[str]:
    """Paths below root, from git if it knows them (new files included), sorted."""
    try:
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        paths = [path for path in listing.split("\0") if path]
    except (OSError, subprocess.CalledProcessError):
        paths = []
    if not paths:
        for folder, folders, names in os.walk(root):
            if folder == root:
                folders[:] = [name for name in folders if name not in (".git", ".venv", "build")]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(path for path in paths if os.path.isfile(os.path.join(root, path)))


def owner_folder(path: str) -> str | None:
    """The entry of ALLOWED_INCLUDES that path belongs to."""
    folder = os.path.dirname(path)
    while folder:
        if folder in ALLOWED_INCLUDES:
            return folder
        folder = os.path.dirname(folder)
    return None


RAW_STRING = re.compile(r'R"([^()\\\s]{0,16})\(.*?\)\1"', re.DOTALL)


def without_raw_strings(lines: list[str]) -> list[str]:
    """The lines with the contents of raw strings (other languages, mostly) taken out; line numbers stay."""
    text = "\n".join(lines)
    return RAW_STRING.sub(lambda match: '""' + "\n" * match.group(0).count("\n"), text).split("\n")


def without_comments(lines: list[str]) -> list[str]:
    """The lines without comments and string contents, good enough for word searches."""
    result = []
    in_block = False
    for line in lines:
        if in_block:
            end = line.find("*/")
            if end < 0:
                result.append("")
                continue
            line, in_block = line[end + 2:], False
        line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
        line = re.sub(r"/\*.*?\*/", "", line)
        line = line.split("//", 1)[0]
        start = line.find("/*")
        if start >= 0:
            line, in_block = line[:start], True
        result.append(line)
    return result


def check_binaries(paths: list[str]) -> list[str]:
    """What built native parts link: no absl, protobuf or gRPC; the runner no libtorch either."""
    findings = []
    for path in paths:
        if not os.path.exists(path):
            findings.append(f"{path}:1: is not built")
        listing = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=False).stdout
        pattern = RUNNER_LIBRARY if "runner" in os.path.basename(path) else NATIVE_LIBRARY
        for line in listing.split("\n"):
            if "NEEDED" in line and pattern.search(line):
                findings.append(f"{path}:1: links {line.split('[')[-1].rstrip(']')}, which a foreign Python need not have")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--binaries", nargs="*", default=[], help="instead of the tree: built judge and runner extensions")
    options = parser.parse_args()
    if options.binaries:
        findings, count = check_binaries(options.binaries), len(options.binaries)
    else:
        checker = Checker(os.path.realpath(options.root))
        checker.run()
        findings, count = checker.findings, len(checker.paths)
    for finding in findings:
        print(finding)
    print(f"tidy: {count} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
