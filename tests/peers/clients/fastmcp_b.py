"""Dialect B client: FastMCP 4.1.4 with its tasks extension."""

import logging
import warnings
from contextlib import asynccontextmanager

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks.client import ToolTask
from fastmcp_tasks.client_models import ClientCreateTaskResult

from common import TERMINAL, Peer, Refused, Wrong, main, plain, reply, why

warnings.simplefilter("ignore", DeprecationWarning)
logging.disable(logging.WARNING)


# Left to itself it takes a slow answer for a server of the earlier era.
MODERN = "2026-07-28"


class FastmcpB(Peer):
    name = "fastmcp 4.1.4 (B)"

    @asynccontextmanager
    async def session(self, target):
        async def elicit(message, _type, params, _ctx):
            schema = getattr(params, "requested_schema", None) or {}
            action, content = await reply(target, message, schema)
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
        async with Client(
            transport, mode=MODERN, elicitation_handler=elicit, timeout=target.timeout
        ) as c:
            yield c

    async def tools(self, s, step):
        return [x.name for x in await s.list_tools()]

    async def call(self, c, step):
        """Gives the result if the server answered at once; else there is a task.

        FastMCP's own `call_tool_task` raises in the first case and drops the
        result; calling again to get it would do the work twice.
        """

        async def ask(responses, state):
            return await c.session.call_tool(
                name=step.tool,
                arguments=step.args,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
                allow_claimed=True,
            )

        raw = await c._drive_input_required(await ask(None, None), ask)
        if not isinstance(raw, ClientCreateTaskResult):
            step.note("answered without a task")
            return plain(raw)
        step.task(raw.task_id)
        step.status(raw.status)
        step.made = ToolTask(c, step.tool, raw, raise_on_error=False)
        return None

    async def begin(self, s, step):
        if (result := await self.call(s, step)) is not None:
            raise Wrong(f"the call was answered without a task: {str(result)[:300]}")

    async def run(self, s, step):
        result = await self.call(s, step)
        if result is None:
            await self.to_the_end(s, step)
        else:
            step.finish(result)

    def known(self, c, step):
        """A handle for a task that another session or process started."""
        if (made := getattr(step, "made", None)) is not None and made._client is c:
            return made
        shape = ClientCreateTaskResult.model_validate(
            {
                "resultType": "task",
                "taskId": step.task_id,
                "status": "working",
                "createdAt": "1970-01-01T00:00:00Z",
                "lastUpdatedAt": "1970-01-01T00:00:00Z",
                "ttlMs": None,
            }
        )
        return ToolTask(c, step.tool or "", shape, raise_on_error=False)

    async def to_the_end(self, s, step):
        task = self.known(s, step)
        while True:
            seen = await task.status()
            step.status(seen.status)
            if seen.status in (*TERMINAL, "input_required"):
                break
            await anyio.sleep((seen.poll_interval_ms or 500) / 1000)
        if seen.status == "failed":
            raise failed(seen)
        # Answers open questions by itself and polls on.
        await task.result()
        seen = await task.status()
        step.status(seen.status)
        if seen.status == "failed":
            raise failed(seen)
        step.finish(seen.result)

    async def cancel(self, s, step):
        if step.task_id is None:
            await self.begin(s, step)
        task = self.known(s, step)
        await anyio.sleep(step.after)
        await task.cancel()
        # The dialect promises an acknowledgement, and the end only later.
        while True:
            seen = await task.status()
            step.status(seen.status)
            if seen.status in TERMINAL:
                break
            await anyio.sleep(0.1)
        if seen.status != "cancelled":
            raise Wrong("the task was not cancelled")
        try:
            await task.cancel()
            step.note("second cancel: accepted")
        except Exception as e:
            step.note(f"second cancel: {why(e)}")


def failed(seen):
    error = seen.error
    if error is None:
        return Wrong(f"the task failed: {seen.status_message}")
    if isinstance(error, dict):
        return Refused(error.get("code"), error.get("message"))
    return Refused(error.code, error.message)


main(FastmcpB())
