"""Calls and results on their way between the program and the interpreters on the nodes."""

from __future__ import annotations

import base64
import io
import os
import pickle
import tempfile
import traceback
from typing import Any, BinaryIO, Callable, Dict, Mapping, Optional, Tuple

try:
    import cloudpickle as pickler
except ImportError:
    pickler = pickle  # type: ignore[misc]

INLINE_CALL = 20_000  # bytes of a call in a line; a longer call goes through a file
INLINE_RESULT = 1 << 20  # the same of a result, in the output of a task
MARK = b"filch-result: "  # begins the last line of the output of a call
PROTOCOL = 5


class Spill(io.RawIOBase):
    """Keeps what is written in memory, up to a limit; more goes to a file with the rest."""

    def __init__(self, limit: int, path: str) -> None:
        self.limit, self.path = limit, path
        self.memory = io.BytesIO()
        self.file: Optional[BinaryIO] = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.file is None and self.memory.tell() + size > self.limit:
            self.file = open(self.path + ".part", "wb", opener=lambda p, f: os.open(p, f, 0o600))
            self.file.write(self.memory.getbuffer())
            self.memory = io.BytesIO()
        (self.file or self.memory).write(data)
        return size

    def drop(self) -> None:
        """Removes the file of an object that could not be written."""
        if self.file is not None:
            self.file.close()
            os.unlink(self.path + ".part")

    def word(self) -> bytes:
        """The text that ``load`` takes."""
        if self.file is None:
            return b"b" + base64.b64encode(self.memory.getbuffer())
        self.file.close()
        os.rename(self.path + ".part", self.path)
        return b"f" + os.fsencode(self.path)


def dump(obj: Any, limit: int, path: str) -> bytes:
    """A word without blanks for an object: the object itself, or the name of a file."""
    spill = Spill(limit, path)
    try:
        if pickler is pickle:
            pickle.Pickler(spill, PROTOCOL).dump(obj)
        else:
            pickler.dump(obj, spill, PROTOCOL)
        return spill.word()
    except BaseException:
        spill.drop()
        raise


def load(word: bytes, keep: bool = False) -> Any:
    """The object of a word. The file of a long object is removed unless keep is set."""
    if word[:1] == b"b":
        return pickle.loads(base64.b64decode(word[1:]))
    path = os.fsdecode(word[1:])
    with open(path, "rb") as f:
        obj = pickle.load(f)
    if not keep:
        os.unlink(path)
    return obj


def new_folder(base: Optional[str]) -> str:
    """A new folder that all nodes see, as far as they see the home."""
    base = base or os.path.join(os.path.expanduser("~"), ".cache", "filch", "python")
    os.makedirs(base, mode=0o700, exist_ok=True)
    return tempfile.mkdtemp(prefix="calls-", dir=base)


def variables(env: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """The environment of interpreters, which find this package."""
    all_variables = dict(os.environ if env is None else env)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    all_variables["PYTHONPATH"] = os.pathsep.join(p for p in (package, all_variables.get("PYTHONPATH")) if p)
    return all_variables


def write_setup(path: str, initializer: Optional[Callable[..., Any]], initargs: Tuple[Any, ...]) -> None:
    """Writes what makes an interpreter like that of the program."""
    from multiprocessing import process, spawn

    data = spawn.get_preparation_data("filch")
    data["authkey"] = bytes(process.current_process().authkey)
    for word in ("log_to_stderr", "start_method"):
        data.pop(word, None)
    with open(path, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        pickle.dump(data, f)
        f.write(pickler.dumps((initializer, initargs), PROTOCOL))


def read_setup(path: str) -> Tuple[Optional[Callable[..., Any]], Tuple[Any, ...]]:
    """Makes this interpreter like that of the program, as multiprocessing's spawn does, and returns
    the initializer."""
    from multiprocessing import process, spawn

    with open(path, "rb") as f:
        data = pickle.load(f)
        process.current_process().authkey = data.pop("authkey")
        main = {k: data.pop(k) for k in list(data) if k.startswith("init_main")}
        spawn.prepare(data)
        spawn.prepare(main)
        initializer, initargs = pickle.loads(f.read())
    return initializer, initargs


def revive(value: Tuple[Optional[bytes], str, str]) -> BaseException:
    """The exception that describe has described."""
    data, text, trace = value
    error: BaseException
    try:
        error = pickle.loads(data) if data is not None else RemoteError(text, trace)
    except BaseException:
        error = RemoteError(text, trace)
    error.__cause__ = RemoteTraceback(f'\n"""\n{trace}"""')
    return error


class RemoteError(Exception):
    """A call raised an exception that cannot be brought here. ``text`` names the exception."""

    def __init__(self, text: str, remote_traceback: str = "") -> None:
        super().__init__(text)
        self.text, self.remote_traceback = text, remote_traceback

    def __reduce__(self) -> Any:
        return RemoteError, (self.text, self.remote_traceback)


class RemoteTraceback(Exception):
    """The traceback of a call, as the cause of its exception."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def describe(e: BaseException) -> Tuple[Optional[bytes], str, str]:
    """An exception, its text and its traceback. An exception that cannot be pickled, or whose
    pickle cannot be read, is None."""
    begin = e.__traceback__
    while begin is not None and os.path.dirname(begin.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        begin = begin.tb_next  # the call is of interest, and not how it was called
    text = "".join(traceback.format_exception(type(e), e, begin or e.__traceback__))
    try:
        e.__traceback__ = None
        data = pickler.dumps(e, PROTOCOL)
        pickle.loads(data)
    except Exception:
        return None, f"{type(e).__module__}.{type(e).__qualname__}: {e}", text
    return data, f"{type(e).__module__}.{type(e).__qualname__}: {e}", text
