#!/usr/bin/env node
// Runs the program of the optional package for this platform.
"use strict";

const { spawn } = require("node:child_process");

const name = `facescan-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/facescan`);
} catch {
  console.error(`facescan has no program for this platform: the optional package ${name} is not installed`);
  process.exit(2);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends these to both processes, and a second one would stop a server at once.
for (const signal of ["SIGINT", "SIGHUP"]) {
  process.on(signal, () => {});
}
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("error", (error) => {
  console.error(`cannot run ${program}: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  // A shell reports a signal in the same way.
  process.exit(code ?? 128 + require("node:os").constants.signals[signal]);
});
