"""`cmake --install` of this build, run from a folder with a blank in its name that cannot be written to.

What is installed finds its parts by its own place; the build tree is only where the test's cache of
native parts comes from.
"""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest

CMAKE = os.environ["PIKE_CMAKE"]
BUILD_DIR = os.environ["PIKE_BUILD_DIR"]
PYTHON = os.environ["PIKE_PYTHON"]
UP_S = 240


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="pike install ")
        cls.prefix = os.path.join(cls.folder, "pike here")
        done = subprocess.run([CMAKE, "--install", BUILD_DIR, "--prefix", cls.prefix, "--strip"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        for folder, _, _ in os.walk(cls.prefix):
            os.chmod(folder, 0o555)
        cls.run_dir = os.path.join(cls.folder, "run")
        cls.data_dir = os.path.join(cls.folder, "data")
        os.mkdir(cls.run_dir, 0o700)
        cls.env = {"PATH": "/usr/bin:/bin", "HOME": cls.folder, "PIKE_RUNTIME_DIR": cls.run_dir,
                   "XDG_DATA_HOME": cls.data_dir, "NO_COLOR": "1"}

    @classmethod
    def tearDownClass(cls):
        for folder, _, _ in os.walk(cls.prefix):
            os.chmod(folder, 0o755)
        shutil.rmtree(cls.folder)

    def pike(self, *words, **env):
        """Runs the installed `pike` in the root folder."""
        return subprocess.run([os.path.join(self.prefix, "bin/pike"), *words], cwd="/",
                              env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=UP_S)

    def test_version(self):
        done = self.pike("version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")

    def test_doctor_finds_all_parts_beside_it(self):
        done = self.pike("doctor", PIKE_PYTHON=PYTHON)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("pike-coordinator", "pike-compile-worker", "pike-gpu-worker"):
            self.assertIn(f"ok        {name}: {self.prefix}/bin/{name}\n", done.stdout)
        self.assertIn(f"ok        share folder: {self.prefix}/share/pike\n", done.stdout)

    def test_the_active_environment_is_found(self):
        environment = os.path.join(self.folder, "environment")
        os.makedirs(os.path.join(environment, "bin"))
        program = os.path.join(environment, "bin/python")
        with open(program, "w") as file:
            file.write(f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
        os.chmod(program, 0o755)
        done = self.pike("doctor", VIRTUAL_ENV=environment)
        self.assertIn("ok        python with torch:", done.stdout)

    def test_no_python_gives_one_line(self):
        done = self.pike("up", PATH="/nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no Python >= 3.11 with PyTorch", done.stderr)
        self.assertIn(".venv/bin/pip' install torch", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_up_evaluates_an_example(self):
        # Found by the digest of compiler, Python, torch and sources: the same sources are installed.
        cache = os.path.join(self.data_dir, "pike/gpu-worker")
        for path in glob.glob(os.path.join(BUILD_DIR, "native/native-*")):
            if os.path.isdir(path):
                shutil.copytree(path, os.path.join(cache, os.path.basename(path)))
        known = set(os.listdir(cache))
        with subprocess.Popen(
                [os.path.join(self.prefix, "bin/pike"), "up", "--until-idle", "--metrics-base-port", "off"],
                cwd="/", env={**self.env, "PIKE_PYTHON": PYTHON}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
            try:
                self.wait_until_ready(up)
                examples = os.path.join(self.prefix, "share/pike/examples")
                done = self.pike("eval", f"{examples}/tasks/04_row_statistics.py",
                                 f"{examples}/candidates/valid/04_one_pass.py", "--set", "timed_ms_max=100")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("valid", done.stdout)
                rest = up.communicate(timeout=UP_S)[0]
                self.assertEqual(up.returncode, 0, rest)
            finally:
                up.kill()
        native = {name for name in os.listdir(cache) if name.startswith("native-") and "." not in name}
        self.assertEqual(native - known, set(), "the installed sources of judge and runner differ")

    def wait_until_ready(self, up):
        seen = []
        for line in up.stdout:
            seen.append(line)
            if "is ready" in line:
                return
        self.fail("pike up ended: " + "".join(seen))


if __name__ == "__main__":
    unittest.main()
