"""The judge's two comparisons agree: compare.cc on host memory, and torch's operations on any device."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.environ["PIKE_NATIVE_DIR"])

import torch

import _pike_judge

DEVICE = os.environ.get("PIKE_DEVICE", "cpu")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
SPECIAL = (0.0, -0.0, 1.0, -3.0, math.inf, -math.inf, math.nan)


def pairs_of(numbers):
    """All pairs, as two lists."""
    return [a for a in numbers for _ in numbers], [b for _ in numbers for b in numbers]


class CompareTest(unittest.TestCase):
    def check(self, expected, actual, atol=1e-2, rtol=1e-2):
        """Both comparisons agree; (mismatched, first, abs, rel, expected there, actual there)."""
        host, by_torch = _pike_judge.compare_both(
            expected.to(DEVICE), actual.to(DEVICE), atol, rtol
        )
        self.assertEqual(host[:2], by_torch[:2], (expected, actual))
        for a, b in zip(host[2:], by_torch[2:]):
            same = a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)
            self.assertTrue(same, (host, by_torch, expected, actual))
        return host

    def test_special_numbers(self):
        for dtype in FLOATS:
            expected, actual = (torch.tensor(part, dtype=dtype) for part in pairs_of(SPECIAL))
            found = self.check(expected, actual)
            self.assertEqual(found[0], 7 * 7 - 7 - 2)
            for i in range(len(expected)):
                self.check(expected[i], actual[i])

    def test_special_complex_numbers(self):
        for dtype in COMPLEX:
            numbers = [complex(a, b) for a in SPECIAL for b in SPECIAL]
            expected, actual = (torch.tensor(part, dtype=dtype) for part in pairs_of(numbers))
            self.check(expected, actual)
            for i in range(0, len(expected), 17):
                self.check(expected[i : i + 1], actual[i : i + 1])

    def test_random_numbers(self):
        torch.manual_seed(1)
        for dtype in (*FLOATS, *COMPLEX):
            expected = torch.randn(1000, dtype=dtype)
            noise = torch.randn(1000, dtype=dtype) * 0.02
            found = self.check(expected, expected + noise)
            self.assertTrue(0 < found[0] < 1000)
            self.check(expected, expected + noise, 0, 0)
            self.assertEqual(self.check(expected, expected, 0, 0)[0], 0)

    def test_integers_and_bools(self):
        torch.manual_seed(2)
        for dtype in (*SIGNED, *UNSIGNED):
            expected = torch.randint(0, 100, (500,)).to(dtype)
            actual = torch.where(torch.rand(500) < 0.9, expected.long(), 7).to(dtype)
            self.assertGreater(self.check(expected, actual)[0], 0)
            top = torch.iinfo(dtype).max
            self.check(torch.tensor([top, 0], dtype=dtype), torch.tensor([top - 1, top], dtype=dtype))
        flags = torch.rand(100) < 0.5
        self.assertEqual(self.check(flags, ~flags)[0], 100)
        odd = torch.full((3,), 2, dtype=torch.uint8).view(torch.bool)
        self.assertEqual(self.check(torch.ones(3, dtype=torch.bool), odd)[0], 3)

    def test_layouts_and_many_pieces(self):
        torch.manual_seed(3)
        expected = torch.randn(3000, 3000)
        for actual in (expected.t().contiguous().t(), torch.stack([expected, expected], 2)[:, :, 1]):
            self.assertFalse(actual.is_contiguous())
            self.assertEqual(self.check(expected, actual)[0], 0)
        wrong = expected.clone()
        wrong[2000, 17] += 1
        wrong[2999, 2999] += 2
        found = self.check(expected, wrong)
        self.assertEqual(found[:2], (2, 2000 * 3000 + 17))
        self.check(torch.randn(0, 3), torch.randn(0, 3))
        self.check(torch.tensor(1.0), torch.tensor(2.0))


if __name__ == "__main__":
    unittest.main()
