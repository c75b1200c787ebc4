"""Inspector 2.12.0 as dialect A client (`--era legacy`) or B (`--era modern`).

Its one-shot CLI lists tools; everything else goes through `mcpdo`, which keeps
the connection in a daemon of its own. Each run of this driver gets a scratch
HOME, so daemons never meet, and stops its daemon at the end.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from common import Report, Wrong, arguments, fill, why

a = arguments()
modern = a.era == "modern"
report = Report(f"inspector 2.12.0 ({'B' if modern else 'A'})", a)
root = os.environ["TASKGATE_PEERS"]
package = f"{root}/node/node_modules/@modelcontextprotocol/inspector/clients"
node = f"{root}/bin/node"
home = tempfile.mkdtemp(prefix="inspector-")
# The fallback from a missing keychain is announced at length on stderr.
env = os.environ | {"HOME": home, "MCP_INSPECTOR_SECRET_STORE": "file"}
deadline = time.monotonic() + a.timeout
connection = None
background = []


# A connection is known by its entry's name, and connecting twice to one address
# gives one connection; so the server gets two entries.
config = f"{home}/servers.json"
if a.http:
    entry = {"type": "streamable-http", "url": a.http}
    if a.bearer:
        entry["headers"] = {"Authorization": f"Bearer {a.bearer}"}
else:
    # A child gets a short list of variables and what is named here.
    named = {k: v for k, v in os.environ.items() if k.startswith(("PEER_", "TASKGATE_"))}
    entry = {"command": a.command[0], "args": a.command[1:], "env": named}
with open(config, "w") as f:
    json.dump({"mcpServers": {"one": entry, "two": entry}}, f)


def spawn(program, *args):
    return subprocess.Popen(
        [node, f"{package}/{program}", "--format", "json", *args],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program, *args):
    """Runs one command; gives (exit code, JSON from stdout, words about an error)."""
    child = spawn(program, *args)
    try:
        out, err = child.communicate(timeout=max(deadline - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise Wrong(f"timed out: {' '.join(x for x in args if '/' in x)}") from None
    said = json.loads(out) if out.strip() else None
    error = None
    for line in err.splitlines():
        if line.startswith('{"error"'):
            error = json.loads(line)["error"]["message"]
    return child.returncode, said, error or (err.strip().splitlines() or [""])[-1]


def mcpdo(*args, on=None, may_fail=False):
    where = ["--connection", on] if on else []
    code, said, error = run("mcpdo/build/mcp-bin.js", *where, *args)
    if code != 0 and not may_fail:
        raise Wrong(f"{args[0]}: {error}")
    return {"failed": error} if said is None and code != 0 else said


def connect(name):
    return mcpdo("--config", config, "connect", "--era", a.era, name)["name"]


def call():
    # In the modern era it is the server that decides about a task.
    how = [] if modern else ["--task"]
    return [
        *("--connection", connection, "tools/call", *how, a.tool),
        *("--tool-args-json", json.dumps(a.args)),
    ]


def tasks(on):
    return mcpdo("tasks/list", on=on).get("tasks", [])


def begin():
    """Starts the call in the background and finds its task on a second connection.

    `tools/call` says nothing of the task before it ends, and the daemon keeps
    everything else on that connection waiting until then.
    """
    global connection
    if modern:
        raise Wrong("Inspector never tells a task's id in the modern era; give --task")
    second = connect("two")
    before = {x["taskId"] for x in tasks(second)}
    background.append(spawn("mcpdo/build/mcp-bin.js", *call()))
    connection = second
    time.sleep(a.after)
    while not (new := [x for x in tasks(second) if x["taskId"] not in before]):
        if time.monotonic() > deadline:
            raise Wrong("the new task is not in tasks/list of a second session")
        time.sleep(0.5)
    report.task(new[0]["taskId"])
    report.status(new[0]["status"])
    return new[0]["taskId"]


def status_of(task_id):
    task = mcpdo("tasks/get", "--task-id", task_id, on=connection)
    task = task.get("task", task)
    report.status(task["status"])
    return task


def to_the_end(task_id):
    while True:
        task = status_of(task_id)
        if task["status"] in ("completed", "failed", "cancelled"):
            break
        time.sleep(0.5)
    report.finish(mcpdo("tasks/result", "--task-id", task_id, on=connection, may_fail=True))


def answered(said):
    """Answers whatever the call asks, until it gives a result."""
    while isinstance(said, dict) and "elicitationPending" in said:
        asks = said["elicitationPending"]
        report.asked(asks["message"])
        if a.scenario == "decline":
            how = ["--decline"]
        else:
            how = [json.dumps(fill(asks.get("requestedSchema")))]
        said = mcpdo("elicitation/respond", asks["elicitationId"], *how, may_fail=True)
    return said


def scenario():
    global connection
    if a.scenario == "list":
        code, said, error = run(
            *("cli/build/index.js", "--config", config, "--server", "one"),
            *("--protocol-era", a.era, "--method", "tools/list"),
        )
        if code != 0:
            raise Wrong(error)
        report.said["result"] = [x["name"] for x in said["result"]["tools"]]
        return
    connection = connect("one")
    if a.scenario == "start":
        begin()
    elif a.scenario == "resume":
        to_the_end(a.task)
    elif a.scenario == "cancel":
        task_id = a.task or begin()
        mcpdo("tasks/cancel", "--task-id", task_id, on=connection)
        # Dialect B promises no more than an acknowledgement at once.
        while status_of(task_id)["status"] not in ("completed", "failed", "cancelled"):
            if not modern:
                raise Wrong("a cancelled task has to be cancelled at once")
            time.sleep(0.5)
        if report.said["statuses"][-1] != "cancelled":
            raise Wrong("the task was not cancelled")
    elif a.scenario == "reconnect":
        task_id = a.task or begin()
        mcpdo("disconnect", connection)
        connection = connect(connection)
        to_the_end(task_id)
    else:
        result = answered(mcpdo(*call(), may_fail=True))
        if isinstance(result, dict) and "failed" in result:
            if a.scenario != "error" or modern:
                raise Wrong(result["failed"])
            # Of a task that failed (a tool error, in dialect A) it tells the words and keeps the result to itself.
            report.said["notes"].append("Inspector told the words of the failed task only")
            result = {"content": [{"type": "text", "text": result["failed"]}], "isError": True}
        if not modern and (found := tasks(connection)):
            newest = max(found, key=lambda x: x["createdAt"])
            report.task(newest["taskId"])
            report.status(newest["status"])
        report.finish(result)


def stop_daemon():
    """Stops it and waits till it is gone, so that no run leaves one behind."""
    try:
        pid = mcpdo("daemon", "status", may_fail=True).get("pid")
        if pid is None:
            return
        mcpdo("daemon", "stop", may_fail=True)
        for _ in range(50):
            os.kill(pid, 0)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
    except (Wrong, ProcessLookupError, AttributeError):
        pass


error = None
try:
    scenario()
except Exception as e:
    error = why(e)
finally:
    for child in background:
        child.kill()
        child.communicate()
    deadline = time.monotonic() + 20
    stop_daemon()
    shutil.rmtree(home, ignore_errors=True)
report.close(error)
