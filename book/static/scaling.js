// The calculator of scaling: reads its form, computes with scaling-model.js, and draws. The address
// of the page holds the case, after its #, with p for the point of a number: the theme looks for
// what each link's # names.
"use strict";

(() => {
  const root = document.querySelector(".calculator.scaling");
  const form = root.querySelector("form");
  const links = JSON.parse(document.getElementById("links").textContent);
  const find = (selector) => root.querySelector(selector);
  const CHOICES = ["inside", "between", "type"];
  const LIMITS = {
    // What each field holds: whole numbers or not, the least and the most.
    parameters: [true, 1, 1e12],
    batch: [true, 1, 1e9],
    step: [false, 0.001, 1e9],
    bucket: [false, 0.1, 1e6],
    gpus: [true, 1, 1024],
    server: [true, 1, 1024],
    cards: [true, 1, 64],
  };
  const MOST = 1e5; // buckets of a step: more would keep the page busy

  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const samples = (speed) => (speed < 100 ? digits : whole).format(speed);
  const percent = (share) => `${digits.format(100 * share)} %`;

  function inSeconds(seconds) {
    if (seconds === 0) return "none";
    const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
    const [size, unit] = units.find(([each]) => seconds >= 0.9995 * each) ?? units.at(-1);
    return `${digits.format(seconds / size)} ${unit}`;
  }

  // The form.

  function say(name, fault) {
    find(`#fault-${name}`).textContent = fault;
    form.elements[name].setAttribute("aria-invalid", String(fault !== ""));
  }

  function faultOf(name, text) {
    const [isWhole, least, most] = LIMITS[name];
    const kind = isWhole ? "whole number" : "number";
    if (!text) return `Empty: write a ${kind} from ${least}.`;
    const form = isWhole ? /^[-+]?\d+$/ : /^[-+]?(\d+\.?\d*|\.\d+)$/;
    if (!form.test(text)) return `"${text}" is no ${kind}: write digits${isWhole ? "" : " and a point"} only.`;
    if (Number(text) < least) return `${text} is too small: the least is ${least}.`;
    if (Number(text) > most) return `${text} is too large: the most is ${whole.format(most)}.`;
    return "";
  }

  const linkOf = (where) => links[where].find(({ id }) => id === form.elements[where].value);

  // The case that the form holds. If it holds none: null, with a word at each field that is wrong.
  function readCase() {
    const texts = Object.keys(LIMITS).map((name) => [name, form.elements[name].value.trim()]);
    for (const [name, text] of texts) say(name, faultOf(name, text));
    for (const name of CHOICES) if (form.elements[name].value) say(name, "");
    if (form.querySelector('[aria-invalid="true"]')) return null;
    const values = Object.fromEntries(texts.map(([name, text]) => [name, Number(text)]));
    const gradients = values.parameters * Number(form.elements.type.value);
    const bucket = values.bucket * 2 ** 20;
    if (gradients / bucket > MOST) {
      say("bucket", `Too small: more than ${whole.format(MOST)} buckets a step.`);
      return null;
    }
    const { batch, gpus, server, cards } = values;
    return {
      batch,
      training: { step: values.step / 1000, gradients, bucket },
      cluster: { gpus, server, cards, inside: linkOf("inside"), between: linkOf("between") },
    };
  }

  function writeAddress() {
    const names = [...Object.keys(LIMITS), ...CHOICES];
    const text = (name) => form.elements[name].value.trim().replace(".", "p");
    const pairs = names.map((name) => `${name}-${text(name)}`);
    history.replaceState(null, "", `#${pairs.join("_")}`);
  }

  function readAddress() {
    const asked = location.hash.slice(1).split("_").filter((pair) => pair.includes("-"));
    const pairs = asked.map((pair) => [pair.split("-", 1)[0], pair.slice(pair.indexOf("-") + 1)]);
    if (!pairs.some(([name]) => name === "gpus")) return; // a heading's, or none
    for (const [name, text] of pairs) {
      const control = form.elements.namedItem(name);
      if (!control) continue;
      control.value = name in LIMITS ? text.replace("p", ".") : text;
      if (control.selectedIndex === -1) say(name, `There is no "${text}": choose one of the list.`);
    }
  }

  // The drawing: efficiency from 1 to 1,024 GPUs over these links, and the case as a point.

  function curve(width, height, { training, cluster }) {
    const left = 52, right = width - 16, top = 12, bottom = height - 44;
    const counts = Array.from({ length: 11 }, (_, power) => 2 ** power);
    const share = (gpus) => training.step / scalingModel.stepOf(training, { ...cluster, gpus }).step;
    const x = (gpus) => Number((left + (Math.log2(gpus) / 10) * (right - left)).toFixed(1));
    const y = (part) => Number((top + (1 - part) * (bottom - top)).toFixed(1));
    const every = right - left < 420 ? 2 : 1;
    const rows = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
      (part) => `<path d="M${left} ${y(part)}H${right}"/>
        <text class="end" x="${left - 6}" y="${y(part) + 5}">${100 * part} %</text>`,
    );
    const columns = counts.map((gpus, place) => {
      const text = whole.format(gpus);
      return place % every ? "" : `<text class="middle" x="${x(gpus)}" y="${bottom + 18}">${text}</text>`;
    });
    const least = (gpus) => scalingModel.leastEfficiency(training, { ...cluster, gpus });
    const edge = (of) => counts.map((gpus) => `${x(gpus)} ${y(of(gpus))}`);
    const line = edge(share).join("L");
    const band = [...edge(share), ...edge(least).reverse()].join("L");
    const { gpus } = cluster;
    return `<g class="grid">${rows.join("")}${columns.join("")}</g>
      <text class="middle" x="${(left + right) / 2}" y="${height - 6}">GPUs</text>
      <path class="band" d="M${band}Z"/>
      <path class="roof" d="M${line}"/>
      <circle class="computing" cx="${x(gpus)}" cy="${y(share(gpus))}" r="6"/>`;
  }

  // The results.

  const LABEL = "Modelled, not measured";

  function show(chosen) {
    const { batch, training, cluster } = chosen;
    const found = scalingModel.stepOf(training, cluster);
    const alone = training.step;
    const efficiency = alone / found.step;
    const least = scalingModel.leastEfficiency(training, cluster);
    const speed = (cluster.gpus * batch) / found.step;
    const gpus = cluster.gpus === 1 ? "1 GPU" : `${whole.format(cluster.gpus)} GPUs`;
    const hidden = found.exposed
      ? `${inSeconds(found.exposed)} of the all-reduce are not hidden`
      : "nothing has to be added up";
    find("output").textContent =
      `${LABEL}: on ${gpus} a step takes ${inSeconds(found.step)}, ${samples(speed)} samples/s, ` +
      `efficiency ${percent(efficiency)} at most, ${percent(least)} at the lower edge; ${hidden}.`;
    const cells = {
      compute: inSeconds(alone),
      communication: inSeconds(found.communication),
      exposed: inSeconds(found.exposed),
      step: inSeconds(found.step),
      speed: `${samples(speed)} samples/s`,
      efficiency: percent(efficiency),
      least: percent(least),
    };
    for (const [name, text] of Object.entries(cells)) {
      find(`[data-row="${name}"] td`).textContent = text;
    }
    for (const box of root.querySelectorAll("caption, figcaption")) {
      box.textContent = `${box.dataset.title}. ${LABEL}.`;
    }
    const plot = find(".curve");
    plot.innerHTML = curve(plot.clientWidth, plot.clientHeight, chosen);
    const at = (count) => {
      const there = { ...cluster, gpus: count };
      const most = percent(alone / scalingModel.stepOf(training, there).step);
      return `${percent(scalingModel.leastEfficiency(training, there))} to ${most}`;
    };
    plot.setAttribute(
      "aria-label",
      `Efficiency from 1 to 1,024 GPUs: ${at(2)} on 2, ${at(32)} on 32, ${at(1024)} on 1,024; ` +
        `${percent(efficiency)} on ${gpus}. ${LABEL}.`,
    );
  }

  function clear() {
    find("output").textContent = "No result: mend what is marked above.";
    for (const box of root.querySelectorAll("caption, figcaption, td, .curve")) {
      box.textContent = "";
      box.removeAttribute("aria-label");
    }
  }

  function update() {
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
