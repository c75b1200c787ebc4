"""What the Python drivers share: the command line, the steps, the answers.

A driver plays steps: one from its command line, or, with `--batch`, jobs that
come as lines of JSON on stdin. A job is a server and some steps that share a
session, and jobs run side by side; README.md has the format.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field

import anyio

DEFAULTS = {
    "run": ("slow_report", {"seconds": 2, "label": "alpha"}),
    "input": ("confirm_deploy", {"target": "prod"}),
    "decline": ("confirm_deploy", {"target": "prod"}),
    "cancel": ("slow_report", {"seconds": 30, "label": "beta"}),
    "error": ("fail", {"message": "out of paper"}),
    "refuse": ("refuse", {"message": "not today"}),
    "big": ("big_report", {"kib": 4, "label": "epsilon", "seconds": 0.5}),
    "start": ("slow_report", {"seconds": 6, "label": "gamma"}),
    "reconnect": ("slow_report", {"seconds": 4, "label": "delta"}),
}
SCENARIOS = ["list", *DEFAULTS, "resume"]
# Jobs of a batch that run at the same time.
SIDE_BY_SIDE = int(os.environ.get("PEER_JOBS", "4"))
TERMINAL = ("completed", "failed", "cancelled")


class Wrong(Exception):
    """The scenario did not go to its proper end."""


class Refused(Exception):
    """The call was answered by a JSON-RPC error, or its task failed with one."""

    def __init__(self, code, message):
        super().__init__(message if code is None else f"{code}: {message}")


@dataclass
class Target:
    """Where the server is, and whose question it is that it asks."""

    http: str | None = None
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    bearer: str | None = None
    era: str = "legacy"
    timeout: float = 60.0
    # Leave without a goodbye, as a host that dies.
    stay: bool = False
    step: "Step | None" = None

    def environment(self):
        # SDKs hand on only a short list of variables; a server under test needs
        # the rest as well, the journal's path above all.
        return os.environ | self.env

    def headers(self):
        return {"Authorization": f"Bearer {self.bearer}"} if self.bearer else {}


class Step:
    """One scenario: what is asked for, and what is told of it."""

    def __init__(self, client, scenario, tool=None, args=None, task=None, expect=None, size=None,
                 after=1.0, timeout=60.0):
        default, default_args = DEFAULTS.get(scenario, (None, {}))
        self.scenario = scenario
        self.tool = tool or default
        self.args = default_args if args is None else args
        self.expect = expect
        self.size = size
        self.after = after
        self.timeout = timeout
        self.began = time.monotonic()
        self.said = {
            "ok": False,
            "client": client,
            "scenario": scenario,
            "task_id": task,
            "statuses": [],
            "result": None,
            "error": None,
            "elapsed_ms": 0,
            "notes": [],
        }

    @property
    def task_id(self):
        return self.said["task_id"]

    def note(self, text):
        if text not in self.said["notes"]:
            self.said["notes"].append(text)

    def task(self, task_id):
        self.said["task_id"] = task_id

    def status(self, status):
        # A long wait would fill the line with the same word.
        if self.said["statuses"][-1:] != [status]:
            self.said["statuses"].append(status)

    def last_status(self):
        return self.said["statuses"][-1] if self.said["statuses"] else None

    def asked(self, message):
        self.note(f"asked: {message}")

    def was_asked(self):
        return any(n.startswith("asked: ") for n in self.said["notes"])

    def finish(self, result):
        """Keeps the result and checks it against the scenario."""
        self.said["result"] = result
        if not isinstance(result, dict):
            raise Wrong("no result")
        scenario, error = self.scenario, result.get("isError") is True
        if scenario == "refuse":
            raise Wrong("an error of the protocol was expected")
        if scenario in ("input", "decline") and not self.was_asked():
            raise Wrong("the server asked nothing")
        if scenario == "error" and not error:
            raise Wrong("a tool error was expected")
        if scenario not in ("error", "cancel") and error:
            raise Wrong(f"the tool reported an error: {str(result)[:300]}")
        if self.expect and self.expect not in json.dumps(result, ensure_ascii=False):
            raise Wrong(f"the result does not contain {self.expect!r}")
        if self.size is not None:
            texts = [b.get("text", "") for b in result.get("content", [])]
            length = sum(map(len, texts))
            # A megabyte on stdout tells nobody anything.
            self.said["result"] = {"characters": length}
            if length != self.size:
                raise Wrong(f"the result has {length} characters instead of {self.size}")

    def refused(self, error):
        """What the scenario `refuse` ends with; gives what is wrong with it."""
        words = why(error)
        self.note(f"refused: {words}")
        if not isinstance(error, Refused) and code_of(error) is None:
            return words
        if self.expect and self.expect not in words:
            return f"the error does not contain {self.expect!r}: {words}"
        return None

    def close(self, error=None):
        self.said["ok"] = error is None
        self.said["error"] = error
        self.said["elapsed_ms"] = round((time.monotonic() - self.began) * 1000)
        return self.said


def opened(error):
    """The first member of a group, however deep."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def code_of(error):
    return getattr(getattr(opened(error), "error", None), "code", None)


def why(error):
    """One sentence for an exception."""
    error = opened(error)
    if code_of(error) is not None:
        return f"{error.error.code}: {error.error.message}"
    if isinstance(error, TimeoutError):
        return f"timed out {error}".strip()
    return str(error) if isinstance(error, (Wrong, Refused)) else f"{type(error).__name__}: {error}"


def fill(schema):
    """Says yes to a form, whatever it asks."""
    made = {}
    for name, kind in (schema or {}).get("properties", {}).items():
        choices = kind.get("enum") or [c["const"] for c in kind.get("oneOf", []) if "const" in c]
        if choices:
            made[name] = choices[0]
        elif kind.get("type") == "boolean":
            made[name] = True
        elif kind.get("type") in ("number", "integer"):
            made[name] = kind.get("minimum", 1)
        elif kind.get("type") == "array":
            made[name] = []
        else:
            made[name] = kind.get("default", "yes")
    return made


async def reply(target, message, schema):
    """The answer of a person: (action, content). One who wants to cancel gives none."""
    step = target.step
    step.asked(message)
    if step.scenario == "cancel":
        await anyio.sleep_forever()
    return ("decline", None) if step.scenario == "decline" else ("accept", fill(schema))


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Peer:
    """One client. Subclasses say how it opens a session and what it does in one."""

    name = ""
    era = "legacy"

    def session(self, target):
        """An async context manager; gives a session, which has `note`s if it likes."""
        raise NotImplementedError

    async def tools(self, s, step):
        """The names of the tools."""
        raise NotImplementedError

    async def begin(self, s, step):
        """Starts the call as a task and sets `step.task`."""
        raise NotImplementedError

    async def to_the_end(self, s, step):
        """Follows `step.task_id` to its end."""
        raise NotImplementedError

    async def cancel(self, s, step):
        """Starts the call, unless there is a task, and cancels it."""
        raise NotImplementedError

    async def run(self, s, step):
        """Calls and follows to the end."""
        await self.begin(s, step)
        await self.to_the_end(s, step)

    async def play(self, target, s, step):
        match step.scenario:
            case "list":
                step.said["result"] = await self.tools(s, step)
            case "start":
                await self.begin(s, step)
            case "resume":
                await self.to_the_end(s, step)
            case "cancel":
                await self.cancel(s, step)
            case _:
                await self.run(s, step)

    async def one(self, target, s, step):
        """Plays a step; gives what is wrong with it. What the SDK itself cancels is passed on."""
        target.step = step
        step.began = time.monotonic()
        try:
            with anyio.fail_after(step.timeout):
                await self.play(target, s, step)
        except Exception as error:
            if step.scenario == "refuse":
                return step.refused(error)
            return why(error)
        return "the call was not refused" if step.scenario == "refuse" else None

    async def parted(self, target, step):
        """`start` and `reconnect`: the session that starts the call is left without a goodbye."""
        with anyio.fail_after(step.timeout):
            async with self.session(Target(**{**vars(target), "stay": True, "step": step})) as s:
                await self.begin(s, step)
            if step.scenario == "reconnect":
                async with self.session(Target(**{**vars(target), "step": step})) as s:
                    await self.to_the_end(s, step)

    async def job(self, target, steps, tell):
        """Plays steps one after the other in one session; after a step that failed, in a new one."""
        steps = list(steps)
        while steps:
            if steps[0].scenario in ("start", "reconnect"):
                step, done = steps.pop(0), False
                step.began = time.monotonic()
                try:
                    await self.parted(target, step)
                    done = True
                except BaseException as error:
                    # What closing a transport may raise says nothing about the scenario.
                    if not done and not step.said["error"]:
                        tell(step, why(error))
                        continue
                tell(step, None)
                continue
            told = None
            try:
                async with self.session(target) as s:
                    for note in getattr(s, "notes", []):
                        steps[0].note(note)
                    while steps and steps[0].scenario not in ("start", "reconnect"):
                        told = steps[0]
                        wrong = await self.one(target, s, told)
                        tell(steps.pop(0), wrong)
                        if wrong is not None:
                            break
            except BaseException as error:
                # The session could not be opened, or broke in the middle of a step.
                if steps and (told is None or told is steps[0]):
                    tell(steps.pop(0), why(error))


def arguments(era):
    argv = sys.argv[1:]
    command = []
    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1 :]
    p = argparse.ArgumentParser()
    where = p.add_mutually_exclusive_group(required=True)
    where.add_argument("--http", metavar="URL")
    where.add_argument("--stdio", action="store_true", help="then -- CMD ARGS…")
    where.add_argument("--batch", action="store_true", help="jobs come on stdin")
    p.add_argument("--scenario", choices=SCENARIOS)
    p.add_argument("--tool")
    p.add_argument("--args", type=json.loads)
    p.add_argument("--task", help="the task to resume")
    p.add_argument("--expect", help="text that the result or the error has to contain")
    p.add_argument("--size", type=int, help="characters that the result has to have")
    p.add_argument("--bearer", help="token for the Authorization header")
    p.add_argument("--after", type=float, default=1.0, help="seconds before a cancel")
    p.add_argument("--timeout", type=float, default=60.0)
    p.add_argument("--era", choices=["legacy", "modern"], default=era)
    a = p.parse_args(argv)
    a.command = command
    if not a.batch and not a.scenario:
        p.error("--scenario is missing")
    if a.stdio and not command:
        p.error("--stdio needs a command after --")
    if a.scenario == "resume" and not a.task:
        p.error("--scenario resume needs --task")
    return a


def say(line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


async def single(peer, a):
    target = Target(http=a.http, command=a.command, bearer=a.bearer, era=a.era, timeout=a.timeout)
    step = Step(peer.name, a.scenario, a.tool, a.args, a.task, a.expect, a.size, a.after, a.timeout)
    ends = []

    def tell(step, wrong):
        ends.append(step.close(wrong))

    with anyio.move_on_after(a.timeout + 5):
        await peer.job(target, [step], tell)
    if not ends:
        ends.append(step.close("timed out"))
    say(ends[0])
    return ends[0]["ok"]


async def batch(peer, a):
    limit = anyio.CapacityLimiter(SIDE_BY_SIDE)

    async def play(line):
        async with limit:
            steps = [Step(peer.name, **s) for s in line.pop("steps")]
            name, left = line.pop("id"), len(steps)
            target = Target(era=a.era, **line)

            def tell(step, wrong):
                nonlocal left
                left -= 1
                say({"id": name, **step.close(wrong)})

            try:
                await peer.job(target, steps, tell)
            except BaseException as error:
                print(f"job {name}: {why(error)}", file=sys.stderr)
                raise
            finally:
                say({"id": name, "left": left})

    async with anyio.create_task_group() as jobs:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            jobs.start_soon(play, json.loads(line))


def main(peer):
    a = arguments(peer.era)
    peer.era = a.era
    if hasattr(peer, "ready"):
        peer.ready(a)
    try:
        if a.batch:
            anyio.run(batch, peer, a)
            return
        sys.exit(0 if anyio.run(single, peer, a) else 1)
    finally:
        if hasattr(peer, "done"):
            peer.done()
