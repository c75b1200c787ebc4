// Plain client: TypeScript SDK 1.32.2, held to protocol version 2025-06-18.
//
// The SDK always offers its newest version. The transport below changes that one
// member of the initialize request on its way out; the rest is the SDK's own.
// Nothing here knows about tasks: it calls tools, answers questions, and if a
// result says that the work goes on under a handle, it goes on with the tool
// that the gateway offers for it, by what that tool's schema says.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const root = createRequire(path.join(process.env.TASKGATE_PEERS, "node", "package.json"));
const sdk = (name) => import(pathToFileURL(root.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { ElicitRequestSchema } = await sdk("types.js");

const VERSION = "2025-06-18";
const HANDLE_TOOL = "taskgate_task";
const DEFAULTS = {
  list: [],
  run: ["slow_report", { seconds: 2, label: "alpha" }],
  input: ["confirm_deploy", { target: "prod" }],
  decline: ["confirm_deploy", { target: "prod" }],
  cancel: ["slow_report", { seconds: 30, label: "beta" }],
  error: ["fail", { message: "out of paper" }],
  start: ["slow_report", { seconds: 6, label: "gamma" }],
  reconnect: ["slow_report", { seconds: 4, label: "delta" }],
  resume: [],
};

function usage(text) {
  process.stderr.write(`plain_ts: ${text}\n`);
  process.exit(2);
}

function readArguments(argv) {
  const cut = argv.indexOf("--");
  const command = cut < 0 ? [] : argv.slice(cut + 1);
  const words = cut < 0 ? argv : argv.slice(0, cut);
  const a = { timeout: 60, after: 1, command };
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--stdio") a.stdio = true;
    else if (/^--(http|scenario|tool|args|task|expect|bearer|after|timeout)$/.test(word)) {
      a[word.slice(2)] = words.shift() ?? usage(`${word} needs a value`);
    } else usage(`unknown option ${word}`);
  }
  if (!DEFAULTS[a.scenario]) usage("--scenario is missing or unknown");
  if (Boolean(a.http) === Boolean(a.stdio)) usage("give either --http URL or --stdio");
  if (a.stdio && command.length === 0) usage("--stdio needs a command after --");
  if (a.scenario === "resume" && !a.task) usage("--scenario resume needs --task");
  const [tool, args] = DEFAULTS[a.scenario];
  a.tool ??= tool;
  a.args = a.args ? JSON.parse(a.args) : args;
  a.timeout = Number(a.timeout);
  a.after = Number(a.after);
  return a;
}

const a = readArguments(process.argv.slice(2));
const began = Date.now();
const deadline = began + a.timeout * 1000;
const report = {
  ok: false,
  client: `typescript-sdk 1.32.2 (plain, ${VERSION})`,
  scenario: a.scenario,
  task_id: a.task ?? null,
  statuses: [],
  result: null,
  error: null,
  elapsed_ms: 0,
  notes: [],
};
const status = (s) => s && report.statuses.at(-1) !== s && report.statuses.push(s);
const options = (extra) => ({ timeout: Math.max(deadline - Date.now(), 1), ...extra });

function fill(schema) {
  const made = {};
  for (const [name, kind] of Object.entries(schema?.properties ?? {})) {
    const choices = kind.enum ?? kind.oneOf?.map((c) => c.const);
    if (choices) made[name] = choices[0];
    else if (kind.type === "boolean") made[name] = true;
    else if (kind.type === "number" || kind.type === "integer") made[name] = kind.minimum ?? 1;
    else made[name] = kind.default ?? "yes";
  }
  return made;
}

function answer(params) {
  report.notes.push(`asked: ${params.message}`);
  if (a.scenario === "decline") return { action: "decline" };
  return { action: "accept", content: fill(params.requestedSchema) };
}

async function connect() {
  const transport = a.stdio
    ? new StdioClientTransport({ command: a.command[0], args: a.command.slice(1), env: process.env })
    : new StreamableHTTPClientTransport(new URL(a.http), {
        requestInit: a.bearer ? { headers: { Authorization: `Bearer ${a.bearer}` } } : {},
      });
  const send = transport.send.bind(transport);
  transport.send = (message, more) => {
    if (message.method === "initialize") {
      message = { ...message, params: { ...message.params, protocolVersion: VERSION } };
    }
    return send(message, more);
  };
  transport.setProtocolVersion = ((set) => (version) => {
    report.notes.push(`version: ${version}`);
    set?.(version);
  })(transport.setProtocolVersion?.bind(transport));
  const client = new Client(
    { name: "peer-plain-ts", version: "1" },
    { capabilities: { elicitation: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, (request) => answer(request.params));
  client.onerror = () => {};
  await client.connect(transport, options());
  const { tools } = await client.listTools(undefined, options());
  return { client, tools };
}

// The first member with one of these names, looked for on two levels.
function member(value, names) {
  for (const level of [value, ...Object.values(value ?? {})]) {
    if (level === null || typeof level !== "object" || Array.isArray(level)) continue;
    for (const name of names) if (level[name] !== undefined) return level[name];
  }
  return undefined;
}

const HANDLE_NAMES = ["handle", "taskId", "task_id", "task", "id"];
const TERMINAL = ["completed", "failed", "cancelled"];

// What a stand-in result says: its handle, its status, its open questions.
function standIn(result) {
  const said = result?.structuredContent;
  if (said === undefined) return undefined;
  const handle = member(said, HANDLE_NAMES);
  const state = member(said, ["status"]);
  if (typeof handle !== "string" || typeof state !== "string") return undefined;
  return { handle, state, questions: member(said, ["questions"]) };
}

function useHandle(session, action, handle, more = {}) {
  const tool = session.tools.find((t) => t.name === HANDLE_TOOL);
  if (!tool) throw new Error(`a handle was given, but there is no tool ${HANDLE_TOOL}`);
  const name = HANDLE_NAMES.find((n) => tool.inputSchema.properties?.[n]);
  const args = { action, ...(handle && name ? { [name]: handle } : {}), ...more };
  return session.client.callTool({ name: HANDLE_TOOL, arguments: args }, undefined, options());
}

async function follow(session, result) {
  for (let at = standIn(result); at !== undefined; at = standIn(result)) {
    report.task_id = at.handle;
    status(at.state);
    if (at.state === "input_required" && at.questions?.length > 0) {
      for (const { key, params } of at.questions) {
        await useHandle(session, "answer", at.handle, { key, reply: answer(params) });
      }
    } else if (TERMINAL.includes(at.state)) {
      return await useHandle(session, "result", at.handle);
    }
    if (Date.now() > deadline) throw new Error("timed out");
    result = await useHandle(session, "wait", at.handle);
  }
  return result;
}

function finish(result) {
  report.result = result;
  const failed = result.isError === true;
  const asked = report.notes.some((n) => n.startsWith("asked: "));
  if (["input", "decline"].includes(a.scenario) && !asked) throw new Error("the server asked nothing");
  if (a.scenario === "error" && !failed) throw new Error("a tool error was expected");
  if (a.scenario !== "error" && failed) throw new Error("the tool reported an error");
  if (a.expect && !JSON.stringify(result).includes(a.expect)) {
    throw new Error(`the result does not contain ${JSON.stringify(a.expect)}`);
  }
}

// Asking for progress is what keeps a host patient; the gateway should send some.
function call(session, extra) {
  let seen = 0;
  const onprogress = () => {
    if (seen++ === 0) report.notes.push("progress: yes");
  };
  return session.client.callTool(
    { name: a.tool, arguments: a.args },
    undefined,
    options({ onprogress, ...extra }),
  );
}

// A host cancels a call that has not been answered by telling the server; one
// that was answered with a handle, by the tool.
async function cancel(session) {
  const stop = new AbortController();
  const first = call(session, { signal: stop.signal });
  const answered = await Promise.race([
    first.catch(() => undefined),
    new Promise((done) => setTimeout(done, a.after * 1000)),
  ]);
  const at = standIn(answered);
  if (at === undefined) {
    if (answered !== undefined) throw new Error("the call ended before it could be cancelled");
    stop.abort("no longer wanted");
    await first.then(
      () => {
        throw new Error("a cancelled call was answered");
      },
      () => status("aborted"),
    );
    // The notification is on its way; closing at once could overtake it.
    await new Promise((done) => setTimeout(done, 300));
    return;
  }
  report.task_id = at.handle;
  status(at.state);
  await useHandle(session, "cancel", at.handle);
  for (let last = at; !TERMINAL.includes(last.state); ) {
    const said = await useHandle(session, "wait", at.handle);
    last = standIn(said);
    if (last === undefined) throw new Error("a cancelled handle gave a result");
    status(last.state);
  }
  if (report.statuses.at(-1) !== "cancelled") throw new Error("the handle was not cancelled");
}

async function begin(session) {
  const at = standIn(await call(session));
  if (at === undefined) throw new Error("the call was answered without a handle");
  report.task_id = at.handle;
  status(at.state);
  return at.handle;
}

async function scenario() {
  let session = await connect();
  const { tools } = session;
  if (a.scenario === "list") report.result = tools.map((t) => t.name);
  else if (a.scenario === "start") await begin(session);
  else if (a.scenario === "cancel") await cancel(session);
  else if (a.scenario === "resume" || a.scenario === "reconnect") {
    const handle = a.task ?? (await begin(session));
    if (a.scenario === "reconnect") {
      await session.client.close();
      session = await connect();
    }
    finish(await follow(session, await useHandle(session, "wait", handle)));
  } else finish(await follow(session, await call(session)));
  await Promise.race([session.client.close(), new Promise((done) => setTimeout(done, 2000))]);
}

try {
  await scenario();
  report.ok = true;
} catch (error) {
  report.error = error?.message ?? String(error);
}
report.elapsed_ms = Date.now() - began;
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(report.ok ? 0 : 1));
