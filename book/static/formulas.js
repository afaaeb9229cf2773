// Seconds from flops and bytes, for the calculator: the formulas of `cudasim/timing/formulas.py`
// and the costs of `cudasim/clock/costs.py`, under the same names, where their sources are.
// tests/site/test_calculator.py compares both, case by case.
"use strict";

const formulas = (() => {
  const BYTES = { float64: 8, float32: 4, tf32: 4, float16: 2, bfloat16: 2 };
  const TILES = [[256, 128, 1.0], [128, 128, 0.95], [128, 64, 0.8], [64, 64, 0.6], [8, 64, 0.15]];
  const STEP = 256;
  const UNALIGNED = 0.6;
  const ROW = 48 * 2 ** 10;

  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
  const has16Bits = (precision) => precision.includes("float16");

  // What one operation does: `kind`, `flops`, `bytes` (read and written), `precision`, `kernels`
  // and, of a product, its `shape` (batch, m, n, k). `operands` are the bytes of what it reads,
  // each tensor by itself; `held` are those of all its tensors. `reads` and `writes` count elements.
  function workOf(kind, flops, reads, writes, precision, shape = null) {
    const operands = reads.map((count) => count * BYTES[precision]);
    const held = sum(operands) + writes * BYTES[precision];
    if (precision === "tf32" && !shape) precision = "float32"; // of products only
    return { kind, flops, bytes: held, precision, kernels: 1, shape, operands, held };
  }

  // The work of an operation by its sizes. What only moves or reads rows has rows and columns.
  const costs = {
    matmul({ batch, m, n, k }, precision) {
      const reads = [batch * m * k, batch * k * n];
      const flops = 2 * batch * m * n * k;
      return workOf("matmul", flops, reads, batch * m * n, precision, [batch, m, n, k]);
    },
    pointwise({ rows, columns }, precision) {
      const size = rows * columns;
      return workOf("pointwise", size, [size, size], size, precision);
    },
    reduction({ rows, columns }, precision) {
      return workOf("reduction", rows * columns, [rows * columns], rows, precision);
    },
    softmax({ rows, columns }, precision) {
      const size = rows * columns;
      const work = workOf("reduction", 10 * size, [size], size, precision);
      const reads = columns * BYTES[precision] > ROW ? 3 : 1;
      return { ...work, bytes: (reads + 1) * work.operands[0] };
    },
    convolution({ images, channels, filters, side, kernel }, precision) {
      const pixels = images * (side - kernel + 1) ** 2;
      const patch = channels * kernel ** 2;
      const reads = [images * channels * side ** 2, filters * patch];
      const flops = 2 * pixels * filters * patch;
      const shape = [1, pixels, filters, patch];
      const work = workOf("convolution", flops, reads, pixels * filters, precision, shape);
      const channelsLast = channels === 1 || side === 1; // in memory, as they are
      if (!has16Bits(precision) || channelsLast) return work;
      return { ...work, bytes: 3 * work.bytes, kernels: 3 };
    },
    copy({ rows, columns }, precision) {
      return workOf("copy", 0, [rows * columns], rows * columns, precision);
    },
  };

  function utilisation([batch, m, n, k], processors) {
    const shares = TILES.map(([rows, columns, share]) => {
      const tiles = batch * Math.ceil(m / rows) * Math.ceil(n / columns);
      const fit = Math.min(Math.floor(processors / tiles), Math.floor(k / STEP));
      const parts = Math.max(1, fit);
      const waves = Math.ceil((tiles * parts) / processors);
      return (share * batch * m * n * parts) / (waves * processors * rows * columns);
    });
    return Math.max(...shares);
  }

  // flop/s.
  function rate(work, sheet) {
    const shares = sheet.efficiency[work.kind];
    if (shares === undefined) return sheet.vector[work.precision] ?? sheet.vector.float32;
    const precision = work.precision in sheet.peak ? work.precision : "float32";
    let reached = sheet.peak[precision] * (shares[precision] ?? shares.float32);
    if (work.shape && Math.min(work.shape[1], work.shape[2]) > 1) {
      const [, , n, k] = work.shape;
      reached *= utilisation(work.shape, sheet.processors);
      if (has16Bits(precision) && (n % 8 || k % 8)) reached *= UNALIGNED;
    }
    return reached;
  }

  // [seconds that computing needs, seconds that memory needs].
  function bounds(work, sheet) {
    const computing = work.flops ? work.flops / rate(work, sheet) : 0;
    return [computing, work.bytes / (sheet.bandwidth * sheet.efficiency.memory)];
  }

  function kernelSeconds(work, sheet) {
    return sheet.floor * work.kernels + Math.max(...bounds(work, sheet));
  }

  // Of a copy of `size` bytes to the card.
  function copySeconds(size, sheet, kind) {
    if (kind === "device") {
      return sheet.floor + (2 * size) / (sheet.bandwidth * sheet.efficiency.memory);
    }
    if (kind === "pinned" || kind === "pageable") {
      return sheet.link.latency + size / sheet.link[`${kind}_in`];
    }
    return sheet.peer.latency + size / sheet.peer[kind === "peer" ? "bandwidth" : kind];
  }

  // Until the host can call the next operation.
  function launchSeconds(work, sheet) {
    const { operation, setup } = sheet.host;
    return operation + (setup[work.kind] ?? 0) + sheet.launch * work.kernels;
  }

  // What the page shows of one call of many in a row: seconds by what needs them, which of these
  // is the limit, and for the roofline bytes/s and flop/s. A copy computes nothing.
  function predict(work, sheet, link) {
    const moved = sum(work.operands);
    const moving = sum(work.operands.map((size) => copySeconds(size, sheet, link)));
    const far = 2 ** 60; // bytes, beside which a latency is nothing
    const speed = { link: far / (copySeconds(far, sheet, link) - copySeconds(0, sheet, link)) };
    const [compute, memory] = bounds(work, sheet);
    speed.memory = work.bytes / memory;
    speed.peak = rate(work, sheet);
    if (work.kind === "copy") return { moved, moving, computing: 0, limit: "link", speed };
    const launch = launchSeconds(work, sheet);
    const start = sheet.floor * work.kernels;
    const busy = kernelSeconds(work, sheet);
    const computing = Math.max(launch, busy);
    const small = launch >= busy || start >= Math.max(compute, memory);
    const bound = small ? "launch" : compute > memory ? "compute" : "memory";
    const limit = moving > computing ? "link" : bound;
    const intensity = work.flops / work.bytes;
    const needs = { launch, start, memory, compute };
    return { moved, moving, computing, ...needs, bound, limit, intensity, speed };
  }

  return { costs, utilisation, rate, bounds, kernelSeconds, copySeconds, launchSeconds, predict };
})();
