"""Calls of a function in all ranks of an MPI program."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar

from . import _codec
from ._api import Connection
from ._run import RunFailed, run_over

T = TypeVar("T")


def map_mpi(
    fn: Callable[..., T],
    *iterables: Iterable[Any],
    ranks: int,
    cpus: int = 1,
    gpus: Optional[str] = None,
    mem: Optional[str] = None,
    time: Optional[str] = None,
    nodes: Optional[str] = None,
    mpi: Optional[str] = None,
    at_once: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
    folder: Optional[str] = None,
    python: Optional[str] = None,
    instance: Optional[str] = None,
    command: Optional[Sequence[str]] = None,
) -> List[T]:
    """Calls ``fn`` with each set of arguments in all ranks of an MPI program of its own, and
    returns what rank 0 returned each time.

    ``fn`` uses ``mpi4py.MPI.COMM_WORLD``. ``at_once`` programs at most wait for slots or run at a
    time; None is as many as the slots have room for. The first call that fails raises.
    """
    own = _codec.new_folder(folder)
    pool: Optional[ThreadPoolExecutor] = None
    try:
        setup = os.path.join(own, "setup")
        _codec.write_setup(setup, None, ())
        base: Dict[str, Any] = {"ranks": ranks, "cpus": cpus, "cwd": os.getcwd(), "env": _codec.variables(env), "name": getattr(fn, "__name__", "python")}
        for key, value in (("nodes", nodes), ("mpi", mpi or wire_up()), ("gpus", gpus), ("mem", mem), ("time", time)):
            if value is not None:
                base[key] = str(value)
        with Connection(instance, command) as c:
            if at_once is None:
                slots = sum(n["slots"] for n in c.ask("nodes") if n["state"] == "up")
                at_once = max(1, slots // (ranks * cpus))

            def call(number: int, args: Any) -> T:
                path = os.path.join(own, f"call-{number}")
                with open(path, "wb") as f:
                    f.write(_codec.pickler.dumps((fn, args), _codec.PROTOCOL))
                completed = run_over(c, {**base, "argv": [python or sys.executable, "-m", "filch._mpi", setup, path]}, 1 << 16)
                return result(path, completed, ranks)

            pool = ThreadPoolExecutor(at_once, "filch-mpi")
            calls = [pool.submit(call, n, args) for n, args in enumerate(zip(*iterables))]
            try:
                return [f.result() for f in calls]
            finally:
                for f in calls:
                    f.cancel()
                pool.shutdown()
    finally:
        shutil.rmtree(own, ignore_errors=True)


def wire_up() -> Optional[str]:
    """How the MPI of mpi4py wires up, as far as its files tell: a launcher does not look into the
    packages of a venv."""
    spec = importlib.util.find_spec("mpi4py")
    for folder in spec.submodule_search_locations or () if spec else ():
        for name in sorted(os.listdir(folder)):
            if name.startswith("MPI.") and name.endswith(".so"):
                with open(os.path.join(folder, name), "rb") as f:
                    return "pmix" if b"\0libmpi.so." in f.read() else None
    return None


def result(path: str, completed: Any, ranks: int) -> Any:
    """What the ranks have left in files: the exception of the first rank that has one, or the
    value of rank 0."""
    for rank in range(ranks):
        name = f"{path}-{rank}"
        if os.path.exists(name):
            with open(name, "rb") as f:
                ok, value = _codec.load(f.read())
            if not ok:
                raise _codec.revive(value)
            if rank == 0:
                answer = value
    if completed.exit_code != 0:
        raise RunFailed(completed)
    return answer


def main() -> int:
    """A rank: does the call, and leaves what comes of it in a file."""
    setup, path = sys.argv[1:3]
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    code = 0
    value: Any = None
    try:
        _codec.read_setup(setup)
        with open(path, "rb") as f:
            fn, args = _codec.pickle.load(f)
        value = fn(*args)
        word = _codec.dump((True, value), _codec.INLINE_RESULT, f"{path}-{rank}-long") if rank == 0 else b""
    except BaseException as e:
        word, code = _codec.dump((False, _codec.describe(e)), _codec.INLINE_RESULT, f"{path}-{rank}-long"), 1
    if word:
        with open(f"{path}-{rank}.part", "wb") as f:
            f.write(word)
        os.rename(f"{path}-{rank}.part", f"{path}-{rank}")
    if code:
        sys.stderr.flush()
        os._exit(code)  # other ranks may wait for this one: filch ends them
    return 0


if __name__ == "__main__":
    sys.exit(main())
