"""A server that asks, in any dialect, and writes down what reaches it.

    asker.py plain|a|rounds|b [--http]

plain   2025-11-25, no tasks: it asks by a request on the call's own stream
a       2025-11-25 with tasks: it asks on the stream of tasks/result, again on each new one
rounds  2026-07-28, no tasks: it answers input_required, and forgets the call
b       2026-07-28 with the tasks extension: it lists what it asks in tasks/get

Over stdio, or at a free port of 127.0.0.1, which is printed. It ends when stdin does. ASKER_JOURNAL names a file with one line of JSON for each
thing that happened to a call: {"mark", "event", "raw"}, raw being the message as it came.

The tool `ask` has the arguments `mark`, which names the call, and `kind`: form, url, sampling, tools or roots.
`first` asks for a visit to a URL (-32042) until that was made, which a POST of the mark to /visited says. The tool `again`
is the same for those who may call it again.
"""

import json
import os
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIALECT = sys.argv[1]
MODERN = DIALECT in ("b", "rounds")
TASKS = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
VERSION = "2026-07-28" if MODERN else "2025-11-25"

# Written so that whoever decodes and encodes them again is caught: odd spaces, escapes, numbers that have other forms.
PARAMS = {
    "form": '{"mode":"form","message":"Pick \\u00e9 MARK","requestedSchema":{"type" : "object","properties":'
    '{"n":{"type":"number","minimum":1.50},"s":{"type":"string"}},"required":["n"]}}',
    "url": '{"mode":"url",FLOW"message":"Connect \\u00e9 MARK","url":"https:\\/\\/auth.example/c?m=MARK"}',
    "sampling": '{"messages":[{"role":"user","content":{"type":"text","text":"Sum \\u00e9 MARK"}}],'
    '"maxTokens":100,"temperature":0.50,"metadata":{"k" : 1.0}}',
    "tools": '{"messages":[{"role":"user","content":{"type":"text","text":"MARK"}}],"maxTokens":100,'
    '"tools":[{"name":"t","inputSchema":{"type":"object"}}]}',
    "roots": '{"x-mark" : "MARK"}',
}
METHODS = {"form": "elicitation/create", "url": "elicitation/create", "sampling": "sampling/createMessage"}
NEEDS = {"form": ("elicitation", "form"), "url": ("elicitation", "url"), "sampling": ("sampling", None),
         "tools": ("sampling", "tools"), "roots": ("roots", None)}

lock = threading.Lock()
journal = open(os.environ["ASKER_JOURNAL"], "a", buffering=1)
calls = {}  # mark -> Call
owners = {}  # mark -> the session that called last
visited = set()
counter = iter(range(1, 1 << 60))


def note(mark, event, raw=""):
    with lock:
        journal.write(json.dumps({"mark": mark, "event": event, "raw": raw}) + "\n")


def method(kind):
    return METHODS.get(kind, "sampling/createMessage" if kind == "tools" else "roots/list")


def params(kind, mark, task=None):
    flow = "" if MODERN else '"elicitationId":"flow-%s",' % mark
    text = PARAMS[kind].replace("FLOW", flow).replace("MARK", mark)
    if task:
        return text[:-1] + ',"_meta":{"%s":{"taskId":"%s"}}}' % (RELATED, task)
    return text


class Call:
    """One call that waits for its answer. `streams` are where it is asked, in dialect a."""

    def __init__(self, mark, kind):
        self.mark, self.kind = mark, kind
        self.over = threading.Event()
        self.status, self.result, self.is_open = "working", None, True
        note(mark, "asks", params(kind, mark))

    def answered(self, raw, body):
        """The message with the answer, and the answer as text."""
        with lock:
            first, self.is_open = self.is_open, False
        note(self.mark, "answered" if first else "answered again", raw)
        if first:
            self.end(body)

    def end(self, text):
        if self.status in ("working", "input_required"):
            self.status = "completed"
            self.result = {"content": [{"type": "text", "text": "heard " + text}], "isError": False}
            note(self.mark, "ended")
            self.over.set()

    def cancel(self):
        if self.status in ("working", "input_required"):
            self.status = "cancelled"
            note(self.mark, "cancelled")
            self.over.set()

    def task(self):
        id = "up-" + self.mark
        at = "2026-01-01T00:00:00Z"
        if not MODERN:
            return {"taskId": id, "status": self.status, "createdAt": at, "lastUpdatedAt": at, "ttl": 600000,
                    "pollInterval": 50}
        task = {"taskId": id, "status": self.status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": 600000,
                "pollIntervalMs": 50}
        if self.status == "completed":
            task["result"] = dict(self.result, resultType="complete")
        return task


def asks(session, capabilities, kind):
    """Whether the client has said that it can be asked."""
    name, mode = NEEDS[kind]
    have = (capabilities or {}).get(name)
    if have is None:
        return False
    return mode is None or mode in have or (mode == "form" and "url" not in have)


class Peer:
    """One client: a session over HTTP, or stdin and stdout."""

    def __init__(self):
        self.capabilities = {}
        self.running = {}  # request id -> mark
        self.session = None


def result(id, value):
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": value})


def error(id, code, message, data=None):
    body = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": body})


def tools():
    tool = {"name": "ask", "inputSchema": {"type": "object"}}
    again = {"name": "again", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    if DIALECT == "a":
        tool["execution"] = again["execution"] = {"taskSupport": "optional"}
    listed = {"tools": [tool, again]}
    if MODERN:
        listed.update(ttlMs=60000, cacheScope="public")
    return listed


def shown(value):
    """A result, as this era has it."""
    return dict(value, resultType="complete") if MODERN else value


def handle(peer, message, raw, send):
    """Answers one message by calling `send` any number of times; runs until the answer is there."""
    id, name, args = message.get("id"), message.get("method"), message.get("params") or {}
    if name is None:
        return replied(message, raw)
    if name == "notifications/cancelled":
        mark = peer.running.get(args.get("requestId"))
        if mark in calls:
            calls[mark].cancel()
        return None
    if id is None:
        return None
    if name in ("initialize", "server/discover"):
        peer.capabilities = args.get("capabilities") or {}
        capabilities = {"tools": {}}
        if DIALECT == "a":
            capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        if DIALECT == "b":
            capabilities["extensions"] = {TASKS: {}}
        info = {"name": "asker", "version": "1"}
        if (name == "server/discover") != MODERN:
            return send(error(id, -32601, "Method not found: " + name))
        if MODERN:
            return send(result(id, {"resultType": "complete", "supportedVersions": [VERSION],
                                    "capabilities": capabilities, "ttlMs": 60000, "cacheScope": "public",
                                    "_meta": {"io.modelcontextprotocol/serverInfo": info}}))
        return send(result(id, {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": info}))
    if name == "tools/list":
        return send(result(id, shown(tools())))
    if name == "tools/call":
        return call(peer, id, args, raw, send)
    if name in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update"):
        mark = str(args.get("taskId"))[3:]
        if mark not in calls:
            return send(error(id, -32602, "Unknown task"))
        return about(peer, calls[mark], name, id, args, raw, send)
    return send(error(id, -32601, "Method not found: " + name))


def replied(message, raw):
    """An answer to a question of ours, whose id holds the mark."""
    mark = str(message.get("id")).split("|")[1]
    if mark in calls:
        body = message.get("result", message.get("error"))
        if "error" in message:
            note(mark, "refused", raw)
            calls[mark].is_open = False
            calls[mark].end("error %d" % body["code"])
        else:
            kind = calls[mark].kind
            if kind == "url" and body.get("action") == "accept":
                note(mark, "agreed", raw)
                calls[mark].is_open = False
                calls[mark].agreed()
            else:
                calls[mark].answered(raw, json.dumps(body.get("action") or body.get("model") or "roots"))


def call(peer, id, args, raw, send):
    mark, kind = args["arguments"]["mark"], args["arguments"]["kind"]
    capabilities = (args.get("_meta") or {}).get(CAPABILITIES) if MODERN else peer.capabilities
    responses = args.get("inputResponses") or {}
    if DIALECT == "rounds" and "theirs" in responses:
        calls[mark].answered(raw, json.dumps(words(responses["theirs"])))
        return send(result(id, shown(calls[mark].result)))
    note(mark, "called", raw)
    owners[mark] = peer.session
    if kind == "first":
        if mark not in visited:
            url = "https://auth.example/first?m=" + mark
            data = {"elicitations": [{"mode": "url", "elicitationId": "flow-" + mark, "url": url,
                                      "message": "Connect first"}]}
            return send(error(id, -32042, "Connect first", data))
        return send(result(id, {"content": [{"type": "text", "text": "connected"}], "isError": False}))
    if MODERN and not asks(peer, capabilities, kind):
        need, mode = NEEDS[kind]
        required = {"requiredCapabilities": {need: {mode: {}} if mode else {}}}
        return send(error(id, -32021, "It has to be asked", required))
    if mark in calls and calls[mark].status == "input_required":
        note(mark, "called again", raw)
    it = calls[mark] = Call(mark, kind)
    if DIALECT == "rounds":
        it.status = "input_required"
        entry = '{"method":"%s","params":%s}' % (method(kind), params(kind, mark))
        return send('{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"theirs":%s},'
                    '"requestState":"s\\u0074ate \\/ %s"}}' % (json.dumps(id), entry, mark))
    if DIALECT == "a" and "task" in args:
        it.status = "input_required"
        created = dict(it.task(), status="working")
        return send(result(id, {"task": created}))
    if DIALECT == "b" and TASKS in (capabilities or {}).get("extensions", {}):
        it.status = "input_required"
        created = dict(it.task(), status="working", resultType="task")
        return send(result(id, created))
    peer.running[id] = mark
    it.agreed = lambda: agreed(it, send)
    ask(it, send, None)
    wait(it, send)
    if it.status == "cancelled":
        return None
    return send(result(id, shown(it.result)))


def ask(it, send, task):
    id = "q|%s|%d" % (it.mark, next(counter))
    send('{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}' % (id, method(it.kind), params(it.kind, it.mark, task)))


def agreed(it, send):
    """The person went there, and is done: the client is told, and the work goes on."""
    send('{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"flow-%s"}}' % it.mark)
    it.end('"visited"')


def wait(it, send):
    while not it.over.wait(0.2):
        send(None)


def words(answer):
    return answer.get("action") or answer.get("model") or "roots"


def about(peer, it, name, id, args, raw, send):
    if name == "tasks/cancel":
        it.cancel()
        return send(result(id, shown({}) if MODERN else it.task()))
    if name == "tasks/update":
        for key, answer in (args.get("inputResponses") or {}).items():
            note(it.mark, "update", key)
            it.answered(raw, json.dumps(words(answer)))
        return send(result(id, shown({})))
    if name == "tasks/result":
        it.agreed = lambda: agreed(it, send)
        if it.is_open and it.status == "input_required":
            ask(it, send, "up-" + it.mark)
        wait(it, send)
        if it.status == "cancelled":
            return send(error(id, -32603, "Task was cancelled"))
        return send(result(id, dict(it.result, _meta={RELATED: {"taskId": "up-" + it.mark}})))
    if not MODERN or it.status != "input_required":
        return send(result(id, shown(it.task())))
    entry = '{"method":"%s","params":%s}' % (method(it.kind), params(it.kind, it.mark))
    task = json.dumps(shown(it.task()))
    return send('{"jsonrpc":"2.0","id":%s,"result":%s,"inputRequests":{"theirs":%s}}}' % (json.dumps(id), task[:-1], entry))


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = {}
    standing = {}

    def log_message(self, *args):
        pass

    def do_GET(self):
        session = self.headers.get("mcp-session-id")
        if MODERN or session not in self.sessions:
            return self.bare(405)
        news = queue.Queue()
        self.standing[session] = news
        self.begin()
        while True:
            try:
                message = news.get(timeout=0.5)
            except queue.Empty:
                message = None
            try:
                self.event(message)
            except OSError:
                return

    def do_DELETE(self):
        self.bare(200)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path.startswith("/visited"):
            mark = raw
            # Whoever called listens by now, or is about to.
            session = owners[mark]
            for _ in range(6000):
                if session in self.standing:
                    break
                time.sleep(0.01)
            visited.add(mark)
            note(mark, "visited")
            done = '{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"flow-%s"}}'
            for news in list(self.standing.values()):
                news.put(done % mark)
            return self.bare(202)
        message = json.loads(raw)
        session = self.headers.get("mcp-session-id")
        if message.get("method") == "initialize":
            peer, session = Peer(), "s%d" % next(counter)
            self.sessions[session] = peer
        elif MODERN:
            peer = Peer()
        elif session in self.sessions:
            peer = self.sessions[session]
        else:
            return self.bare(404)
        if "id" not in message or "method" not in message:
            handle(peer, message, raw, None)
            return self.bare(202)
        self.state = "fresh"
        peer.session = session
        opened = session if message["method"] == "initialize" else None

        def send(out):
            is_last = out is not None and "method" not in json.loads(out)
            try:
                if self.state == "fresh" and is_last:
                    self.state = "over"
                    return self.json(out, opened)
                if self.state == "fresh":
                    self.state = "streaming"
                    self.begin()
                self.event(out)
            except OSError:
                self.state = "gone"
                raise

        try:
            handle(peer, message, raw, send)
        except OSError:
            mark = peer.running.get(message["id"])
            note(mark or "", "hung up")
            self.close_connection = True
            return
        if self.state == "streaming":
            self.wfile.write(b"0\r\n\r\n")
        elif self.state == "fresh":
            self.bare(202)

    def begin(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def event(self, message):
        text = ": still here\n\n" if message is None else "data: %s\n\n" % message
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def json(self, text, session):
        data = text.encode()
        self.send_response(400 if '"code": -32021' in text else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if session and not MODERN:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(data)

    def bare(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    # All pairs come at once. Python's own limit of 5 has the kernel drop what comes meanwhile.
    request_queue_size = 1024


def over_http():
    server = Server(("127.0.0.1", 0), Http)
    server.daemon_threads = True
    print("ready", server.server_address[1], flush=True)
    # It ends with whoever started it.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


def over_stdio():
    peer = Peer()
    writing = threading.Lock()

    def send(out):
        if out is not None:
            with writing:
                sys.stdout.write(out + "\n")
                sys.stdout.flush()

    for line in sys.stdin:
        raw = line.strip()
        if raw:
            message = json.loads(raw)
            threading.Thread(target=handle, args=(peer, message, raw, send), daemon=True).start()


if __name__ == "__main__":
    over_http() if "--http" in sys.argv else over_stdio()
