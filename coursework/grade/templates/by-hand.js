const table = JSON.parse(document.querySelector("script").textContent);
const button = document.querySelector("button"), message = document.querySelector("output");
const column = (name) => table.header.indexOf(name);
const fields = [...document.querySelectorAll("[data-column]")].map((field) => {
  const row = table.rows[field.closest("section").dataset.place];
  const id = ["submission", "assignment", "exercise"].map((name) => row[column(name)]);
  const key = ["by hand", ...id, field.dataset.column].join("/");
  return { field, row, place: column(field.dataset.column), key };
});
// A cell that no spreadsheet takes for a formula: as coursework/grade/tables.py guards it.
const quoted = (text) => '"' + (/^'*(\s*[=+\-@＝＋－＠]|[\t\r\n])/.test(text) ? "'" : "") + text.replaceAll('"', '""') + '"';
// Points have a decimal point or comma, and are no more than there are for the exercise.
const check = (field) => {
  if (!("of" in field.dataset)) return;
  const points = Number(field.value.trim().replace(",", "."));
  const isPossible = 0 <= points && points <= Number(field.dataset.of);
  field.setCustomValidity(isPossible ? "" : `Write a number from 0 to ${field.dataset.of}`);
};
button.hidden = false;
button.addEventListener("click", () => {
  const wrong = fields.find(({ field }) => !field.checkValidity());
  if (wrong) {
    message.textContent = `Not saved. ${wrong.field.validationMessage}.`;
    wrong.field.reportValidity();
    return;
  }
  for (const { field, row, place } of fields) row[place] = field.value.trim();
  const lines = [table.header, ...table.rows].map((row) => row.map(String).map(quoted).join(table.separator));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", lines.join("\r\n"), "\r\n"], { type: "text/csv" }));
  link.download = "by-hand.csv";
  link.click();
  message.textContent = table.rows.length + " rows saved where your browser keeps downloads";
});
for (const { field, key } of fields) {
  field.addEventListener("input", () => {
    check(field);
    localStorage.setItem(key, JSON.stringify([field.defaultValue, field.value]));
  });
  const [was, draft] = JSON.parse(localStorage.getItem(key) ?? "[]");
  if (was === field.defaultValue) field.value = draft;  // else the table has moved on since
  check(field);
}
