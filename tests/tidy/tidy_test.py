#!/usr/bin/env python3
"""Tests of tidy.py: every rule is broken once on purpose and must be reported, at the right line."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402


class TidyTest(unittest.TestCase):
    """Each test plants files in a fresh tree and reads the findings."""

    def findings(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            checker = tidy.Checker(root)
            checker.run()
            return checker.findings

    def assert_found(self, path: str, text: str, line: int, words: str) -> None:
        found = self.findings({path: text})
        self.assertTrue(
            any(entry.startswith(f"{path}:{line}: ") and words in entry for entry in found),
            f"expected {path}:{line} with '{words}', got {found}")

    def test_clean_tree_has_no_findings(self) -> None:
        self.assertEqual(self.findings({
            "common/base/CMakeLists.txt": "pike_library(pike_base SRCS a.cc)\n",
            "common/base/a.cc": '#include "common/base/a.h"\n\n#include <absl/status/status.h>\n',
            "common/base/a.h": "#pragma once\n",
            "coordinator/core/b.h": '#include <map>\n\n#include "common/base/a.h"\n',
            "coordinator/rpc/c.h": '#include "coordinator/core/b.h"\n',
        }), [])

    def test_core_includes(self) -> None:
        for include in ("<grpcpp/grpcpp.h>", "<thread>", "<mutex>", "<random>", "<absl/container/flat_hash_map.h>",
                        '"pike/v1/types.pb.h"', '"common/base/mailbox.h"', "<torch/torch.h>"):
            with self.subTest(include=include):
                self.assert_found("coordinator/core/a.h", f"\n#include {include}\n", 2, "core/ must not include")

    def test_core_calls(self) -> None:
        for call in ("std::chrono::steady_clock::now()", "rand()", 'getenv("HOME")', "absl::Now()", "time(nullptr)"):
            with self.subTest(call=call):
                self.assert_found("gpu_worker/core/a.h", f"auto x = {call};\n", 1, "core/ reads no clock")

    def test_core_words_in_comments_are_allowed(self) -> None:
        self.assertEqual(self.findings({"coordinator/core/a.h": "// never steady_clock::now()\nint wait_time(int);\n"}), [])

    def test_include_direction(self) -> None:
        for path, include in (
                ("compile_worker/server/a.h", "coordinator/core/b.h"),
                ("gpu_worker/server/a.h", "compile_worker/core/b.h"),
                ("coordinator/core/a.h", "coordinator/store/b.h"),
                ("coordinator/store/a.h", "coordinator/rpc/b.h"),
                ("common/base/a.h", "common/sandbox/b.h"),
                ("common/sandbox/a.h", "coordinator/core/b.h"),
                ("cli/a.h", "coordinator/core/b.h"),
                ("common/build/a.h", "tests/testing/b.h")):
            with self.subTest(path=path, include=include):
                self.assert_found(path, f'#include "{include}"\n', 1, "must not include")

    def test_quotes_and_brackets(self) -> None:
        self.assert_found("cli/a.h", '#include "absl/status/status.h"\n', 1, "angle brackets")
        self.assert_found("cli/a.h", "#include <common/base/a.h>\n", 1, "ours in quotes")
        self.assert_found("cli/a.h", '#include "b.h"\n', 1, "from the root of the repository")

    def test_own_header_first(self) -> None:
        found = self.findings({
            "cli/CMakeLists.txt": "x(SRCS a.cc)\n",
            "cli/a.h": "#pragma once\n",
            "cli/a.cc": '#include <map>\n\n#include "cli/a.h"\n',
        })
        self.assertEqual(found, ['cli/a.cc:1: the first include must be "cli/a.h"'])

    def test_native_parts(self) -> None:
        self.assert_found("gpu_worker/judge/a.h", "#include <absl/status/status.h>\n", 1, "foreign Python")
        self.assert_found("gpu_worker/runner/a.h", '#include "pike/v1/types.pb.h"\n', 1, "foreign Python")

    def test_banned_words(self) -> None:
        self.assert_found("cli/a.h", "try {\n} catch (...) {\n}\n", 2, "catch (...)")
        self.assert_found("cli/a.h", "thread.detach();\n", 1, "detached")
        self.assert_found("cli/a.h", "auto f = std::async(g);\n", 1, "std::async")
        self.assert_found("cli/a.h", "absl::Mutex mutex;\n", 1, "absl::Mutex")
        self.assert_found("cli/a.h", "using namespace std;\n", 1, "using namespace")

    def test_sleep_in_tests(self) -> None:
        for call in ("std::this_thread::sleep_for(1s);", "usleep(10);", "sleep(1);", "absl::SleepFor(absl::Seconds(1));"):
            with self.subTest(call=call):
                self.assert_found("tests/unit/a.h", f"{call}\n", 1, "never for time")

    def test_sleep_in_a_string_is_a_candidate(self) -> None:
        self.assertEqual(self.findings({"tests/unit/a.h": 'auto source = "sleep(100)";\n'}), [])

    def test_a_raw_string_is_another_language(self) -> None:
        text = 'auto source = R"(\n#include "near.h"\nsleep(100)\n)";\nusleep(1);\n'
        found = self.findings({"tests/unit/a.h": text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("tests/unit/a.h:5: "), found)

    def test_sources_must_be_registered(self) -> None:
        self.assert_found("cli/a.cc", "int a;\n", 1, "nothing builds it")
        self.assert_found("tests/unit/a_test.cc", "int a;\n", 1, "test is named in no CMakeLists.txt")
        found = self.findings({"cli/CMakeLists.txt": "# pike_binary(pike SRCS a.cc)\n", "cli/a.cc": "int a;\n"})
        self.assertEqual(len(found), 2, found)

    def test_source_named_from_a_parent_folder(self) -> None:
        self.assertEqual(self.findings({"cli/CMakeLists.txt": "x(SRCS sub/a.cc)\n", "cli/sub/a.cc": "int a;\n"}), [])

    def test_source_named_from_the_root(self) -> None:
        self.assertEqual(self.findings({
            "tests/unit/CMakeLists.txt": "x(SRCS ${CMAKE_SOURCE_DIR}/tests/testing/a.cc)\n",
            "tests/testing/a.cc": "int a;\n"}), [])

    def test_marks(self) -> None:
        self.assert_found("cli/a.h", "// TODO later\n", 1, "issue number")
        self.assert_found("common/inside/a.py", "# FIXME\n", 1, "FIXME")
        self.assert_found("cli/a.h", "\tint a;\n", 1, "tab")
        self.assert_found("cli/a.h", "int a;  // " + "x" * 100 + "\n", 1, "over 100")
        self.assert_found("deploy/a.sh", "cd /home/alice/pike\n", 1, "one machine")
        self.assertEqual(self.findings({"cli/a.h": "// TODO(#12): later\n"}), [])

    def test_long_files(self) -> None:
        self.assert_found("common/inside/a.py", "x = 1\n" * 401, 401, "over 400")
        self.assertEqual(self.findings({"common/inside/a.py": "x = 1\n" * 400}), [])

    def test_linked_libraries(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "a.c")
            library = os.path.join(folder, "libabsl_planted.so")
            judge = os.path.join(folder, "judge.so")
            with open(source, "w", encoding="utf-8") as file:
                file.write("int planted(void) { return 1; }\n")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", judge, source, library], check=True)
            found = tidy.check_binaries([judge])
            self.assertEqual(len(found), 1, found)
            self.assertIn("libabsl_planted.so", found[0])


if __name__ == "__main__":
    unittest.main()
