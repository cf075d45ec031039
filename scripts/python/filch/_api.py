"""The lines of JSON that a program and a launcher exchange: docs/api.md."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from concurrent.futures import BrokenExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence

VERSION = 1


class ApiError(Exception):
    """The launcher refused a request. ``code`` is one of the codes of docs/api.md."""

    def __init__(self, code: str, text: str, hint: str = "") -> None:
        super().__init__(text + (f" ({hint})" if hint else ""))
        self.code, self.text, self.hint = code, text, hint

    def __reduce__(self) -> Any:
        return ApiError, (self.code, self.text, self.hint)


class LauncherLost(BrokenExecutor):
    """The launcher is gone, and no other was found in time."""


class _Request:
    """A request under way."""

    def __init__(self, news: Optional[Callable[[Dict[str, Any]], None]], end: Callable[[Any, Optional[Exception]], None]) -> None:
        self.news, self.end = news, end


class Connection:
    """A connection to a launcher. All methods may be called from any thread.

    ``command`` is the command line of ``filch api``, by default the ``filch`` that FILCH_PROGRAM
    or PATH names; ``["ssh", "login.example", "filch", "api"]`` goes to another host.
    """

    def __init__(self, instance: Optional[str] = None, command: Optional[Sequence[str]] = None, lost: Optional[Callable[[], None]] = None) -> None:
        words: List[str] = list(command) if command else [os.environ.get("FILCH_PROGRAM", "filch"), "api"]
        if instance:
            words += ["--instance", instance]
        self._lost = lost
        self._lock = threading.Lock()  # guards the fields below, and the order of lines
        self._open: Dict[int, _Request] = {}
        self._next = 0
        self._ended = False
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as e:
            raise LauncherLost(f"cannot start {words[0]}: {e.strerror}; FILCH_PROGRAM may name filch") from None
        self._said = b""
        self._errors = threading.Thread(target=self._read_errors, name="filch-errors", daemon=True)
        self._errors.start()
        self._reader = threading.Thread(target=self._read, name="filch-api", daemon=True)
        self._reader.start()

    def ask(self, op: str, **fields: Any) -> Any:
        """Sends a request and waits for the result."""
        done = threading.Event()
        got: List[Any] = []

        def end(result: Any, error: Optional[Exception]) -> None:
            got.extend((result, error))
            done.set()

        self.send(op, end, **fields)
        done.wait()
        if got[1] is not None:
            raise got[1]
        return got[0]

    def send(
        self,
        op: str,
        end: Callable[[Any, Optional[Exception]], None],
        news: Optional[Callable[[Dict[str, Any]], None]] = None,
        **fields: Any,
    ) -> int:
        """Sends a request. ``news`` and at last ``end`` are called on the thread of the connection."""
        with self._lock:
            self._next += 1
            number = self._next
            if not self._ended:
                self._open[number] = _Request(news, end)
        line = json.dumps({"v": VERSION, "id": number, "op": op, **fields}, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                if self._ended:
                    raise BrokenPipeError
                assert self._process.stdin is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (OSError, ValueError):
            with self._lock:
                ours = self._open.pop(number, None) is not None or self._ended
            if ours:
                end(None, self.failure())
        return number

    def failure(self) -> LauncherLost:
        """Why the connection ended."""
        self._errors.join(timeout=1)
        text = self._said.decode(errors="replace").strip().replace("filch: error: ", "").replace("filch: hint: ", "").replace("\n", "; ")
        return LauncherLost(text or "the launcher closed the connection")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = (self._said + line)[-2000:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                break  # a line that was cut
            with self._lock:
                request = self._open.get(answer["id"]) if answer["id"] is not None else None
                if request is not None and "news" not in answer:
                    del self._open[answer["id"]]
            if answer["id"] is None and "error" in answer:
                self._said += answer["error"]["text"].encode()
            if request is None:
                continue
            if "news" in answer:
                if request.news is not None:
                    request.news(answer["news"])
            elif "error" in answer:
                e = answer["error"]
                request.end(None, ApiError(e["code"], e["text"], e.get("hint", "")))
            else:
                request.end(answer.get("result"), None)
        with self._lock:
            self._ended = True
            left = list(self._open.values())
            self._open.clear()
        if left:
            why = self.failure()
            for request in left:
                request.end(None, why)
        self._process.kill()
        self._process.wait()
        if self._lost is not None:
            self._lost()

    def close(self) -> None:
        """Ends the connection. Jobs go on."""
        self._lost = None
        with self._lock:
            self._ended = True
        self._process.kill()
        if threading.current_thread() is not self._reader:
            self._reader.join()
            self._errors.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass  # what was not sent is of no interest any more

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
