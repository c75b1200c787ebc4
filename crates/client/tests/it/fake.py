"""A server over stdio that behaves as its arguments say."""

import json
import os
import subprocess
import sys
import threading
import time

BEHAVIOUR = set(sys.argv[1:])
LOCK = threading.Lock()
ASKED = {}
WAITING = {}
RELEASED = threading.Event()
BOTH = threading.Barrier(2)


def option(name, default=None):
    for word in BEHAVIOUR:
        if word.startswith(name + "="):
            return word.split("=", 1)[1]
    return default


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def reply(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})


def fail(id, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    send({"jsonrpc": "2.0", "id": id, "error": error})


def ask(id, method, params=None, announce=False):
    done = threading.Event()
    WAITING[id] = done
    send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
    if announce:
        send(CHANGED)
    done.wait()
    return ASKED[id]


# By this a test learns how far a call has come.
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "must", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "may", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
]


def call(message):
    id, params = message["id"], message["params"]
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        reply(id, text(json.dumps(params)))
    elif name == "progress":
        for n in range(3):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": n, "message": "step"}})
        reply(id, text("done"))
    elif name == "elicit":
        said = ask("q-%s" % id, "elicitation/create", {"message": arguments["q"], "requestedSchema": {}})
        reply(id, text(json.dumps(said)))
    elif name == "elicit-url":
        said = ask("q-%s" % id, "elicitation/create",
                   {"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "m"})
        reply(id, text(json.dumps(said)))
    elif name == "sample":
        said = ask("q-%s" % id, "sampling/createMessage", {"messages": [], "maxTokens": 1})
        reply(id, text(json.dumps(said)))
    elif name == "turn-round":
        said = [ask("p-%s" % id, "ping"), ask("t-%s" % id, "tasks/get", {"taskId": "up:1"})]
        reply(id, text(json.dumps(said)))
    elif name == "batch":
        # Requests of two kinds, a notification and rubbish in one; then the result together with progress.
        send([{"jsonrpc": "2.0", "id": "b1", "method": "ping"},
              {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "in a batch"}},
              {"jsonrpc": "2.0", "id": "b2", "method": "roots/list"},
              {"nonsense": True},
              {"jsonrpc": "2.0", "id": "b3", "method": "tasks/get", "params": {"taskId": "x"}}])
        BATCHED.wait()
        send([{"jsonrpc": "2.0", "method": "notifications/progress",
               "params": {"progressToken": token, "progress": 1}},
              {"jsonrpc": "2.0", "id": id, "result": text(json.dumps(REPLIES))}])
    elif name == "improper":
        # Modern servers send no requests; whoever answers one is told on.
        WAITING["imp"] = threading.Event()
        send({"jsonrpc": "2.0", "id": "imp", "method": "elicitation/create",
              "params": {"message": "?", "requestedSchema": {}}})
        reply(id, text("done"))
    elif name == "push":
        listen = [listen for listen in LISTENS if listen["task"] == arguments["q"].partition(":")[2]][0]
        send({"jsonrpc": "2.0", "method": "notifications/tasks",
              "params": {"taskId": listen["task"], "status": "working", **subscription(listen["id"])}})
        reply(id, text("pushed"))
    elif name == "held":
        send(CHANGED)
        RELEASED.wait()
        reply(id, text("released"))
    elif name == "release":
        RELEASED.set()
        reply(id, text("fine"))
    elif name == "elicit-and-announce":
        said = ask("q-%s" % id, "elicitation/create", {"message": arguments["q"], "requestedSchema": {}}, True)
        reply(id, text(json.dumps(said)))
    elif name == "elicit-together":
        # Asks only once two such calls are here.
        BOTH.wait()
        said = ask("q-%s" % id, "elicitation/create", {"message": arguments["q"], "requestedSchema": {}})
        reply(id, text(json.dumps(said)))
    elif name == "crash":
        sys.stderr.write("about to \x1b[31mdie\x1b[0m\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "leak":
        key = os.environ["API_KEY"]
        sys.stderr.write("rejected: %s\n" % key)
        sys.stderr.flush()
        sys.stdout.write("using %s\n" % key)
        sys.stdout.flush()
        reply(id, text(key))
    elif name == "leak-and-die":
        sys.stderr.write("rejected: %s\n" % os.environ["API_KEY"])
        sys.stderr.flush()
        os._exit(7)
    elif name == "hang":
        pass
    elif name == "flood":
        while True:
            sys.stdout.write("this is no message\n" * 100)
    elif name == "huge":
        reply(id, text("x" * 3_000_000))
    elif name == "rubbish":
        sys.stdout.write("Listening on port 8080\nnot json\n[]\n")
        sys.stdout.flush()
        reply(id, text("fine"))
    elif name == "must" and "task" not in params:
        if "text-refusal" in BEHAVIOUR:
            reply(id, text("MCP error -32601: Tool must requires task augmentation", isError=True))
        else:
            fail(id, int(option("refusal", "-32601")), "Tool requires a task")
    elif name == "never" and "task" in params:
        fail(id, -32602, "[ {\"code\": \"unrecognized_keys\", \"keys\": [\"task\"]} ]")
    elif name in ("must", "may") and "task" in params:
        make_task(id, params["task"], token)
    else:
        reply(id, text("plain"))


TASKS = {}


def make_task(id, wish, token):
    task = {"taskId": "up:1", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": wish.get("ttl"), "pollInterval": 40}
    TASKS["up:1"] = {"task": task, "token": token}
    # Row 7 of the peers' page: the notification may come first.
    send({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task})
    reply(id, {"task": task})


def task_method(message):
    id, method, params = message["id"], message["method"], message["params"]
    if params["taskId"] == "silent":
        return
    task = TASKS.get(params["taskId"])
    if task is None:
        return fail(id, -32602, "Failed to retrieve task: Task not found")
    related = {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}
    if method == "tasks/get":
        reply(id, task["task"])
    elif method == "tasks/cancel":
        if task["task"]["status"] in ("completed", "cancelled"):
            return fail(id, -32602, "Cannot cancel a final task")
        task["task"]["status"] = "cancelled"
        reply(id, task["task"])
    elif "hidden-failure" in BEHAVIOUR:
        task["task"].update(status="failed", statusMessage="not today")
        fail(id, -32002, "task result not available: task not completed")
    elif "no-hold" in BEHAVIOUR and task["task"]["status"] == "working":
        fail(id, -32602, "Task not completed yet")
    elif "bare-failure" in BEHAVIOUR:
        task["task"].update(status="failed", statusMessage="not today")
        reply(id, {"_meta": related})
    elif "bare-result" in BEHAVIOUR:
        task["task"]["status"] = "completed"
        reply(id, {"structuredContent": {"n": 1}, "_meta": related})
    elif "unnamed" in BEHAVIOUR:
        said = ask(1, "elicitation/create", {"message": "sure?", "requestedSchema": {}})
        task["task"]["status"] = "completed"
        reply(id, {**text(json.dumps(said)), "_meta": related})
    else:
        send({"jsonrpc": "2.0", "method": "notifications/progress",
              "params": {"progressToken": task["token"], "progress": 1, "_meta": related}})
        task["task"]["status"] = "input_required"
        send({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task["task"]})
        said = ask(1, "elicitation/create", {"message": "sure?", "requestedSchema": {}, "_meta": related})
        task["task"]["status"] = "completed"
        reply(id, {**text(json.dumps(said)), "_meta": {**related, "own": 1}})


def serve(message):
    if isinstance(message, list):
        REPLIES.extend(message)
        return BATCHED.set()
    method, id = message.get("method"), message.get("id")
    if method is None:
        ASKED[id] = message.get("result", message.get("error"))
        WAITING.pop(id).set()
    elif method == "server/discover":
        if "discover-silent" in BEHAVIOUR:
            return
        if "discover-exits" in BEHAVIOUR:
            os._exit(1)
        if "modern" in BEHAVIOUR:
            return reply(id, {"resultType": "complete", "supportedVersions": ["2026-07-28"],
                              "capabilities": {"tools": {"listChanged": "announces" in BEHAVIOUR},
                                               "extensions": {"io.modelcontextprotocol/tasks": {}}},
                              "ttlMs": 0, "cacheScope": "private",
                              "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}})
        fail(id, int(option("discover", "-32601")), "No such method")
    elif method == "initialize" and "wrong-key" in BEHAVIOUR:
        fail(id, -32000, "%s is not accepted: %s" % (os.environ["API_KEY"], "x" * 180 + os.environ["API_KEY"]))
    elif method == "initialize":
        if "modern" in BEHAVIOUR:
            return fail(id, -32022, "No handshake", {"supported": ["2026-07-28"]})
        capabilities = {"tools": {"listChanged": True}}
        if "tasks" in BEHAVIOUR:
            capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        reply(id, {"protocolVersion": option("version", "2025-11-25"), "capabilities": capabilities,
                   "serverInfo": {"name": "fake", "version": "1"}, "instructions": "be kind",
                   "heard": message["params"]})
    elif method == "notifications/initialized":
        if "roots" in BEHAVIOUR:
            def roots():
                ask("r1", "roots/list")
                ROOTS.set()
            threading.Thread(target=roots, daemon=True).start()
    elif method == "ping":
        reply(id, {})
    elif method == "tools/list":
        cursor = message.get("params", {}).get("cursor")
        if cursor is None:
            reply(id, {"tools": TOOLS[:1], "nextCursor": ""})
        else:
            reply(id, {"tools": TOOLS[1:]})
    elif method == "tools/call":
        call(message)
    elif method == "announce":
        send(CHANGED)
        if "roots" in BEHAVIOUR:
            ROOTS.wait()
        reply(id, {"roots": ASKED.get("r1"), "cancelled": CANCELLED, "pid": os.getpid(),
                   "answered": ASKED.get("imp"), "listens": LISTENS})
    elif method == "release":
        RELEASED.set()
        reply(id, {})
    elif method == "notifications/cancelled":
        CANCELLED.append(message["params"]["requestId"])
    elif method == "subscriptions/listen":
        wanted = message["params"]["notifications"]
        LISTENS.append({"id": id, "task": (wanted.get("taskIds") or [None])[0]})
        send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
              "params": {"notifications": wanted, **subscription(id)}})
    elif method.startswith("tasks/"):
        task_method(message)
    elif id is not None:
        fail(id, -32601, "Method not found")


def subscription(id):
    return {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}


REPLIES = []
BATCHED = threading.Event()
CANCELLED = []
LISTENS = []
ROOTS = threading.Event()


def main():
    if option("fifo"):
        # Held open by this process and by its child: who reads the other end learns when both are gone.
        os.set_inheritable(os.open(option("fifo"), os.O_WRONLY), True)
        subprocess.Popen(["sleep", "1000"], close_fds=False, stdin=subprocess.DEVNULL)
    if "exit" in BEHAVIOUR:
        sys.stderr.write("missing API key\n")
        sys.exit(3)
    if "stubborn" in BEHAVIOUR:
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        threading.Thread(target=serve, args=(message,), daemon=True).start() \
            if isinstance(message, dict) and message.get("method") in ("tools/call", "tasks/result", "announce") else serve(message)
    if "stubborn" in BEHAVIOUR:
        time.sleep(1000)


main()
