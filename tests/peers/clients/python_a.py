"""Dialect A client: Python mcp 1.30.0."""

import os
import warnings
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import mcp.types as t
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from common import Report, Wrong, arguments, fill, plain, why

warnings.simplefilter("ignore", DeprecationWarning)

a = arguments()
report = Report("python-mcp 1.30.0 (A)", a)


async def elicit(_, params):
    report.asked(params.message)
    if a.scenario == "decline":
        return t.ElicitResult(action="decline")
    return t.ElicitResult(action="accept", content=fill(getattr(params, "requestedSchema", {})))


@asynccontextmanager
async def transport():
    if a.stdio:
        # The SDK hands on only a short list of variables; a server under test
        # needs the rest as well, the journal's path above all.
        server = StdioServerParameters(
            command=a.command[0], args=a.command[1:], env=dict(os.environ)
        )
        async with stdio_client(server) as (read, write):
            yield read, write
        return
    headers = {"Authorization": f"Bearer {a.bearer}"} if a.bearer else None
    # A host that dies sends no DELETE, and neither does this one when it leaves.
    stay = a.scenario in ("start", "reconnect")
    async with create_mcp_http_client(headers=headers) as http:
        async with streamable_http_client(
            a.http, http_client=http, terminate_on_close=not stay
        ) as (read, write, _):
            yield read, write


@asynccontextmanager
async def session():
    async with transport() as (read, write):
        async with ClientSession(
            read,
            write,
            elicitation_callback=elicit,
            read_timeout_seconds=timedelta(seconds=a.timeout),
            client_info=t.Implementation(name="peer-python-a", version="1"),
        ) as s:
            hello = await s.initialize()
            report.note(f"version: {hello.protocolVersion}")
            yield s


async def begin(s):
    made = await s.experimental.call_tool_as_task(a.tool, a.args, ttl=600_000)
    report.task(made.task.taskId)
    report.status(made.task.status)
    return made.task.taskId


async def to_the_end(s, task_id):
    async for seen in s.experimental.poll_task(task_id):
        report.status(seen.status)
        if seen.status == "input_required":
            # The question comes on the open tasks/result stream.
            break
    result = await s.experimental.get_task_result(task_id, t.CallToolResult)
    report.status((await s.experimental.get_task(task_id)).status)
    report.finish(plain(result))


async def cancel(s, task_id):
    await anyio.sleep(a.after)
    answer = await s.experimental.cancel_task(task_id)
    report.status(answer.status)
    seen = await s.experimental.get_task(task_id)
    report.status(seen.status)
    if answer.status != "cancelled" or seen.status != "cancelled":
        raise Wrong("tasks/cancel has to answer with a cancelled task, and it has to stay so")
    try:
        await s.experimental.cancel_task(task_id)
        report.note("second cancel: accepted")
    except McpError as e:
        report.note(f"second cancel: {e.error.code}")


async def scenario():
    if a.scenario == "reconnect":
        async with session() as s:
            task_id = await begin(s)
        async with session() as s:
            return await to_the_end(s, task_id)
    async with session() as s:
        if a.scenario == "list":
            tools = (await s.list_tools()).tools
            support = {x.name: x.execution.taskSupport for x in tools if x.execution}
            report.note(f"taskSupport: {support}")
            report.said["result"] = [x.name for x in tools]
        elif a.scenario == "start":
            await begin(s)
        elif a.scenario == "resume":
            await to_the_end(s, a.task)
        elif a.scenario == "cancel":
            await cancel(s, await begin(s))
        else:
            await to_the_end(s, await begin(s))


async def main():
    # What closing a transport may raise says nothing about the scenario.
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
