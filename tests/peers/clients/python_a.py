"""Dialect A client: Python mcp 1.30.0."""

import warnings
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import mcp.types as t
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from common import Peer, Wrong, main, plain, reply

warnings.simplefilter("ignore", DeprecationWarning)


@asynccontextmanager
async def transport(target):
    if target.command:
        server = StdioServerParameters(
            command=target.command[0], args=target.command[1:], env=target.environment()
        )
        async with stdio_client(server) as (read, write):
            yield read, write
        return
    # A host that dies sends no DELETE.
    async with create_mcp_http_client(headers=target.headers()) as http:
        async with streamable_http_client(
            target.http, http_client=http, terminate_on_close=not target.stay
        ) as (read, write, _):
            yield read, write


class PythonA(Peer):
    name = "python-mcp 1.30.0 (A)"

    @asynccontextmanager
    async def session(self, target):
        async def elicit(_, params):
            action, content = await reply(target, params.message, getattr(params, "requestedSchema", {}))
            return t.ElicitResult(action=action, content=content)

        async with transport(target) as (read, write):
            async with ClientSession(
                read,
                write,
                elicitation_callback=elicit,
                read_timeout_seconds=timedelta(seconds=target.timeout),
                client_info=t.Implementation(name="peer-python-a", version="1"),
            ) as s:
                hello = await s.initialize()
                s.notes = [f"version: {hello.protocolVersion}"]
                yield s

    async def tools(self, s, step):
        tools = (await s.list_tools()).tools
        step.note(f"taskSupport: { {x.name: x.execution.taskSupport for x in tools if x.execution} }")
        return [x.name for x in tools]

    async def begin(self, s, step):
        made = await s.experimental.call_tool_as_task(step.tool, step.args, ttl=600_000)
        step.task(made.task.taskId)
        step.status(made.task.status)

    async def to_the_end(self, s, step):
        async for seen in s.experimental.poll_task(step.task_id):
            step.status(seen.status)
            if seen.status == "input_required":
                # The question comes on the open tasks/result stream.
                break
        result = await s.experimental.get_task_result(step.task_id, t.CallToolResult)
        step.status((await s.experimental.get_task(step.task_id)).status)
        step.finish(plain(result))

    async def cancel(self, s, step):
        if step.task_id is None:
            await self.begin(s, step)
        await anyio.sleep(step.after)
        answer = await s.experimental.cancel_task(step.task_id)
        step.status(answer.status)
        seen = await s.experimental.get_task(step.task_id)
        step.status(seen.status)
        if answer.status != "cancelled" or seen.status != "cancelled":
            raise Wrong("tasks/cancel has to answer with a cancelled task, and it has to stay so")
        try:
            await s.experimental.cancel_task(step.task_id)
            step.note("second cancel: accepted")
        except McpError as e:
            step.note(f"second cancel: {e.error.code}")


main(PythonA())
