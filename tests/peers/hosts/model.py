"""What the Python hosts share: the command line, the model, the report.

README.md says what a host driver does and prints.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time

HANDLE_TOOL = "taskgate_task"
ASKS = f"call {HANDLE_TOOL} with "


class TimedOut(Exception):
    """The client gave up waiting for an answer."""


class Refused(Exception):
    """The call was answered by an error of the protocol."""


def arguments():
    argv = sys.argv[1:]
    if "--" not in argv:
        sys.exit("the server's command is missing after --")
    cut = argv.index("--")
    p = argparse.ArgumentParser()
    p.add_argument("--tool")
    p.add_argument("--args", type=json.loads, default={})
    p.add_argument("--begin", choices=["call", "list"], default="call")
    p.add_argument("--cwd")
    p.add_argument("--timeout", type=float, default=60.0)
    p.add_argument("--again", type=int, default=0)
    p.add_argument("--turns", type=int, default=12)
    p.add_argument("--die", type=lambda given: [float(x) for x in given.split(":")])
    p.add_argument("--env", action="append", default=[])
    a = p.parse_args(argv[:cut])
    a.command = argv[cut + 1 :]
    a.env = dict(pair.split("=", 1) for pair in a.env)
    return a


def say(event, more):
    print(json.dumps({"event": event, **more}, ensure_ascii=False), flush=True)


def text_of(result):
    blocks = result.get("content") or []
    return "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text")


def told_by_text(result):
    """What the text tells the model to call."""
    text = text_of(result)
    at = text.find(ASKS)
    if at < 0:
        return None
    args, _ = json.JSONDecoder().raw_decode(text, at + len(ASKS))
    return HANDLE_TOOL, args


def told_by_structure(result):
    """The same for a host that shows its model the structured part."""
    task = (result.get("structuredContent") or {}).get("taskgate")
    if task is None or task.get("status") not in ("working", "input_required"):
        return None
    return HANDLE_TOOL, {"action": "wait", "taskId": task["taskId"]}


class Model:
    """Calls the tool, and then whatever the answers tell it to."""

    def __init__(self, args, client, call, told):
        self.args = args
        self.call = call
        self.told = told
        self.began = time.monotonic()
        self.victims = []
        self.report = {
            "ok": False,
            "client": client,
            "protocol": None,
            "server": None,
            "instructions": None,
            "capabilities": None,
            "tools": [],
            "turns": [],
            "timeouts": 0,
            "result": None,
            "error": None,
        }

    def opened(self):
        self.report["opened_ms"] = self.since(self.began)
        say("open", {"opened_ms": self.report["opened_ms"]})

    @staticmethod
    def since(then):
        return round((time.monotonic() - then) * 1000)

    def die(self):
        """As the kernel's out-of-memory killer would have it: nothing is tidied up."""
        for child in self.victims:
            child.kill()
        os.kill(os.getpid(), signal.SIGKILL)

    async def turn(self, step):
        turns = self.report["turns"]
        number = len(turns) + 1
        if number > self.args.turns:
            raise Refused(f"not over after {self.args.turns} turns")
        tool, args = step
        turn = {"turn": number, "tool": tool, "args": args}
        turns.append(turn)
        say("turn", turn)
        if self.args.die and self.args.die[0] == number:
            # A thread, because nothing that the client does may put it off.
            timer = threading.Timer(self.args.die[1], self.die)
            timer.daemon = True
            timer.start()
        started = time.monotonic()
        result = None
        try:
            result = await self.call(tool, args)
            turn["text"] = text_of(result)
            turn["structured"] = result.get("structuredContent")
            turn["is_error"] = result.get("isError") is True
        except TimedOut as e:
            turn |= {"error": str(e), "timed_out": True}
            self.report["timeouts"] += 1
        except Refused as e:
            turn["error"] = str(e)
        turn["elapsed_ms"] = self.since(started)
        return turn, result

    def chosen(self, result):
        """What a model does with a list of tasks: it goes on with the newest that is its own."""
        tasks = ((result.get("structuredContent") or {}).get("taskgate") or {}).get("tasks", [])
        for task in tasks:
            if task["tool"] == self.args.tool and task.get("fetched") is not True:
                return HANDLE_TOOL, {"action": "wait", "taskId": task["taskId"]}
        return self.args.tool, self.args.args

    async def follow(self, step):
        while step is not None:
            turn, result = await self.turn(step)
            self.report["result"], self.report["error"] = result, turn.get("error")
            if turn.get("timed_out"):
                # A model that reads that its call timed out makes it once more.
                step = self.args.tool, self.args.args
            elif result is None:
                step = None
            elif step[1].get("action") == "list":
                step = self.chosen(result)
            else:
                step = self.told(result)

    async def play(self):
        own = self.args.tool, self.args.args
        if self.args.tool is not None:
            listing = HANDLE_TOOL, {"action": "list"}
            await self.follow(listing if self.args.begin == "list" else own)
            for _ in range(self.args.again):
                await self.follow(own)
        result = self.report["result"] or {}
        self.report["ok"] = self.report["error"] is None and result.get("isError") is not True

    def close(self, left):
        if left is not None:
            self.report["closed_ms"] = self.since(left)
        self.report["elapsed_ms"] = self.since(self.began)
        say("report", self.report)
        sys.exit(0 if self.report["ok"] else 1)


def why(error):
    """One sentence for an exception; groups are opened to their first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    inner = getattr(error, "error", None)
    if inner is not None and hasattr(inner, "code"):
        return f"{inner.code}: {inner.message}"
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
