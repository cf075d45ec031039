"""Tasks that depend on each other."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

Names = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


class WorkflowFailed(Exception):
    """A task of the workflow did not end well, or the workflow cannot be run."""

    def __init__(self, text: str, job: Optional[int]) -> None:
        super().__init__(text)
        self.job = job

    def __reduce__(self) -> Any:
        return WorkflowFailed, (self.args[0], self.job)


class WorkflowTask:
    """A task of a workflow."""

    def __init__(self, name: str, outputs: List[str]) -> None:
        self.name, self.outputs = name, outputs


def _names(of: Optional[Names]) -> List[str]:
    if of is None:
        return []
    if isinstance(of, (str, os.PathLike)):
        return [os.fspath(of)]
    return [os.fspath(n) for n in of]


class Workflow:
    """Collects tasks in a ``with`` block, and runs them at its end, as ``filch workflow run`` does.

    Files are named relative to ``folder``. A task that reads a file waits for the task that writes
    it. ``defaults`` are keys for all tasks, as in docs/workflows.md. ``options`` are further words
    of ``filch workflow run``. After the block ``job`` is the number of the job.
    """

    def __init__(
        self,
        name: str = "python",
        *,
        folder: Union[str, "os.PathLike[str]"] = ".",
        env: Optional[Mapping[str, str]] = None,
        defaults: Optional[Mapping[str, Any]] = None,
        instance: Optional[str] = None,
        options: Sequence[str] = (),
    ) -> None:
        self.name, self.folder, self.instance, self.options = name, os.path.abspath(folder), instance, list(options)
        self.job: Optional[int] = None
        self._file: Dict[str, Any] = {"filch": 1, "name": name, "tasks": {}}
        if env:
            self._file["env"] = dict(env)
        if defaults:
            self._file["defaults"] = dict(defaults)

    def task(
        self,
        run: Union[str, Sequence[Any]],
        *,
        name: Optional[str] = None,
        inputs: Optional[Names] = None,
        outputs: Optional[Names] = None,
        after: Union[WorkflowTask, str, Iterable[Union[WorkflowTask, str]], None] = None,
        **keys: Any,
    ) -> WorkflowTask:
        """Adds a task: a text for a shell, or a list of words. Further keys are those of
        docs/workflows.md, as ``cpus``, ``mem`` and ``ranks``."""
        tasks = self._file["tasks"]
        if name is None:
            name = f"task-{len(tasks)}"
        if name in tasks:
            raise ValueError(f"the workflow has a task {name!r} already")
        written = _names(outputs)
        waits = [after] if isinstance(after, (WorkflowTask, str)) else list(after or ())
        entry: Dict[str, Any] = {"run": run if isinstance(run, str) else [os.fspath(w) if isinstance(w, os.PathLike) else str(w) for w in run]}
        for key, value in (
            ("inputs", _names(inputs)),
            ("outputs", written),
            ("after", [w.name if isinstance(w, WorkflowTask) else w for w in waits]),
        ):
            if value:
                entry[key] = value
        entry.update(keys)
        tasks[name] = entry
        return WorkflowTask(name, written)

    def run(self) -> None:
        """Runs the tasks, and returns when all have ended."""
        words = [os.environ.get("FILCH_PROGRAM", "filch"), "workflow", "run", "--json", *self.options]
        if self.instance:
            words[1:1] = ["--instance", self.instance]
        with tempfile.NamedTemporaryFile("w", prefix=f".{os.path.basename(self.name)}-", suffix=".json", dir=self.folder) as f:
            json.dump(self._file, f)
            f.flush()
            done = subprocess.run([*words, f.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.stdout.strip():
            self.job = json.JSONDecoder().raw_decode(done.stdout.strip())[0]["id"]
        if done.returncode != 0:
            raise WorkflowFailed(done.stderr.replace(f.name, self.name).replace("filch: error: ", "").replace("filch: hint: ", "").strip() or f"job {self.job} failed", self.job)

    def __enter__(self) -> "Workflow":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.run()
