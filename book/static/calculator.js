// The calculator: reads its form, computes with formulas.js, and draws. The address of the page
// holds the case, after its #.
"use strict";

(() => {
  const root = document.querySelector(".calculator");
  const form = root.querySelector("form");
  const { cards } = JSON.parse(document.getElementById("sheets").textContent);
  const CHOICES = ["card", "link", "operation", "precision"];
  const find = (selector) => root.querySelector(selector);

  // Numbers as text: three digits and a unit.

  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

  function scaled(value, base, units) {
    let step = 0;
    for (; value >= 0.9995 * base && step < units.length - 1; step += 1) value /= base;
    return `${digits.format(value)} ${units[step]}`;
  }

  const withPrefix = (value, unit) => scaled(value, 1000, PREFIXES.map((each) => each + unit));
  const inBytes = (size) => scaled(size, 1024, ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
  const inSeconds = (seconds) => scaled(seconds * 1e9, 1000, ["ns", "µs", "ms", "s"]);
  const inSpeed = (speed) => withPrefix(speed, "FLOP/s");
  const inIntensity = (intensity) => `${digits.format(intensity)} FLOP/byte`;

  // The form.

  const sizesInUse = () => form.elements.operation.selectedOptions[0]?.dataset.sizes.split(" ") ?? [];

  function say(name, fault) {
    find(`#fault-${name}`).textContent = fault;
    form.elements[name].setAttribute("aria-invalid", String(fault !== ""));
  }

  function sizeFault(text) {
    if (!text) return "Empty: write a whole number from 1.";
    if (!/^[-+]?\d+$/.test(text)) return `"${text}" is no whole number: write digits only.`;
    if (Number(text) < 1) return `${text} is too small: the least is 1.`;
    if (Number(text) > Number.MAX_SAFE_INTEGER) return "Too large: beyond 2^53 numbers are not exact.";
    return "";
  }

  // The case that the form holds. If it holds none: null, with a word at each field that is wrong.
  function readCase() {
    const [, link, operation, precision] = CHOICES.map((name) => form.elements[name].value);
    const texts = sizesInUse().map((name) => [name, form.elements[name].value.trim()]);
    for (const [name, text] of texts) say(name, sizeFault(text));
    for (const name of CHOICES) if (form.elements[name].value) say(name, "");
    if (form.querySelector('[aria-invalid="true"]')) return null;
    const sizes = Object.fromEntries(texts.map(([name, text]) => [name, Number(text)]));
    const sheet = cards[form.elements.card.selectedIndex];
    const work = formulas.costs[operation](sizes, precision);
    const comes = operation === "copy" && link !== "device"; // only the copy is on the card
    const needed = comes ? work.operands[0] : work.held;
    if (sizes.kernel > sizes.side) {
      say("kernel", `Larger than the image: ${sizes.side} is the most.`);
      return null;
    }
    if (needed > sheet.memory) {
      const largest = Object.keys(sizes).reduce((a, b) => (sizes[b] > sizes[a] ? b : a));
      const has = `the ${sheet.name} has ${inBytes(sheet.memory)}`;
      say(largest, `Does not fit: this needs ${inBytes(needed)}, and ${has}.`);
      return null;
    }
    return { link, precision, sheet, work };
  }

  function showFields() {
    const used = sizesInUse();
    for (const box of root.querySelectorAll("[data-size]")) {
      box.hidden = !used.includes(box.dataset.size);
      if (box.hidden) say(box.dataset.size, "");
    }
  }

  // The address: #card-T4_link-pinned_operation-matmul_precision-float32_batch-1_m-64 and so on,
  // of letters that an id may have, for the theme looks for what each link's # names.

  function writeAddress() {
    const names = [...CHOICES, ...sizesInUse()];
    const pairs = names.map((name) => `${name}-${form.elements[name].value.trim()}`);
    history.replaceState(null, "", `#${pairs.join("_")}`);
  }

  function readAddress() {
    const asked = location.hash.slice(1).split("_").filter((pair) => pair.includes("-"));
    const pairs = asked.map((pair) => [pair.split("-", 1)[0], pair.slice(pair.indexOf("-") + 1)]);
    if (!pairs.some(([name]) => name === "operation")) return; // a heading's, or none
    for (const [name, text] of pairs) {
      const control = form.elements.namedItem(name);
      if (!control) continue;
      control.value = text;
      if (control.selectedIndex === -1) say(name, `There is no "${text}": choose one of the list.`);
    }
  }

  // The drawings, as text of SVG.

  function bars(width, { moving, computing }) {
    const longest = Math.max(moving, computing);
    const bar = (name, kind, seconds, top) => {
      const length = seconds && Math.max(1, (seconds / longest) * width);
      return `<text y="${top + 14}">${name}: ${seconds ? inSeconds(seconds) : "none"}</text>
        <rect class="${kind}" y="${top + 22}" width="${length}" height="16"/>`;
    };
    return bar("Moving", "moving", moving, 0) + bar("Computing", "computing", computing, 52);
  }

  const decades = (low, high) => {
    const first = Math.floor(Math.log10(low));
    const count = Math.ceil(Math.log10(high)) - first + 1;
    return Array.from({ length: count }, (_, step) => first + step);
  };
  const tick = (power) => (power < 0 ? String(10 ** power) : withPrefix(10 ** power, "").trim());

  // Two roofs, each from its slope (bytes/s) to the peak (flop/s), and the two points under them.
  function roofline(width, height, { speed, points }) {
    const left = 68, right = width - 16, top = 12, bottom = height - 48;
    const places = Object.values(points);
    const ridges = [speed.peak / speed.memory, speed.peak / speed.link];
    const xs = [...places.map(([x]) => x), ...ridges];
    const ys = places.map(([, y]) => y);
    const across = decades(Math.min(0.1, ...xs), 3 * Math.max(...xs));
    const up = decades(Math.min(speed.peak / 1e4, ...ys), 2 * speed.peak);
    const along = (value, powers, from, to) =>
      from + ((Math.log10(value) - powers[0]) / (powers.at(-1) - powers[0])) * (to - from);
    const x = (value) => Number(along(value, across, left, right).toFixed(1));
    const y = (value) => Number(along(value, up, bottom, top).toFixed(1));

    const everyX = Math.ceil((44 * across.length) / (right - left));
    const everyY = Math.ceil((22 * up.length) / (bottom - top));
    const columns = across.map((power, step) => {
      const text = `<text x="${x(10 ** power)}" y="${bottom + 18}" class="middle">${tick(power)}</text>`;
      return `<path d="M${x(10 ** power)} ${top}V${bottom}"/>${step % everyX ? "" : text}`;
    });
    const rows = up.map((power, step) => {
      const text = `<text x="${left - 6}" y="${y(10 ** power) + 5}" class="end">${tick(power)}</text>`;
      return `<path d="M${left} ${y(10 ** power)}H${right}"/>${step % everyY ? "" : text}`;
    });
    const roof = (kind, slope) => {
      const start = Math.max(10 ** across[0], 10 ** up[0] / slope);
      const ridge = `${x(speed.peak / slope)} ${y(speed.peak)}`;
      return `<path class="${kind}" d="M${x(start)} ${y(start * slope)}L${ridge}H${right}"/>`;
    };
    const mark = {
      computing: (at) => `<circle class="computing" cx="${x(at[0])}" cy="${y(at[1])}" r="5.5"/>`,
      moving: (at) => `<path class="moving" d="M${x(at[0])} ${y(at[1]) - 7}l7 7-7 7-7-7z"/>`,
    };
    return `<g class="grid">${columns.join("")}${rows.join("")}</g>
      <text class="middle" x="${(left + right) / 2}" y="${height - 8}">Arithmetic intensity,
        FLOP/byte</text>
      <text class="middle" transform="translate(14 ${(top + bottom) / 2}) rotate(-90)">Speed,
        FLOP/s</text>
      <path class="ridge" d="M${x(ridges[0])} ${y(speed.peak)}V${bottom}"/>
      <text x="${x(ridges[0]) - 5}" y="${bottom - 6}" class="end">ridge</text>
      ${roof("link", speed.link)}${roof("roof", speed.memory)}
      ${Object.entries(points).map(([kind, at]) => mark[kind](at)).join("")}`;
  }

  // The results.

  const NAMES = { launch: "Launching", memory: "The card's memory", compute: "Arithmetic" };

  function verdict({ moving, computing, bound, limit }) {
    if (!bound) return "The link is the limit, for a copy computes nothing.";
    const ratio = digits.format(Math.max(moving, computing) / Math.min(moving, computing));
    if (limit !== "link") return `${NAMES[limit]} is the limit: computing takes ${ratio} times as long.`;
    const then = NAMES[bound].toLowerCase();
    return `The link is the limit: moving takes ${ratio} times as long. After it comes ${then}.`;
  }

  function fillTable(work, found) {
    const copies = work.operands.length === 1 ? "one copy" : `${work.operands.length} copies`;
    const rows = {
      moving: [`${inBytes(found.moved)} in ${copies}`, found.moving],
      launch: ["the call by the host", found.launch],
      start: ["of the kernel, whatever its work", found.start],
      memory: [`${inBytes(work.bytes)} read and written`, found.memory],
      compute: [withPrefix(work.flops, "FLOP"), found.compute],
      computing: ["start and the longer need, or launch", found.computing],
    };
    const limits = [found.bound, found.limit === "link" && "moving"];
    for (const [name, [amount, seconds]] of Object.entries(rows)) {
      const [much, time] = root.querySelectorAll(`[data-row="${name}"] td`);
      const none = seconds === undefined || seconds === 0;
      much.textContent = none ? "" : amount;
      time.textContent = none ? "none" : inSeconds(seconds);
      time.parentNode.classList.toggle("limit", limits.includes(name));
    }
  }

  function draw(work, found, label) {
    const { moving, computing, moved, speed, intensity } = found;
    const [chart, plot] = [find(".bars"), find(".roofline")];
    chart.innerHTML = bars(chart.clientWidth, found);
    const bar = computing ? `computing ${inSeconds(computing)}` : "computing none";
    chart.setAttribute("aria-label", `Two bars: moving ${inSeconds(moving)}, ${bar}. ${label}.`);

    const points = computing
      ? {
          computing: [intensity, work.flops / computing],
          moving: [work.flops / moved, work.flops / (moving + computing)],
        }
      : {};
    plot.innerHTML = roofline(plot.clientWidth, plot.clientHeight, { speed, points });
    const at = ([x, y]) => `${inIntensity(x)}, ${inSpeed(y)}`;
    const texts = {
      roof:
        `Roof of the card: memory at ${withPrefix(speed.memory, "B/s")} up to the ridge, ` +
        `${inIntensity(speed.peak / speed.memory)}; then arithmetic at ${inSpeed(speed.peak)}`,
      link: `Roof of the link: ${withPrefix(speed.link, "B/s")}`,
      computing: computing ? `Computing: ${at(points.computing)}` : "Computing: none",
      moving: computing ? `Moving, then computing: ${at(points.moving)}` : "No point for a copy",
    };
    for (const [name, text] of Object.entries(texts)) {
      find(`[data-legend="${name}"]`).textContent = text;
    }
    const described = Object.values(texts).join(". ");
    plot.setAttribute("aria-label", `Roofline. ${described}. ${label}.`);
  }

  // What the sheet lacks for this precision.
  function lack({ precision, sheet, work }) {
    if (work.kind === "copy") return "";
    if (work.precision !== precision) return ` Only products have ${precision}: ${work.precision} counts.`;
    const peaks = work.shape ? sheet.peak : sheet.vector;
    return precision in peaks ? "" : ` Its sheet has no ${precision} for this: float32 counts.`;
  }

  const withArticle = (name) => `${/^(A|H|R)/.test(name) ? "an" : "a"} ${name}`; // an H100, a T4

  function show(chosen) {
    const { link, sheet, work } = chosen;
    const found = formulas.predict(work, sheet, link);
    const label = `Modelled for ${withArticle(sheet.name)}, not measured`;
    const { moving, computing } = found;
    const compute = computing ? `computing ${inSeconds(computing)}` : "nothing is computed";
    find("output").textContent =
      `${label}: moving takes ${inSeconds(moving)}, ${compute}. ${verdict(found)}`;
    find(".note").textContent = `The model of the ${sheet.name}: ${sheet.validation}.${lack(chosen)}`;
    for (const box of root.querySelectorAll("caption, figcaption")) {
      box.textContent = `${box.dataset.title}. ${label}.`;
    }
    fillTable(work, found);
    draw(work, found, label);
  }

  function clear() {
    find("output").textContent = "No result: mend what is marked above.";
    for (const box of root.querySelectorAll(".note, caption, figcaption, td, .legend span, figure > svg")) {
      box.textContent = "";
      box.removeAttribute("aria-label");
    }
  }

  // Shows the case of the form, or that it holds none; says which.
  function update() {
    showFields();
    const chosen = readCase();
    find(".results").classList.toggle("empty", !chosen);
    if (chosen) show(chosen);
    else clear();
    return chosen !== null;
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    if (update()) writeAddress();
  });
  window.addEventListener("hashchange", () => {
    readAddress();
    update();
  });
  new ResizeObserver(update).observe(find(".results"));
  readAddress();
  update();
})();
