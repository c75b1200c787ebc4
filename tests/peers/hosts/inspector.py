"""A host made of Inspector 2.12.0's one-shot command line.

Each turn of the model is a process of its own, which starts the server, calls
one tool and leaves. So each turn is a host that comes back.
"""

import json
import os
import subprocess
import sys

import anyio

from model import Model, Refused, TimedOut, arguments, told_by_text, why

a = arguments()
# It does nothing at all when it is reached by a symbolic link.
peers = os.path.realpath(os.environ["TASKGATE_PEERS"])
inspector = [
    f"{peers}/bin/node",
    f"{peers}/node/node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js",
]
# A folder and an environment are only taken from a file. Its command line has no other timeout than the SDK's 60 s.
home = os.environ["HOME"]
config = f"{home}/inspector-{os.getpid()}.json"
entry = {"command": a.command[0], "args": a.command[1:], "env": a.env}
if a.cwd:
    entry["cwd"] = a.cwd
with open(config, "w") as f:
    json.dump({"mcpServers": {"one": entry}}, f)


def run(*args):
    child = subprocess.Popen(
        [*inspector, "--format", "json", "--config", config, "--server", "one", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    model.victims.append(child)
    out, err = child.communicate()
    model.victims.remove(child)
    sys.stderr.write(err)
    if out.strip():
        return json.loads(out)["result"]
    words = next((x for x in err.splitlines() if x.startswith('{"error"')), None)
    message = json.loads(words)["error"]["message"] if words else err.strip() or "it said nothing"
    # Both its own words and the SDK's have these two in them.
    raise (TimedOut if "timed out" in message else Refused)(message)


async def call(tool, args):
    how = ["--tool-name", tool, "--tool-args-json", json.dumps(args)]
    return await anyio.to_thread.run_sync(lambda: run("--method", "tools/call", *how))


model = Model(a, "inspector 2.12.0", call, told_by_text)


async def host():
    try:
        hello = run("--method", "initialize")
        model.report["protocol"] = hello.get("protocolVersion")
        model.report["server"] = hello.get("serverInfo")
        model.report["instructions"] = hello.get("instructions")
        model.report["capabilities"] = hello.get("capabilities")
        if (hello.get("capabilities") or {}).get("tools"):
            model.report["tools"] = run("--method", "tools/list")["tools"]
        model.opened()
        await model.play()
    except BaseException as e:
        model.report["error"] = why(e)
    finally:
        os.unlink(config)
    return None


model.close(anyio.run(host))
