// Builds the page into the Python package: the same bytes from the same lock file.
//
// The built files are committed, so that the wheel can be made where Node is absent;
// tests/test_console_build.py rebuilds them and compares.

import { build, context } from "esbuild";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const given = process.argv.find((word) => word.startsWith("--out="));
const out = given ? given.slice("--out=".length) : join(here, "../src/rootguard/console/static");

const options = {
  absWorkingDir: here,
  entryPoints: { app: "src/app.js", theme: "src/theme.js" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
};

// dist/dagre.esm.js has graphlib inside it, so its licence goes along although it is not in the graph.
const ALSO = ["@dagrejs/graphlib"];

async function licences(metafile) {
  const packages = new Set(ALSO);
  for (const path of Object.keys(metafile.inputs)) {
    const found = path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  const parts = ["Code of others that app.js and app.css contain, each with its licence.\n"];
  for (const name of [...packages].sort()) {
    const home = join(here, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
    const text = await readFile(join(home, "LICENSE"), "utf8");
    parts.push(`${"=".repeat(78)}\n${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return parts.join("\n");
}

await mkdir(out, { recursive: true });
for (const name of ["index.html", "icon.svg"]) await cp(join(here, "src", name), join(out, name));

if (process.argv.includes("--watch")) {
  await (await context(options)).watch();
} else {
  const { metafile } = await build(options);
  await writeFile(join(out, "LICENSES.txt"), await licences(metafile));
}
