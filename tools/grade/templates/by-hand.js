const header = HEADER, button = document.querySelector("button"), said = document.querySelector("output");
const quoted = (text) => '"' + (/^'*(\s*[=+\-@＝＋－＠]|[\t\r\n])/.test(text) ? "'" : "") + text.replaceAll('"', '""') + '"';
button.hidden = false;
button.addEventListener("click", () => {
  const lines = [...document.querySelectorAll("section")].map((row) => {
    const points = row.querySelector("input").value.trim(), note = row.querySelector("textarea").value;
    return row.dataset.before + quoted(points) + "," + quoted(note) + row.dataset.after;
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([[header, ...lines, ""].join("\r\n")], { type: "text/csv" }));
  link.download = "by-hand.csv";
  link.click();
  said.textContent = lines.length + " rows saved where your browser keeps downloads";
});
