// Starts run.py with the machine's own Python, passes signals on, and ends as it ends.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const { constants } = require("node:os");
const { join } = require("node:path");

const NAMES = ["python3", "python", "python3.14", "python3.13", "python3.12", "python3.11"];
const NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))";

const usable = (name) => spawnSync(name, ["-I", "-c", NEW_ENOUGH], { stdio: "ignore" }).status === 0;

function fail(message) {
  console.log(`::error::${message}`);
  process.exitCode = 1;
}

module.exports = function run(command) {
  let child;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    // Nothing is to stop a cleanup, also while its Python is starting and cannot say so itself.
    process.on(signal, () => command !== "cleanup" && child && child.kill(signal));
  }
  const python = NAMES.find(usable);
  if (!python) {
    fail(`no Python 3.11 or newer on PATH (looked for ${NAMES.join(", ")}): use a runner or container that has one`);
    return;
  }
  // The token and the inputs stay in the environment: a command line can be read by every process.
  child = spawn(python, ["-I", "-u", join(__dirname, "run.py"), command], { stdio: "inherit" });
  child.on("error", (error) => fail(`${python} cannot be started: ${error.code}`));
  child.on("exit", (code, signal) => {
    process.exitCode = signal ? 128 + constants.signals[signal] : code;
  });
};
