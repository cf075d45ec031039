import asyncio
import os
import tempfile
import threading
import unittest
from concurrent import futures

import calls

import filch


class ExecutorTest(unittest.TestCase):
    def setUp(self):
        self.executor = filch.Executor(max_workers=2)

    def tearDown(self):
        self.executor.shutdown()
        folder = os.path.expanduser("~/.cache/filch/python")
        self.assertEqual(os.listdir(folder), [], "files are left")

    def test_calls(self):
        e = self.executor
        futures_ = [e.submit(calls.square, n) for n in range(300)]
        self.assertEqual([f.result(60) for f in futures_], [n * n for n in range(300)])
        self.assertEqual(list(e.map(calls.square, range(3000))), [n * n for n in range(3000)])
        self.assertEqual(list(e.map(pow, [2, 3], [5, 2], chunksize=2)), [32, 9])
        self.assertEqual(list(e.map(calls.square, [])), [])
        f = e.submit(calls.square, x=4)
        self.assertEqual(f.result(60), 16)
        self.assertRegex(f.task, rf"^{e.job}\.\d+$")
        self.assertEqual((f.attempts, f.maybe_one_more), (1, False))
        self.assertTrue(f.node)

    def test_interpreters_stay(self):
        pids = set(self.executor.map(lambda_free_where, range(40)))
        self.assertLessEqual(len(pids), 4, "two nodes have two interpreters each, of which two run at a time")

    def test_exceptions(self):
        e = self.executor
        with self.assertRaises(KeyError) as c:
            e.submit(calls.fail, "x").result(60)
        self.assertEqual(c.exception.args, ("x",))
        self.assertIn("raise KeyError(x)", str(c.exception.__cause__))
        self.assertNotIn("_worker.py", str(c.exception.__cause__))
        for call, word in ((calls.odd, "calls.Odd: odd"), (calls.sticky, "calls.Sticky: sticky")):
            with self.assertRaises(filch.RemoteError) as c:
                e.submit(call).result(60)
            self.assertEqual(str(c.exception), word)
            self.assertIn("Traceback", str(c.exception.__cause__))
        with self.assertRaises(SystemExit) as c:
            e.submit(calls.leave).result(60)
        self.assertEqual(c.exception.code, 7)
        with self.assertRaises(TypeError):
            e.submit(calls.unpicklable).result(60)
        with self.assertRaises((TypeError, AttributeError)):
            e.submit(calls.size, threading.Lock()).result(60)
        good, bad = [e.submit(calls.square, 2), e.submit(calls.unpicklable)]
        self.assertEqual(good.result(60), 4)
        self.assertIsInstance(bad.exception(60), TypeError)
        self.assertEqual(e.submit(calls.speak).result(60), "said")

    def test_a_bad_one_among_mapped_calls(self):
        e = self.executor
        got = []
        with self.assertRaises(ZeroDivisionError):
            for x in e.map(divmod, [10] * 50, [*range(1, 31), 0, *range(1, 20)], chunksize=10):
                got.append(x)
        self.assertEqual(got, [divmod(10, n) for n in range(1, 31)])
        with self.assertRaises((TypeError, AttributeError)):
            list(e.map(calls.size, [b"a", threading.Lock(), b"b"], chunksize=3))

    def test_all_fail(self):
        failed = [self.executor.submit(calls.fail, n) for n in range(1000)]
        self.assertEqual([f.exception(120).args for f in failed], [(n,) for n in range(1000)])

    def test_long_calls_and_results(self):
        e = self.executor
        for n in (10_000, 30_000, 2_000_000, 50_000_000):
            self.assertEqual(e.submit(calls.size, bytes(n)).result(60), n)
            self.assertEqual(e.submit(calls.zeros, n).result(60), bytes(n))

    def test_cancel(self):
        with tempfile.TemporaryDirectory() as d:
            go = os.path.join(d, "go")
            held = [self.executor.submit(calls.hold, os.path.join(d, "began"), go) for _ in range(3)]
            later = [self.executor.submit(calls.note, os.path.join(d, "ran"), n) for n in range(20)]
            self.assertTrue(all(f.cancel() for f in later))
            open(go, "w").close()
            self.assertEqual([f.result(60) for f in held], ["held"] * 3)
            self.executor.shutdown()
            self.assertFalse(os.path.exists(os.path.join(d, "ran")))

    def test_callbacks_may_submit_and_shut_down(self):
        got, done = [], threading.Event()

        def end(f):
            got.append(f.result())
            self.executor.shutdown()
            done.set()

        def more(f):
            got.append(f.result())
            self.executor.submit(calls.square, 5).add_done_callback(end)

        self.executor.submit(calls.square, 4).add_done_callback(more)
        self.assertTrue(done.wait(60))
        self.assertEqual(got, [16, 25])

    def test_asyncio(self):
        async def work():
            loop = asyncio.get_running_loop()
            first = await loop.run_in_executor(self.executor, calls.square, 3)
            rest = await asyncio.gather(*(asyncio.wrap_future(self.executor.submit(calls.square, n)) for n in range(20)))
            return first, rest

        self.assertEqual(asyncio.run(work()), (9, [n * n for n in range(20)]))

    def test_shutdown(self):
        self.executor.shutdown(wait=False)
        self.executor.shutdown()
        with self.assertRaisesRegex(RuntimeError, "cannot schedule new futures after shutdown"):
            self.executor.submit(calls.square, 1)
        with self.assertRaisesRegex(RuntimeError, "cannot schedule new futures after shutdown"):
            self.executor.map(calls.square, [1])


def lambda_free_where(_):
    return calls.where()


class DeathTest(unittest.TestCase):
    def test_the_death_of_an_interpreter_is_named(self):
        with filch.Executor(max_workers=1) as e:
            with self.assertRaisesRegex(filch.WorkerDied, r"task \d+\.0 on .* died: .*SIGKILL"):
                e.submit(calls.die).result(60)
            self.assertEqual(e.submit(calls.square, 3).result(60), 9)

    def test_the_death_of_an_interpreter_is_retried(self):
        with tempfile.TemporaryDirectory() as d, filch.Executor(max_workers=1, retries=2) as e:
            f = e.submit(calls.die, os.path.join(d, "once"))
            self.assertEqual(f.result(60), "survived")
            self.assertEqual(f.attempts, 2)
            with self.assertRaisesRegex(filch.WorkerDied, "started 3 times"):
                e.submit(calls.die).result(60)

    def test_initializer(self):
        with filch.Executor(max_workers=1, initializer=calls.begin, initargs=("word",)) as e:
            self.assertEqual(e.submit(calls.begun).result(60), ["word"])
        with filch.Executor(max_workers=1, initializer=calls.stumble) as e:
            f = e.submit(calls.square, 1)
            with self.assertRaisesRegex(futures.BrokenExecutor, "no licence here"):
                f.result(60)
            with self.assertRaises(futures.BrokenExecutor):
                while True:
                    e.submit(calls.square, 1).result(60)

    def test_arguments(self):
        for n in (0, -1):
            with self.assertRaisesRegex(ValueError, "max_workers must be greater than 0"):
                filch.Executor(n)
        with self.assertRaises(TypeError):
            filch.Executor(initializer=3)
        with self.assertRaises(filch.ApiError) as c:
            filch.Executor(cpus=1000)
        self.assertEqual(c.exception.code, "no-fit")
        with self.assertRaises(filch.LauncherLost):
            filch.Executor(instance="there-is-none")
        with self.assertRaisesRegex(filch.LauncherLost, "cannot start"):
            filch.Executor(command=["/no/such/filch"])


class RunTest(unittest.TestCase):
    def test_run(self):
        r = filch.run(["sh", "-c", "echo rank $FILCH_RANK; echo err >&2"], ranks=3)
        self.assertEqual((r.state, r.exit_code, r.stdout, r.stderr), ("ok", 0, b"rank 0\nrank 1\nrank 2\n", b"err\n" * 3))
        self.assertEqual([(k.rank, k.exit_code) for k in r.ranks], [(0, 0), (1, 0), (2, 0)])

    def test_run_that_fails(self):
        with self.assertRaises(filch.RunFailed) as c:
            filch.run(["sh", "-c", "echo oh >&2; exit $FILCH_RANK"], ranks=2)
        self.assertEqual(c.exception.completed.exit_code, 1)
        r = filch.run(["sh", "-c", "printf '\\377'; exit 3"], check=False)
        self.assertEqual((r.state, r.exit_code, r.stdout), ("failed", 3, b"\xff"))
        with self.assertRaises(filch.ApiError):
            filch.run(["true"], ranks=1000)


if __name__ == "__main__":
    unittest.main()
