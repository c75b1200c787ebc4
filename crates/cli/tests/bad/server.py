"""A server that does what servers must not do, one tool for each thing.

server.py ERA [PORT]: ERA is `a` (2025-11-25 with core tasks) or `b` (2026-07-28 with the extension). With a port, 0 for
any, it speaks Streamable HTTP and prints `ready PORT`; without, stdio.
"""

import itertools
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ERA = sys.argv[1]
IS_B = ERA == "b"
STAMP = "2026-01-01T00:00:00Z"
LOOKS = {}
COUNT = itertools.count(1)
FIRST = threading.Event()
CHANGED = threading.Event()
LOCK = threading.Lock()


def text(words, **more):
    kind = {"resultType": "complete"} if IS_B else {}
    return {**kind, "content": [{"type": "text", "text": words}], **more}


def task(name, status="working", **more):
    """A task in the shape of the era. Its id is the tool's name and a number."""
    names = ("ttlMs", "pollIntervalMs") if IS_B else ("ttl", "pollInterval")
    return {"taskId": name, "status": status, "createdAt": STAMP, "lastUpdatedAt": STAMP,
            names[0]: 60000, names[1]: 50, **more}


def created(name, **more):
    name = "%s.%d" % (name, next(COUNT))
    return {"resultType": "task", **task(name, **more)} if IS_B else {"task": task(name, **more)}


def other_dialects(name):
    if IS_B:
        return {"task": {"taskId": name, "status": "working", "createdAt": STAMP, "lastUpdatedAt": STAMP, "ttl": None}}
    return {"resultType": "task", "taskId": name, "status": "working", "createdAt": STAMP, "lastUpdatedAt": STAMP,
            "ttlMs": 60000, "pollIntervalMs": 50}


class Hangs(Exception):
    """No answer comes."""


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# Tools that are listed as ones that may run as tasks, and what they do then.
MADE = ["no-get", "other-shape", "plain-result", "paused", "moves-again", "wrong-task", "no-outcome", "forgets",
        "early-notes", "no-id", "bad-status-at-once", "flips", "unknown-kind", "get-hangs"]
# Tools that are called plainly.
PLAIN = ["echo", "unasked-task", "answers-twice", "never", "wrong-id", "no-result", "neither", "array", "first",
         "second", "changes", "vanishes", "asks-nothing", "asks-strangely", "both"]


def tools():
    support = {}
    if not IS_B:
        support = {"execution": {"taskSupport": "optional"}}
    listed = [{"name": name, "inputSchema": {"type": "object"}, **support} for name in MADE]
    listed += [{"name": name, "inputSchema": {"type": "object"}} for name in PLAIN]
    if CHANGED.is_set():
        listed = [tool for tool in listed if tool["name"] != "vanishes"]
        for tool in listed:
            if tool["name"] == "flips" and not IS_B:
                tool["execution"] = {"taskSupport": "forbidden"}
    return listed


def call(params, say, whole):
    """Gives the result. `say` sends something before; `whole` sends a whole message in the answer's place."""
    name = params["name"]
    wants_task = "task" in params or IS_B and "extensions" in params["_meta"].get(
        "io.modelcontextprotocol/clientCapabilities", {})
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        return text("hello")
    if name == "unasked-task":
        return created(name)
    if name == "answers-twice":
        whole({"result": text("the first answer")})
        whole({"result": text("the second answer")})
        raise Hangs
    if name in ("never",):
        raise Hangs
    if name == "wrong-id":
        whole({"id": 987654321, "result": text("for somebody else")})
        raise Hangs
    if name == "no-result":
        return {"resultType": "complete"} if IS_B else {}
    if name == "neither":
        whole({})
        raise Hangs
    if name == "both":
        whole({"result": text("it worked"), "error": {"code": -32000, "message": "it did not"}})
        raise Hangs
    if name == "array":
        whole({"result": [1, 2]})
        raise Hangs
    if name == "first":
        FIRST.wait(20)
        return text("the first, answered last")
    if name == "second":
        FIRST.set()
        return text("the second, answered first")
    if name == "changes":
        CHANGED.set()
        say({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "vanishes" and CHANGED.is_set():
        raise Refused(-32602, "Unknown tool: vanishes")
    if name == "asks-nothing":
        return {"resultType": "input_required"}
    if name == "asks-strangely":
        return {"resultType": "input_required", "inputRequests": {"k": {"method": "no/such", "params": {}}}}
    if name == "flips" and CHANGED.is_set() and wants_task and not IS_B:
        raise Refused(-32601, "Tool flips does not support tasks")
    if not wants_task:
        return text("plain " + name)
    if name == "other-shape":
        return other_dialects(name)
    if name == "plain-result":
        return text("at once")
    if name == "unknown-kind":
        return {**created(name), "resultType": "promise"} if IS_B else {"promise": name}
    if name == "no-id":
        made = created(name)
        (made if IS_B else made["task"]).pop("taskId")
        return made
    if name == "bad-status-at-once":
        return created(name, status="simmering")
    if name == "early-notes":
        status = "notifications/tasks" if IS_B else "notifications/tasks/status"
        made = created(name)
        say({"method": status, "params": task((made if IS_B else made["task"])["taskId"])})
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        say({"method": "notifications/message", "params": {"level": "info", "data": "early"}})
        say({"method": "notifications/no/such", "params": {"a": 1}})
        return made
    return created(name)


def done(task_id):
    if IS_B:
        result = text("done " + task_id.split(".")[0])
        return {"resultType": "complete", **task(task_id, "completed", result=result)}
    return task(task_id, "completed")


def about_task(method, task_id):
    name = task_id.split(".")[0]
    kind = {"resultType": "complete"} if IS_B else {}
    with LOCK:
        looks = LOOKS[task_id, method] = LOOKS.get((task_id, method), 0) + 1
    if name == "no-get":
        raise Refused(-32601, "Method not found")
    if method == "tasks/cancel":
        return {**kind, **({} if IS_B else task(task_id, "cancelled"))}
    if name == "paused":
        if method == "tasks/result":
            raise Hangs
        return {**kind, **task(task_id, "paused")}
    if name == "get-hangs":
        raise Hangs
    if name == "wrong-task":
        if method == "tasks/result":
            raise Hangs
        return {**kind, **task("another", "working")}
    if name == "forgets":
        raise Refused(-32602, "Task not found")
    if name == "no-outcome":
        if method == "tasks/result":
            raise Refused(-32603, "The result got lost")
        return {**kind, **task(task_id, "completed")}
    if name == "other-shape":
        if method == "tasks/result":
            return text("done other-shape")
        return done(task_id)
    if method == "tasks/result":
        if LOOKS.get((task_id, "tasks/get"), 0) < 1:
            time.sleep(0.2)
        return text("done " + name)
    if name == "moves-again":
        # Over, and at work again, and over in another way.
        states = [done(task_id), {**kind, **task(task_id)}, {**kind, **task(task_id, "cancelled")}]
        return states[min(looks, 3) - 1]
    return done(task_id)


def answer(message, say, whole):
    method, params = message["method"], message.get("params") or {}
    if method == "server/discover" and IS_B:
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": True}, "prompts": {},
                                 "extensions": {"io.modelcontextprotocol/tasks": {}}}}
    if method == "initialize" and not IS_B:
        return {"protocolVersion": "2025-11-25", "serverInfo": {"name": "bad", "version": "1"},
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "logging": {},
                                 "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}}
    if method == "ping":
        return {}
    if method == "tools/list":
        listed = {"tools": tools()}
        return {**listed, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_B else listed
    if method == "tools/call":
        return call(params, say, whole)
    if method in ("tasks/get", "tasks/result", "tasks/cancel"):
        return about_task(method, params["taskId"])
    if method == "resources/list":
        # It did not say that it has any.
        return {"resources": [{"name": "r", "uri": "x:r"}], **({"resultType": "complete"} if IS_B else {})}
    raise Refused(-32601, "Method not found")


def respond(message, send):
    """Answers one request by `send`, which takes whole messages."""
    def say(part):
        send({"jsonrpc": "2.0", **part})

    def whole(part):
        send({"jsonrpc": "2.0", "id": message["id"], **part})

    try:
        whole({"result": answer(message, say, whole)})
    except Refused as refused:
        whole({"error": {"code": refused.code, "message": str(refused)}})


def over_stdio():
    out = threading.Lock()

    def send(message):
        with out:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def serve(message):
        try:
            respond(message, send)
        except Hangs:
            pass

    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status, body=b""):
        self.send_response(status)
        if body:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.plain(405)

    def do_DELETE(self):
        self.plain(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "method" not in message or "id" not in message:
            return self.plain(202)
        sent = []
        try:
            respond(message, sent.append)
        except Hangs:
            if not sent:
                time.sleep(60)
        if len(sent) == 1:
            status = 200
            if IS_B and sent[0].get("error", {}).get("code") == -32601:
                status = 404
            return self.plain(status, json.dumps(sent[0]).encode())
        events = "".join("event: message\ndata: %s\n\n" % json.dumps(part) for part in sent).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(events)))
        self.end_headers()
        self.wfile.write(events)


class Server(ThreadingHTTPServer):
    # Everybody comes at once. Python's own limit of 5 has the kernel drop what comes meanwhile.
    request_queue_size = 1024


def main():
    if len(sys.argv) == 2:
        return over_stdio()
    server = Server(("127.0.0.1", int(sys.argv[2])), Http)
    server.daemon_threads = True
    print("ready %d" % server.server_port, flush=True)
    server.serve_forever()


main()
