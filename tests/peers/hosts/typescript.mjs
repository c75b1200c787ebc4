// A host on the TypeScript SDK 1.32.2, as most hosts are: the SDK's own version,
// its own timeout of a request (60 s, which progress does not extend), its own
// short list of variables for the server, its own way to close.
//
// README.md says what a host driver does and prints. The model in it knows no
// more than a model would: it reads the text of a result, and when that says
// what to call, it calls it.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const root = createRequire(path.join(process.env.TASKGATE_PEERS, "node", "package.json"));
const sdk = (name) => import(pathToFileURL(root.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ErrorCode, CallToolResultSchema } = await sdk("types.js");

const HANDLE_TOOL = "taskgate_task";
const ASKS = `call ${HANDLE_TOOL} with `;

function usage(text) {
  process.stderr.write(`typescript: ${text}\n`);
  process.exit(2);
}

function readArguments(argv) {
  const cut = argv.indexOf("--");
  if (cut < 0 || cut === argv.length - 1) usage("the server's command is missing after --");
  const words = argv.slice(0, cut);
  const a = { command: argv.slice(cut + 1), env: {}, args: {}, begin: "call", again: 0, turns: 12 };
  while (words.length > 0) {
    const word = words.shift();
    const value = words.shift() ?? usage(`${word} needs a value`);
    if (word === "--tool") a.tool = value;
    else if (word === "--args") a.args = JSON.parse(value);
    else if (word === "--begin") a.begin = value;
    else if (word === "--cwd") a.cwd = value;
    else if (word === "--timeout") a.timeout = Number(value);
    else if (word === "--again") a.again = Number(value);
    else if (word === "--turns") a.turns = Number(value);
    else if (word === "--die") a.die = value.split(":").map(Number);
    else if (word === "--env") {
      const at = value.indexOf("=");
      a.env[value.slice(0, at)] = value.slice(at + 1);
    } else usage(`unknown option ${word}`);
  }
  if (!["call", "list"].includes(a.begin)) usage("--begin is call or list");
  return a;
}

const a = readArguments(process.argv.slice(2));
const began = Date.now();
const say = (event, more) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const report = {
  ok: false,
  client: "typescript-sdk 1.32.2",
  protocol: null,
  server: null,
  instructions: null,
  capabilities: null,
  tools: [],
  turns: [],
  timeouts: 0,
  result: null,
  error: null,
};
// Nothing given leaves it to the SDK, as hosts do; what opens the session is always left to it.
const options = a.timeout === undefined ? {} : { timeout: a.timeout * 1000 };

const textOf = (result) =>
  (result.content ?? []).map((block) => (block.type === "text" ? block.text : "")).join("\n");

// The JSON object that begins here.
function objectAt(text, from) {
  let depth = 0;
  let quoted = false;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (quoted) {
      if (c === "\\") at++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "{") depth++;
    else if (c === "}" && --depth === 0) return JSON.parse(text.slice(from, at + 1));
  }
  return undefined;
}

// What the text tells the model to call, if it does.
function told(text) {
  const at = text.indexOf(ASKS);
  const args = at < 0 ? undefined : objectAt(text, at + ASKS.length);
  return args && { tool: HANDLE_TOOL, args };
}

// What a model does with a list of tasks: it goes on with the newest that is its own.
function chosen(result) {
  const tasks = result.structuredContent?.taskgate?.tasks ?? [];
  const mine = tasks.find((task) => task.tool === a.tool && task.fetched !== true);
  const args = mine && { action: "wait", taskId: mine.taskId };
  return args ? { tool: HANDLE_TOOL, args } : { tool: a.tool, args: a.args };
}

async function turn(client, step) {
  const number = report.turns.length + 1;
  if (number > a.turns) throw new Error(`not over after ${a.turns} turns`);
  const turn = { turn: number, tool: step.tool, args: step.args };
  report.turns.push(turn);
  say("turn", turn);
  if (a.die?.[0] === number) setTimeout(() => process.kill(process.pid, "SIGKILL"), a.die[1] * 1000);
  const started = Date.now();
  let result;
  try {
    const call = { name: step.tool, arguments: step.args };
    result = await client.callTool(call, CallToolResultSchema, options);
    turn.text = textOf(result);
    turn.structured = result.structuredContent ?? null;
    turn.is_error = result.isError === true;
  } catch (error) {
    turn.error = error.message;
    turn.timed_out = error.code === ErrorCode.RequestTimeout;
    if (turn.timed_out) report.timeouts++;
  }
  turn.elapsed_ms = Date.now() - started;
  return { turn, result };
}

async function play(client, first) {
  for (let step = first; step !== undefined; ) {
    const { turn: seen, result } = await turn(client, step);
    report.result = result ?? null;
    report.error = seen.error ?? null;
    // A model that reads that its call timed out makes it once more.
    if (seen.timed_out) step = { tool: a.tool, args: a.args };
    else if (result === undefined) step = undefined;
    else step = step.args.action === "list" ? chosen(result) : told(seen.text);
  }
}

async function host() {
  const transport = new StdioClientTransport({
    command: a.command[0],
    args: a.command.slice(1),
    env: a.env,
    cwd: a.cwd,
  });
  transport.setProtocolVersion = (version) => (report.protocol = version);
  const client = new Client({ name: "host-typescript", version: "1" });
  client.onerror = (error) => process.stderr.write(`typescript: ${error.message}\n`);
  try {
    await client.connect(transport);
    report.server = client.getServerVersion() ?? null;
    report.instructions = client.getInstructions() ?? null;
    report.capabilities = client.getServerCapabilities() ?? null;
    if (report.capabilities?.tools) report.tools = (await client.listTools()).tools;
    report.opened_ms = Date.now() - began;
    say("open", { opened_ms: report.opened_ms });
    if (a.tool !== undefined) {
      const own = { tool: a.tool, args: a.args };
      await play(client, a.begin === "list" ? { tool: HANDLE_TOOL, args: { action: "list" } } : own);
      for (let again = 0; again < a.again; again++) await play(client, own);
    }
    report.ok = report.error === null && report.result?.isError !== true;
  } catch (error) {
    report.error = error.message;
  }
  const leaving = Date.now();
  await client.close();
  report.closed_ms = Date.now() - leaving;
}

await host();
report.elapsed_ms = Date.now() - began;
const line = `${JSON.stringify({ event: "report", ...report })}\n`;
process.stdout.write(line, () => process.exit(report.ok ? 0 : 1));
