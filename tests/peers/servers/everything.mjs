// Starts server-everything unchanged, with the command line of the other
// fixtures. It would listen on every interface and print no port of its own
// choosing, so the listener is pointed at loopback and announced from here.
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const root = process.env.TASKGATE_PEERS;
const args = process.argv.slice(2);
const entry = createRequire(path.join(root, "node", "package.json")).resolve(
  "@modelcontextprotocol/server-everything/dist/index.js",
);

if (args[0] === "--http") {
  process.env.PORT = args[1];
  const listen = http.Server.prototype.listen;
  http.Server.prototype.listen = function (port, done) {
    return listen.call(this, Number(port), "127.0.0.1", () => {
      process.stdout.write(`ready ${this.address().port}\n`);
      done?.();
    });
  };
}
process.argv = [process.argv[0], entry, args[0] === "--http" ? "streamableHttp" : "stdio"];
await import(pathToFileURL(entry));
