"""CPython's own tests of executors, on filch.Executor. Debian has them in libpython3.11-testsuite.

The tests outside of these four classes are of the pools of CPython, and use their private parts.
"""

import os
import sys
import unittest

from test import test_concurrent_futures as theirs

import filch

# Tests of what a filch.Executor does otherwise, with the reason.
EXCEPTIONS = {
    "test_interpreter_shutdown": "reads what the call prints: the output of calls stays on the nodes",
    "test_hang_gh83386": "the same",
}


class FilchExecutor(filch.Executor):
    pass


class FilchMixin(theirs.ExecutorMixin):
    executor_type = FilchExecutor

    def create_event(self):
        return self.manager.Event()


def ok(*args, **env):
    """assert_python_ok, for scripts that import the executor."""
    folder = os.path.dirname(os.path.dirname(filch.__file__))
    args = [a.replace("from concurrent.futures import FilchExecutor", f"import sys; sys.path.insert(0, {folder!r}); from filch import Executor as FilchExecutor") for a in args]
    return their_ok(*args, **env)


their_ok, theirs.assert_python_ok = theirs.assert_python_ok, ok


def load_tests(loader, *_):
    suite, names = unittest.TestSuite(), set()
    for name in ("ExecutorTest", "ExecutorShutdownTest", "WaitTests", "AsCompletedTests"):
        case = type("Filch" + name, (FilchMixin, getattr(theirs, name), theirs.BaseTestCase), {"__module__": __name__})
        globals()[case.__name__] = case
        for test in loader.getTestCaseNames(case):
            names.add(test)
            if test not in EXCEPTIONS:
                suite.addTest(case(test))
    missing = set(EXCEPTIONS) - names
    if missing or suite.countTestCases() < 25:
        sys.exit(f"CPython has other tests now: {missing} of EXCEPTIONS are missing, {suite.countTestCases()} tests are left")
    return suite


if __name__ == "__main__":
    unittest.main(verbosity=2)
