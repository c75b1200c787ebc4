// The client that the conformance suite tests: a taskgate gateway, before the suite's own server, and somebody's SDK that
// calls through it. What the suite sees is how the gateway speaks to servers.
//
//   conformance.mjs TASKGATE legacy|modern URL
//
// `legacy` is the TypeScript SDK 1.32.2, `modern` the TypeScript SDK 2.4.0 held to 2026-07-28. The suite says in the
// environment which scenario it plays and, for some, which calls it wants.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";

import { load } from "./common.mjs";

const [taskgate, front, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const INFO = { name: "conformance-front", version: "1" };
// The client fills in what a person leaves out; the gateway passes on what it says.
const CAPABILITIES = { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} };
const MODERN = "2026-07-28";
const HANDLE_TOOL = "taskgate_task";

/** Starts the gateway; it ends with this process. */
async function gateway(folder) {
  const config = path.join(folder, "taskgate.toml");
  fs.writeFileSync(
    config,
    `[listen]\naddress = "127.0.0.1:0"\n[store]\npath = ${JSON.stringify(path.join(folder, "tasks.db"))}\n` +
      `[servers.suite]\nurl = ${JSON.stringify(url)}\n`,
  );
  const log = fs.openSync(path.join(folder, "gateway.log"), "w");
  const child = spawn(taskgate, ["serve", "--json", "--until-stdin-ends", "--config", config], {
    stdio: ["pipe", "pipe", log],
  });
  for await (const line of readline.createInterface({ input: child.stdout })) {
    const said = JSON.parse(line);
    if (said.url) return { child, endpoint: said.url };
  }
  throw new Error(`the gateway ended: ${fs.readFileSync(path.join(folder, "gateway.log"), "utf8")}`);
}

const answers = new Map();

/** A person who agrees to everything and fills in only what has to be. */
async function answer({ params }) {
  await answers.get("before")?.();
  const properties = params.requestedSchema?.properties ?? {};
  const confirmed = Object.entries(properties).filter(([, schema]) => schema.type === "boolean" && !("default" in schema));
  return { action: "accept", content: Object.fromEntries(confirmed.map(([name]) => [name, true])) };
}

async function legacy(endpoint) {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");
  const client = new Client(INFO, { capabilities: CAPABILITIES });
  client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  return client;
}

async function modern(endpoint) {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode: { pin: MODERN } } });
  client.setRequestHandler("elicitation/create", answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  return client;
}

/** The suite's server has none of these: the gateway must refuse them itself. */
async function mustBeRefused(client, tool) {
  const answered = await client.callTool({ name: tool, arguments: { value: "x" } }).catch(() => undefined);
  if (answered && !answered.isError) throw new Error(`${tool} was called`);
}

/** What the scenario wants done, by the tools and lists that came through the gateway. */
async function play(client) {
  const { tools } = await client.listTools();
  const theirs = tools.map((tool) => tool.name).filter((name) => name !== HANDLE_TOOL);
  const call = (name, args = {}) => client.callTool({ name, arguments: args });
  switch (scenario) {
    case "initialize":
    case "request-metadata":
    case "json-schema-ref-no-deref":
      return;
    case "tools_call":
      return call("add_numbers", { a: 2, b: 3 });
    case "json-schema-2020-12-preservation": {
      const { inputSchema } = tools.find((tool) => tool.name === "json_schema_2020_12_tool");
      return call("json_schema_echo", { schema: inputSchema });
    }
    case "http-standard-headers": {
      for (const name of theirs) await call(name);
      for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
      for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
      return;
    }
    case "http-custom-headers": {
      // By hand: the gateway must mirror what its own client would not know to mirror.
      for (const { name, arguments: args } of context.toolCalls) await call(name, args);
      return;
    }
    case "http-invalid-tool-headers": {
      if (theirs.some((name) => name.startsWith("invalid_"))) throw new Error(`listed: ${theirs}`);
      await call("valid_tool", { region: "eu" });
      const invalid = ["empty_header", "object_header", "array_header", "null_header", "duplicate_same_case"];
      invalid.push("duplicate_diff_case", "space_in_name", "colon_in_name", "non_ascii_name", "control_char_name");
      for (const what of invalid) await mustBeRefused(client, `invalid_${what}`);
      return;
    }
    case "sep-2322-client-request-state": {
      // While a question waits another call is made, which must have nothing of the first.
      answers.set("before", async () => {
        answers.delete("before");
        await call("test_mrtr_unrelated");
      });
      await call("test_mrtr_echo_state");
      await call("test_mrtr_no_state");
      await call("test_mrtr_no_result_type");
      return;
    }
    default:
      for (const name of theirs) await call(name);
  }
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "taskgate-conformance-"));
let code = 0;
try {
  const { child, endpoint } = await gateway(folder);
  try {
    const client = await (front === "modern" ? modern : legacy)(endpoint);
    await play(client);
    await client.close();
  } finally {
    const ended = new Promise((done) => child.once("exit", done));
    child.stdin.end();
    await ended;
  }
} catch (error) {
  console.error(error);
  console.error(fs.readFileSync(path.join(folder, "gateway.log"), "utf8"));
  code = 1;
}
fs.rmSync(folder, { recursive: true, force: true });
process.exit(code);
