// Runs models in DuckDB and in ONNX Runtime: node run.js DIR writes DIR/NAME.duckdb.json and DIR/NAME.onnx.json for
// every NAME of DIR/data.json that has NAME.sql or NAME.onnx.
const fs = require("fs");
const path = require("path");
const dir = process.argv[2];

function number(v) { return Number.isFinite(v) ? v : null; }

async function onnx(ort, file, rows) {
  const session = await ort.InferenceSession.create(fs.readFileSync(file));
  const feeds = {};
  for (const name of session.inputNames) {
    const values = rows.columns[name] || rows.y;
    feeds[name] = typeof values.find((v) => v !== null) === "string"
      ? new ort.Tensor("string", values, [values.length])
      : new ort.Tensor("float64", Float64Array.from(values, (v) => (v === null ? NaN : v)), [values.length]);
  }
  const out = await session.run(feeds);
  const matrix = (t) => {
    const k = t.dims[1];
    return Array.from({ length: t.dims[0] }, (_, i) => Array.from(t.data.slice(i * k, (i + 1) * k), number));
  };
  const known = (name) => out[session.outputNames.find((n) => n.startsWith(name))];
  return { mean: Array.from(known("mean").data, number), gate: matrix(known("gate")), posterior: matrix(known("posterior")) };
}

async function main() {
  const data = JSON.parse(fs.readFileSync(path.join(dir, "data.json"), "utf8"));
  const ort = require("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  const { DuckDBInstance } = require("@duckdb/node-api");
  for (const name of Object.keys(data)) {
    const at = (end) => path.join(dir, name + end);
    if (fs.existsSync(at(".onnx"))) {
      fs.writeFileSync(at(".onnx.json"), JSON.stringify(await onnx(ort, at(".onnx"), data[name])));
    }
    if (fs.existsSync(at(".sql"))) {
      const c = await (await DuckDBInstance.create(":memory:")).connect();
      await c.run(fs.readFileSync(at(".load.sql"), "utf8"));
      const result = await c.runAndReadAll(fs.readFileSync(at(".sql"), "utf8"));
      fs.writeFileSync(at(".duckdb.json"), JSON.stringify({ names: result.columnNames(), rows: result.getRows() }));
    }
  }
}

main().then(() => process.exit(0)).catch((e) => { console.error(e); process.exit(1); });
