// Figures that a reader can move, computed by formulas.js; their words are those of moved.html's
// tables, which tools/site/moved.py takes from cudasim.
"use strict";

(() => {
  const CALLS = 10; // products in a row, with a matrix of WIDTH x WIDTH
  const WIDTH = 256;
  const LEFT = 52;
  document.documentElement.classList.add("with-moved");

  const short = (number) => Number(number.toPrecision(2));
  const counted = (number) => number.toLocaleString("en");
  const inSeconds = (time) =>
    time >= 1e-3 ? `≈ ${short(time * 1e3)} ms` : `≈ ${short(time * 1e6)} µs`;
  const inGigaflops = (speed) => `≈ ${counted(short(speed / 1e9))} GFLOP/s`;
  const text = (x, y, words, kind = "") => `<text x="${x}" y="${y}" class="${kind}">${words}</text>`;

  // Ten products in a row: Python launches one after the other, and so the GPU computes them.
  function batch({ size, sheet, wide }) {
    const work = formulas.costs.matmul({ batch: 1, m: size, n: WIDTH, k: WIDTH }, "float32");
    const launch = formulas.launchSeconds(work, sheet);
    const kernel = formulas.kernelSeconds(work, sheet);
    const starts = [];
    let end = 0;
    for (let call = 1; call <= CALLS; call++) {
      starts.push(Math.max(call * launch, end));
      end = starts.at(-1) + kernel;
    }
    const python = launch > kernel;
    const x = (time) => LEFT + (time / end) * (wide - LEFT - 4);
    const bar = (kind, y, from, takes) =>
      `<rect class="${kind}" x="${x(from)}" y="${y}" width="${Math.max(1, x(takes) - LEFT)}" height="26"/>`;
    const launches = starts.map((_, call) => bar("host", 8, call * launch, launch));
    const kernels = starts.map((start) => bar("gpu0", 44, start, kernel));
    const scale = text(LEFT, 90, "0") + text(wide - 4, 90, inSeconds(end), "end");
    return {
      said:
        `${counted(size)} rows: Python launches for ${inSeconds(CALLS * launch)}, the GPU works for ` +
        `${inSeconds(CALLS * kernel)}, ${inSeconds(end)} in all: ${counted(short(size / end))} rows ` +
        `a second. ${python ? "Python" : "The GPU"} is the limit.`,
      high: 96,
      drawn: text(0, 26, "Python") + text(0, 62, "GPU") + launches.join("") + kernels.join("") + scale,
    };
  }

  const LIMITS = { launch: "The launch", memory: "Memory", compute: "Arithmetic" };

  // A point under the roof of the card's data sheet; both axes are logarithmic.
  function roofline({ size, sheet, operation, wide }) {
    const sizes = { batch: 1, m: size, n: size, k: size, rows: size, columns: size };
    const kind = operation === "X @ Y" ? "matmul" : "pointwise";
    const work = formulas.costs[kind](sizes, "float32");
    const { computing, intensity, bound } = formulas.predict(work, sheet, "device");
    const speed = work.flops / computing;
    const [low, high, slow, fast, bottom] = [-2, 4, 7, 14, 230];
    const x = (value) => LEFT + ((Math.log10(value) - low) / (high - low)) * (wide - LEFT - 8);
    const y = (value) => bottom - ((Math.log10(value) - slow) / (fast - slow)) * (bottom - 8);
    const powers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
    const columns = powers(low, high).map(
      (at) => `<path d="M${x(at)} 8V${bottom}"/>${text(x(at), bottom + 18, counted(at), at === 10 ** high ? "end" : "middle")}`,
    );
    const rows = powers(slow, fast).map((at, i) => {
      const words = i % 2 ? text(LEFT - 4, y(at) + 4, counted(at / 1e9), "end") : "";
      return `<path d="M${LEFT} ${y(at)}H${wide - 8}"/>${words}`;
    });
    const [peak, bandwidth] = [sheet.peak.float32, sheet.bandwidth];
    const roof = `M${x(10 ** low)} ${y(10 ** low * bandwidth)}L${x(peak / bandwidth)} ${y(peak)}H${wide - 8}`;
    return {
      said:
        `${operation}, n = ${counted(size)}: ${short(intensity)} operations a byte, ` +
        `${inGigaflops(speed)} of ${counted(short(peak / 1e9))}. ${LIMITS[bound]} is the limit.`,
      high: bottom + 44,
      drawn:
        `<g class="grid">${columns.join("")}${rows.join("")}</g><path class="roof" d="${roof}"/>` +
        `<circle cx="${x(intensity)}" cy="${y(speed)}" r="7"/>` +
        text((LEFT + wide) / 2, bottom + 38, "operations a byte", "middle") +
        text(LEFT + 6, 22, "GFLOP/s"),
    };
  }

  const FIGURES = { batch, roofline };

  function start(box) {
    const { cards } = JSON.parse(box.querySelector("script").textContent);
    const [form, svg] = [box.querySelector("form"), box.querySelector("svg")];
    const { size, card, operation } = form.elements;
    const sizes = size.dataset.sizes.split(" ").map(Number);

    function draw() {
      const chosen = sizes[size.value];
      const sheet = cards[card.selectedIndex];
      const wide = svg.clientWidth;
      const figure = FIGURES[box.dataset.figure];
      const found = figure({ size: chosen, sheet, operation: operation?.value, wide });
      form.querySelector("b").textContent = counted(chosen);
      size.setAttribute("aria-valuetext", counted(chosen));
      box.querySelector("output").textContent = `${found.said} Modelled for the ${sheet.name}.`;
      svg.setAttribute("aria-label", found.said);
      svg.setAttribute("height", found.high);
      svg.innerHTML = found.drawn;
    }

    box.querySelector("details").open = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", draw);
    size.addEventListener("keydown", (event) => event.stopPropagation()); // the theme turns pages
    new ResizeObserver(draw).observe(svg);
  }

  document.querySelectorAll(".moved").forEach(start);
})();
