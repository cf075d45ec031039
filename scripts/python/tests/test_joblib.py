import operator
import unittest

import calls
import joblib

import filch
import filch.joblib


class JoblibTest(unittest.TestCase):
    def test_parallel(self):
        filch.joblib.register()
        with filch.Executor() as e, joblib.parallel_backend("filch", executor=e):
            self.assertEqual(joblib.effective_n_jobs(-1), e.workers)
            self.assertEqual(joblib.Parallel()(joblib.delayed(calls.square)(n) for n in range(200)), [n * n for n in range(200)])
            # With cloudpickle, functions travel that no module has.
            self.assertEqual(joblib.Parallel(n_jobs=2)(joblib.delayed(lambda x: x + 1)(n) for n in range(5)), [1, 2, 3, 4, 5])
            self.assertNotIn(calls.where(), joblib.Parallel()(joblib.delayed(calls.where)() for _ in range(4)))
            with self.assertRaises(ZeroDivisionError):
                joblib.Parallel()(joblib.delayed(operator.floordiv)(1, n) for n in range(3, -3, -1))
            self.assertEqual(joblib.Parallel()(joblib.delayed(calls.square)(n) for n in range(3)), [0, 1, 4])
        with self.assertRaises(ValueError):
            joblib.parallel_backend("filch")


if __name__ == "__main__":
    unittest.main()
