// What the JavaScript drivers share: the command line, the steps, the answers. It plays jobs as common.py does.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const packages = path.join(process.env.TASKGATE_PEERS, "node", "node_modules");

/** Imports an installed package, from outside its folder; `require` would find the other build of it. */
export function load(name) {
  const [, own, rest] = /^(@[^/]+\/[^/]+|[^/]+)(.*)$/.exec(name);
  const { exports } = JSON.parse(fs.readFileSync(path.join(packages, own, "package.json"), "utf8"));
  const entry = exports[`.${rest}`] ?? exports["./*"];
  const file = (entry.import?.default ?? entry.import ?? entry.default).replace("*", rest.slice(1));
  return import(pathToFileURL(path.join(packages, own, file)));
}

const DEFAULTS = {
  list: [],
  run: ["slow_report", { seconds: 2, label: "alpha" }],
  input: ["confirm_deploy", { target: "prod" }],
  decline: ["confirm_deploy", { target: "prod" }],
  cancel: ["slow_report", { seconds: 30, label: "beta" }],
  error: ["fail", { message: "out of paper" }],
  refuse: ["refuse", { message: "not today" }],
  big: ["big_report", { kib: 4, label: "epsilon", seconds: 0.5 }],
  start: ["slow_report", { seconds: 6, label: "gamma" }],
  reconnect: ["slow_report", { seconds: 4, label: "delta" }],
  resume: [],
};
// Jobs of a batch that run at the same time.
const SIDE_BY_SIDE = Number(process.env.PEER_JOBS ?? 4);
export const TERMINAL = ["completed", "failed", "cancelled"];
export const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

/** The call was answered by a JSON-RPC error, or its task failed with one. */
export class Refused extends Error {
  constructor(code, message) {
    super(code === undefined ? message : `${code}: ${message}`);
  }
}

/** Where the server is, and whose question it is that it asks. */
class Target {
  constructor({ http, command = [], env = {}, bearer, timeout = 60 }) {
    Object.assign(this, { http, command, bearer, timeout, step: undefined });
    this.env = { ...process.env, ...env };
    this.headers = bearer ? { Authorization: `Bearer ${bearer}` } : {};
  }
}

/** One scenario: what is asked for, and what is told of it. */
class Step {
  constructor(client, { scenario, tool, args, task, expect, size, after = 1, timeout = 60 }) {
    const [defaultTool, defaultArgs] = DEFAULTS[scenario];
    Object.assign(this, { scenario, tool: tool ?? defaultTool, args: args ?? defaultArgs, expect, size });
    Object.assign(this, { after, timeout });
    this.begin();
    this.said = {
      ok: false,
      client,
      scenario,
      task_id: task ?? null,
      statuses: [],
      result: null,
      error: null,
      elapsed_ms: 0,
      notes: [],
    };
  }

  begin() {
    this.began = Date.now();
    this.deadline = this.began + this.timeout * 1000;
  }

  /** Milliseconds that are left. */
  get left() {
    return Math.max(this.deadline - Date.now(), 1);
  }

  get taskId() {
    return this.said.task_id ?? undefined;
  }

  note(text) {
    if (!this.said.notes.includes(text)) this.said.notes.push(text);
  }

  task(id) {
    this.said.task_id = id;
  }

  status(status) {
    if (status && this.said.statuses.at(-1) !== status) this.said.statuses.push(status);
  }

  get lastStatus() {
    return this.said.statuses.at(-1);
  }

  /** Keeps the result and checks it against the scenario. */
  finish(result) {
    this.said.result = result;
    const failed = result.isError === true;
    const asked = this.said.notes.some((n) => n.startsWith("asked: "));
    if (this.scenario === "refuse") throw new Error("an error of the protocol was expected");
    if (["input", "decline"].includes(this.scenario) && !asked) throw new Error("the server asked nothing");
    if (this.scenario === "error" && !failed) throw new Error("a tool error was expected");
    if (this.scenario !== "error" && failed) {
      throw new Error(`the tool reported an error: ${JSON.stringify(result).slice(0, 300)}`);
    }
    if (this.expect && !JSON.stringify(result).includes(this.expect)) {
      throw new Error(`the result does not contain '${this.expect}'`);
    }
    if (this.size === undefined || this.size === null) return;
    const characters = (result.content ?? []).reduce((sum, b) => sum + (b.text?.length ?? 0), 0);
    // A megabyte on stdout tells nobody anything.
    this.said.result = { characters };
    if (characters !== this.size) {
      throw new Error(`the result has ${characters} characters instead of ${this.size}`);
    }
  }

  /** What the scenario `refuse` ends with; gives what is wrong with it. */
  refused(error) {
    const words = why(error);
    this.note(`refused: ${words}`);
    if (!(error instanceof Refused) && typeof error?.code !== "number") return words;
    if (this.expect && !words.includes(this.expect)) {
      return `the error does not contain '${this.expect}': ${words}`;
    }
    return null;
  }

  close(error) {
    this.said.ok = error === null;
    this.said.error = error;
    this.said.elapsed_ms = Date.now() - this.began;
    return this.said;
  }
}

function why(error) {
  const words = error?.message ?? String(error);
  return typeof error?.code === "number" && !words.includes(error.code) ? `${error.code}: ${words}` : words;
}

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

/** The answer of a person. One who wants to cancel gives none. */
export async function answer(target, params) {
  target.step.note(`asked: ${params.message}`);
  if (target.step.scenario === "cancel") await new Promise(() => {});
  if (target.step.scenario === "decline") return { action: "decline" };
  return { action: "accept", content: fill(params.requestedSchema) };
}

async function within(step, doing) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("timed out")), step.left);
  });
  try {
    return await Promise.race([doing, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function play(peer, session, step) {
  if (step.scenario === "list") step.said.result = await peer.tools(session, step);
  else if (step.scenario === "start") await peer.begin(session, step);
  else if (step.scenario === "resume") await peer.toTheEnd(session, step);
  else if (step.scenario === "cancel") await peer.cancel(session, step);
  else await peer.run(session, step);
}

/** `start` and `reconnect`: the session that starts the call is left without a goodbye. */
async function parted(peer, target, step) {
  const first = await peer.open(target, step);
  await peer.begin(first, step);
  await peer.close(first);
  if (step.scenario !== "reconnect") return;
  const second = await peer.open(target, step);
  await peer.toTheEnd(second, step);
  await peer.close(second);
}

/** Plays steps one after the other in one session; after a step that failed, in a new one. */
async function job(peer, target, steps, tell) {
  let session;
  for (const step of steps) {
    step.begin();
    target.step = step;
    let wrong = null;
    try {
      if (["start", "reconnect"].includes(step.scenario)) await within(step, parted(peer, target, step));
      else {
        session ??= await within(step, peer.open(target, step));
        for (const note of session.notes ?? []) step.note(note);
        await within(step, play(peer, session, step));
        if (step.scenario === "refuse") wrong = "the call was not refused";
      }
    } catch (error) {
      wrong = step.scenario === "refuse" && session ? step.refused(error) : why(error);
    }
    tell(step, wrong);
    if (wrong !== null && session) {
      await Promise.race([peer.close(session).catch(() => {}), sleep(2)]);
      session = undefined;
    }
  }
  if (session) await Promise.race([peer.close(session).catch(() => {}), sleep(2)]);
}

function usage(text) {
  process.stderr.write(`usage: ${text}\n`);
  process.exit(2);
}

function readArguments(argv) {
  const cut = argv.indexOf("--");
  const a = { command: cut < 0 ? [] : argv.slice(cut + 1) };
  const words = cut < 0 ? argv : argv.slice(0, cut);
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--stdio" || word === "--batch") a[word.slice(2)] = true;
    else if (/^--(http|scenario|tool|args|task|expect|size|bearer|after|timeout|era)$/.test(word)) {
      a[word.slice(2)] = words.shift() ?? usage(`${word} needs a value`);
    } else usage(`unknown option ${word}`);
  }
  if (a.args) a.args = JSON.parse(a.args);
  for (const name of ["size", "after", "timeout"]) if (a[name]) a[name] = Number(a[name]);
  if (a.batch) return a;
  if (!DEFAULTS[a.scenario]) usage("--scenario is missing or unknown");
  if (Boolean(a.http) === Boolean(a.stdio)) usage("give either --http URL or --stdio");
  if (a.stdio && a.command.length === 0) usage("--stdio needs a command after --");
  if (a.scenario === "resume" && !a.task) usage("--scenario resume needs --task");
  return a;
}

const say = (line) => new Promise((done) => process.stdout.write(`${JSON.stringify(line)}\n`, done));

async function batch(peer) {
  let running = 0;
  const waiting = [];
  const all = [];
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { id, steps, ...where } = JSON.parse(line);
    const one = async () => {
      if (running >= SIDE_BY_SIDE) await new Promise((turn) => waiting.push(turn));
      running += 1;
      let left = steps.length;
      const told = [];
      const tell = (step, wrong) => {
        left -= 1;
        told.push(say({ id, ...step.close(wrong) }));
      };
      await job(peer, new Target(where), steps.map((s) => new Step(peer.name, s)), tell);
      await Promise.all(told);
      await say({ id, left });
      running -= 1;
      waiting.shift()?.();
    };
    all.push(one());
  }
  await Promise.all(all);
}

/**
 * A peer has `name`, `open(target, step)`, `close(session)`, `tools(session, step)`, `begin`, `toTheEnd`, `cancel` and
 * `run`, the last four with a session and a step.
 */
export async function main(make) {
  const a = readArguments(process.argv.slice(2));
  const peer = make(a);
  if (a.batch) {
    // What a broken connection throws later belongs to no step.
    process.on("unhandledRejection", (error) => process.stderr.write(`late: ${why(error)}\n`));
    await batch(peer);
    process.exit(0);
  }
  let code = 1;
  await job(peer, new Target(a), [new Step(peer.name, a)], (step, wrong) => {
    code = wrong === null ? 0 : 1;
    process.stdout.write(`${JSON.stringify(step.close(wrong))}\n`);
  });
  await new Promise((done) => process.stdout.write("", done));
  process.exit(code);
}
