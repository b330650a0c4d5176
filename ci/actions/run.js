// Starts run.py with the machine's own Python, passes signals on, and ends as it ends.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const { constants } = require("node:os");
const { join } = require("node:path");

const NAMES = ["python3", "python", "python3.14", "python3.13", "python3.12", "python3.11"];
const NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))";
const ENDS = ["SIGINT", "SIGTERM", "SIGHUP"];

function usable(name) {
  for (let tries = 0; tries < 3; tries += 1) {
    const done = spawnSync(name, ["-I", "-c", NEW_ENOUGH], { stdio: "ignore" });
    if (!done.signal) return done.status === 0; // a signal for all of us says nothing about the Python
  }
  return false;
}

function fail(command, message) {
  const { "STATE_run-id": run, "STATE_request-id": request } = process.env;
  const left = command === "cleanup" && (run || request);
  console.log(`::error::${message}${left ? `; not cleaned up: run ${run || request}` : ""}`);
  process.exitCode = 1;
}

module.exports = function run(command) {
  let child;
  for (const signal of ENDS) {
    // Nothing is to stop a cleanup, also while its Python is starting and cannot say so itself.
    process.on(signal, () => command !== "cleanup" && child && child.kill(signal));
  }
  const python = NAMES.find(usable);
  if (!python) {
    fail(command, `no Python 3.11 or newer on PATH (looked for ${NAMES.join(", ")}): use a runner or container that has one`);
    return;
  }
  // The token and the inputs stay in the environment: a command line can be read by every process. Standard input is
  // a pipe that ends when this process does, so that nothing is dispatched after the post step has looked.
  const env = { ...process.env, SGPU_POST_STEP: command === "acquire" ? "1" : "" };
  const options = { stdio: ["pipe", "inherit", "inherit"], env };
  const held = command === "acquire" ? ["--held"] : [];
  child = spawn(python, ["-I", "-u", join(__dirname, "run.py"), command, ...held], options);
  child.stdin.on("error", () => {});
  child.on("error", (error) => fail(command, `${python} cannot be started: ${error.code}`));
  child.on("exit", (code, signal) => {
    process.exitCode = signal ? 128 + constants.signals[signal] : code;
    child.stdin.destroy();
  });
};
