// Timelines: drawn when they come near, of what stands there for browsers without scripts; zoom,
// pan, and what the bar under the mouse, or reached by arrow keys, is.
"use strict";

(() => {
  const MOST = 512; // times as wide as its column
  const NEAR = 6; // pixels from the mouse to a bar that is too short to hit
  const TICKS = 4; // at least, on what is seen of an axis
  const WIDE = 0.012; // and the share of it from which a bar is set off from its neighbours
  const ROW = 36; // pixels: a lane; these three are also in tools/site/timeline.py
  document.documentElement.classList.add("with-timelines");

  // The distance between the marks of an axis: 1, 2 or 5 times a power of ten.
  function step(length) {
    const power = 10 ** Math.floor(Math.log10(length / TICKS));
    return power * [5, 2, 1].find((times) => power * times <= length / TICKS);
  }

  // What a box shows without scripts, as nodes.
  function waiting(box) {
    const template = document.createElement("template");
    template.innerHTML = box.querySelector("noscript").textContent;
    return template.content;
  }

  function start(figure) {
    if (figure.classList.contains("drawn")) return;
    figure.classList.add("drawn");
    const view = figure.querySelector(".timeline-view");
    const box = figure.querySelector(".timeline-table");
    const table = waiting(box).firstElementChild;
    view.replaceChildren(waiting(view));
    box.previousElementSibling.addEventListener("click", () => box.replaceChildren(table));
    const drawing = view.querySelector("svg");
    const axis = drawing.querySelector(".timeline-axis");
    const said = figure.querySelector(".timeline-said");
    const total = Number(figure.dataset.total);
    const rows = table.tBodies[0].rows;
    const heads = table.querySelectorAll("thead th");
    const unit = heads[3].textContent.split("≈ ")[1];
    const bars = [...drawing.querySelectorAll("rect")].map((rect, i) => {
      const [lane, what, , begins, takes] = [...rows[i].cells].map((cell) => cell.textContent);
      const left = parseFloat(rect.getAttribute("x")) / 100;
      return {
        rect,
        lane,
        left,
        right: left + parseFloat(rect.getAttribute("width")) / 100,
        text: tr("{0} ({1}): begins at ≈ {2} {4}, takes ≈ {3} {4}", what, lane, begins, takes, unit),
      };
    });
    const lanes = [...new Set(bars.map((bar) => bar.lane))];
    let zoom = 1;
    let chosen = null;

    function choose(bar) {
      chosen?.rect.classList.remove("chosen");
      bar?.rect.classList.add("chosen");
      chosen = bar;
      said.textContent = bar ? bar.text : "";
    }

    // The marks of the part in sight, and of as much on either side.
    function drawAxis() {
      const [line, text] = [axis.querySelector("line"), axis.querySelector("text")];
      const apart = step(total / zoom);
      const digits = Math.max(0, -Math.floor(Math.log10(apart)));
      const seen = view.clientWidth / drawing.clientWidth;
      const from = view.scrollLeft / drawing.clientWidth - seen;
      const first = Math.max(0, Math.ceil((from * total) / apart));
      const last = Math.floor((Math.min(1, from + 3 * seen) * total) / apart);
      const marks = [];
      for (let i = first; i <= last; i++) {
        const place = (i * apart) / total;
        const [mark, label] = [line.cloneNode(), text.cloneNode()];
        mark.setAttribute("x1", `${100 * place}%`);
        mark.setAttribute("x2", `${100 * place}%`);
        label.setAttribute("x", `${100 * place}%`);
        label.setAttribute("class", place === 0 ? "first" : place > 1 - 0.05 / zoom ? "last" : "");
        label.textContent = (i * apart).toFixed(digits);
        marks.push(mark, label);
      }
      axis.replaceChildren(...marks);
    }

    // Zoom, and keep the point that is `x` pixels from the left edge of the window in its place.
    function zoomTo(wanted, x = view.clientWidth / 2) {
      const point = (view.scrollLeft + x) / drawing.clientWidth;
      zoom = Math.min(Math.max(wanted, 1), MOST);
      drawing.style.width = `${100 * zoom}%`;
      view.scrollLeft = point * drawing.clientWidth - x;
      for (const { rect, left, right } of bars)
        rect.classList.toggle("wide", (right - left) * zoom > WIDE);
      drawAxis();
    }

    // A label that does not fit its bar is none.
    function fit() {
      for (const label of drawing.querySelectorAll("svg > text")) {
        const share = parseFloat(label.parentElement.getAttribute("width")) / 100;
        label.style.display = "";
        label.style.display = label.getComputedTextLength() + 8 < share * drawing.clientWidth ? "" : "none";
      }
    }

    function reveal(bar) {
      const wide = drawing.clientWidth;
      const [left, right] = [bar.left * wide, bar.right * wide];
      if (left < view.scrollLeft || right > view.scrollLeft + view.clientWidth)
        view.scrollLeft = left - view.clientWidth / 4;
    }

    const distance = (bar, at) => Math.max(bar.left - at, at - bar.right, 0);
    const nearest = (lane, at) =>
      bars
        .filter((bar) => bar.lane === lane)
        .reduce((best, bar) => (!best || distance(bar, at) < distance(best, at) ? bar : best), null);

    // The bar that a key leads to: along its lane, to its ends, or to the next lane at that time.
    function neighbour(key) {
      if (!chosen) return bars[0];
      const lane = bars.filter((bar) => bar.lane === chosen.lane);
      if (key === "Home") return lane[0];
      if (key === "End") return lane.at(-1);
      const along = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (along) return lane[lane.indexOf(chosen) + along] ?? chosen;
      const place = lanes.indexOf(chosen.lane) + (key === "ArrowDown" ? 1 : -1);
      return nearest(lanes[place], (chosen.left + chosen.right) / 2) ?? chosen;
    }

    function press(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const zooms = { "+": zoom * 2, "=": zoom * 2, "-": zoom / 2, 0: 1 };
      if (event.key in zooms) zoomTo(zooms[event.key]);
      else if (!/^(Arrow|Home$|End$)/.test(event.key)) return;
      else if (event.shiftKey) {
        const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
        view.scrollLeft += (way * view.clientWidth) / 4;
      } else {
        choose(neighbour(event.key));
        reveal(chosen);
      }
      event.preventDefault();
      event.stopPropagation(); // the theme turns pages with arrow keys
    }

    function point(event) {
      if (event.buttons === 1 && event.pointerType === "mouse") {
        view.scrollLeft -= event.movementX;
        return;
      }
      const box = drawing.getBoundingClientRect();
      const lane = lanes[Math.floor((event.clientY - box.top) / ROW)];
      const at = (event.clientX - box.left) / box.width;
      const bar = lane && nearest(lane, at);
      choose(bar && distance(bar, at) * box.width <= NEAR ? bar : null);
    }

    new ResizeObserver(fit).observe(drawing);
    view.tabIndex = 0;
    view.setAttribute("role", "group");
    view.setAttribute(
      "aria-label",
      tr("Timeline: arrow keys, Home and End go from bar to bar, plus and minus zoom, 0 shows all, Shift with an arrow key moves the window"),
    );
    view.addEventListener("keydown", press);
    view.addEventListener("focus", () => choose(chosen ?? bars[0]));
    view.addEventListener("pointermove", point);
    view.addEventListener("pointerdown", point);
    view.addEventListener("scroll", () => zoom > 1 && drawAxis());
    view.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        const x = event.clientX - view.getBoundingClientRect().left;
        zoomTo(zoom * 2 ** (-event.deltaY / 200), x);
      },
      { passive: false },
    );
    figure.querySelector(".timeline-tools").addEventListener("click", (event) => {
      const times = event.target.closest("button")?.dataset.zoom;
      if (times !== undefined) zoomTo(zoom * Number(times));
    });
  }

  const all = () => [...document.querySelectorAll(".timeline")];
  const near = new IntersectionObserver(
    (seen) => seen.forEach((one) => one.isIntersecting && start(one.target)),
    { rootMargin: "100%" }, // a screen away
  );
  document.addEventListener("DOMContentLoaded", () => all().forEach((one) => near.observe(one)));
  window.addEventListener("beforeprint", () => all().forEach(start));
  document.addEventListener("timeline", (event) => start(event.target)); // one that comes later
})();
