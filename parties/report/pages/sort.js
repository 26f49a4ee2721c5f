// Makes the columns of tables with the class "sortable" sortable: a button in every heading.
// The page is complete without this script.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headings = [...table.querySelectorAll("thead th[scope=col]")];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const missing = (cell) => cell.dataset.value === "";
  const order = (column, sign) => (a, b) => {
    const [gone, lost] = [missing(a.cells[column]), missing(b.cells[column])];
    if (gone || lost) return gone - lost; // rows without a value come last in both orders
    const [left, right] = [value(a, column), value(b, column)];
    return sign * (typeof left === "number" ? left - right : left.localeCompare(right));
  };
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const state = next[heading.getAttribute("aria-sort")];
      headings.forEach((each) => each.setAttribute("aria-sort", "none"));
      heading.setAttribute("aria-sort", state);
      const rows = [...original];
      if (state !== "none") rows.sort(order(column, state === "ascending" ? 1 : -1));
      body.append(...rows);
    });
  });
}
