"""Plain client of the modern era: Python mcp 2.3.0, which knows no tasks.

`--era legacy` makes it an ordinary 2025-11-25 client instead. It goes on with a
handle exactly as plain_ts.mjs does.
"""

import logging
import re
import warnings
from contextlib import asynccontextmanager

import anyio
import httpx2
import mcp_types as t
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import TERMINAL, Peer, Refused, Wrong, main, plain, reply

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

HANDLE_TOOL = "taskgate_task"
FOLIO = re.compile(r"Page \d+ of \d+\.")
HANDLE_NAMES = ("handle", "taskId", "task_id", "task", "id")


def member(value, names):
    """The first member with one of these names, looked for on two levels."""
    levels = [value, *(value.values() if isinstance(value, dict) else [])]
    for level in levels:
        if isinstance(level, dict):
            for name in names:
                if level.get(name) is not None:
                    return level[name]
    return None


def stand_in(step, result):
    """What a result that stands in for the real one says: handle, status, questions."""
    said = result.get("structuredContent")
    handle, status = member(said, HANDLE_NAMES), member(said, ("status",))
    if not isinstance(handle, str) or not isinstance(status, str):
        return None
    step.task(handle)
    step.status(status)
    return handle, status, member(said, ("questions",)) or []


async def use_handle(c, action, handle, **more):
    tool = next((x for x in c.tools if x.name == HANDLE_TOOL), None)
    if tool is None:
        raise Wrong(f"a handle was given, but there is no tool {HANDLE_TOOL}")
    takes = tool.input_schema.get("properties", {})
    args = {"action": action, next((n for n in HANDLE_NAMES if n in takes), "handle"): handle}
    args |= more
    return plain(await c.call_tool(HANDLE_TOOL, args))


class PythonPlain(Peer):
    name = "python-mcp 2.3.0 (plain)"
    era = "modern"

    @asynccontextmanager
    async def session(self, target):
        async def elicit(_, params):
            params = plain(params)
            action, content = await reply(target, params["message"], params.get("requestedSchema"))
            answer = {"action": action} | ({"content": content} if content is not None else {})
            return t.ElicitResult.model_validate(answer)

        if target.command:
            server = StdioServerParameters(
                command=target.command[0], args=target.command[1:], env=target.environment()
            )
            where = stdio_client(server)
        else:
            http = httpx2.AsyncClient(headers=target.headers(), timeout=target.timeout)
            where = streamable_http_client(target.http, http_client=http)
        async with Client(
            where,
            mode="legacy" if target.era == "legacy" else "2026-07-28",
            elicitation_callback=elicit,
            read_timeout_seconds=target.timeout,
            client_info=t.Implementation(name="peer-python-plain", version="1"),
        ) as c:
            c.notes = [f"version: {c.protocol_version}"]
            c.target = target
            c.tools = (await c.list_tools()).tools
            yield c

    async def tools(self, s, step):
        return [x.name for x in s.tools]

    async def call(self, c, step):
        async def progress(*_):
            step.note("progress: yes")

        return plain(await c.call_tool(step.tool, step.args, progress_callback=progress))

    async def follow(self, c, step, result):
        while at := stand_in(step, result):
            handle, status, questions = at
            if status == "input_required" and questions:
                for q in questions:
                    params = q["params"]
                    action, content = await reply(
                        c.target, params["message"], params.get("requestedSchema")
                    )
                    answer = {"action": action} | ({"content": content} if content else {})
                    await use_handle(c, "answer", handle, key=q["key"], reply=answer)
            elif status in TERMINAL:
                result = await self.pages(c, step, handle)
                if step.scenario == "refuse" and result.get("isError"):
                    # What a handle stood for can be told in words only.
                    raise Refused(None, " ".join(b.get("text", "") for b in result["content"]))
                return result
            result = await use_handle(c, "wait", handle)
        return result

    async def pages(self, c, step, handle):
        """A long result comes page by page; here they are put together again."""
        first = await use_handle(c, "result", handle)
        count = member(first.get("structuredContent"), ("pages",)) or 1
        for page in range(2, count + 1):
            step.note("the result came in pages")
            more = await use_handle(c, "result", handle, page=page)
            first["content"] += more["content"]
        if count > 1:
            first["content"] = [b for b in first["content"] if not FOLIO.match(b.get("text", ""))]
        return first

    async def begin(self, s, step):
        result = await self.call(s, step)
        if stand_in(step, result) is None:
            raise Wrong(f"the call was answered without a handle: {str(result)[:300]}")

    async def to_the_end(self, s, step):
        step.finish(await self.follow(s, step, await use_handle(s, "wait", step.task_id)))

    async def run(self, s, step):
        step.finish(await self.follow(s, step, await self.call(s, step)))

    async def cancel(self, s, step):
        """By the tool if the call was answered with a handle, else by leaving the call."""
        answered = None
        with anyio.move_on_after(step.after):
            answered = await self.call(s, step)
        if answered is None:
            step.status("aborted")
            # The notification is on its way; closing at once could overtake it.
            await anyio.sleep(0.3)
            return
        at = stand_in(step, answered)
        if at is None:
            raise Wrong("the call ended before it could be cancelled")
        await use_handle(s, "cancel", at[0])
        while step.last_status() not in TERMINAL:
            if stand_in(step, await use_handle(s, "wait", at[0])) is None:
                raise Wrong("a cancelled handle gave a result")
        if step.last_status() != "cancelled":
            raise Wrong("the handle was not cancelled")


main(PythonPlain())
