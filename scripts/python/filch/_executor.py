"""A concurrent.futures.Executor over a filch instance."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import shutil
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from concurrent import futures
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

from . import _codec
from ._api import ApiError, Connection, LauncherLost
from ._run import stream

T = TypeVar("T")

TASKS_MAX = 2000  # tasks under way; more wait here, where they can be cancelled
AHEAD = 0.1  # seconds of work under way for each interpreter
CHUNK_TIME = 0.05  # seconds of the calls of map that go together
CHUNK_MAX = 1024
REPLICAS = 3  # nodes with which the death of one loses no record
LINE_BYTES = 1 << 20  # of the calls of a request
TAIL = 2 << 20  # the end of the output of a call that is read: its result


class WorkerDied(RuntimeError):
    """The interpreter ended during the call, as often as the call may be tried."""


class CallLost(RuntimeError):
    """The call may have run, and its result is lost with a node or a launcher."""


class Future(futures.Future):
    """A call. Once it has ended, ``task`` is its task in filch, as 7.41; ``node`` the node that ran
    it; ``attempts`` how often it was started; ``maybe_one_more`` says that a start on a node that
    died may not be counted. The calls that ``map`` puts together share their task."""

    task: Optional[str] = None
    node: Optional[str] = None
    attempts: int = 0
    maybe_one_more: bool = False


class _Call:
    __slots__ = ("args", "fn", "future", "group", "kwargs")

    def __init__(self, future: Future, fn: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], group: Optional["_Group"]) -> None:
        self.future, self.fn, self.args, self.kwargs, self.group = future, fn, args, kwargs, group


class _Group:
    """The calls of a map: neighbors may share a task."""

    def __init__(self, size: int, left: int) -> None:
        self.size, self.left = size, left  # size 0: as their times say


class _Task:
    __slots__ = ("calls", "file", "line", "maybe")

    def __init__(self, calls: List[_Call], line: str, file: Optional[str]) -> None:
        self.calls, self.line, self.file = calls, line, file
        self.maybe = False  # it may have run as a task that the records have lost


class _State:
    """What an executor and its thread share; the thread keeps no reference to the executor."""

    def __init__(self, job: int, workers: int, submit: Dict[str, Any], connect: Callable[[Callable[[], None]], Connection], folder: str, patience: float) -> None:
        self.job, self.workers, self.submit_fields, self.connect, self.folder, self.patience = job, workers, submit, connect, folder, patience
        self.cond = threading.Condition()  # guards the fields below
        self.pending: Deque[_Call] = deque()
        self.ready: List[List[_Call]] = []  # running for their callers, and not sent yet
        self.tasks: Dict[int, _Task] = {}  # by number, added and not ended
        self.early: Dict[int, Dict[str, Any]] = {}  # ends that came before their numbers
        self.total = 0  # tasks that were added
        self.again: Deque[_Task] = deque()  # tasks that never began, to be sent anew
        self.lost = False  # the connection
        self.stopped = False
        self.broken: Optional[BaseException] = None
        self.mean = 0.0  # seconds of a task, as of the last ones
        self.each = 0.0  # seconds of a call of map
        self.link: Optional[Connection] = None
        self.files = itertools.count()
        self.loads: Deque[Tuple[_Task, bytes]] = deque()  # long results
        self.loading = 0
        self.thread = threading.Thread(target=self._run, name="filch-executor", daemon=True)
        self.loader: Optional[threading.Thread] = None

    # On the caller's thread.

    def put(self, call: _Call) -> None:
        with self.cond:
            self.check()
            if not self.pending and self.room() > 0 and call.future.set_running_or_notify_cancel():
                self.ready.append([call])
            else:
                self.pending.append(call)
            self.cond.notify_all()

    def check(self) -> None:
        if self.broken is not None:
            raise futures.BrokenExecutor(f"the executor is broken: {self.broken}") from self.broken
        if self.stopped:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if _exiting:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    def stop(self, wait: bool, cancel: bool) -> None:
        with self.cond:
            self.stopped = True
            if cancel:
                while self.pending:
                    call = self.pending.popleft()
                    if call.future.cancel():
                        call.future.set_running_or_notify_cancel()
            self.cond.notify_all()
        # A callback of a future runs on a thread that the end needs.
        if wait and threading.current_thread().name not in ("filch-api", "filch-results", "filch-executor"):
            self.thread.join()

    # On the thread of the connection.

    def on_lost(self) -> None:
        with self.cond:
            self.lost = True
            self.cond.notify_all()

    def on_news(self, news: Dict[str, Any]) -> None:
        with self.cond:
            number = news["task"]
            task = self.tasks.pop(number, None)
            if task is None:
                if number >= self.total:
                    self.early[number] = news
                return
            self.cond.notify_all()
        self.settle(task, news)

    def on_end(self, _: Any, error: Optional[Exception]) -> None:
        if isinstance(error, ApiError) and error.code not in ("unavailable", "timeout", "cancelled"):
            with self.cond:
                self.broken = self.broken or error
                self.cond.notify_all()
            return
        self.on_lost()

    # Ends of tasks.

    def settle(self, task: _Task, news: Dict[str, Any]) -> None:
        """Hands out what the end of a task says."""
        for call in task.calls:
            call.future.task = f"{news['job']}.{news['task']}"
            call.future.node = news.get("node")
            call.future.attempts = news["attempts"]
            call.future.maybe_one_more = news.get("maybe_one_more", False) or task.maybe
        errors = stream(news.get("stderr"))
        word = errors.rsplit(_codec.MARK, 1)[1].strip() if _codec.MARK in errors else b""
        name = f"the call of task {news['job']}.{news['task']}"
        again = f", started {news['attempts']} times" if news["attempts"] > 1 else ""
        if news["state"] == "ok" and word[:1] == b"f":
            with self.cond:
                self.loads.append((task, word))
                self.loading += 1
                if self.loader is None:
                    self.loader = threading.Thread(target=self._load, name="filch-results", daemon=True)
                    self.loader.start()
                self.cond.notify_all()
            return
        if news["state"] == "ok" and word:
            self.unpack(task, word)
        elif news["state"] == "ok":
            self.fail(task, CallLost(f"{name} has run on {news.get('node')}, and its result is lost with the output of the node"))
        elif news["state"] == "lost" and news["attempts"] == 0 and not news.get("maybe_one_more"):
            with self.cond:
                self.again.append(task)  # the call has never begun
                self.cond.notify_all()
            return
        elif news["state"] == "lost":
            self.fail(task, CallLost(f"{name} is lost with node {news.get('node')}{again}: it may have run"))
        elif news["state"] in ("cancelled", "skipped"):
            self.fail(task, futures.CancelledError(f"{name} was cancelled: {news.get('reason') or 'filch cancel'}"))
        else:
            said = errors.decode(errors="replace").strip().rsplit("\n", 1)[-1]
            self.fail(task, WorkerDied(f"the interpreter of {name} on {news.get('node')} died{again}: {said or news['state']}"))
        self.drop(task)

    def _load(self) -> None:
        """Reads long results, beside the thread of the connection."""
        while True:
            with self.cond:
                while not self.loads:
                    if self.stopped and not self.tasks and not self.pending and self.loading == 0 or self.broken:
                        return
                    self.cond.wait(1)
                task, word = self.loads.popleft()
            self.unpack(task, word)
            self.drop(task)
            del task
            with self.cond:
                self.loading -= 1
                self.cond.notify_all()

    def unpack(self, task: _Task, word: bytes) -> None:
        try:
            what, *rest = _codec.load(word)
        except BaseException as e:
            e.args = (f"the result cannot be read here: {e}",) if isinstance(e, (ImportError, AttributeError, FileNotFoundError)) else e.args
            self.fail(task, e)
            return
        if what == "unready":
            error = futures.BrokenExecutor(f"the initializer failed on a node: {rest[0][1]}")
            error.__cause__ = _codec.RemoteTraceback(rest[0][2])
            with self.cond:
                self.broken = self.broken or error
                self.cond.notify_all()
            self.fail(task, error)
            return
        if what == "unread":
            for call in task.calls:
                finish(call.future, False, rest[0])
            return
        took, outcomes = rest
        with self.cond:
            self.mean = took if self.mean == 0 else 0.8 * self.mean + 0.2 * took
            if task.calls[0].group is not None:
                each = took / len(outcomes)
                self.each = each if self.each == 0 else 0.7 * self.each + 0.3 * each
            self.cond.notify_all()
        for call, (ok, value) in zip(task.calls, outcomes):
            finish(call.future, ok, value)

    def fail(self, task: _Task, error: BaseException) -> None:
        for call in task.calls:
            set_exception(call.future, error)

    def drop(self, task: _Task) -> None:
        if task.file is not None:
            try:
                os.unlink(task.file)
            except OSError:
                pass
        task.calls.clear()

    # On the executor's own thread.

    def _run(self) -> None:
        try:
            self.begin()
            while self.step():
                pass
        except BaseException as e:
            with self.cond:
                self.broken = self.broken or e
        self.end()

    def begin(self) -> None:
        self.link = self.connect(self.on_lost)
        self.follow()

    def follow(self) -> None:
        assert self.link is not None
        with self.cond:
            first = min(self.tasks, default=self.total)
        self.link.send("results", self.on_end, self.on_news, job=self.job, follow=True, output=TAIL, first=first)

    def room(self) -> int:
        """How many more tasks go to filch now."""
        if self.mean == 0:
            most = self.workers + 1
        else:
            most = max(self.workers + 1, min(TASKS_MAX, math.ceil(self.workers * AHEAD / max(self.mean, 1e-5))))
        return most - len(self.tasks) - len(self.ready)

    def step(self) -> bool:
        """Sends calls, or waits for something to do. False: all is done."""
        with self.cond:
            while True:
                if self.broken is not None:
                    return False
                if self.lost:
                    break
                if self.ready or (self.pending or self.again) and self.room() > 0:
                    break
                if self.stopped and not self.pending and not self.again and not self.tasks and self.loading == 0:
                    return False
                self.cond.wait()
            lost = self.lost
            chosen = [] if lost else self.choose()
        if lost:
            self.recover([])
            return True
        tasks = [t for t in (self.pack(calls) for calls in chosen) if t is not None]
        with self.cond:
            while self.again and len(tasks) < TASKS_MAX:
                tasks.append(self.again.popleft())
        while tasks:
            tasks = self.add(tasks)
        return True

    def choose(self) -> List[List[_Call]]:
        """Takes calls that go to filch now, by tasks; under cond."""
        room = self.room()
        chosen, self.ready = self.ready, []
        room += len(chosen)
        while self.pending and len(chosen) < room:
            calls = [self.pending.popleft()]
            group = calls[0].group
            if group is not None:
                size = group.size or self.chunk(group)
                while len(calls) < size and self.pending and self.pending[0].group is group:
                    calls.append(self.pending.popleft())
                group.left -= len(calls)
            calls = [c for c in calls if c.future.set_running_or_notify_cancel()]
            if calls:
                chosen.append(calls)
        return chosen

    def chunk(self, group: _Group) -> int:
        """How many calls of a map go together: CHUNK_TIME of work, and a quarter of a worker's part."""
        if self.each == 0:
            return 1
        return max(1, min(CHUNK_MAX, int(CHUNK_TIME / max(self.each, 1e-7)), math.ceil(group.left / (4 * self.workers))))

    def pack(self, calls: List[_Call]) -> Optional[_Task]:
        path = os.path.join(self.folder, f"call-{next(self.files)}")
        try:
            word = _codec.dump((calls[0].fn, [(c.args, c.kwargs) for c in calls]), _codec.INLINE_CALL, path)
        except BaseException as e:
            if len(calls) == 1:
                set_exception(calls[0].future, e)
                return None
            with self.cond:
                for c in calls:  # one of them cannot be pickled: each alone
                    c.group = None
            for c in calls:
                task = self.pack([c])
                if task is not None:
                    with self.cond:
                        self.again.append(task)
            return None
        for c in calls:
            c.fn, c.args, c.kwargs = None, (), {}  # type: ignore[assignment]
        return _Task(calls, word.decode(), path if word[:1] == b"f" else None)

    def add(self, tasks: List[_Task]) -> List[_Task]:
        """Adds tasks to the job, and returns those that did not fit into the request."""
        size, n = 0, 0
        while n < len(tasks) and (n == 0 or size + len(tasks[n].line) < LINE_BYTES):
            size += len(tasks[n].line)
            n += 1
        now, rest = tasks[:n], tasks[n:]
        assert self.link is not None
        try:
            self.added(now, self.link.ask("add", job=self.job, lines=[t.line for t in now])["first"])
        except (LauncherLost, ApiError) as e:
            if isinstance(e, ApiError) and e.code not in ("unavailable", "timeout", "cancelled"):
                with self.cond:
                    self.broken = self.broken or e
                for t in now + rest:
                    self.fail(t, futures.BrokenExecutor(f"the calls cannot be added to job {self.job}: {e}"))
                return []
            self.recover(now)
        return rest

    def added(self, tasks: Sequence[_Task], first: int) -> None:
        ended: List[Tuple[_Task, Dict[str, Any]]] = []
        with self.cond:
            for i, task in enumerate(tasks, first):
                news = self.early.pop(i, None)
                if news is None:
                    self.tasks[i] = task
                else:
                    ended.append((task, news))
            self.total = first + len(tasks)
            for i in [i for i in self.early if i < self.total]:
                del self.early[i]
        for task, news in ended:
            self.settle(task, news)

    def recover(self, open_tasks: List[_Task]) -> None:
        """Finds a launcher again. Nobody knows whether open_tasks were added: the job's number of
        tasks tells, as this thread alone adds tasks, and one request at a time."""
        deadline = time.monotonic() + self.patience
        pause = 0.05
        while True:
            if self.link is not None:
                self.link.close()
                self.link = None
            with self.cond:
                self.lost = False
            try:
                self.link = self.connect(self.on_lost)
                settled = self.count()
                few = sum(n["state"] == "up" for n in self.link.ask("nodes")) < REPLICAS
                break
            except (LauncherLost, ApiError) as e:
                if time.monotonic() > deadline:
                    raise LauncherLost(f"no launcher answers about job {self.job} within {self.patience:.0f} s; calls under way may have run: {e}") from e
            time.sleep(pause)
            pause = min(pause * 2, 1)
        with self.cond:
            # The only replica of the records may have died before they were on its disk.
            for task in self.tasks.values():
                task.maybe = task.maybe or few and not self.submit_fields["once"]
            gone = [self.tasks.pop(n) for n in sorted(self.tasks) if n >= settled]
            self.total = min(self.total, settled)
        for task in gone:
            task.maybe = True
            if self.submit_fields["once"]:
                self.fail(task, CallLost(f"the call is lost with the records of job {self.job}: it may have run"))
        if not self.submit_fields["once"]:
            with self.cond:
                self.again.extend(gone)
        known = min(max(settled - self.total, 0), len(open_tasks))
        if known:
            self.added(open_tasks[:known], self.total)
        with self.cond:
            self.again.extend(open_tasks[known:])
        self.follow()

    def count(self) -> int:
        """The number of tasks of the job, once it does not change: a request of the old connection
        may still be under way."""
        assert self.link is not None
        before = -1
        while True:
            n = self.link.ask("info", job=self.job)["tasks"]["total"]
            if n == before:
                return int(n)
            before = n
            time.sleep(0.5)

    def end(self) -> None:
        """Closes the job, and ends what is left."""
        try:
            if self.link is not None:
                if self.broken is None:
                    self.link.ask("close", job=self.job)
                else:
                    self.link.ask("cancel", job=self.job, reason="the executor in Python is broken")
        except Exception:
            pass  # the launcher is gone
        if self.link is not None:
            self.link.close()
        with self.cond:
            left = [c for t in itertools.chain(self.tasks.values(), self.again) for c in t.calls]
            left += [c for calls in self.ready for c in calls]
            self.ready.clear()
            late = list(self.pending)
            self.tasks.clear()
            self.again.clear()
            self.pending.clear()
            self.stopped = True
            self.cond.notify_all()
        for call in late:
            if call.future.set_running_or_notify_cancel():
                left.append(call)
        for call in left:
            error = futures.BrokenExecutor(f"the executor is broken: {self.broken}")
            error.__cause__ = self.broken
            set_exception(call.future, error)
        if self.loader is not None:
            self.loader.join()
        shutil.rmtree(self.folder, ignore_errors=True)
        _live.discard(self)


def finish(future: Future, ok: bool, value: Any) -> None:
    if ok:
        try:
            future.set_result(value)
        except futures.InvalidStateError:
            pass
        return
    set_exception(future, _codec.revive(value))


def set_exception(future: Future, error: BaseException) -> None:
    try:
        future.set_exception(error)
    except futures.InvalidStateError:
        pass


_exiting = False
_live: "set[_State]" = set()


def _at_exit() -> None:
    global _exiting
    _exiting = True
    for state in list(_live):
        state.stop(wait=True, cancel=False)


# As concurrent.futures does: before the interpreter waits for threads, so that calls that were
# submitted are done.
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(_at_exit)
else:
    import atexit

    atexit.register(_at_exit)


class Executor(futures.Executor):
    """Runs calls in Python interpreters on the nodes of a filch instance.

    ``max_workers`` is how many interpreters run at a time; None is as many as there are slots.
    Each takes ``cpus`` slots, ``gpus`` and ``mem``. A call whose interpreter dies is tried again
    ``retries`` times; a call that raises is not. With ``once``, a call is never started twice:
    it is lost with its node. ``folder`` keeps long calls and results, and is seen by all nodes.
    ``patience`` is how many seconds a new launcher is looked for when the launcher dies.
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        initializer: Optional[Callable[..., Any]] = None,
        initargs: Tuple[Any, ...] = (),
        *,
        cpus: int = 1,
        gpus: Optional[str] = None,
        mem: Optional[str] = None,
        retries: int = 0,
        once: bool = False,
        folder: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        python: Optional[str] = None,
        name: Optional[str] = None,
        instance: Optional[str] = None,
        command: Optional[Sequence[str]] = None,
        patience: float = 60,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if _exiting:
            raise RuntimeError("cannot start an executor at interpreter shutdown")
        own = _codec.new_folder(folder)
        setup = os.path.join(own, "setup")
        _codec.write_setup(setup, initializer, initargs)
        variables = _codec.variables(env)
        submit: Dict[str, Any] = {
            "argv": [python or sys.executable, "-m", "filch._worker", setup],
            "name": name or f"python-{uuid.uuid4().hex[:8]}",
            "cwd": os.getcwd(),
            "env": variables,
            "cpus": cpus,
            "retries": retries,
            "once": once,
            "worker": True,
            "open": True,
        }
        if max_workers is not None:
            submit["at_once"] = max_workers
        for key, value in (("gpus", gpus), ("mem", mem)):
            if value is not None:
                submit[key] = str(value)

        def connect(lost: Callable[[], None]) -> Connection:
            return Connection(instance, command, lost)

        try:
            with connect(lambda: None) as c:
                slots = sum(n["slots"] for n in c.ask("nodes") if n["state"] == "up")
                workers = max(1, slots // max(cpus, 1))
                if max_workers is not None:
                    workers = min(workers, max_workers)
                self.job: int = c.ask("submit", **submit)["job"]
        except BaseException:
            shutil.rmtree(own, ignore_errors=True)
            raise
        self._state = _State(self.job, workers, submit, connect, own, patience)
        _live.add(self._state)
        self._state.thread.start()
        self._finalize = weakref.finalize(self, _State.stop, self._state, False, False)
        self._finalize.atexit = False

    @property
    def workers(self) -> int:
        """How many interpreters run at a time, as far as the slots of the instance tell."""
        return self._state.workers

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "futures.Future[T]":
        future = Future()
        self._state.put(_Call(future, fn, args, kwargs, None))
        return future

    def map(  # type: ignore[override]
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: Optional[int] = None
    ) -> Iterator[T]:
        """As of concurrent.futures. ``chunksize`` calls share a task; None is as many as take
        ``CHUNK_TIME`` together."""
        if chunksize is not None and chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        end = None if timeout is None else timeout + time.monotonic()
        all_args = list(zip(*iterables))
        group = _Group(chunksize or 0, len(all_args))
        calls = [_Call(Future(), fn, args, {}, group) for args in all_args]
        with self._state.cond:
            self._state.check()
            self._state.pending.extend(calls)
            self._state.cond.notify_all()
        waiting: List[futures.Future] = [c.future for c in reversed(calls)]
        del calls, all_args

        def results() -> Iterator[T]:
            try:
                while waiting:
                    if end is None:
                        yield waiting.pop().result()
                    else:
                        yield waiting.pop().result(end - time.monotonic())
            finally:
                for f in waiting:
                    f.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._state.stop(wait, cancel_futures)
