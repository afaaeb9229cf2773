// Seconds from flops and bytes: `cudasim/timing/formulas.py` and `cudasim/clock/costs.py` again, so
// that a page can compute. tests/site/test_calculator.py compares every case in both.
"use strict";

const formulas = (() => {
  // What one operation does: its kind, flops, bytes (read and written), precision, kernels and, of
  // a product, its shape (batch, m, n, k). `operands` are the bytes of each tensor that it reads.
  const BYTES = { float64: 8, float32: 4, tf32: 4, float16: 2, bfloat16: 2 };

  function workOf(kind, flops, reads, writes, precision, shape = null) {
    const operands = reads.map((count) => count * BYTES[precision]);
    const bytes = operands.reduce((sum, each) => sum + each, 0) + writes * BYTES[precision];
    return { kind, flops, bytes, precision, kernels: 1, shape, operands };
  }

  const costs = {
    matmul: ({ batch, m, n, k }, precision) =>
      workOf("matmul", 2 * batch * m * n * k, [batch * m * k, batch * k * n], batch * m * n,
        precision, [batch, m, n, k]),
    pointwise: ({ rows, columns }, precision) =>
      workOf("pointwise", rows * columns, [rows * columns, rows * columns], rows * columns,
        precision),
    reduction: ({ rows, columns }, precision) =>
      workOf("reduction", rows * columns, [rows * columns], rows, precision),
    softmax: ({ rows, columns }, precision) =>
      workOf("reduction", 5 * rows * columns, [rows * columns], rows * columns, precision),
    convolution: ({ images, channels, filters, side, kernel }, precision) => {
      const pixels = images * (side - kernel + 1) ** 2;
      const window = channels * kernel ** 2;
      return workOf("convolution", 2 * pixels * filters * window,
        [images * channels * side ** 2, filters * window], pixels * filters, precision);
    },
    copy: ({ rows, columns }, precision) =>
      workOf("copy", 0, [rows * columns], rows * columns, precision),
  };

  // The peaks, by precision, that work of a kind can reach.
  function peaksOf(work, sheet) {
    return ["matmul", "convolution"].includes(work.kind) ? sheet.peak : sheet.vector;
  }

  // [seconds that computing needs, seconds that memory needs] for work on a card.
  function bounds(work, sheet) {
    const peak = peaksOf(work, sheet)[work.precision] || sheet.vector.float32;
    const computing = work.flops / (peak * (sheet.efficiency[work.kind] ?? 1));
    return [computing, work.bytes / (sheet.bandwidth * sheet.efficiency.memory)];
  }

  // Seconds that work takes on a card, once its stream has come to it.
  function kernelSeconds(work, sheet) {
    return Math.max(...bounds(work, sheet), sheet.floor * work.kernels);
  }

  // Seconds to copy `size` bytes. `kind`: pinned, pageable (either way), peer, or device.
  function copySeconds(size, sheet, kind) {
    if (kind === "device") {
      const moved = (2 * size) / (sheet.bandwidth * sheet.efficiency.memory);
      return Math.max(moved, sheet.floor);
    }
    if (kind === "peer") return sheet.peer.latency + size / sheet.peer.bandwidth;
    return sheet.link.latency + size / sheet.link[kind];
  }

  // Seconds until the host can call the next operation, or the least that the kernels take.
  function launchSeconds(work, sheet, host) {
    return Math.max(host.operation + sheet.launch * work.kernels, sheet.floor * work.kernels);
  }

  // What the page shows: seconds by their cause, the longest of which is the limit, and the
  // figures of the roofline in flop/byte, flop/s and bytes/s. A copy computes nothing.
  function predict(work, sheet, host, link) {
    const moving = work.operands.reduce((sum, size) => sum + copySeconds(size, sheet, link), 0);
    const moved = work.operands.reduce((sum, size) => sum + size, 0);
    const far = 2 ** 60; // bytes, beside which a latency is nothing
    const speed = { link: far / (copySeconds(2 * far, sheet, link) - copySeconds(far, sheet, link)) };
    if (work.kind === "copy") return { moving, moved, computing: 0, limit: "link", speed };
    const [compute, memory] = bounds(work, sheet);
    const needs = { launch: launchSeconds(work, sheet, host), memory, compute };
    const longest = Object.keys(needs).reduce((one, two) => (needs[two] > needs[one] ? two : one));
    const computing = Math.max(kernelSeconds(work, sheet), needs.launch);
    speed.peak = work.flops / compute;
    speed.memory = work.bytes / memory;
    const limit = moving > computing ? "link" : longest;
    const intensity = work.flops / work.bytes;
    return { moving, moved, computing, ...needs, longest, limit, intensity, speed };
  }

  return { costs, peaksOf, bounds, kernelSeconds, copySeconds, launchSeconds, predict };
})();
