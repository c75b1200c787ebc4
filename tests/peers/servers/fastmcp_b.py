"""Dialect B fixture: FastMCP 4.1.4 with its tasks extension, in memory."""

import warnings
from datetime import timedelta

import anyio
import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError

from common import REFUSED, big, http_port, journal, listen, note, pause

warnings.simplefilter("ignore", DeprecationWarning)

mcp = FastMCP("fastmcp-b", version="1.0.0")
mcp.add_extension(TasksExtension())

# The default of five seconds would only make tests slow.
POLL = timedelta(milliseconds=200)
OPTIONAL = TaskConfig(mode="optional", poll_interval=POLL)
REQUIRED = TaskConfig(mode="required", poll_interval=POLL)
READ_ONLY = {"readOnlyHint": True}


def progress_of(ctx):
    async def progress(done, total):
        # Progress towards less than one is refused, and with it the call.
        if total >= 1:
            await ctx.report_progress(done, total)

    return progress


@mcp.tool(task=OPTIONAL, annotations=READ_ONLY, output_schema=None)
async def slow_report(seconds: float, label: str, ctx: Context) -> str:
    """Takes its time over a report."""
    with journal("slow_report", {"seconds": seconds, "label": label}):
        await pause(seconds, progress_of(ctx))
        return f"report {label} ready"


@mcp.tool(task=OPTIONAL, output_schema=None)
async def charge(seconds: float, order: str, ctx: Context) -> str:
    """Charges an order, slowly. Must not happen twice."""
    with journal("charge", {"seconds": seconds, "order": order}):
        await pause(seconds, progress_of(ctx))
        return f"charged {order}"


@mcp.tool(task=REQUIRED, annotations=READ_ONLY, output_schema=None)
async def nightly_audit(seconds: float, label: str, ctx: Context) -> str:
    """Runs only as a task."""
    with journal("nightly_audit", {"seconds": seconds, "label": label}):
        await pause(seconds, progress_of(ctx))
        return f"audit {label} ready"


@mcp.tool(task=OPTIONAL, output_schema=None)
async def confirm_deploy(target: str, ctx: Context) -> str | t.InputRequiredResult:
    """Deploys after asking."""
    args = {"target": target}
    answers = ctx.input_responses
    # The body runs once to ask and once more with the answer. That is one call,
    # so the journal gets one start and one end.
    if not answers:
        note("confirm_deploy", args, "start")
        ask = t.ElicitRequest(
            params=t.ElicitRequestFormParams(
                message=f"Deploy {target}?",
                requested_schema={
                    "type": "object",
                    "properties": {"approve": {"type": "boolean"}},
                    "required": ["approve"],
                },
            )
        )
        return t.InputRequiredResult(input_requests={"approval": ask})
    with journal("confirm_deploy", args, start=False):
        answer = answers["approval"]
        yes = answer.action == "accept" and (answer.content or {}).get("approve") is True
        return ("deployed " if yes else "not deployed ") + target


@mcp.tool(task=OPTIONAL, output_schema=None)
async def fail(message: str) -> str:
    """Always fails."""
    with journal("fail", {"message": message}):
        raise ToolError(message)


@mcp.tool(task=OPTIONAL, output_schema=None)
async def refuse(message: str) -> str:
    """Is refused, by an error of the protocol."""
    with journal("refuse", {"message": message}):
        raise MCPError(code=REFUSED, message=message)


@mcp.tool(task=OPTIONAL, annotations=READ_ONLY, output_schema=None)
async def big_report(kib: int, label: str, seconds: float, ctx: Context) -> str:
    """A long text."""
    with journal("big_report", {"kib": kib, "label": label, "seconds": seconds}):
        await pause(seconds, progress_of(ctx))
        return big(kib, label)


@mcp.tool(annotations=READ_ONLY, output_schema=None)
async def echo(text: str) -> str:
    """Says it again."""
    with journal("echo", {"text": text}):
        return text


port = http_port()
if port is None:
    mcp.run(transport="stdio", show_banner=False)
else:
    anyio.run(listen, mcp.http_app(path="/mcp"), port)
