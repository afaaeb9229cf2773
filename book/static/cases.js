// The table that a cell tagged `moved` printed, as a figure: the reader goes through its rows. The
// numbers are the table's, and nothing is computed here. Columns in one unit are lines.
"use strict";

(() => {
  const [TOP, BOTTOM, LEFT, RIGHT] = [26, 186, 76, 12];
  const LINES = ["line0", "line1", "line2", "line3"];
  document.documentElement.classList.add("with-moved");

  const number = (text) => Number.parseFloat(text.replace(/[^\d.]/g, ""));
  const unit = (text) => text.replace(/^[\s≈\d.,]*/, "");
  const texts = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const made = (tag, where) => where.appendChild(document.createElement(tag));

  // The numbers beside the lines, and a function from a number to its height.
  function scale(numbers, unit) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const logarithmic = /\w/.test(unit) && high / low > 30; // not of shares and counts
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const step = [1, 2, 5, 10].map((n) => n * 10 ** (last - 2)).find((n) => high / n <= 5) ?? high;
    const ticks = logarithmic
      ? Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i))
      : Array.from({ length: Math.ceil(high / step) + 1 }, (_, i) => i * step);
    const place = logarithmic ? Math.log10 : (n) => n;
    const [bottom, top] = [place(ticks[0]), place(ticks.at(-1))];
    return [ticks, (n) => BOTTOM - ((place(n) - bottom) / (top - bottom)) * (BOTTOM - TOP)];
  }

  function start(table) {
    const [heads, ...rows] = [...table.rows].map(texts);
    const shared = unit(rows[0][1]);
    const columns = heads
      .map((_, i) => i)
      .filter((i) => i && rows.every((row) => unit(row[i]) === shared && number(row[i]) >= 0));
    if (!columns.length) return; // this machine cannot tell
    const [ticks, y] = scale(columns.flatMap((i) => rows.map((row) => number(row[i]))), shared);

    const box = document.createElement("div");
    box.className = "moved";
    const label = made("label", made("form", box));
    label.className = "size";
    const slider = made("input", label);
    slider.before(`${heads[0]}: `, document.createElement("b"));
    Object.assign(slider, { type: "range", max: rows.length - 1, value: rows.length >> 1 });
    const said = made("output", box);
    const svg = box.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    svg.setAttribute("role", "img");
    svg.setAttribute("height", BOTTOM + 44);
    const legend = made("p", box);
    columns.forEach((i, line) => {
      Object.assign(made("span", legend), { className: LINES[line], textContent: heads[i] });
    });

    function draw() {
      const wide = svg.clientWidth;
      const x = (i) => LEFT + (i / (rows.length - 1)) * (wide - LEFT - RIGHT);
      const every = Math.ceil((rows.length * 90) / (wide - LEFT));
      const row = rows[slider.value];
      const grid = ticks.map(
        (tick) =>
          `<path d="M${LEFT} ${y(tick)}H${wide - RIGHT}"/><text class="end" x="${LEFT - 6}" ` +
          `y="${y(tick) + 4}">${tick.toLocaleString("en")}</text>`,
      );
      const below = rows.map(([name], i) => {
        const after = rows.length - 1 - i;
        if (after % every) return "";
        return `<text class="${after ? "middle" : "end"}" x="${x(i)}" y="${BOTTOM + 18}">${name}</text>`;
      });
      const lines = columns.map((column, line) => {
        const points = rows.map((each, i) => `${x(i)},${y(number(each[column]))}`);
        const [cx, cy] = points[slider.value].split(",");
        return (
          `<polyline class="${LINES[line]}" points="${points.join(" ")}"/>` +
          `<circle class="${LINES[line]}" cx="${cx}" cy="${cy}" r="5"/>`
        );
      });
      svg.innerHTML =
        `<g class="grid">${grid.join("")}<path d="M${x(slider.value)} ${TOP}V${BOTTOM}"/></g>` +
        `<text class="end" x="${LEFT - 6}" y="12">${shared}</text>` +
        `${below.join("")}<text class="middle" x="${(LEFT + wide) / 2}" y="${BOTTOM + 38}">` +
        `${heads[0]}</text>${lines.join("")}`;
      label.querySelector("b").textContent = row[0];
      slider.setAttribute("aria-valuetext", row[0]);
      const parts = row.slice(1).map((cell, i) => `${heads[i + 1]} ${cell}`);
      said.textContent = `${parts.join("; ")}.`;
      svg.setAttribute("aria-label", `${heads[0]} ${row[0]}: ${said.textContent}`);
    }

    slider.addEventListener("input", draw);
    slider.addEventListener("keydown", (event) => event.stopPropagation()); // the theme turns pages
    const frame = table.closest(".pst-scrollable-table-container") ?? table;
    frame.after(box);
    new ResizeObserver(draw).observe(svg);
  }

  document.querySelectorAll(".tag_moved table").forEach(start);
})();
