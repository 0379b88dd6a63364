// Sorts a table by a clicked heading. The page is complete without it.
for (const table of document.querySelectorAll("table[data-sort]")) {
  table.querySelectorAll("th").forEach((heading, column) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = x === "" || y === "" ? (x === "") - (y === "") : x - y || x.localeCompare(y, "en", { numeric: true });
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
