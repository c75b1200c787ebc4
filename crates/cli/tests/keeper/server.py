"""A stdio server whose effects can be counted, and which can be as bad as servers get.

python3 server.py JOURNAL [MODE]: every call is a line in the journal when it begins and when it ends.
"""

import json
import os
import subprocess
import sys
import threading
import time

journal, mode = sys.argv[1], (sys.argv[2:] + ["good"])[0]
writing = threading.Lock()


def note(line):
    with open(journal, "a") as file:
        file.write(line + "\n")


def send(message):
    with writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def text(words, is_error=False):
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


tools = [
    tool("work"),
    tool("look", annotations={"readOnlyHint": True}),
    tool("environment", annotations={"readOnlyHint": True}),
    tool("whisper"),
    tool("grow"),
    tool("fail"),
    tool("ask", annotations={"readOnlyHint": True}),
]
if mode.startswith("bank"):
    tools += [tool("pay"), tool("books", annotations={"readOnlyHint": True})]
replies = {}


def books(order):
    """What the journal has of an order; nothing while the books are closed."""
    if os.path.exists(f"{journal}.closed"):
        return text("closed", True)
    with open(journal) as file:
        is_paid = f"begin pay {order}\n" in file.read()
    return text(json.dumps({"status": "paid" if is_paid else "none", "order": order}))


def call(name, arguments):
    word = arguments.get("text", "")
    note(f"begin {name} {word}")
    if arguments.get("lose"):
        os._exit(1)
    gate = arguments.get("gate")
    while gate and not os.path.exists(gate):
        time.sleep(0.01)
    time.sleep(arguments.get("seconds", 0))
    if name == "ask":
        word = ask()
    note(f"end {name} {word}")
    if name == "environment":
        return text(os.environ.get(word, "-"))
    if name == "whisper":
        sys.stderr.write(f"the value is {os.environ.get(word)} indeed\n")
        sys.stderr.flush()
    if name == "fail":
        return text("it did not work", True)
    if name == "grow":
        tools.append(tool("grown"))
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "books":
        return books(word)
    return text(f"{name} {word} by {os.getpid()}")


def ask():
    key = f"q{len(replies)}"
    replies[key] = threading.Event()
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
    send({"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": form})
    replies[key].wait()
    return replies[key].reply["content"]["who"]


def answer(message):
    method, params = message["method"], message.get("params", {})
    result = None
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
            "instructions": "Be kind.",
        }
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments", {}))
    elif method in ("ping", "logging/setLevel"):
        result = {}
    if result is None:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


note(f"start {os.getpid()}")
if mode == "rubbish":
    print("Welcome to the server!\n" * 3, end="", flush=True)
if mode == "only-rubbish":
    while True:
        print("I speak no protocol at all", flush=True)
if mode == "exits":
    sys.stderr.write("fatal: no licence file\n")
    sys.exit(3)
if mode == "terminal" and not sys.stdin.isatty():
    sys.stderr.write("the input device is not a TTY\n")
    sys.exit(1)
if mode == "floods":
    sys.stderr.write("".join(f"noise {number} {'x' * 200}\n" for number in range(20_000)))
    sys.stderr.flush()
if mode == "mute":
    sys.stdin.read()
    sys.exit(0)
if mode == "child":
    child = subprocess.Popen(["sleep", "1000"])
    note(f"child {child.pid}")

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
    elif message.get("id") in replies:
        replies[message["id"]].reply = message["result"]
        replies[message["id"]].set()
