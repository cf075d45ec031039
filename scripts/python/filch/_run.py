"""Programs of ranks."""

from __future__ import annotations

import base64
import os
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ._api import Connection


class Rank(NamedTuple):
    """How a rank of a run ended. The streams are their ends."""

    rank: int
    node: str
    exit_code: Optional[int]
    stdout: bytes
    stderr: bytes


class Completed(NamedTuple):
    """How a run ended."""

    job: int
    args: List[str]
    state: str
    exit_code: int
    cause: str
    ranks: List[Rank]

    @property
    def stdout(self) -> bytes:
        """The standard output of all ranks, rank by rank."""
        return b"".join(r.stdout for r in self.ranks)

    @property
    def stderr(self) -> bytes:
        """The standard error of all ranks, rank by rank."""
        return b"".join(r.stderr for r in self.ranks)


class RunFailed(Exception):
    """A run ended with another code than 0. ``completed`` says how."""

    def __init__(self, completed: Completed) -> None:
        last = completed.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
        super().__init__(
            f"job {completed.job} ({completed.args[0]}) is {completed.state} with {completed.exit_code}"
            + (f": {completed.cause}" if completed.cause else "")
            + (f": {last}" if last else "")
        )
        self.completed = completed

    def __reduce__(self) -> Any:
        return RunFailed, (self.completed,)


def stream(of: Optional[Dict[str, Any]]) -> bytes:
    """The bytes of a stream in a result."""
    if not of:
        return b""
    return base64.b64decode(of["base64"]) if "base64" in of else str(of.get("text", "")).encode()


def run(
    args: Sequence[str],
    ranks: int = 1,
    *,
    nodes: Optional[str] = None,
    mpi: Optional[str] = None,
    cpus: int = 1,
    gpus: Optional[str] = None,
    mem: Optional[str] = None,
    time: Optional[str] = None,
    name: Optional[str] = None,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    check: bool = True,
    output: int = 1 << 20,
    instance: Optional[str] = None,
    command: Optional[Sequence[str]] = None,
) -> Completed:
    """Runs a program with ``ranks`` ranks, and returns when all have ended.

    ``output`` is how many bytes of the end of each stream of a rank come back. With ``check``, an
    end with another code than 0 raises ``RunFailed``. Ctrl-C cancels the run.
    """
    fields: Dict[str, Any] = {
        "argv": [os.fspath(a) for a in args],
        "ranks": ranks,
        "cpus": cpus,
        "cwd": os.path.abspath(cwd or os.getcwd()),
        "env": dict(os.environ if env is None else env),
    }
    for key, value in (("nodes", nodes), ("mpi", mpi), ("gpus", gpus), ("mem", mem), ("time", time), ("name", name)):
        if value is not None:
            fields[key] = str(value)
    with Connection(instance, command) as c:
        completed = run_over(c, fields, output)
    if check and completed.exit_code != 0:
        raise RunFailed(completed)
    return completed


def run_over(c: Connection, fields: Dict[str, Any], output: int) -> Completed:
    """Runs a program over a connection, and returns when all ranks have ended."""
    job = c.ask("submit", **fields)["job"]
    found: List[Rank] = []
    ended: List[Any] = []
    done = threading.Event()

    def end(result: Any, error: Optional[Exception]) -> None:
        ended.extend((result, error))
        done.set()

    def news(n: Dict[str, Any]) -> None:
        found.append(Rank(n["rank"], n.get("node", ""), n["exit_code"], stream(n.get("stdout")), stream(n.get("stderr"))))

    try:
        c.send("results", end, news, job=job, follow=True, output=output)
        done.wait()
    except KeyboardInterrupt:
        c.ask("cancel", job=job, reason="Ctrl-C in Python")
        raise
    if ended[1] is not None:
        raise ended[1]
    info = ended[0]
    return Completed(job, list(fields["argv"]), info["state"], info["exit_code"], info.get("cause", ""), sorted(found))
