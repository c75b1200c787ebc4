"""What the Python fixtures share: the journal, the long text and the HTTP listener."""

import contextlib
import json
import os
import socket
import sys
import time

import anyio
import uvicorn


def note(tool, args, phase):
    """Appends one line to the journal and forces it to disk.

    Tests kill processes at awkward moments and then count these lines, so a
    line has to be there as soon as the effect counts as done.
    """
    path = os.environ.get("PEER_JOURNAL")
    if not path:
        return
    line = json.dumps({"tool": tool, "args": args, "at": time.time(), "phase": phase})
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def journal(tool, args, start=True):
    if start:
        note(tool, args, "start")
    try:
        yield
    except anyio.get_cancelled_exc_class():
        note(tool, args, "cancelled")
        raise
    except Exception:
        note(tool, args, "end")
        raise
    note(tool, args, "end")


async def pause(seconds, progress):
    """Sleeps, and tells `progress(done, total)` about it now and then."""
    total = max(float(seconds), 0.0)
    end = time.monotonic() + total
    while (left := end - time.monotonic()) > 0:
        await progress(total - left, total)
        await anyio.sleep(min(left, 0.25))
    await progress(total, total)


# Before a question, in seconds: ext-tasks refuses one that comes in the moment in
# which it learns of its task.
A_MOMENT = 0.3

# The code of the error with which `refuse` answers.
REFUSED = -32050


def big(kib, label):
    """As many KiB of text, with the label at both ends."""
    return f"{label} {'x' * (int(kib) * 1024 - 2 * len(label) - 2)} {label}"


def http_port():
    """The port after `--http`, or None for stdio."""
    args = sys.argv[1:]
    if not args:
        return None
    if len(args) == 2 and args[0] == "--http" and args[1].isdigit():
        return int(args[1])
    sys.exit(f"usage: {sys.argv[0]} [--http PORT]")


async def listen(app, port):
    """Serves an ASGI app on loopback and says `ready PORT` once it accepts."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets=sockets)
            print(f"ready {sock.getsockname()[1]}", flush=True)

    # Event streams never end by themselves, so a stop must not wait for them.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    await Server(config).serve(sockets=[sock])
