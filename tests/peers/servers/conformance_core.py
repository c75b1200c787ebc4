"""What the official conformance suite asks of a server, on Python mcp 2.3.0, in both eras. No tasks."""

import base64
import json
import logging
import warnings

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventMessage, EventStore

from common import http_port, listen

warnings.simplefilter("ignore", DeprecationWarning)
# Every refusal that the suite provokes would be a stack trace.
logging.disable(logging.ERROR)

# A red dot, and a tenth of a millisecond of silence.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC"
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQEAAACAAA=="
STEP = 0.05

# The state that goes through the client is sealed by the SDK. A fixed key: there is nothing to protect.
mcp = MCPServer(
    "conformance-core",
    version="1.0.0",
    request_state_security=RequestStateSecurity(keys=[b"a key that protects nothing at all"]),
)


def tool(function):
    return mcp.tool(structured_output=False)(function)


def text(words):
    return t.TextContent(type="text", text=words)


def embedded(uri, mime_type, words):
    resource = t.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return t.EmbeddedResource(type="resource", resource=resource)


def form(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def said(answer):
    """What a person answered, as the suite wants it told."""
    content = json.dumps(answer.content if answer.action == "accept" else {})
    return f"action={answer.action}, content={content}"


# Results of each kind.


@tool
def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> t.ImageContent:
    """Answers with an image."""
    return t.ImageContent(type="image", data=PNG, mime_type="image/png")


@tool
def test_audio_content() -> t.AudioContent:
    """Answers with a sound."""
    return t.AudioContent(type="audio", data=WAV, mime_type="audio/wav")


@tool
def test_embedded_resource() -> t.EmbeddedResource:
    """Answers with a resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tool
def test_multiple_content_types() -> list:
    """Answers with three kinds of content."""
    return [
        text("Multiple content types test:"),
        t.ImageContent(type="image", data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool
def test_error_handling() -> str:
    """Always fails."""
    raise ToolError("This tool intentionally returns an error for testing")


# What is told on the way to the result.


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three lines."""
    await ctx.info("Tool execution started")
    await anyio.sleep(STEP)
    await ctx.info("Tool processing data")
    await anyio.sleep(STEP)
    await ctx.info("Tool execution completed")
    return "logged"


@tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs a line, which arrives only where its caller asked for that level."""
    await ctx.info("logged")
    return "logged"


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Tells three steps."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP)
    return "done"


@tool
async def test_reconnection(ctx: Context) -> str:
    """Closes the stream of its own call, which a client then resumes."""
    await ctx.info("before")
    await ctx.close_sse_stream()
    await anyio.sleep(4 * STEP)
    await ctx.info("after")
    return "resumed"


# Questions. The earlier era has requests of the server on the stream of the call; the modern one has a result that asks,
# and the call again with the answers.


def ask_form(message, **properties):
    params = t.ElicitRequestFormParams(message=message, requested_schema=form(**properties))
    return t.ElicitRequest(params=params)


def ask_model(prompt, tokens):
    messages = [t.SamplingMessage(role="user", content=text(prompt))]
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=messages, max_tokens=tokens))


STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}


def ask_name(message="What is your name?"):
    return ask_form(message, name=STRING)


def asks(state=None, **requests):
    return t.InputRequiredResult(input_requests=requests, request_state=state)


def answers_to(ctx, *keys):
    """The answers to these questions, if all of them came."""
    came = ctx.input_responses or {}
    return [came[key] for key in keys] if all(key in came for key in keys) else None


def entered(answer, key):
    return (getattr(answer, "content", None) or {}).get(key)


async def in_either_era(ctx, request, then):
    """Asks as the era has it, and goes on with the answer."""
    if ctx.protocol_version and ctx.protocol_version >= "2026":
        answers = answers_to(ctx, "question")
        return then(answers[0]) if answers else asks(question=request)
    params = request.params
    if isinstance(request, t.ElicitRequest):
        answer = await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)
    else:
        answer = await ctx.session.create_message(
            params.messages, max_tokens=params.max_tokens, related_request_id=ctx.request_id
        )
    return then(answer)


@tool
async def test_sampling(prompt: str, ctx: Context) -> str | t.InputRequiredResult:
    """Asks a model."""
    return await in_either_era(ctx, ask_model(prompt, 100), lambda said: f"LLM response: {said.content.text}")


@tool
async def test_elicitation(message: str, ctx: Context) -> str | t.InputRequiredResult:
    """Asks a person."""
    request = ask_form(
        message,
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await in_either_era(ctx, request, lambda answer: f"User response: {said(answer)}")


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str | t.InputRequiredResult:
    """Asks with defaults of every primitive type."""
    request = ask_form(
        "Who are you?",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return await in_either_era(ctx, request, lambda answer: f"Elicitation completed: {said(answer)}")


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str | t.InputRequiredResult:
    """Asks for a choice in five ways."""
    names = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    request = ask_form(
        "Which?",
        untitledSingle={"type": "string", "enum": names},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": names}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return await in_either_era(ctx, request, lambda answer: f"Elicitation completed: {said(answer)}")


@tool
def test_input_required_result_elicitation(ctx: Context) -> str | t.InputRequiredResult:
    """Asks for a name."""
    answers = answers_to(ctx, "user_name")
    return f"Hello, {entered(answers[0], 'name')}!" if answers else asks(user_name=ask_name())


@tool
def test_streaming_elicitation(ctx: Context) -> str | t.InputRequiredResult:
    """Asks for a name, on a stream if there is one."""
    return test_input_required_result_elicitation(ctx)


@tool
def test_input_required_result_sampling(ctx: Context) -> str | t.InputRequiredResult:
    """Asks a model."""
    answers = answers_to(ctx, "capital_question")
    if answers:
        return answers[0].content.text
    return asks(capital_question=ask_model("What is the capital of France?", 100))


@tool
def test_input_required_result_list_roots(ctx: Context) -> str | t.InputRequiredResult:
    """Asks for the client's roots."""
    answers = answers_to(ctx, "client_roots")
    if answers:
        return ", ".join(str(root.uri) for root in answers[0].roots)
    return asks(client_roots=t.ListRootsRequest())


@tool
def test_input_required_result_request_state(ctx: Context) -> str | t.InputRequiredResult:
    """Asks, and wants its state back."""
    if answers_to(ctx, "confirm") and ctx.request_state == "first":
        return "state-ok"
    return asks("first", confirm=ask_form("Please confirm", ok=BOOLEAN))


@tool
def test_input_required_result_tampered_state(ctx: Context) -> str | t.InputRequiredResult:
    """Asks, with a state that nobody may change."""
    if answers_to(ctx, "confirm") and ctx.request_state == "sealed":
        return "confirmed"
    return asks("sealed", confirm=ask_form("Please confirm", ok=BOOLEAN))


@tool
def test_input_required_result_multiple_inputs(ctx: Context) -> str | t.InputRequiredResult:
    """Asks three things at once."""
    if answers_to(ctx, "user_name", "greeting", "client_roots"):
        return "all answered"
    return asks(
        "three",
        user_name=ask_name(),
        greeting=ask_model("Generate a greeting", 50),
        client_roots=t.ListRootsRequest(),
    )


@tool
def test_input_required_result_multi_round(ctx: Context) -> str | t.InputRequiredResult:
    """Asks twice, one after the other."""
    if ctx.request_state == "round 2" and answers_to(ctx, "step2"):
        return "both answered"
    if ctx.request_state == "round 1" and answers_to(ctx, "step1"):
        return asks("round 2", step2=ask_form("Step 2: What is your favorite color?", color=STRING))
    return asks("round 1", step1=ask_name("Step 1: What is your name?"))


@tool
def test_input_required_result_capabilities(ctx: Context) -> str | t.InputRequiredResult:
    """Asks what its caller is able to answer."""
    able = ctx.client_capabilities
    requests = {}
    if able and able.sampling is not None:
        requests["sample"] = ask_model("Say hello", 50)
    if able and able.elicitation is not None:
        requests["ask"] = ask_name()
    return asks("able", **requests)


@tool
def test_missing_capability(ctx: Context) -> str:
    """Needs a caller that has a model."""
    able = ctx.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            code=t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool needs the client's sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "has a model"


# Schemas and headers.


@tool
def json_schema_2020_12_tool() -> str:
    """Has a schema with the newer words in it."""
    return "called"


# The SDK derives schemas from signatures, which cannot say this.
mcp._tool_manager._tools["json_schema_2020_12_tool"].parameters = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": STRING, "city": STRING},
        }
    },
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool
def test_x_mcp_header(region: str = "nowhere") -> str:
    """Wants its argument in a header, too."""
    return f"region {region}"


mcp._tool_manager._tools["test_x_mcp_header"].parameters = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


# Lists that change.


def passing() -> str:
    """Comes and goes."""
    return "passing"


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Changes the list of tools, and changes it back."""
    mcp.add_tool(passing, name="test_dynamic_tool")
    mcp.remove_tool("test_dynamic_tool")
    await ctx.notify_tools_changed()
    return "changed"


@tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts, and changes it back."""
    mcp.add_prompt(Prompt.from_function(passing, name="test_dynamic_prompt"))
    mcp.remove_prompt("test_dynamic_prompt")
    await ctx.notify_prompts_changed()
    return "changed"


# Resources.


@mcp.resource("test://static-text", description="A text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@mcp.resource("test://static-binary", description="An image", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@mcp.resource("test://watched-resource", description="One to subscribe to", mime_type="text/plain")
def watched() -> str:
    return "watched"


@mcp.resource("test://template/{id}/data", description="One of many", mime_type="application/json")
def templated(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# Prompts.


@mcp.prompt(description="Without arguments")
def test_simple_prompt() -> list:
    return [UserMessage("This is a simple prompt for testing.")]


@mcp.prompt(description="With two arguments")
def test_prompt_with_arguments(arg1: str, arg2: str) -> list:
    return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


@mcp.prompt(description="With a resource in it")
def test_prompt_with_embedded_resource(resourceUri: str) -> list:
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


@mcp.prompt(description="With an image in it")
def test_prompt_with_image() -> list:
    image = t.ImageContent(type="image", data=PNG, mime_type="image/png")
    return [UserMessage(image), UserMessage("Please analyze the image above.")]


@mcp.prompt(description="That asks first")
async def test_input_required_result_prompt(ctx: Context) -> list | t.InputRequiredResult:
    answers = answers_to(ctx, "user_context")
    if answers:
        return [UserMessage(f"Use this: {entered(answers[0], 'context')}")]
    return asks(user_context=ask_form("What context should the prompt use?", context=STRING))


@mcp.completion()
async def complete(ref, argument, context):
    return t.Completion(values=["paris", "park", "party"], total=3, has_more=False)


# What the SDK's server has no words for.


async def agreed(ctx, params):
    return t.EmptyResult()


for method, params in (
    ("logging/setLevel", t.SetLevelRequestParams),
    ("resources/subscribe", t.SubscribeRequestParams),
    ("resources/unsubscribe", t.UnsubscribeRequestParams),
):
    mcp._lowlevel_server.add_request_handler(method, params, agreed)


class Events(EventStore):
    """What was sent on each stream, for those who come back to it."""

    def __init__(self):
        self.sent = []

    async def store_event(self, stream_id, message):
        self.sent.append((stream_id, message))
        return str(len(self.sent))

    async def replay_events_after(self, last_event_id, send_callback):
        if not last_event_id.isdigit() or not 0 < int(last_event_id) <= len(self.sent):
            return None
        last = int(last_event_id)
        stream = self.sent[last - 1][0]
        for number, (stream_id, message) in enumerate(self.sent[last:], last + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


port = http_port()
if port is None:
    mcp.run(transport="stdio")
else:
    anyio.run(listen, mcp.streamable_http_app(event_store=Events(), retry_interval=100), port)
