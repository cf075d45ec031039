"""A client of PMI-1, without MPI, that spawns. It prints what it asked and was answered, each
line with the rank and whether the rank was spawned, and S in place of the name of a key-value
set. Modes: two (two programs), one N, die (a rank ends before init), hold (the ranks wait), leave (the spawned rank waits)."""
import os, signal, socket, sys

mode = sys.argv[1]
spawned = os.environ.get("PMI_SPAWNED")
who = "%s %s" % ("child" if spawned else "parent", os.environ["PMI_RANK"])
sock = socket.socket(fileno=int(os.environ["PMI_FD"]))
lines = sock.makefile("rb")
name = ""


def show(text):
    sys.stdout.write("%s: %s\n" % (who, text.replace(name, "S") if name else text))
    sys.stdout.flush()


def ask(text, quiet=False):
    sock.sendall(text.encode())
    answer = lines.readline().decode().strip()
    if not quiet:
        show(answer)
    return answer


def block(n, args, at, of, wdir=None):
    out = "mcmd=spawn\nnprocs=%d\nexecname=%s\ntotspawns=%d\nspawnssofar=%d\n" % (n, sys.executable, of, at)
    for i, a in enumerate(args):
        out += "arg%d=%s\n" % (i + 1, a)
    out += "argcnt=%d\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$conn#DEAD$\n" % len(args)
    if wdir:
        out += "info_num=1\ninfo_key_0=wdir\ninfo_val_0=%s\n" % wdir
    else:
        out += "info_num=0\n"
    return out + "endcmd\n"


if spawned and mode == "die":
    sys.exit(int(sys.argv[2]))
ask("cmd=init pmi_version=1 pmi_subversion=1\n")
ask("cmd=get_maxes\n")
ask("cmd=get_appnum\n")
name = ask("cmd=get_my_kvsname\n", True).split("kvsname=")[1]
me = os.path.abspath(sys.argv[0])
if not spawned:
    if mode == "two":
        blocks = block(2, [me, "two", "x=y z"], 1, 2, "/tmp") + block(1, [me, "two"], 2, 2)
    elif mode == "one":
        blocks = block(int(sys.argv[2]), [me] + sys.argv[1:], 1, 1)
    else:
        blocks = block(1, [me] + sys.argv[1:], 1, 1)
    if os.environ["PMI_RANK"] == "0":
        ask(blocks)
    if mode == "die":
        signal.pause()  # as a rank that waits for its children to connect
else:
    show("argv %s in %s, rank %s of %s" % (sys.argv[1:], os.getcwd() if mode == "two" and len(sys.argv) > 2 else "-", os.environ["PMI_RANK"], os.environ["PMI_SIZE"]))
    ask("cmd=get kvsname=%s key=PARENT_ROOT_PORT_NAME\n" % name)
if mode == "hold" or mode == "leave" and spawned:
    show("holds %d" % os.getpid())
    signal.pause()
ask("cmd=barrier_in\n")
ask("cmd=finalize\n")
