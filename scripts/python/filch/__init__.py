"""Run Python calls and MPI programs on the nodes of a filch instance.

``Executor`` is a ``concurrent.futures.Executor`` whose calls run in Python interpreters on the
nodes; ``map_mpi`` calls a function in the ranks of MPI programs; ``run`` runs a program of ranks,
and a ``Workflow`` tasks that depend on each other.
"""

from ._api import ApiError, Connection, LauncherLost
from ._codec import RemoteError
from ._executor import CallLost, Executor, Future, WorkerDied
from ._mpi import map_mpi
from ._run import Completed, Rank, RunFailed, run
from ._workflow import Workflow, WorkflowFailed, WorkflowTask

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
    "Workflow",
    "WorkflowFailed",
    "WorkflowTask",
    "map_mpi",
    "run",
]
__version__ = "0.1.0"
