"""What the official conformance suite asks of a server with tasks, on FastMCP 4.1.4 with its tasks extension."""

import logging
import warnings
from datetime import timedelta

import anyio
import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError

from common import REFUSED, http_port, listen

warnings.simplefilter("ignore", DeprecationWarning)
# Every refusal that the suite provokes would be a stack trace.
logging.disable(logging.ERROR)

mcp = FastMCP("conformance-tasks", version="1.0.0")
mcp.add_extension(TasksExtension())

POLL = timedelta(milliseconds=200)
OPTIONAL = TaskConfig(mode="optional", poll_interval=POLL)
REQUIRED = TaskConfig(mode="required", poll_interval=POLL)
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}


def ask(message, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


@mcp.tool(output_schema=None)
async def greet(name: str = "world") -> str:
    """Says hello, at once."""
    return f"Hello, {name}!"


@mcp.tool(task=OPTIONAL, output_schema=None)
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Takes its time."""
    await anyio.sleep(seconds)
    return f"computed {label}"


@mcp.tool(task=REQUIRED, output_schema=None)
async def failing_job() -> str:
    """Fails after a moment; only as a task."""
    await anyio.sleep(1)
    raise ToolError("The job failed")


@mcp.tool(task=OPTIONAL, output_schema=None)
async def protocol_error_job() -> str:
    """Is refused by an error of the protocol."""
    raise MCPError(code=REFUSED, message="The job was refused")


@mcp.tool(task=OPTIONAL, output_schema=None)
async def confirm_delete(ctx: Context, filename: str = "") -> str | t.InputRequiredResult:
    """Deletes after asking."""
    if not ctx.input_responses:
        return t.InputRequiredResult(input_requests={"confirm": ask(f"Delete {filename}?", confirm=BOOLEAN)})
    answer = ctx.input_responses["confirm"]
    yes = answer.action == "accept" and (answer.content or {}).get("confirm") is True
    return ("deleted " if yes else "kept ") + filename


@mcp.tool(task=OPTIONAL, output_schema=None)
async def multi_input(ctx: Context) -> str | t.InputRequiredResult:
    """Asks two things at once."""
    if not ctx.input_responses:
        questions = {key: ask(f"{key}?", name=STRING, confirm=BOOLEAN) for key in ("first", "second")}
        return t.InputRequiredResult(input_requests=questions)
    return "both answered"


# Without tasks of its own: with them the SDK makes the task first and asks in it.
@mcp.tool(output_schema=None)
async def test_tool_with_task(ctx: Context) -> str | t.InputRequiredResult:
    """Asks for a name, and then takes its time."""
    if not ctx.input_responses:
        return t.InputRequiredResult(input_requests={"user_name": ask("What is your name?", name=STRING)})
    answer = ctx.input_responses["user_name"]
    await anyio.sleep(3)
    return f"Hello, {(answer.content or {}).get('name')}!"


port = http_port()
if port is None:
    mcp.run(transport="stdio", show_banner=False)
else:
    anyio.run(listen, mcp.http_app(path="/mcp"), port)
