"""What the Python drivers share: the command line, the answer, the waiting."""

import argparse
import json
import sys
import time

DEFAULTS = {
    "run": ("slow_report", {"seconds": 2, "label": "alpha"}),
    "input": ("confirm_deploy", {"target": "prod"}),
    "decline": ("confirm_deploy", {"target": "prod"}),
    "cancel": ("slow_report", {"seconds": 30, "label": "beta"}),
    "error": ("fail", {"message": "out of paper"}),
    "start": ("slow_report", {"seconds": 6, "label": "gamma"}),
    "reconnect": ("slow_report", {"seconds": 4, "label": "delta"}),
}
SCENARIOS = ["list", *DEFAULTS, "resume"]


class Wrong(Exception):
    """The scenario did not go to its proper end."""


def arguments(era="legacy"):
    argv = sys.argv[1:]
    command = []
    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1 :]
    p = argparse.ArgumentParser()
    where = p.add_mutually_exclusive_group(required=True)
    where.add_argument("--http", metavar="URL")
    where.add_argument("--stdio", action="store_true", help="then -- CMD ARGS…")
    p.add_argument("--scenario", required=True, choices=SCENARIOS)
    p.add_argument("--tool")
    p.add_argument("--args", type=json.loads)
    p.add_argument("--task", help="the task to resume")
    p.add_argument("--expect", help="text that the result has to contain")
    p.add_argument("--bearer", help="token for the Authorization header")
    p.add_argument("--after", type=float, default=1.0, help="seconds before a cancel")
    p.add_argument("--timeout", type=float, default=60.0)
    p.add_argument("--era", choices=["legacy", "modern"], default=era)
    a = p.parse_args(argv)
    a.command = command
    if a.stdio and not command:
        p.error("--stdio needs a command after --")
    if a.scenario == "resume" and not a.task:
        p.error("--scenario resume needs --task")
    tool, args = DEFAULTS.get(a.scenario, (None, {}))
    a.tool = a.tool or tool
    a.args = args if a.args is None else a.args
    return a


class Report:
    """Collects what happened and prints it as the one line on stdout."""

    def __init__(self, client, args):
        self.args = args
        self.began = time.monotonic()
        self.said = {
            "ok": False,
            "client": client,
            "scenario": args.scenario,
            "task_id": args.task,
            "statuses": [],
            "result": None,
            "error": None,
            "elapsed_ms": 0,
            "notes": [],
        }

    def note(self, text):
        self.said["notes"].append(text)

    def task(self, task_id):
        self.said["task_id"] = task_id

    def status(self, status):
        # A long wait would fill the line with the same word.
        if self.said["statuses"][-1:] != [status]:
            self.said["statuses"].append(status)

    def asked(self, message):
        self.note(f"asked: {message}")

    def was_asked(self):
        return any(n.startswith("asked: ") for n in self.said["notes"])

    def finish(self, result):
        """Keeps the result and checks it against the scenario."""
        self.said["result"] = result
        if not isinstance(result, dict):
            raise Wrong("no result")
        scenario, error = self.args.scenario, result.get("isError") is True
        if scenario in ("input", "decline") and not self.was_asked():
            raise Wrong("the server asked nothing")
        if scenario == "error" and not error:
            raise Wrong("a tool error was expected")
        if scenario not in ("error", "cancel") and error:
            raise Wrong("the tool reported an error")
        if self.args.expect and self.args.expect not in json.dumps(result, ensure_ascii=False):
            raise Wrong(f"the result does not contain {self.args.expect!r}")

    def close(self, error=None):
        self.said["ok"] = error is None
        self.said["error"] = error
        self.said["elapsed_ms"] = round((time.monotonic() - self.began) * 1000)
        print(json.dumps(self.said, ensure_ascii=False), flush=True)
        sys.exit(0 if error is None else 1)


def why(error):
    """One sentence for an exception; groups are opened to their first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    inner = getattr(error, "error", None)
    if inner is not None and hasattr(inner, "code"):
        return f"{inner.code}: {inner.message}"
    if isinstance(error, TimeoutError):
        return f"timed out {error}".strip()
    return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"


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


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
