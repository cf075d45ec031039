"""Calls of the tests, which the interpreters on the nodes import."""

import os
import signal
import threading
import time

LIMIT = 60


class Odd(Exception):
    """An exception whose pickle cannot be read."""

    def __init__(self, a, b):
        super().__init__("odd")


class Sticky(Exception):
    """An exception that cannot be pickled."""

    def __init__(self):
        super().__init__("sticky")
        self.lock = threading.Lock()


def square(x):
    return x * x


def where():
    return os.getpid()


def fail(x):
    raise KeyError(x)


def odd():
    raise Odd(1, 2)


def sticky():
    raise Sticky


def unpicklable():
    return threading.Lock()


def leave():
    raise SystemExit(7)


def speak():
    print("to standard output")
    os.write(2, b"to standard error, without an end")
    return "said"


def zeros(n):
    return bytes(n)


def size(b):
    return len(b)


def die(path=None):
    """Kills the interpreter; with a path, only the first time."""
    if path is not None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return "survived"
    os.kill(os.getpid(), signal.SIGKILL)


def note(path, name):
    """Writes a line that says that the call ran, with one write."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{name}\n".encode())
    os.close(fd)
    return name


def hold(began, go):
    """Says that the call runs, and waits for a file."""
    note(began, "held")
    end = time.monotonic() + LIMIT
    while not os.path.exists(go):
        if time.monotonic() > end:
            raise TimeoutError(go)
        time.sleep(0.01)
    return "held"


ready = []


def begin(word):
    ready.append(word)


def begun():
    return list(ready)


def stumble():
    raise OSError("no licence here")


def slow_note(path, name):
    """A call that takes a moment, and says that it ran."""
    note(path, name)
    time.sleep(0.02)
    return name


def total(n, more):
    """In the ranks of MPI: the number of ranks, and a sum over them."""
    from mpi4py import MPI

    if n == "wrong":
        raise ValueError(n)
    world = MPI.COMM_WORLD
    return world.Get_size(), world.allreduce(n + world.Get_rank()) + more


def one_fails(_):
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 1:
        raise ArithmeticError("in rank 1")
    MPI.COMM_WORLD.barrier()


def dies(_):
    os.kill(os.getpid(), signal.SIGKILL)
