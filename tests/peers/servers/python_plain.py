"""Plain fixture: Python mcp 2.3.0 without tasks, in both eras."""

import warnings

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from common import A_MOMENT, REFUSED, big, http_port, journal, listen, note, pause

warnings.simplefilter("ignore", DeprecationWarning)

mcp = MCPServer("python-plain", version="1.0.0")
READ_ONLY = t.ToolAnnotations(read_only_hint=True)
APPROVAL = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
}


@mcp.tool(annotations=READ_ONLY, structured_output=False)
async def slow_report(seconds: float, label: str, ctx: Context) -> str:
    """Takes its time over a report."""
    with journal("slow_report", {"seconds": seconds, "label": label}):
        await pause(seconds, ctx.report_progress)
        return f"report {label} ready"


@mcp.tool(structured_output=False)
async def charge(seconds: float, order: str, ctx: Context) -> str:
    """Charges an order, slowly. Must not happen twice."""
    with journal("charge", {"seconds": seconds, "order": order}):
        await pause(seconds, ctx.report_progress)
        return f"charged {order}"


@mcp.tool(structured_output=False)
async def confirm_deploy(target: str, ctx: Context) -> str | t.InputRequiredResult:
    """Deploys after asking."""
    args = {"target": target}
    question = f"Deploy {target}?"
    if ctx.protocol_version and ctx.protocol_version >= "2026":
        # A modern server cannot send requests: it returns the question and is
        # called again with the answer. The journal still sees one call.
        if not ctx.input_responses:
            note("confirm_deploy", args, "start")
            await anyio.sleep(A_MOMENT)
            params = t.ElicitRequestFormParams(message=question, requested_schema=APPROVAL)
            ask = t.ElicitRequest(params=params)
            return t.InputRequiredResult(input_requests={"approval": ask})
        answer = ctx.input_responses["approval"]
        with journal("confirm_deploy", args, start=False):
            return verdict(answer, target)
    with journal("confirm_deploy", args):
        answer = await ctx.session.elicit_form(question, APPROVAL, ctx.request_id)
        return verdict(answer, target)


def verdict(answer, target):
    yes = answer.action == "accept" and (answer.content or {}).get("approve") is True
    return ("deployed " if yes else "not deployed ") + target


@mcp.tool(structured_output=False)
async def fail(message: str) -> str:
    """Always fails."""
    with journal("fail", {"message": message}):
        raise ToolError(message)


@mcp.tool(structured_output=False)
async def refuse(message: str) -> str:
    """Is refused, by an error of the protocol."""
    with journal("refuse", {"message": message}):
        raise MCPError(code=REFUSED, message=message)


@mcp.tool(annotations=READ_ONLY, structured_output=False)
async def big_report(kib: int, label: str, seconds: float, ctx: Context) -> str:
    """A long text."""
    with journal("big_report", {"kib": kib, "label": label, "seconds": seconds}):
        await pause(seconds, ctx.report_progress)
        return big(kib, label)


@mcp.tool(annotations=READ_ONLY, structured_output=False)
async def echo(text: str) -> str:
    """Says it again."""
    with journal("echo", {"text": text}):
        return text


port = http_port()
if port is None:
    mcp.run(transport="stdio")
else:
    anyio.run(listen, mcp.streamable_http_app(streamable_http_path="/mcp"), port)
