import unittest

import calls

import filch


class MapMPITest(unittest.TestCase):
    def test_map(self):
        self.assertEqual(filch.map_mpi(calls.total, range(5), [10] * 5, ranks=2), [(2, 2 * n + 10 + 1) for n in range(5)])

    def test_exceptions(self):
        with self.assertRaises(ValueError) as c:
            filch.map_mpi(calls.total, ["wrong"], [1], ranks=2)
        self.assertIn("in total", str(c.exception.__cause__))
        with self.assertRaisesRegex(ArithmeticError, "in rank 1"):
            filch.map_mpi(calls.one_fails, [1], ranks=2)
        with self.assertRaises(filch.RunFailed):
            filch.map_mpi(calls.dies, [1], ranks=2)
        with self.assertRaises(filch.ApiError):
            filch.map_mpi(calls.total, [1], [1], ranks=1000)


if __name__ == "__main__":
    unittest.main()
