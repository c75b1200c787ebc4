"""A host on Python mcp 1.30.0. Its model is shown the structured part of a result."""

import time
import warnings
from datetime import timedelta

import anyio
import mcp.types as t
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

from model import Model, Refused, TimedOut, arguments, plain, told_by_structure, why

warnings.simplefilter("ignore", DeprecationWarning)

# The code by which this SDK says that it gave up.
REQUEST_TIMEOUT = 408

a = arguments()
session = None


async def call(tool, args):
    try:
        return plain(await session.call_tool(tool, args, timedelta(seconds=a.timeout)))
    except McpError as e:
        words = f"{e.error.code}: {e.error.message}"
        raise (TimedOut(words) if e.error.code == REQUEST_TIMEOUT else Refused(words)) from None


model = Model(a, "python-mcp 1.30.0", call, told_by_structure)


async def host():
    global session
    server = StdioServerParameters(
        command=a.command[0],
        args=a.command[1:],
        # Nothing given leaves it to the SDK: a short list of variables.
        env=a.env or None,
        cwd=a.cwd,
    )
    left = None
    try:
        async with stdio_client(server) as (read, write):
            async with ClientSession(
                read,
                write,
                read_timeout_seconds=timedelta(seconds=60),
                client_info=t.Implementation(name="host-python-a", version="1"),
            ) as session:
                hello = await session.initialize()
                model.report["protocol"] = hello.protocolVersion
                model.report["server"] = plain(hello.serverInfo)
                model.report["instructions"] = hello.instructions
                model.report["capabilities"] = plain(hello.capabilities)
                if hello.capabilities.tools:
                    tools = (await session.list_tools()).tools
                    model.report["tools"] = [plain(tool) for tool in tools]
                model.opened()
                await model.play()
                left = time.monotonic()
    except BaseException as e:
        # What closing a transport may raise says nothing about the play.
        if left is None:
            model.report["error"] = why(e)
    return left


model.close(anyio.run(host))
