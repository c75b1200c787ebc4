// Plain client: TypeScript SDK 1.32.2, held to protocol version 2025-06-18.
//
// The SDK always offers its newest version. The transport below changes that one
// member of the initialize request on its way out; the rest is the SDK's own.
// Nothing here knows about tasks: it calls tools, answers questions, and if a
// result says that the work goes on under a handle, it goes on with the tool
// that the gateway offers for it, by what that tool's schema says.
import { Refused, TERMINAL, answer, load, main, sleep } from "./common.mjs";

const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");

const VERSION = "2025-06-18";
const HANDLE_TOOL = "taskgate_task";
const HANDLE_NAMES = ["handle", "taskId", "task_id", "task", "id"];

async function open(target, step) {
  const notes = [];
  const transport = target.http
    ? new StreamableHTTPClientTransport(new URL(target.http), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({
        command: target.command[0],
        args: target.command.slice(1),
        env: target.env,
        stderr: "ignore",
      });
  const send = transport.send.bind(transport);
  transport.send = (message, more) => {
    if (message.method === "initialize") {
      message = { ...message, params: { ...message.params, protocolVersion: VERSION } };
    }
    return send(message, more);
  };
  transport.setProtocolVersion = ((set) => (version) => {
    notes.push(`version: ${version}`);
    set?.(version);
  })(transport.setProtocolVersion?.bind(transport));
  const client = new Client(
    { name: "peer-plain-ts", version: "1" },
    { capabilities: { elicitation: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, (request) => answer(target, request.params));
  client.onerror = () => {};
  await client.connect(transport, { timeout: step.left });
  const { tools } = await client.listTools(undefined, { timeout: step.left });
  return { client, tools, notes, target };
}

// The first member with one of these names, looked for on two levels.
function member(value, names) {
  for (const level of [value, ...Object.values(value ?? {})]) {
    if (level === null || typeof level !== "object" || Array.isArray(level)) continue;
    for (const name of names) if (level[name] !== undefined) return level[name];
  }
  return undefined;
}

// What a stand-in result says: its handle, its status, its open questions.
function standIn(step, result) {
  const said = result?.structuredContent;
  if (said === undefined) return undefined;
  const [handle, state] = [member(said, HANDLE_NAMES), member(said, ["status"])];
  if (typeof handle !== "string" || typeof state !== "string") return undefined;
  step.task(handle);
  step.status(state);
  return { handle, state, questions: member(said, ["questions"]) };
}

function useHandle(session, step, action, handle, more = {}) {
  const tool = session.tools.find((t) => t.name === HANDLE_TOOL);
  if (!tool) throw new Error(`a handle was given, but there is no tool ${HANDLE_TOOL}`);
  const name = HANDLE_NAMES.find((n) => tool.inputSchema.properties?.[n]);
  const args = { action, ...(handle && name ? { [name]: handle } : {}), ...more };
  return session.client.callTool({ name: HANDLE_TOOL, arguments: args }, undefined, { timeout: step.left });
}

async function follow(session, step, result) {
  for (let at = standIn(step, result); at !== undefined; at = standIn(step, result)) {
    if (at.state === "input_required" && at.questions?.length > 0) {
      for (const { key, params } of at.questions) {
        const reply = await answer(session.target, params);
        await useHandle(session, step, "answer", at.handle, { key, reply });
      }
    } else if (TERMINAL.includes(at.state)) {
      const whole = await pages(session, step, at.handle);
      // What a handle stood for can be told in words only.
      const words = whole.content.map((b) => b.text ?? "").join(" ");
      if (step.scenario === "refuse" && whole.isError) throw new Refused(undefined, words);
      return whole;
    }
    result = await useHandle(session, step, "wait", at.handle);
  }
  return result;
}

// A long result comes page by page; here they are put together again.
async function pages(session, step, handle) {
  const first = await useHandle(session, step, "result", handle);
  const count = member(first.structuredContent, ["pages"]) ?? 1;
  for (let page = 2; page <= count; page += 1) {
    step.note("the result came in pages");
    first.content.push(...(await useHandle(session, step, "result", handle, { page })).content);
  }
  if (count > 1) first.content = first.content.filter((b) => !/^Page \d+ of \d+\./.test(b.text ?? ""));
  return first;
}

// Asking for progress is what keeps a host patient; the gateway should send some.
function call(session, step, extra) {
  const onprogress = () => step.note("progress: yes");
  return session.client.callTool({ name: step.tool, arguments: step.args }, undefined, {
    timeout: step.left,
    onprogress,
    ...extra,
  });
}

// A host cancels a call that has not been answered by telling the server; one
// that was answered with a handle, by the tool.
async function cancel(session, step) {
  const stop = new AbortController();
  const first = call(session, step, { signal: stop.signal });
  const answered = await Promise.race([first.catch(() => undefined), sleep(step.after)]);
  const at = standIn(step, answered);
  if (at === undefined) {
    if (answered !== undefined) throw new Error("the call ended before it could be cancelled");
    stop.abort("no longer wanted");
    await first.then(
      () => {
        throw new Error("a cancelled call was answered");
      },
      () => step.status("aborted"),
    );
    // The notification is on its way; closing at once could overtake it.
    await sleep(0.3);
    return;
  }
  await useHandle(session, step, "cancel", at.handle);
  for (let last = at; !TERMINAL.includes(last.state); ) {
    last = standIn(step, await useHandle(session, step, "wait", at.handle));
    if (last === undefined) throw new Error("a cancelled handle gave a result");
  }
  if (step.lastStatus !== "cancelled") throw new Error("the handle was not cancelled");
}

await main(() => ({
  name: `typescript-sdk 1.32.2 (plain, ${VERSION})`,
  open,
  cancel,
  close: (session) => session.client.close(),
  tools: (session) => session.tools.map((t) => t.name),
  async begin(session, step) {
    if (standIn(step, await call(session, step)) === undefined) {
      throw new Error("the call was answered without a handle");
    }
  },
  async toTheEnd(session, step) {
    step.finish(await follow(session, step, await useHandle(session, step, "wait", step.taskId)));
  },
  async run(session, step) {
    step.finish(await follow(session, step, await call(session, step)));
  },
}));
