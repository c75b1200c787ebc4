"""Dialect A client: FastMCP 3.4.11."""

import logging
import warnings
from contextlib import asynccontextmanager

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.tasks import ToolTask
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from common import TERMINAL, Peer, Wrong, main, plain, reply

warnings.simplefilter("ignore", DeprecationWarning)
logging.disable(logging.WARNING)


class FastmcpA(Peer):
    name = "fastmcp 3.4.11 (A)"

    @asynccontextmanager
    async def session(self, target):
        async def elicit(message, _type, params, _ctx):
            action, content = await reply(target, message, getattr(params, "requestedSchema", {}))
            return ElicitResult(action=action, content=content)

        if target.command:
            transport = StdioTransport(
                command=target.command[0],
                args=target.command[1:],
                env=target.environment(),
                keep_alive=False,
            )
        else:
            transport = StreamableHttpTransport(target.http, headers=target.headers())
        async with Client(transport, elicitation_handler=elicit, timeout=target.timeout) as c:
            yield c

    async def tools(self, s, step):
        return [x.name for x in await s.list_tools()]

    async def begin(self, s, step):
        task = await s.call_tool(
            step.tool, step.args, task=True, ttl=600_000, raise_on_error=False
        )
        if task.returned_immediately:
            step.immediate = task
            return
        step.task(task.task_id)
        step.status((await task.status()).status)

    async def to_the_end(self, s, step):
        if (task := getattr(step, "immediate", None)) is not None:
            step.note("answered without a task")
            step.finish(said(await task.result()))
            return
        task = ToolTask(s, step.task_id, step.tool or "", raise_on_error=False)
        seen = await task.wait()
        step.status(seen.status)
        # Where the result is asked for, the question comes too. FastMCP's own
        # `task.result()` waits for the end first, and then nobody is asked.
        result = await s.get_task_result(step.task_id)
        step.status((await s.get_task_status(step.task_id)).status)
        step.finish(result)

    async def cancel(self, s, step):
        if step.task_id is None:
            await self.begin(s, step)
        if step.task_id is None:
            raise Wrong("the call was answered without a task")
        await anyio.sleep(step.after)
        await s.cancel_task(step.task_id)
        while True:
            seen = await s.get_task_status(step.task_id)
            step.status(seen.status)
            if seen.status in TERMINAL:
                break
            await anyio.sleep(0.1)
        if seen.status != "cancelled":
            raise Wrong("the task was not cancelled")


def said(result):
    """FastMCP's own form of a result, as it came over the line."""
    return {"content": [plain(b) for b in result.content], "isError": result.is_error}


main(FastmcpA())
