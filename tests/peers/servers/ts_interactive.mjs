// Starts the TypeScript SDK's example of an interactive task server unchanged. Like server-everything it would listen
// on every interface and tell no port, so the listener is pointed at loopback and announced from here. It writes what
// it does on stdout, which is left to `ready`. It speaks HTTP only.
import { createRequire } from "node:module";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

if (process.argv[2] !== "--http") {
  process.stderr.write("ts_interactive: the example speaks HTTP only\n");
  process.exit(2);
}
const root = createRequire(path.join(process.env.TASKGATE_PEERS, "node", "package.json"));
const entry = root.resolve("@modelcontextprotocol/sdk/examples/server/simpleTaskInteractive.js");
const say = process.stdout.write.bind(process.stdout);
console.log = console.error;
process.env.PORT = process.argv[3];
const listen = http.Server.prototype.listen;
http.Server.prototype.listen = function (port, done) {
  return listen.call(this, Number(port), "127.0.0.1", () => {
    say(`ready ${this.address().port}\n`);
    done?.();
  });
};
await import(pathToFileURL(entry));
