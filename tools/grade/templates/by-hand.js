const table = JSON.parse(document.getElementById("table").textContent);
const fields = [...document.querySelectorAll("[data-row]")];
const keyOf = (field) => {
  const row = table.rows[field.dataset.row];
  const id = ["submission", "assignment", "exercise"].map((name) => row[table.header.indexOf(name)]);
  return ["by hand", ...id, field.dataset.column].join("/");
};
const count = () => {
  const points = fields.filter((field) => field.dataset.column === "points");
  const left = points.filter((field) => !field.value.trim()).length;
  document.getElementById("left").textContent = `${left} of ${points.length} without points`;
};
document.getElementById("save").addEventListener("click", () => {
  const rows = table.rows.map((row) => [...row]);
  for (const field of fields) {
    rows[field.dataset.row][table.header.indexOf(field.dataset.column)] = field.value;
  }
  const quoted = (cell) => `"${String(cell ?? "").replaceAll('"', '""')}"`;
  const text = [table.header, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text, "\r\n"], { type: "text/csv" }));
  link.download = "by-hand.csv";
  link.click();
});
count();
for (const field of fields) {
  field.addEventListener("input", () => {
    localStorage.setItem(keyOf(field), JSON.stringify([field.defaultValue, field.value]));
    count();
  });
  const [was, typed] = JSON.parse(localStorage.getItem(keyOf(field)) ?? "[]");
  if (was === field.defaultValue) field.value = typed;  // else the table has moved on
}
count();
