"""Dialect B client: FastMCP 4.1.4 with its tasks extension."""

import logging
import os
import warnings

import anyio
import mcp_types as t
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks.client import ToolTask
from fastmcp_tasks.client_models import ClientCreateTaskResult

from common import Report, Wrong, arguments, fill, plain, why

warnings.simplefilter("ignore", DeprecationWarning)
logging.disable(logging.WARNING)

a = arguments()
report = Report("fastmcp 4.1.4 (B)", a)
TERMINAL = ("completed", "failed", "cancelled")


async def elicit(message, _type, params, _ctx):
    report.asked(message)
    if a.scenario == "decline":
        return ElicitResult(action="decline")
    schema = getattr(params, "requested_schema", None) or {}
    return ElicitResult(action="accept", content=fill(schema))


def client():
    if a.stdio:
        transport = StdioTransport(
            command=a.command[0], args=a.command[1:], env=dict(os.environ), keep_alive=False
        )
    else:
        headers = {"Authorization": f"Bearer {a.bearer}"} if a.bearer else {}
        transport = StreamableHttpTransport(a.http, headers=headers)
    return Client(transport, elicitation_handler=elicit, timeout=a.timeout)


async def call(c):
    """Gives a task, or the result if the server answered at once.

    FastMCP's own `call_tool_task` raises in the second case and drops the result;
    calling again to get it would do the work twice.
    """
    raw = await c.session.call_tool(name=a.tool, arguments=a.args, allow_claimed=True)
    if not isinstance(raw, ClientCreateTaskResult):
        report.note("answered without a task")
        return None, plain(raw)
    report.task(raw.task_id)
    report.status(raw.status)
    return ToolTask(c, a.tool, raw, raise_on_error=False), None


async def begin(c):
    task, _ = await call(c)
    if task is None:
        raise Wrong("the call was answered without a task")
    return task


def known(c, task_id):
    """A handle for a task that another process started."""
    made = ClientCreateTaskResult.model_validate(
        {
            "resultType": "task",
            "taskId": task_id,
            "status": "working",
            "createdAt": "1970-01-01T00:00:00Z",
            "lastUpdatedAt": "1970-01-01T00:00:00Z",
            "ttlMs": None,
        }
    )
    return ToolTask(c, a.tool or "", made, raise_on_error=False)


async def to_the_end(task):
    while True:
        seen = await task.status()
        report.status(seen.status)
        if seen.status in (*TERMINAL, "input_required"):
            break
        await anyio.sleep((seen.poll_interval_ms or 500) / 1000)
    # Answers open questions by itself and polls on.
    await task.result()
    seen = await task.status()
    report.status(seen.status)
    if seen.status == "failed":
        raise Wrong(f"the task failed: {seen.error or seen.status_message}")
    report.finish(seen.result)


async def cancel(task):
    await anyio.sleep(a.after)
    await task.cancel()
    # The dialect promises an acknowledgement, and the end only later.
    while True:
        seen = await task.status()
        report.status(seen.status)
        if seen.status in TERMINAL:
            break
        await anyio.sleep(0.5)
    if seen.status != "cancelled":
        raise Wrong("the task was not cancelled")
    try:
        await task.cancel()
        report.note("second cancel: accepted")
    except Exception as e:
        report.note(f"second cancel: {why(e)}")


async def run(c):
    task, result = await call(c)
    if task is None:
        report.finish(result)
    else:
        await to_the_end(task)


async def scenario():
    async with client() as c:
        if a.scenario == "list":
            report.said["result"] = [x.name for x in await c.list_tools()]
        elif a.scenario == "start":
            await begin(c)
        elif a.scenario == "reconnect":
            report.said["task_id"] = (await begin(c)).task_id
        elif a.scenario == "resume":
            await to_the_end(known(c, a.task))
        elif a.scenario == "cancel":
            await cancel(known(c, a.task) if a.task else await begin(c))
        else:
            await run(c)
    if a.scenario == "reconnect":
        async with client() as c:
            await to_the_end(known(c, report.said["task_id"]))


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
