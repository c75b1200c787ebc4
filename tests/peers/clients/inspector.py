"""Inspector 2.12.0 as dialect A client (`--era legacy`) or B (`--era modern`).

Its `mcpdo` keeps connections in a daemon, and every command is one line to that
daemon's socket. This driver starts the daemon and sends those lines itself, with
the same members: a Node process for each would take most of a test's time. Each
run gets a scratch HOME, so daemons never meet.
"""

import atexit
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import asynccontextmanager

import anyio

from common import TERMINAL, Peer, Refused, Wrong, main, reply

root = os.environ["TASKGATE_PEERS"]
package = f"{root}/node/node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build"
SETTINGS = {
    "headers": [],
    "metadata": {},
    "env": [],
    "connectionTimeout": 60_000,
    "requestTimeout": 0,
    "taskTtl": 600_000,
    "maxFetchRequests": 1000,
    "autoRefreshOnListChanged": False,
    "paginatedLists": False,
    "roots": [],
}


class Connection:
    def __init__(self, peer, name, target):
        self.peer, self.name, self.target = peer, name, target

    async def rpc(self, method, **params):
        params |= {"method": method, "name": self.name, "requireExplicit": True, "interactive": False}
        return unwrapped(await self.peer.ask("rpc", params))


def unwrapped(outcome):
    """What the command prints of an outcome."""
    if outcome.get("kind") == "elicitation-pending":
        return {"elicitationPending": outcome["elicitation"]}
    return outcome.get("result", outcome)


class Inspector(Peer):
    names = itertools.count()
    daemon = None

    def ready(self, a):
        self.modern = a.era == "modern"
        self.name = f"inspector 2.12.0 ({'B' if self.modern else 'A'})"
        self.home = tempfile.mkdtemp(prefix="inspector-")
        self.socket = f"{self.home}/mcpdod.sock"
        self.token = "t" * 64
        atexit.register(self.done)

    def start(self):
        """Not before it is needed: one that is never connected stays alone for ever."""
        if self.daemon is not None:
            return
        env = os.environ | {
            "HOME": self.home,
            "MCP_INSPECTOR_DAEMON_DIR": self.home,
            "MCP_INSPECTOR_DAEMON_TOKEN": self.token,
            "MCP_STORAGE_DIR": self.home,
            # The fallback from a missing keychain is announced at length on stderr.
            "MCP_INSPECTOR_SECRET_STORE": "file",
        }
        self.daemon = subprocess.Popen(
            [f"{root}/bin/node", f"{package}/mcpdod.js"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(f"{self.home}/log", "w"),
        )

    def done(self):
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(5)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            self.daemon = None
        shutil.rmtree(self.home, ignore_errors=True)

    async def ask(self, op, params):
        """One line to the daemon, one back."""
        self.start()
        began = time.monotonic()
        while True:
            try:
                stream = await anyio.connect_unix(self.socket)
                break
            except OSError:
                if time.monotonic() - began > 60 or self.daemon.poll() is not None:
                    raise Wrong("the daemon does not come up") from None
                await anyio.sleep(0.05)
        async with stream:
            line = {"id": f"r{next(self.names)}", "op": op, "params": params, "token": self.token}
            await stream.send(json.dumps(line).encode() + b"\n")
            heard = b""
            while not heard.endswith(b"\n"):
                heard += await stream.receive()
        said = json.loads(heard)
        if not said["ok"]:
            # It tells the words of an error, and no code.
            raise Refused(None, said["error"]["message"])
        return said["result"]

    @asynccontextmanager
    async def session(self, target):
        name = f"c{next(self.names)}"
        if target.http:
            config = {"type": "streamable-http", "url": target.http}
            if target.bearer:
                config["headers"] = target.headers()
        else:
            # A child gets a short list of variables and what is named here.
            named = {k: v for k, v in target.environment().items() if k.startswith(("PEER_", "TASKGATE_"))}
            config = {
                "type": "stdio",
                "command": target.command[0],
                "args": target.command[1:],
                "env": named | {"PATH": os.environ["PATH"]},
                "cwd": os.getcwd(),
            }
        era = "modern" if self.modern else "legacy"
        # Two connections to one identity are one connection.
        params = {
            "name": name,
            "serverConfig": config,
            "serverSettings": SETTINGS | {"protocolEra": era},
            "serverIdentity": name,
        }
        await self.ask("connect", params)
        try:
            yield Connection(self, name, target)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await self.ask("disconnect", {"name": name, "requireExplicit": True})

    def call(self, s, step):
        # In the modern era it is the server that decides about a task.
        return s.rpc("tools/call", toolName=step.tool, toolArg=step.args, task=not self.modern, appInfo=False)

    async def tools(self, s, step):
        return [x["name"] for x in (await s.rpc("tools/list"))["tools"]]

    async def listed(self, s):
        return (await s.rpc("tasks/list")).get("tasks", [])

    async def begin(self, s, step):
        """Starts the call and finds its task on a second connection.

        `tools/call` says nothing of the task before it ends, and the daemon keeps
        everything else on that connection waiting until then. The task has to be
        in `tasks/list` of another session.
        """
        if self.modern:
            raise Wrong("Inspector never tells a task's id in the modern era; give --task")
        async with self.session(s.target) as second:
            before = {x["taskId"] for x in await self.listed(second)}
            async with anyio.create_task_group() as background:
                background.start_soon(self.quietly, s, step)
                while True:
                    new = [x for x in await self.listed(second) if x["taskId"] not in before]
                    if new:
                        break
                    await anyio.sleep(0.2)
                background.cancel_scope.cancel()
        step.task(new[0]["taskId"])
        step.status(new[0]["status"])

    async def quietly(self, s, step):
        try:
            await self.call(s, step)
        except Refused as e:
            step.note(f"the call itself: {e}")

    async def status_of(self, s, step):
        task = await s.rpc("tasks/get", taskId=step.task_id)
        task = task.get("task", task)
        if "status" not in task:
            raise Wrong(f"tasks/get shows no task: {task}")
        step.status(task["status"])
        return task["status"]

    async def to_the_end(self, s, step):
        while await self.status_of(s, step) not in TERMINAL:
            await anyio.sleep(0.2)
        step.finish(await s.rpc("tasks/result", taskId=step.task_id))

    async def cancel(self, s, step):
        if step.task_id is None:
            await self.begin(s, step)
        await s.rpc("tasks/cancel", taskId=step.task_id)
        # Dialect B promises no more than an acknowledgement at once.
        while await self.status_of(s, step) not in TERMINAL:
            if not self.modern:
                raise Wrong("a cancelled task has to be cancelled at once")
            await anyio.sleep(0.2)
        if step.last_status() != "cancelled":
            raise Wrong("the task was not cancelled")

    async def run(self, s, step):
        try:
            said = await self.call(s, step)
            while isinstance(said, dict) and "elicitationPending" in said:
                asks = said["elicitationPending"]
                action, content = await reply(s.target, asks["message"], asks.get("requestedSchema"))
                answer = {"elicitationId": asks["elicitationId"], "action": action}
                if content is not None:
                    answer["content"] = content
                outcome = await self.ask("elicitation/respond", answer)
                said = unwrapped(outcome.get("outcome", outcome))
        except Refused as e:
            if step.scenario != "error" or self.modern:
                raise
            # Of a task that failed (a tool error, in dialect A) it tells the words and keeps the result to itself.
            step.note("Inspector told the words of the failed task only")
            said = {"content": [{"type": "text", "text": str(e)}], "isError": True}
        if not self.modern and (found := await self.listed(s)):
            newest = max(found, key=lambda x: x["createdAt"])
            step.task(newest["taskId"])
            step.status(newest["status"])
        step.finish(said)


main(Inspector())
