"""A host on Python mcp 2.3.0, which asks for the modern era first."""

import logging
import time
import warnings

import anyio
import mcp_types as t
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import REQUEST_TIMEOUT

from model import Model, Refused, TimedOut, arguments, plain, told_by_text, why

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

a = arguments()
client = None


async def call(tool, args):
    try:
        return plain(await client.call_tool(tool, args, read_timeout_seconds=a.timeout))
    except MCPError as e:
        words = f"{e.error.code}: {e.error.message}"
        raise (TimedOut(words) if e.error.code == REQUEST_TIMEOUT else Refused(words)) from None


model = Model(a, "python-mcp 2.3.0", call, told_by_text)


async def host():
    global client
    server = StdioServerParameters(
        command=a.command[0], args=a.command[1:], env=a.env or None, cwd=a.cwd
    )
    left = None
    try:
        async with Client(
            server,
            read_timeout_seconds=60,
            client_info=t.Implementation(name="host-python-plain", version="1"),
        ) as client:
            model.report["protocol"] = client.protocol_version
            model.report["server"] = plain(client.server_info) if client.server_info else None
            model.report["instructions"] = client.instructions
            model.report["capabilities"] = plain(client.server_capabilities)
            if client.server_capabilities.tools:
                model.report["tools"] = [plain(tool) for tool in (await client.list_tools()).tools]
            model.opened()
            await model.play()
            left = time.monotonic()
    except BaseException as e:
        # What closing a transport may raise says nothing about the play.
        if left is None:
            model.report["error"] = why(e)
    return left


model.close(anyio.run(host))
