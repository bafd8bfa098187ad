'use strict';
// ONNX Runtime behind node's web server: peer_http_node.js PORT PROCESSES THREADS FOLDER
//
// FOLDER holds NAME.onnx, with input x and output y, and NAME.json, its shape. POST /NAME: a body of type
// application/octet-stream is one sample as little-endian floats, and so is the answer; any other is
// {"inputs": [[[...]]]}, answered by {"outputs": [[[...]]]}. NODE_PATH must lead to onnxruntime-node.
const cluster = require('cluster');
const fs = require('fs');
const http = require('http');
const path = require('path');

const [port, processes, threads] = process.argv.slice(2, 5).map(Number);
const folder = process.argv[5];
const BINARY = 'application/octet-stream';

// Floats must lie at a multiple of four to be read in place.
function floats(bytes) {
  if (bytes.byteOffset % 4 === 0) {
    return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  }
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

function flatten(rows, n) {
  const out = new Float32Array(n);
  let at = 0;
  for (const row of rows) {
    out.set(row, at);
    at += row.length;
  }
  return out;
}

function unflatten(y, [, length, width]) {
  const rows = [];
  for (let i = 0; i < length; i++) {
    rows.push(Array.from(y.subarray(i * width, (i + 1) * width)));
  }
  return [rows];
}

async function answer(ort, model, body, binary) {
  const n = model.shape.reduce((a, b) => a * b);
  const x = binary ? floats(body) : flatten(JSON.parse(body).inputs[0], n);
  const { y } = await model.session.run({ x: new ort.Tensor('float32', x, model.shape) });
  return binary ? Buffer.from(y.data.buffer, y.data.byteOffset, y.data.byteLength)
    : Buffer.from(JSON.stringify({ outputs: unflatten(y.data, model.shape) }));
}

async function serve() {
  const ort = require('onnxruntime-node');
  const models = {};
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith('.onnx'))) {
    const name = path.basename(file, '.onnx');
    models[name] = {
      shape: JSON.parse(fs.readFileSync(path.join(folder, `${name}.json`))),
      session: await ort.InferenceSession.create(path.join(folder, file),
        { intraOpNumThreads: threads, graphOptimizationLevel: 'all' }),
    };
  }
  http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', async () => {
      const binary = request.headers['content-type'] === BINARY;
      try {
        const body = parts.length === 1 ? parts[0] : Buffer.concat(parts);
        const bytes = await answer(ort, models[request.url.slice(1)], body, binary);
        response.writeHead(200, { 'Content-Type': binary ? BINARY : 'application/json', 'Content-Length': bytes.length });
        response.end(bytes);
      } catch (error) {
        const text = `${error}\n`;
        response.writeHead(400, { 'Content-Length': Buffer.byteLength(text) });
        response.end(text);
      }
    });
  }).listen(port, '127.0.0.1');
}

if (processes > 1 && cluster.isPrimary) {
  const workers = [];
  for (let i = 0; i < processes; i++) {
    workers.push(cluster.fork());
  }
  process.on('SIGTERM', () => {
    workers.forEach((worker) => worker.process.kill('SIGTERM'));
    process.exit(0);
  });
} else {
  serve();
}
