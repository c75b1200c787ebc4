// Client of both dialects: ext-tasks 0.2.2 on the TypeScript SDK 2.4.0, `--era legacy` (A) or `--era modern` (B).
//
// In the modern era ext-tasks needs a way to send requests as they are, past the SDK's own types; `rawDispatch` below
// is that: it gives them ids of its own and picks the answers out before the SDK sees them.
import { Refused, TERMINAL, answer, load, main, sleep } from "./common.mjs";

const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
const { createTaskSessionFromClient, toolDeclarationFromMcpTool, TaskFailedError, JsonRpcResponseError } = await load(
  "@modelcontextprotocol/ext-tasks/client",
);

const INFO = { name: "peer-ext-tasks", version: "1" };
const CAPABILITIES = { elicitation: { form: {} } };
const MODERN = "2026-07-28";
const OPERATION = "tools/call";

function rawDispatch(transport) {
  const open = new Map();
  const inner = transport.onmessage;
  let last = 0;
  transport.onmessage = (message, extra) => {
    const done = message.method === undefined && open.get(message.id);
    if (!done) return inner?.(message, extra);
    open.delete(message.id);
    done(message);
  };
  return async (request, { signal, context } = {}) => {
    const id = `raw-${(last += 1)}`;
    const answered = new Promise((resolve, reject) => {
      open.set(id, resolve);
      signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    answered.catch(() => open.delete(id));
    await transport.send({ jsonrpc: "2.0", id, ...request }, { headers: context?.headers });
    const message = await answered;
    return message.error === undefined
      ? { kind: "result", result: message.result }
      : { kind: "error", error: message.error };
  };
}

async function connect(modern, target, step) {
  const transport = target.http
    ? new StreamableHTTPClientTransport(new URL(target.http), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({
        command: target.command[0],
        args: target.command.slice(1),
        env: target.env,
        stderr: "ignore",
      });
  // In the legacy era a client that offers tasks of its own would be asked by tasks.
  const capabilities = modern
    ? { ...CAPABILITIES, extensions: { "io.modelcontextprotocol/tasks": {} } }
    : CAPABILITIES;
  const client = new Client(INFO, {
    capabilities,
    versionNegotiation: { mode: modern ? { pin: MODERN } : "legacy" },
  });
  client.onerror = () => {};
  await client.connect(transport, { timeout: step.left });
  const { tools } = await client.listTools(undefined, { timeout: step.left });
  const declared = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
  const session = createTaskSessionFromClient(client, {
    // Not where the server is, but who: a reference that was kept leads back to it.
    endpointId: "the-server",
    tools: { currentTool: (name) => declared.get(name) },
    onInputRequest: ({ params }) => answer(target, params),
    onError: () => {},
    ...(modern
      ? {
          rawDispatch: rawDispatch(transport),
          v2RequestFraming: { protocolVersion: MODERN, clientInfo: INFO, clientCapabilities: CAPABILITIES },
        }
      : {}),
  });
  return { client, session, tools, notes: [`version: ${client.getNegotiatedProtocolVersion()}`] };
}

const generation = (modern) => (modern ? "v2" : "v1");

async function start({ session }, step) {
  try {
    const task = { preference: "prefer", retentionMs: 600_000 };
    const execution = await session.callTool(step.tool, step.args, { task, requestTimeoutMs: step.left });
    if (execution.kind === "task") step.task(execution.handle.taskId);
    else step.note("answered without a task");
    return execution;
  } catch (error) {
    throw error instanceof JsonRpcResponseError ? new Refused(error.code, error.message) : error;
  }
}

async function settle(execution, step) {
  const onEvent = (event) => step.status(event.type === "task" ? event.task.status : event.outcome.task?.status);
  const { outcome } = await execution.settle({ onEvent });
  step.status(outcome.task?.status ?? outcome.status);
  return outcome;
}

async function toTheEnd(execution, step) {
  const outcome = await settle(execution, step);
  if (outcome.status === "completed") return step.finish(outcome.result);
  if (outcome.status === "cancelled") throw new Error("the task was cancelled");
  const { error } = outcome;
  // Of a task that failed by a tool error, in dialect A, it has the words and not the result.
  if (step.scenario === "error" && error instanceof TaskFailedError && error.code === undefined) {
    step.note("ext-tasks told the words of the failed task only");
    return step.finish({ content: [{ type: "text", text: error.message }], isError: true });
  }
  throw new Refused(error.code, error.message);
}

async function cancel({ session }, execution, step) {
  if (execution.kind !== "task") throw new Error("the call ended before it could be cancelled");
  await sleep(step.after);
  await execution.cancel();
  const controller = session.task(step.taskId);
  for (;;) {
    const { status } = await controller.snapshot();
    step.status(status);
    if (TERMINAL.includes(status)) break;
    await sleep(0.1);
  }
  if (step.lastStatus !== "cancelled") throw new Error("the task was not cancelled");
}

await main(({ era }) => {
  const modern = era === "modern";
  return {
    name: `ext-tasks 0.2.2 (${modern ? "B" : "A"})`,
    open: (target, step) => connect(modern, target, step),
    close: (session) => session.client.close(),
    tools: (session) => session.tools.map((t) => t.name),
    async begin(session, step) {
      const execution = await start(session, step);
      if (execution.kind !== "task") throw new Error("the call was answered without a task");
      await execution.detach();
    },
    async toTheEnd(session, step) {
      const reference = {
        endpointId: session.session.endpointId,
        generation: generation(modern),
        taskId: step.taskId,
        originalOperation: OPERATION,
      };
      await toTheEnd(await session.session.resumeTask(reference), step);
    },
    async run(session, step) {
      await toTheEnd(await start(session, step), step);
    },
    async cancel(session, step) {
      if (step.taskId === undefined) return await cancel(session, await start(session, step), step);
      await cancel(session, { kind: "task", cancel: () => session.session.cancelTask(step.taskId) }, step);
    },
  };
});
