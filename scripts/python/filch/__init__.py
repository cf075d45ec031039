"""Run Python calls and MPI programs on the nodes of a filch instance.

``Executor`` is a ``concurrent.futures.Executor`` whose calls run in Python interpreters on the
nodes; ``run`` runs a program of ranks. Both speak with a launcher through ``filch api``.
"""

from ._api import ApiError, Connection, LauncherLost
from ._executor import CallLost, Executor, Future, RemoteError, WorkerDied
from ._run import Completed, Rank, RunFailed, run

__all__ = [
    "ApiError",
    "CallLost",
    "Completed",
    "Connection",
    "Executor",
    "Future",
    "LauncherLost",
    "Rank",
    "RemoteError",
    "RunFailed",
    "WorkerDied",
    "run",
]
__version__ = "0.1.0"
