"""Dialect A fixture: the low-level server of Python mcp 1.30.0 with its tasks.

The SDK's store and task group are used with two changes, both of them because
the fixture would otherwise fall over in tests that say nothing about taskgate;
see `Store` and `main`.
"""

import contextlib
import os
import uuid
import warnings

import anyio
import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp import McpError
from mcp.shared.experimental.tasks.helpers import is_terminal
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore
from starlette.applications import Starlette
from starlette.routing import Route

from common import A_MOMENT, REFUSED, big, http_port, journal, listen, pause

warnings.simplefilter("ignore", DeprecationWarning)

SLOW = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}},
    "required": ["seconds", "label"],
}


def schema(**properties):
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


def tool(name, text, input_schema, tasks="optional", **hints):
    return t.Tool(
        name=name,
        description=text,
        inputSchema=input_schema,
        execution=t.ToolExecution(taskSupport=tasks) if tasks else None,
        annotations=t.ToolAnnotations(**hints) if hints else None,
    )


TOOLS = {
    x.name: x
    for x in [
        tool("slow_report", "Takes its time over a report.", SLOW, readOnlyHint=True),
        tool("confirm_deploy", "Deploys after asking.", schema(target="string")),
        tool("fail", "Always fails.", schema(message="string")),
        tool("refuse", "Is refused, by an error of the protocol.", schema(message="string")),
        tool(
            "big_report",
            "A long text.",
            schema(kib="integer", label="string", seconds="number"),
            readOnlyHint=True,
        ),
        tool("echo", "Says it again.", schema(text="string"), None, readOnlyHint=True),
        tool(
            "charge",
            "Charges an order, slowly. Must not happen twice.",
            schema(seconds="number", order="string"),
        ),
        tool("nightly_audit", "Runs only as a task.", SLOW, "required", readOnlyHint=True),
    ]
}

APPROVAL = schema(approve="boolean")


def text(value, error=False):
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)], isError=error)


async def run(name, args, ask, progress):
    with journal(name, args):
        if name == "echo":
            return text(args["text"])
        if name == "fail":
            return text(args["message"], error=True)
        if name == "refuse":
            raise McpError(t.ErrorData(code=REFUSED, message=args["message"]))
        if name == "confirm_deploy":
            await anyio.sleep(A_MOMENT)
            answer = await ask(f"Deploy {args['target']}?", APPROVAL)
            yes = answer.action == "accept" and (answer.content or {}).get("approve") is True
            return text(("deployed " if yes else "not deployed ") + args["target"])
        await pause(args["seconds"], progress)
        if name == "big_report":
            return text(big(args["kib"], args["label"]))
        if name == "charge":
            return text(f"charged {args['order']}")
        return text(("audit " if name == "nightly_audit" else "report ") + args["label"] + " ready")


class Store(InMemoryTaskStore):
    """Lets a cancellation reach the work, and lets work that ends too late be.

    As shipped, `tasks/cancel` only changes the stored status: the work runs on,
    and when it then reports its end to a store that refuses it, the exception
    takes the whole session down.
    """

    def __init__(self):
        super().__init__()
        self.scopes = {}

    async def create_task(self, metadata, task_id=None):
        # As shipped, a task that was asked for without a ttl is shown without
        # one, and clients that read strictly refuse it.
        default = os.environ.get("PEER_DEFAULT_TTL")
        if metadata.ttl is None and default:
            metadata = metadata.model_copy(update={"ttl": int(default)})
        return await super().create_task(metadata, task_id)

    async def update_task(self, task_id, status=None, status_message=None):
        task = await self.get_task(task_id)
        if task is not None and is_terminal(task.status):
            return task
        task = await super().update_task(task_id, status, status_message)
        if task.status == "cancelled" and task_id in self.scopes:
            self.scopes[task_id].cancel()
        return task

    async def store_result(self, task_id, result):
        task = await self.get_task(task_id)
        if task is None or not is_terminal(task.status):
            await super().store_result(task_id, result)


server = Server("python-a", version="1.0.0")
store = Store()
OPEN = bool(os.environ.get("PEER_OPEN_TASKS"))

if OPEN:
    # Tasks that belong to no session would be in nobody's list.
    @server.experimental.list_tasks()
    async def list_tasks(_: t.ListTasksRequest):
        return t.ListTasksResult(tasks=store.get_all_tasks())


support = server.experimental.enable_tasks(store=store)


@server.list_tools()
async def list_tools():
    return list(TOOLS.values())


@server.call_tool()
async def call_tool(name, args):
    ctx = server.request_context
    ctx.experimental.validate_for_tool(TOOLS[name])
    token = ctx.meta.progressToken if ctx.meta else None
    # A task outlives its request, so its progress must not be tied to that stream.
    stream = None if ctx.experimental.is_task else str(ctx.request_id)

    async def progress(done, total):
        if token is not None:
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await ctx.session.send_progress_notification(
                    token, done, total, related_request_id=stream
                )

    if not ctx.experimental.is_task:

        async def ask(message, requested):
            return await ctx.session.elicit_form(message, requested, ctx.request_id)

        return await run(name, args, ask, progress)

    async def work(task):
        with anyio.CancelScope() as store.scopes[task.task_id]:
            return await run(name, args, task.elicit, progress)
        return text("cancelled", error=True)

    # Such ids belong to no session, so a client that comes back finds its task.
    task_id = str(uuid.uuid4()) if OPEN else None
    return await ctx.experimental.run_task(work, task_id=task_id)


# The decorator above makes a tool error of every exception. An unknown tool, and
# a call that is refused, are errors of the protocol.
handle_call = server.request_handlers[t.CallToolRequest]


async def call_or_refuse(request):
    name, args = request.params.name, request.params.arguments or {}
    if name not in TOOLS:
        raise McpError(t.ErrorData(code=t.INVALID_PARAMS, message=f"unknown tool {name}"))
    if name == "refuse" and not server.request_context.experimental.is_task:
        await run(name, args, None, None)
    return await handle_call(request)


server.request_handlers[t.CallToolRequest] = call_or_refuse


async def serve_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(port):
    manager = StreamableHTTPSessionManager(app=server)

    class Endpoint:
        async def __call__(self, scope, receive, send):
            await manager.handle_request(scope, receive, send)

    app = Starlette(
        routes=[Route("/mcp", endpoint=Endpoint())],
        lifespan=lambda _: manager.run(),
    )
    await listen(app, port)


async def main():
    # As shipped, every session replaces the one task group and clears it when it
    # ends, so a second client's departure breaks `tools/call` for the first.
    # Here the group lives as long as the process.
    @contextlib.asynccontextmanager
    async def no_group_of_its_own():
        yield

    support.run = no_group_of_its_own
    port = http_port()
    async with anyio.create_task_group() as group:
        support._task_group = group
        await (serve_stdio() if port is None else serve_http(port))
        group.cancel_scope.cancel()


anyio.run(main)
