"""Plain client of the modern era: Python mcp 2.3.0, which knows no tasks.

`--era legacy` makes it an ordinary 2025-11-25 client instead. It goes on with a
handle exactly as plain_ts.mjs does.
"""

import logging
import os
import warnings
from contextlib import asynccontextmanager

import anyio
import httpx2
import mcp_types as t
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import Report, Wrong, arguments, fill, plain, why

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

a = arguments(era="modern")
report = Report(f"python-mcp 2.3.0 (plain, {a.era})", a)
HANDLE_TOOL = "taskgate_task"
HANDLE_NAMES = ("handle", "taskId", "task_id", "task", "id")
TERMINAL = ("completed", "failed", "cancelled")


def answer(params):
    report.asked(params["message"])
    if a.scenario == "decline":
        return {"action": "decline"}
    return {"action": "accept", "content": fill(params.get("requestedSchema"))}


async def elicit(_, params):
    return t.ElicitResult.model_validate(answer(plain(params)))


@asynccontextmanager
async def session():
    if a.stdio:
        server = StdioServerParameters(
            command=a.command[0], args=a.command[1:], env=dict(os.environ)
        )
        where = stdio_client(server)
    else:
        headers = {"Authorization": f"Bearer {a.bearer}"} if a.bearer else {}
        http = httpx2.AsyncClient(headers=headers, timeout=a.timeout)
        where = streamable_http_client(a.http, http_client=http)
    mode = "legacy" if a.era == "legacy" else "2026-07-28"
    async with Client(
        where,
        mode=mode,
        elicitation_callback=elicit,
        read_timeout_seconds=a.timeout,
        client_info=t.Implementation(name="peer-python-plain", version="1"),
    ) as c:
        report.note(f"version: {c.protocol_version}")
        c.tools = (await c.list_tools()).tools
        yield c


def member(value, names):
    """The first member with one of these names, looked for on two levels."""
    levels = [value, *(value.values() if isinstance(value, dict) else [])]
    for level in levels:
        if isinstance(level, dict):
            for name in names:
                if level.get(name) is not None:
                    return level[name]
    return None


def stand_in(result):
    """What a result that stands in for the real one says: handle, status, questions."""
    said = result.get("structuredContent")
    handle, status = member(said, HANDLE_NAMES), member(said, ("status",))
    if not isinstance(handle, str) or not isinstance(status, str):
        return None
    report.task(handle)
    report.status(status)
    return handle, status, member(said, ("questions",)) or []


async def use_handle(c, action, handle, **more):
    tool = next((x for x in c.tools if x.name == HANDLE_TOOL), None)
    if tool is None:
        raise Wrong(f"a handle was given, but there is no tool {HANDLE_TOOL}")
    takes = tool.input_schema.get("properties", {})
    args = {"action": action, next((n for n in HANDLE_NAMES if n in takes), "handle"): handle}
    args |= more
    return plain(await c.call_tool(HANDLE_TOOL, args))


async def follow(c, result):
    while at := stand_in(result):
        handle, status, questions = at
        if status == "input_required" and questions:
            for q in questions:
                await use_handle(c, "answer", handle, key=q["key"], reply=answer(q["params"]))
        elif status in TERMINAL:
            return await use_handle(c, "result", handle)
        result = await use_handle(c, "wait", handle)
    return result


async def call(c):
    async def progress(*_):
        if "progress: yes" not in report.said["notes"]:
            report.note("progress: yes")

    return plain(await c.call_tool(a.tool, a.args, progress_callback=progress))


async def cancel(c):
    """By the tool if the call was answered with a handle, else by leaving the call."""
    answered = None
    with anyio.move_on_after(a.after):
        answered = await call(c)
    if answered is None:
        report.status("aborted")
        # The notification is on its way; closing at once could overtake it.
        await anyio.sleep(0.3)
        return
    at = stand_in(answered)
    if at is None:
        raise Wrong("the call ended before it could be cancelled")
    result = await use_handle(c, "cancel", at[0])
    while report.said["statuses"][-1] not in TERMINAL:
        result = await use_handle(c, "wait", at[0])
        if stand_in(result) is None:
            raise Wrong("a cancelled handle gave a result")
    if report.said["statuses"][-1] != "cancelled":
        raise Wrong("the handle was not cancelled")


async def begin(c):
    at = stand_in(await call(c))
    if at is None:
        raise Wrong("the call was answered without a handle")
    return at[0]


async def scenario():
    async with session() as c:
        if a.scenario == "list":
            report.said["result"] = [x.name for x in c.tools]
        elif a.scenario in ("start", "reconnect"):
            a.task = await begin(c)
        elif a.scenario == "cancel":
            await cancel(c)
        elif a.scenario != "resume":
            report.finish(await follow(c, await call(c)))
    if a.scenario in ("resume", "reconnect"):
        async with session() as c:
            report.finish(await follow(c, await use_handle(c, "wait", a.task)))


async def main():
    done = False
    try:
        with anyio.fail_after(a.timeout):
            await scenario()
            done = True
    except BaseException as e:
        if not done:
            return why(e)
    return None


report.close(anyio.run(main))
