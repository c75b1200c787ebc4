"""Stands in for `docker run -i --rm IMAGE`, which tests cannot count on.

As there, the process that is started is only a client: the server is the child
of something else (here of a keeper process in a session of its own), so no
group and no dying parent takes it along.

- stdin, its end included, is passed on; so are stdout and stderr.
- SIGTERM and SIGINT are passed on, and the server's exit code becomes ours.
- SIGKILL leaves the server running, with its stdin open.
"""

import os
import signal
import subprocess
import sys
import threading


def daemon(command, orders, done):
    """Runs the container; `orders` has a byte for each signal, `done` gets its exit code.

    The server's stdin stays open in here, whoever dies outside, until the client says that its own has ended.
    """
    os.setsid()
    inside, outside = os.pipe()
    server = subprocess.Popen(command, stdin=inside)
    os.close(inside)

    def obey():
        left = outside
        while got := os.read(orders, 1):
            if got == b"\0":
                size = int.from_bytes(read_all(orders, 4), "big")
                if size == 0:
                    os.close(left)
                else:
                    data = read_all(orders, size)
                    try:
                        while data:
                            data = data[os.write(left, data) :]
                    except OSError:
                        pass
            else:
                server.send_signal(got[0])

    threading.Thread(target=obey, daemon=True).start()
    code = server.wait()
    try:
        os.write(done, bytes([code if code >= 0 else 128 - code]))
    except OSError:
        pass
    os._exit(0)


def read_all(source, size):
    data = b""
    while len(data) < size:
        more = os.read(source, size - len(data))
        if not more:
            return data
        data += more
    return data


def main():
    command = sys.argv[1:]
    orders_in, orders = os.pipe()
    done, done_in = os.pipe()
    if os.fork() == 0:
        os.close(orders)
        os.close(done)
        # Nobody's child but init's, as a container is not its command line's.
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(0)
            daemon(command, orders_in, done_in)
        os._exit(0)
    os.wait()
    os.close(orders_in)
    os.close(done_in)
    lock = threading.Lock()

    def order(data):
        with lock:
            try:
                os.write(orders, data)
            except OSError:
                pass

    def pass_on(number, _):
        order(bytes([number]))

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)

    def feed():
        while True:
            data = os.read(0, 4000)
            order(b"\0" + len(data).to_bytes(4, "big") + data)
            if not data:
                return

    threading.Thread(target=feed, daemon=True).start()
    # The copy of stdin runs beside; this wait is interrupted by signals.
    code = os.read(done, 1)
    sys.exit(code[0] if code else 1)


main()
