// Plain fixture: TypeScript SDK 2.4.0, which knows both eras and no tasks.
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const root = createRequire(path.join(process.env.TASKGATE_PEERS, "node", "package.json"));
const load = (name) => import(pathToFileURL(root.resolve(name)));
const { Server, ProtocolError, createMcpHandler, inputRequired } = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");

const REFUSED = -32050;
const schema = (properties) => ({
  type: "object",
  properties: Object.fromEntries(Object.entries(properties).map(([k, type]) => [k, { type }])),
  required: Object.keys(properties),
});
const APPROVAL = schema({ approve: "boolean" });
const tool = (name, description, inputSchema, readOnlyHint = false) => ({
  name,
  description,
  inputSchema,
  ...(readOnlyHint ? { annotations: { readOnlyHint } } : {}),
});
const TOOLS = [
  tool("slow_report", "Takes its time over a report.", schema({ seconds: "number", label: "string" }), true),
  tool(
    "charge",
    "Charges an order, slowly. Must not happen twice.",
    schema({ seconds: "number", order: "string" }),
  ),
  tool("confirm_deploy", "Deploys after asking.", schema({ target: "string" })),
  tool("fail", "Always fails.", schema({ message: "string" })),
  tool("refuse", "Is refused, by an error of the protocol.", schema({ message: "string" })),
  tool(
    "big_report",
    "A long text.",
    schema({ kib: "integer", label: "string", seconds: "number" }),
    true,
  ),
  tool("echo", "Says it again.", schema({ text: "string" }), true),
];

function note(name, args, phase) {
  if (!process.env.PEER_JOURNAL) return;
  // Spaced as Python writes it, so that one search finds the lines of every fixture.
  const line = `{"tool": ${JSON.stringify(name)}, "args": ${JSON.stringify(args)}, "at": ${Date.now() / 1000}, "phase": "${phase}"}\n`;
  const fd = fs.openSync(process.env.PEER_JOURNAL, "a");
  fs.writeSync(fd, line);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

const text = (value, isError = false) => ({
  content: [{ type: "text", text: value }],
  ...(isError ? { isError } : {}),
});

async function pause(seconds, ctx) {
  const token = ctx.mcpReq._meta?.progressToken;
  const end = Date.now() + seconds * 1000;
  for (let left = end - Date.now(); left > 0; left = end - Date.now()) {
    ctx.mcpReq.signal.throwIfAborted();
    if (token !== undefined) {
      const params = { progressToken: token, progress: seconds - left / 1000, total: seconds };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    await new Promise((done) => setTimeout(done, Math.min(left, 100)));
  }
}

async function work(name, args, ctx) {
  if (args.seconds !== undefined) await pause(args.seconds, ctx);
  if (name === "slow_report") return text(`report ${args.label} ready`);
  if (name === "charge") return text(`charged ${args.order}`);
  if (name === "fail") return text(args.message, true);
  if (name === "echo") return text(args.text);
  if (name === "refuse") throw new ProtocolError(REFUSED, args.message);
  const filling = "x".repeat(args.kib * 1024 - 2 * args.label.length - 2);
  return text(`${args.label} ${filling} ${args.label}`);
}

async function confirm(era, args, ctx) {
  const message = `Deploy ${args.target}?`;
  let answer;
  if (era === "modern") {
    // The call comes again with the answer; the journal still sees one call.
    answer = ctx.mcpReq.inputResponses?.approval;
    if (answer === undefined) {
      note("confirm_deploy", args, "start");
      // ext-tasks refuses a question that comes in the moment in which it learns of its task.
      await new Promise((done) => setTimeout(done, 300));
      const approval = inputRequired.elicit({ message, requestedSchema: APPROVAL });
      return inputRequired({ inputRequests: { approval } });
    }
  } else {
    note("confirm_deploy", args, "start");
    const params = { message, requestedSchema: APPROVAL };
    answer = await ctx.mcpReq.send({ method: "elicitation/create", params }, { timeout: 600_000 });
  }
  note("confirm_deploy", args, "end");
  const yes = answer.action === "accept" && answer.content?.approve === true;
  return text(`${yes ? "" : "not "}deployed ${args.target}`);
}

function make({ era }) {
  const server = new Server({ name: "ts-plain", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", async () => ({ tools: TOOLS }));
  server.setRequestHandler("tools/call", async (request, ctx) => {
    const { name, arguments: args = {} } = request.params;
    if (!TOOLS.some((t) => t.name === name)) throw new ProtocolError(-32602, `unknown tool ${name}`);
    if (name === "confirm_deploy") return await confirm(era, args, ctx);
    note(name, args, "start");
    try {
      const result = await work(name, args, ctx);
      note(name, args, "end");
      return result;
    } catch (error) {
      note(name, args, ctx.mcpReq.signal.aborted ? "cancelled" : "end");
      throw error;
    }
  });
  return server;
}

if (process.argv[2] === "--http") {
  const handler = createMcpHandler(make);
  const server = http.createServer(async (req, res) => {
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    const body = ["GET", "HEAD"].includes(req.method) ? undefined : Readable.toWeb(req);
    const answer = await handler.fetch(
      new Request(`http://${req.headers.host}${req.url}`, {
        method: req.method,
        headers: req.headers,
        body,
        duplex: "half",
        signal: gone.signal,
      }),
    );
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on("error", () => res.destroy()).pipe(res);
    else res.end();
  });
  server.listen(Number(process.argv[3]), "127.0.0.1", () => {
    process.stdout.write(`ready ${server.address().port}\n`);
  });
} else {
  serveStdio(make);
}
