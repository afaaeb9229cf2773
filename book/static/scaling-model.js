// How data-parallel training scales: the formulas of `cudasim/timing/scaling.py` and of
// `cudasim/facts/training.py`, under the same names, where their sources are.
// tests/site/test_calculators.py compares both, case by case.
"use strict";

const scalingModel = (() => {
  const FIRST = 2 ** 20;
  const BACKWARD = 2 / 3;
  const WAITED = 0.07;
  const TREE = 0.9;

  // Seconds to add up `size` bytes of each of `gpus` GPUs, `server` in each server.
  function allReduceSeconds(size, { gpus, server, inside, between, cards }) {
    if (gpus === 1) return 0;
    const servers = Math.ceil(gpus / server);
    if (servers === 1) return 2 * (gpus - 1) * (size / gpus / inside.bandwidth + inside.latency);
    let bandwidth = between.bandwidth * cards;
    if (server > 1) bandwidth = Math.min(bandwidth, inside.bandwidth);
    let ring = (2 * (gpus - 1) * size) / gpus / bandwidth;
    ring += 2 * (gpus - servers) * inside.latency + 2 * (servers - 1) * between.latency;
    let tree = (2 * size) / (TREE * bandwidth);
    const depth = Math.ceil(Math.log2(servers));
    tree += 2 * (server - 1) * inside.latency + 2 * depth * between.latency;
    return Math.min(ring, tree);
  }

  // A step in seconds: in all, on the links, and of those not hidden by the backward pass.
  function stepOf({ step, gradients, bucket }, cluster) {
    const backward = BACKWARD * step;
    let [sent, end, communication] = [0, 0, 0];
    let size = Math.min(FIRST, bucket);
    while (sent < gradients) {
      size = Math.min(size, gradients - sent);
      sent += size;
      const seconds = allReduceSeconds(size, cluster);
      const ready = step - backward * (1 - sent / gradients);
      end = Math.max(end, ready) + seconds;
      communication += seconds;
      size = bucket;
    }
    const exposed = Math.max(0, end - step);
    return { step: step + exposed, communication, exposed };
  }

  // The efficiency if nothing is hidden and all wait for the slowest: the lower edge of the band.
  function leastEfficiency(training, cluster) {
    const waited = cluster.gpus > 1 ? WAITED * training.step : 0;
    return training.step / (training.step + waited + stepOf(training, cluster).communication);
  }

  return { allReduceSeconds, leastEfficiency, stepOf };
})();
