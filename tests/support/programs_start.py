"""What `programs.PYTHON` runs: `programs_start.py FOLDER RUN ARGUMENTS`.

Asks the server of programs for a process, hands signals on to it, and ends as it ends. Where the
environment or the arguments are meant for an interpreter, it becomes one.
"""

# The modules that wrap these two take longer to import than all else here.
import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import sys

_SERVER = os.path.join(os.path.dirname(__file__), "programs_server.py")  # noqa: PTH118, PTH120
_HARMLESS = (
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"),
    "PYTHON_KEYRING_BACKEND",
)
_HANDED_ON = (
    *(_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP),
    *(_signal.SIGUSR1, _signal.SIGUSR2),
)


def _server(folder: str, run: str) -> "_socket.socket":
    """A connection with the server, which is started if there is none."""
    import fcntl

    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        wire.connect(f"{folder}/socket")
    except OSError:
        ready, listens = os.pipe()
        os.set_inheritable(listens, True)
        if not os.fork():
            os.setsid()  # what ends the group of this program does not end the server
            for stream, flag in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
                os.dup2(os.open(os.devnull, flag), stream)
            words = [sys.executable, _SERVER, folder, run, str(listens)]
            os.execv(sys.executable, words)
        os.close(listens)
        os.read(ready, 1)
        os.close(ready)
        wire.connect(f"{folder}/socket")
    os.close(lock)
    return wire


def _number(wire: "_socket.socket") -> int:
    said = b""
    while len(said) < 4:
        more = wire.recv(4 - len(said))
        if not more:
            os._exit(70)
        said += more
    return int.from_bytes(said, "big", signed=True)


def main() -> None:
    folder, run, *arguments = sys.argv[1:]
    plain = bool(arguments) and (arguments[0] == "-c" or arguments[0].endswith(".py"))
    if not plain or any(n.startswith("PYTHON") and n not in _HARMLESS for n in os.environ):
        os.execv(sys.executable, [sys.executable, *arguments])
    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        wire.connect(f"{folder}/socket")
    except OSError:
        wire = _server(folder, run)
    early: list[int] = []
    process = 0

    def hand_on(number: int, _: object) -> None:
        if process:
            try:  # noqa: SIM105 - contextlib takes longer to import
                os.kill(process, number)
            except ProcessLookupError:
                pass
        else:
            early.append(number)

    for each in _HANDED_ON:
        _signal.signal(each, hand_on)
    folder = os.getcwd()  # noqa: PTH109
    told = marshal.dumps((arguments, folder, dict(os.environb)))
    streams = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
    head = len(told).to_bytes(4, "big")
    wire.sendmsg([head], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    wire.sendall(told)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # when the process closes one, it is closed
        os.dup2(nothing, stream)
    process = _number(wire)
    for each in early:
        hand_on(each, None)
    code = _number(wire)
    if code < 0:
        if -code != _signal.SIGKILL:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
