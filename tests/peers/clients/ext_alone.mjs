// ext-tasks 0.2.2 on the TypeScript SDK's `Client` alone, in the modern era, without the dispatcher that `ext_tasks.mjs`
// hands to it.
import { load } from "./common.mjs";

const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { createTaskSessionFromClient, toolDeclarationFromMcpTool } = await load("@modelcontextprotocol/ext-tasks/client");

const client = new Client(
  { name: "peer-ext-tasks-alone", version: "1" },
  {
    capabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } },
    versionNegotiation: { mode: { pin: "2026-07-28" } },
  },
);
try {
  await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
  const { tools } = await client.listTools();
  const declared = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
  const session = createTaskSessionFromClient(client, {
    endpointId: "the-server",
    tools: { currentTool: (name) => declared.get(name) },
    onError: () => {},
  });
  const call = await session.callTool("slow_report", { seconds: 1, label: "alone" }, { task: { preference: "require" } });
  console.log(JSON.stringify(await call.settle()));
} catch (error) {
  console.log(String(error?.message ?? error));
  process.exit(1);
}
process.exit(0);
