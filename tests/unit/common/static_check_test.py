"""static_check.py: refuses only what is certain, and in linear time."""

import importlib.util
import os
import sys
import tempfile
import time
import unittest

PATH = os.path.join(os.environ["PIKE_SOURCE_DIR"], "common", "inside", "static_check.py")
SPEC = importlib.util.spec_from_file_location("static_check", PATH)
static_check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(static_check)


def status(source):
    with tempfile.NamedTemporaryFile("wb", suffix=".py") as file:
        file.write(source.encode() if isinstance(source, str) else source)
        file.flush()
        stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
        try:
            return static_check.main(file.name)
        finally:
            sys.stdout.close()
            sys.stdout = stdout


class StaticCheckTest(unittest.TestCase):
    def test_what_may_define_an_entry(self):
        for source in ("class ModelNew: pass", "class Model: pass", "import x as Model",
                       "import Model.part", "from x import *", "ModelNew = make()",
                       "for Model in (): pass", "if x:\n    class Model: pass",
                       "exec('class Model: pass')", "globals()['Model'] = 1",
                       "def f():\n    global Model\n    class Model: pass\nf()",
                       "def __getattr__(name): return 1",
                       "match x:\n    case Model: pass", "try: pass\nexcept E as Model: pass"):
            with self.subTest(source):
                self.assertEqual(status(source), 0)

    def test_what_cannot(self):
        for source in ("", "x = 1", "class Other: pass", "print(ModelNew)", "x.Model = 1"):
            with self.subTest(source):
                self.assertEqual(status(source), static_check.NO_ENTRY)

    def test_what_is_not_python(self):
        for source in ("class Model(", b"class Model: pass\0", b"\xff\xfe"):
            with self.subTest(source):
                self.assertEqual(status(source), static_check.NOT_PYTHON)

    def test_long_chains_and_deep_nests_take_one_pass(self):
        chain = "if x == 0: pass\n" + "".join(f"elif x == {i}: pass\n" for i in range(1200))
        self.assertEqual(status(chain + "class Model: pass"), 0)
        nest = "".join("    " * i + "if x:\n" for i in range(80))
        body = ("    " * 80 + "y = [1, 2, 3]\n") * 500
        start = time.process_time()
        self.assertEqual(status(nest + body), static_check.NO_ENTRY)
        self.assertLess(time.process_time() - start, 5)


if __name__ == "__main__":
    unittest.main()
