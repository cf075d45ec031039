"""joblib on a filch instance: ``register()``, then ``joblib.parallel_backend("filch", executor=e)``."""

from __future__ import annotations

import functools
from concurrent import futures
from typing import Any, Callable, Optional, Set

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

from ._executor import Executor


class FilchBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Hands the batches of joblib to an executor, which the caller shuts down."""

    supports_timeout = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, executor: Optional[Executor] = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if executor is None:
            raise ValueError('joblib.parallel_backend("filch", executor=...) needs a filch.Executor')
        self.executor = executor
        self.open: Set[futures.Future] = set()

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs < 0:
            return max(1, self.executor.workers + 1 + (-1 if n_jobs is None else n_jobs))
        return n_jobs

    def apply_async(self, func: Callable[[], Any], callback: Optional[Callable[[Any], None]] = None) -> Any:
        future: Any = self.executor.submit(func)
        future.get = functools.partial(futures.Future.result, future)
        self.open.add(future)
        future.add_done_callback(self.open.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def abort_everything(self, ensure_ready: bool = True) -> None:
        for future in list(self.open):
            future.cancel()


def register() -> None:
    """Makes "filch" the name of a backend of joblib."""
    register_parallel_backend("filch", FilchBackend)
