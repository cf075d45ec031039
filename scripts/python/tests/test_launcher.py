"""The death of launchers. The tests end launchers of the instance that FILCH_INSTANCE names, which
has three nodes on this machine."""

import collections
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import calls

import filch

FILCH = os.environ.get("FILCH_PROGRAM", "filch")


def nodes():
    return json.loads(subprocess.run([FILCH, "nodes", "--json"], check=True, capture_output=True).stdout)


class LauncherTest(unittest.TestCase):
    def kill_one(self, victim):
        """Kills the launcher of a node, and returns when another says so."""
        pid = next(n["pid"] for n in nodes() if n["name"] == victim)
        os.kill(pid, signal.SIGKILL)

    def test_calls_outlive_a_launcher(self):
        """No call is lost or done twice without a word, whichever launcher dies."""
        for which in ("serving", "other"):
            with self.subTest(which), tempfile.TemporaryDirectory() as d:
                ran = os.path.join(d, "ran")
                with filch.Connection() as c:
                    serving = c.ask("hello")["node"]
                victim = serving if which == "serving" else next(n["name"] for n in nodes() if n["name"] != serving and n["state"] == "up")
                with filch.Executor(retries=0) as e:
                    futures = [e.submit(calls.slow_note, ran, n) for n in range(400)]
                    futures[100].result(60)
                    self.kill_one(victim)
                    late = [e.submit(calls.slow_note, ran, n) for n in range(400, 500)]
                    futures += late
                    counts, good = None, 0
                    for n, f in enumerate(futures):
                        error = f.exception(120)
                        if error is None:
                            self.assertEqual(f.result(), n)
                            good += 1
                        else:
                            self.assertIsInstance(error, (filch.CallLost, filch.WorkerDied), f"call {n}")
                    with open(ran) as lines:
                        counts = collections.Counter(int(line) for line in lines)
                    for n, f in enumerate(futures):
                        most = f.attempts + f.maybe_one_more
                        self.assertLessEqual(counts[n], most, f"call {n} ran {counts[n]} times, and its future tells of {most}")
                        if f.exception() is None:
                            self.assertGreaterEqual(counts[n], 1, f"call {n} has a result and did not run")
                    # Of the calls under way on the dead node, results may be lost; no others.
                    self.assertGreaterEqual(good, len(futures) - 60)
                subprocess.run([FILCH, "up", "--instance", os.environ["FILCH_INSTANCE"]], check=True, capture_output=True)
                end = time.monotonic() + 60
                while [n["state"] for n in nodes()] != ["up"] * 3:
                    self.assertLess(time.monotonic(), end, "the launcher is not back")

    def test_the_only_launcher_comes_back(self):
        """With one node, records that were not on its disk are lost: calls that had no result run
        again, and their futures say so."""
        instance = "lone-node"
        filch_up = [FILCH, "up", "--instance", instance, "--nodes", "1", "--slots", "2"]
        env = {**os.environ, "FILCH_INSTANCE": instance}
        subprocess.run(filch_up, check=True, capture_output=True)
        try:
            with tempfile.TemporaryDirectory() as d, filch.Executor(instance=instance) as e:
                ran = os.path.join(d, "ran")
                futures = [e.submit(calls.slow_note, ran, n) for n in range(150)]
                futures[30].result(60)
                pid = json.loads(subprocess.run([FILCH, "nodes", "--json"], check=True, capture_output=True, env=env).stdout)[0]["pid"]
                link = e._state.link
                os.kill(pid, signal.SIGKILL)
                link._reader.join(60)  # the results of the dead launcher have come
                before = {n for n, f in enumerate(futures) if f.done()}
                subprocess.run([FILCH, "up", "--instance", instance], check=True, capture_output=True)
                self.assertEqual([f.result(120) for f in futures], list(range(150)))
                with open(ran) as lines:
                    counts = collections.Counter(int(line) for line in lines)
                for n, f in enumerate(futures):
                    self.assertGreaterEqual(counts[n], 1, f"call {n}")
                    if n not in before:
                        self.assertLessEqual(counts[n], f.attempts + f.maybe_one_more, f"call {n} ran more often than its future tells")
        finally:
            subprocess.run([FILCH, "down", "--instance", instance], check=True, capture_output=True)

    def test_no_launcher_is_left(self):
        e = filch.Executor(command=[FILCH, "api"], patience=0.5)
        with tempfile.TemporaryDirectory() as d:
            f = e.submit(calls.hold, os.path.join(d, "began"), os.path.join(d, "never"))
            e._state.connect = lambda lost: (_ for _ in ()).throw(filch.LauncherLost("gone"))
            while e._state.total == 0:
                time.sleep(0.01)
            e._state.link._process.kill()
            with self.assertRaisesRegex(Exception, "calls under way may have run"):
                f.result(60)
            with self.assertRaisesRegex(Exception, "broken"):
                e.submit(calls.square, 1)
            subprocess.run([FILCH, "cancel", "--yes", str(e.job)], check=True, capture_output=True)
        e.shutdown()


if __name__ == "__main__":
    unittest.main()
