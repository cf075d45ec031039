import os
import pathlib
import tempfile
import unittest

import filch


class WorkflowTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_files_make_the_order(self):
        (self.folder / "raw").write_text("3\n1\n2\n")
        with filch.Workflow("sorting", folder=self.folder, env={"LC_ALL": "C"}) as w:
            last = w.task("tail -n 1 sorted > last", inputs="sorted", outputs="last", name="last")
            w.task(["sort", "-o", "sorted", "raw"], inputs=["raw"], outputs=[pathlib.Path("sorted")], cpus=1)
            w.task("cat last last > twice; echo $LC_ALL >> twice", inputs=last.outputs, outputs="twice", after=[last])
        self.assertEqual((self.folder / "twice").read_text(), "3\n3\nC\n")
        self.assertGreater(w.job, 0)
        self.assertEqual([n for n in os.listdir(self.folder) if n.endswith(".json")], [])

    def test_failures(self):
        with self.assertRaises(filch.WorkflowFailed) as c, filch.Workflow(folder=self.folder) as w:
            w.task("exit 3", name="bad")
            w.task("true", after="bad")
        self.assertEqual(c.exception.job, w.job)
        self.assertIn("1 failed, 1 skipped", str(c.exception))
        with self.assertRaisesRegex(filch.WorkflowFailed, "absent"), filch.Workflow(folder=self.folder) as w:
            w.task("true", after="absent")
        self.assertIsNone(w.job)
        with self.assertRaisesRegex(ZeroDivisionError, ""), filch.Workflow(folder=self.folder) as w:
            w.task("touch ran", outputs="ran")
            1 / 0
        self.assertEqual(os.listdir(self.folder), [])
        with self.assertRaises(ValueError), filch.Workflow(folder=self.folder) as w:
            w.task("true", name="a")
            w.task("true", name="a")


if __name__ == "__main__":
    unittest.main()
