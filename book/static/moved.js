// Figures that a reader can move: their formulas are those of formulas.js, of scaling-model.js and
// of the allocator's, each as cudasim has it. tests/site/test_moved.py compares.
"use strict";

(() => {
  const CALLS = 10; // products in a row, with a matrix of WIDTH x WIDTH
  const WIDTH = 256;
  const LEFT = 52;
  document.documentElement.classList.add("with-moved");

  const short = (number) => Number(number.toPrecision(2));
  const counted = (number) => number.toLocaleString("en");
  const inSeconds = (time) => `≈\u00a0${short(time * 1e3)}\u00a0ms`; // on one line
  const inGigaflops = (speed) => `≈\u00a0${counted(short(speed / 1e9))}\u00a0GFLOP/s`;
  const joined = (one, two) => (two ? tr("{0} {1}", one, two) : one); // sentences
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
      said: joined(
        tr(
          "{0} rows: Python launches for {1}, the GPU works for {2}, {3} in all: {4} rows per second.",
          counted(size),
          inSeconds(CALLS * launch),
          inSeconds(CALLS * kernel),
          inSeconds(end),
          counted(short(size / end)),
        ),
        python ? tr("Python is the limit.") : tr("The GPU is the limit."),
      ),
      high: 96,
      drawn: text(0, 26, "Python") + text(0, 62, "GPU") + launches.join("") + kernels.join("") + scale,
    };
  }

  const LIMITS = {
    launch: tr("The launch is the limit."),
    memory: tr("Memory is the limit."),
    compute: tr("Arithmetic is the limit."),
  };

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
    const columns = powers(low, high).map((at, i) => {
      const words = text(x(at), bottom + 18, counted(at), at === 10 ** high ? "end" : "middle");
      return `<path d="M${x(at)} 8V${bottom}"/>${i % 2 && wide < 480 ? "" : words}`;
    });
    const rows = powers(slow, fast).map((at, i) => {
      const words = i % 2 ? text(LEFT - 4, y(at) + 4, counted(at / 1e9), "end") : "";
      return `<path d="M${LEFT} ${y(at)}H${wide - 8}"/>${words}`;
    });
    const [peak, bandwidth] = [sheet.peak.float32, sheet.bandwidth];
    const roof = `M${x(10 ** low)} ${y(10 ** low * bandwidth)}L${x(peak / bandwidth)} ${y(peak)}H${wide - 8}`;
    return {
      said: joined(
        tr(
          "{0}, n = {1}: {2} operations per byte, {3} of {4}.",
          operation,
          counted(size),
          counted(short(intensity)),
          inGigaflops(speed),
          counted(short(peak / 1e9)),
        ),
        LIMITS[bound],
      ),
      high: bottom + 44,
      drawn:
        `<g class="grid">${columns.join("")}${rows.join("")}</g><path class="roof" d="${roof}"/>` +
        `<circle cx="${x(intensity)}" cy="${y(speed)}" r="7"/>` +
        text((LEFT + wide) / 2, bottom + 38, tr("operations per byte"), "middle") +
        text(LEFT + 6, 22, "GFLOP/s"),
    };
  }

  // Tensors of one size, side by side in the segment that the first of them makes PyTorch take.
  function blocks({ size, given: { sizes }, wide }) {
    const whole = (count, grain) => Math.ceil(count / grain) * grain;
    const cut = whole(size, sizes.BLOCK);
    const shared = cut <= sizes.SMALL ? sizes.SMALL_SEGMENT : sizes.LARGE_SEGMENT;
    const segment = cut < sizes.HUGE ? shared : whole(cut, sizes.ROUNDING);
    const apart = cut <= sizes.SMALL || segment - cut > sizes.SMALL; // else the rest stays with it
    const block = apart ? cut : segment;
    const fit = Math.floor(segment / block);
    const x = (bytes) => 2 + (bytes / segment) * (wide - 4);
    const drawn = Array.from({ length: Math.min(fit, 64) }, (_, i) => {
      const place = `x="${x(i * block)}" y="26" height="34"`;
      return (
        `<rect class="gpu0" ${place} width="${x(block) - 2}" opacity="0.35"/>` +
        `<rect class="gpu0" ${place} width="${x(size) - 2}"/>`
      );
    });
    return {
      said: joined(
        tr(
          "A tensor of {0} bytes takes a block of {1}. The segment for it has {2} MiB; tensors of this size that fit into it: {3}.",
          counted(size),
          counted(block),
          counted(segment / 2 ** 20),
          counted(fit),
        ),
        fit > 64 && tr("64 of them are drawn."),
      ),
      high: 68,
      drawn:
        text(2, 16, tr("segment, {0} MiB", counted(segment / 2 ** 20))) +
        `<rect class="frame" x="1" y="25" width="${wide - 2}" height="36"/>${drawn.join("")}`,
    };
  }

  // What each rank sends in the two halves of an all-reduce, of as many parts as there are ranks.
  function ring({ size, given, link, wide }) {
    const inside = given.links[link];
    const taken = scalingModel.allReduceSeconds(given.bytes, { gpus: size, server: size, inside });
    const megabytes = (bytes) => `${short(bytes / 1e6)} MB`;
    const part = (wide - LEFT * 2 - 4) / size;
    const half = (words, y) =>
      text(0, y + 18, words) +
      Array.from({ length: size }, (_, i) => {
        const kind = i < size - 1 ? "gpu0" : "frame";
        return `<rect class="${kind}" x="${LEFT * 2 + i * part}" y="${y}" width="${part}" height="26"/>`;
      }).join("");
    const sent = (2 * (size - 1) * given.bytes) / size;
    return {
      said:
        tr(
          "{0} ranks: each sends {1} parts of {2}, {3} in all of gradients of {4}. That takes {5}.",
          size,
          2 * (size - 1),
          megabytes(given.bytes / size),
          megabytes(sent),
          megabytes(given.bytes),
          inSeconds(taken),
        ),
      high: 76,
      drawn: half("reduce-scatter", 4) + half("all-gather", 40),
    };
  }

  const FIGURES = { batch, roofline, blocks, ring };

  function start(box) {
    const given = JSON.parse(box.querySelector("script").textContent);
    const [form, svg] = [box.querySelector("form"), box.querySelector("svg")];
    const { size, card, link, operation } = form.elements;
    const sizes = size.dataset.sizes.split(" ").map(Number);

    function draw() {
      const chosen = sizes[size.value];
      const wide = svg.clientWidth;
      const found = FIGURES[box.dataset.figure]({
        given,
        size: chosen,
        sheet: given.cards?.[card.selectedIndex],
        link: link?.selectedIndex,
        operation: operation?.value,
        wide,
      });
      const whose = (card ?? link)?.selectedOptions[0].text;
      form.querySelector("b").textContent = counted(chosen);
      size.setAttribute("aria-valuetext", counted(chosen));
      box.querySelector("output").textContent = joined(found.said, whose && tr("Modelled for {0}.", whose));
      svg.setAttribute("aria-label", found.said);
      svg.setAttribute("height", found.high);
      // In a folded section it has no width. It is drawn when the section is opened.
      svg.innerHTML = wide ? found.drawn : "";
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", draw);
    size.addEventListener("keydown", (event) => event.stopPropagation()); // the theme turns pages
    new ResizeObserver(draw).observe(svg);
  }

  document.querySelectorAll(".moved").forEach(start);
})();
