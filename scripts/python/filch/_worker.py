"""An interpreter on a node: a worker of filch, which does call after call.

The lines are those of docs/tasks.md: INDEX ATTEMPT TEXT on standard input, INDEX 0 on standard
output. The last line that a call leaves on standard error is its result.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, List, Tuple

from . import _codec


def prepare(setup: str) -> None:
    """Makes this interpreter ready for calls."""
    initializer, initargs = _codec.read_setup(setup)
    if initializer is not None:
        initializer(*initargs)


def outcome(call: Callable[[], Any]) -> Tuple[bool, Any]:
    """What a call returns or raises, as the program can read it."""
    try:
        value = call()
    except BaseException as e:
        return False, _codec.describe(e)
    return True, value


def do(text: bytes, path: str) -> bytes:
    """Does the calls of a line, and returns the word of their outcomes."""
    began = time.perf_counter()
    try:
        fn, many = _codec.load(text, keep=True)
    except BaseException as e:
        e.args = (f"the interpreter on the node cannot read the call: {e}",) if isinstance(e, (ImportError, AttributeError)) else e.args
        return _codec.dump(("unread", _codec.describe(e)), _codec.INLINE_RESULT, path)
    done: List[Tuple[bool, Any]] = [outcome(lambda a=args, k=kwargs: fn(*a, **k)) for args, kwargs in many]
    took = time.perf_counter() - began
    try:
        return _codec.dump(("done", took, done), _codec.INLINE_RESULT, path)
    except BaseException:
        pass  # one of the results cannot be pickled: each tells for itself
    alone: List[Tuple[bool, Any]] = []
    for ok, value in done:
        try:
            _codec.pickler.dumps(value, _codec.PROTOCOL)
        except BaseException as e:
            ok, value = False, _codec.describe(e)
        alone.append((ok, value))
    return _codec.dump(("done", took, alone), _codec.INLINE_RESULT, path)


def main() -> None:
    setup = sys.argv[1]
    lines = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    ready = False
    for line in iter(lines.readline, b""):
        index, attempt, text = line.rstrip(b"\n").split(b" ", 2)
        path = os.path.join(os.path.dirname(setup), f"result-{int(index)}-{int(attempt)}")
        word = b""
        if not ready:
            try:
                prepare(setup)
                ready = True
            except BaseException as e:
                word = _codec.dump(("unready", _codec.describe(e)), _codec.INLINE_RESULT, path)
        if ready:
            word = do(text, path)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass  # the call has closed the stream
        write(2, b"\n" + _codec.MARK + word + b"\n")
        answers.write(index + b" 0\n")
        if not ready:
            return


def write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    main()
