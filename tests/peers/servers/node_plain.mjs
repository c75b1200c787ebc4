// Plain fixture: TypeScript SDK 1.32.2 over stdio, without tasks and without
// progress. It has instructions, and a tool with an output schema.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const root = createRequire(path.join(process.env.TASKGATE_PEERS, "node", "package.json"));
const load = (name) => import(pathToFileURL(root.resolve(name)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = await load("zod");

// One line, forced to disk: tests kill processes and then count these lines.
function note(tool, args, phase) {
  const file = process.env.PEER_JOURNAL;
  if (!file) return;
  const line = { tool, args, at: Date.now() / 1000, phase };
  const fd = fs.openSync(file, "a");
  fs.writeSync(fd, `${JSON.stringify(line)}\n`);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

// Does it between two lines of the journal, and stops when the client says so.
function journaled(tool, work) {
  return async (args, { signal }) => {
    note(tool, args, "start");
    try {
      return await work(args, signal);
    } finally {
      note(tool, args, signal.aborted ? "cancelled" : "end");
    }
  };
}

const text = (words) => ({ content: [{ type: "text", text: words }] });
const wait = (seconds, signal) => pause(seconds * 1000, undefined, { signal });

const server = new McpServer(
  { name: "node-plain", title: "Node, plain", version: "2.1.0" },
  { instructions: "Reports take a while. Charge an order once." },
);
const add = (name, description, inputSchema, work, more = {}) =>
  server.registerTool(name, { description, inputSchema, ...more }, journaled(name, work));
const readOnly = { annotations: { readOnlyHint: true } };

add(
  "slow_report",
  "Takes its time over a report.",
  { seconds: z.number(), label: z.string() },
  async ({ seconds, label }, signal) => {
    await wait(seconds, signal);
    return text(`report ${label} ready`);
  },
  readOnly,
);
add(
  "charge",
  "Charges an order, slowly. Must not happen twice.",
  { seconds: z.number(), order: z.string() },
  async ({ seconds, order }, signal) => {
    await wait(seconds, signal);
    return text(`charged ${order}`);
  },
);
add(
  "slow_sum",
  "Adds, slowly.",
  { seconds: z.number(), a: z.number(), b: z.number() },
  async ({ seconds, a, b }, signal) => {
    await wait(seconds, signal);
    return { ...text(`${a + b}`), structuredContent: { sum: a + b } };
  },
  { ...readOnly, title: "Add", outputSchema: { sum: z.number() } },
);
add("fail", "Always fails.", { message: z.string() }, async ({ message }) => ({
  ...text(message),
  isError: true,
}));
add("echo", "Says it again.", { text: z.string() }, async (args) => text(args.text), readOnly);
add(
  "where",
  "Tells the folder and some variables.",
  { names: z.array(z.string()) },
  async ({ names }) => {
    const env = Object.fromEntries(names.map((name) => [name, process.env[name] ?? null]));
    return text(JSON.stringify({ pid: process.pid, cwd: process.cwd(), env, args: process.argv.slice(2) }));
  },
  readOnly,
);

const transport = new StdioServerTransport();
process.stdin.on("end", () => process.exit(0));
await server.connect(transport);
process.stderr.write("node-plain is up\n");
