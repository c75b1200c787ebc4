"""Dialect A fixture: FastMCP 3.4.11, or 2.14.7, whose dialect is an earlier one.

Both run with Docket in memory. `tasks/result` does not wait for the end, and
tasks are listed to nobody.
"""

import logging
import os
import warnings
from datetime import timedelta

# Docket speaks to a store in this process.
os.environ.setdefault("FASTMCP_DOCKET_URL", "memory://")
os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")

import anyio
import fastmcp
import mcp.types as t
from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.server.tasks.config import TaskConfig
from mcp import McpError

from common import A_MOMENT, REFUSED, big, http_port, journal, listen, pause

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

NEW = fastmcp.__version__.startswith("3.")
mcp = FastMCP("fastmcp-a" if NEW else "fastmcp-2", version="1.0.0")
READ_ONLY = {"readOnlyHint": True}


def tasks(mode):
    # The default of five seconds would only make tests slow.
    return TaskConfig(mode=mode, **({"poll_interval": timedelta(milliseconds=200)} if NEW else {}))


async def progress(done, total):
    try:
        context = get_context()
    except RuntimeError:
        # A task of FastMCP 2 has no context.
        return
    # Nor has a task of FastMCP 3 a request whose progress it could report.
    if context.request_context is not None:
        await context.report_progress(done, total)


def tool(mode="optional", read_only=False):
    return mcp.tool(
        task=tasks(mode) if mode else None,
        annotations=READ_ONLY if read_only else None,
        output_schema=None,
    )


@tool(read_only=True)
async def slow_report(seconds: float, label: str) -> str:
    """Takes its time over a report."""
    with journal("slow_report", {"seconds": seconds, "label": label}):
        await pause(seconds, progress)
        return f"report {label} ready"


@tool()
async def charge(seconds: float, order: str) -> str:
    """Charges an order, slowly. Must not happen twice."""
    with journal("charge", {"seconds": seconds, "order": order}):
        await pause(seconds, progress)
        return f"charged {order}"


@tool("required", read_only=True)
async def nightly_audit(seconds: float, label: str) -> str:
    """Runs only as a task."""
    with journal("nightly_audit", {"seconds": seconds, "label": label}):
        await pause(seconds, progress)
        return f"audit {label} ready"


@tool()
async def confirm_deploy(target: str, ctx: Context = CurrentContext()) -> str:
    """Deploys after asking, which a task of FastMCP 2 cannot do."""
    with journal("confirm_deploy", {"target": target}):
        await anyio.sleep(A_MOMENT)
        answer = await ctx.elicit(f"Deploy {target}?", bool)
        yes = answer.action == "accept" and answer.data is True
        return ("deployed " if yes else "not deployed ") + target


@tool()
async def fail(message: str) -> str:
    """Always fails."""
    with journal("fail", {"message": message}):
        raise ToolError(message)


@tool()
async def refuse(message: str) -> str:
    """Is refused, by an error of the protocol."""
    with journal("refuse", {"message": message}):
        raise McpError(t.ErrorData(code=REFUSED, message=message))


@tool(read_only=True)
async def big_report(kib: int, label: str, seconds: float) -> str:
    """A long text."""
    with journal("big_report", {"kib": kib, "label": label, "seconds": seconds}):
        await pause(seconds, progress)
        return big(kib, label)


@tool(None, read_only=True)
async def echo(text: str) -> str:
    """Says it again."""
    with journal("echo", {"text": text}):
        return text


port = http_port()
if port is None:
    mcp.run(transport="stdio", show_banner=False)
else:
    anyio.run(listen, mcp.http_app(path="/mcp"), port)
