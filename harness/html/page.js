"use strict";
// Tables of class "data" sort by a click on a heading and filter by words; without this script they are whole.
(function () {
  const page = 500;  // rows shown at first: a browser lays out so many at once
  const unit = {us: 1e-6, ms: 1e-3, s: 1};

  function valueOf(text) {
    const found = /^([+-]?[\d.,]+)(?:\/\d+)? ?([a-z%]*)/i.exec(text);
    if (!found) return NaN;
    return parseFloat(found[1].replace(/,/g, "")) * (unit[found[2]] || 1);
  }
  function compare(a, b, numeric) {
    if (!numeric) return a.localeCompare(b, "en", {numeric: true});
    const x = valueOf(a), y = valueOf(b);
    if (isNaN(x)) return isNaN(y) ? 0 : 1;  // an empty cell comes last
    return isNaN(y) ? -1 : x - y;
  }
  function make(name, text, parent) {
    const element = document.createElement(name);
    element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  function control(table) {
    const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells);
    const rows = Array.from(body.rows).map(function (row) {
      return {row: row, text: row.textContent.toLowerCase(), words: Array.from(row.cells, c => c.textContent)};
    });
    let limit = page;
    const bar = document.createElement("div");
    bar.className = "controls";
    const input = make("input", "", bar), count = make("output", "", bar), more = make("button", "show all", bar);
    input.type = "search";
    input.placeholder = "filter: words, -word leaves out";
    input.setAttribute("aria-label", "filter rows by words");
    more.type = "button";
    table.parentNode.parentNode.insertBefore(bar, table.parentNode);

    function show() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      rows.forEach(function (r) {
        const fits = words.every(w => w.length > 1 ? (w[0] === "-" ? !r.text.includes(w.slice(1)) : r.text.includes(w)) : w === "-" || r.text.includes(w));
        if (fits) found += 1;
        r.row.hidden = !fits || found > limit;
      });
      const shown = Math.min(found, limit);
      count.textContent = found === rows.length ? rows.length + " rows" : found + " of " + rows.length + " rows";
      if (found > shown) count.textContent += ", " + shown + " shown";
      more.hidden = found === shown;
    }
    function sort(column) {
      const head = heads[column], down = head.getAttribute("aria-sort") === "ascending";
      const numeric = head.classList.contains("n"), sign = down ? -1 : 1;
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort(function (a, b) {
        const x = a.words[column], y = b.words[column];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * compare(x, y, numeric);
      });
      const all = document.createDocumentFragment();
      rows.forEach(r => all.appendChild(r.row));
      body.appendChild(all);
      show();
    }
    heads.forEach(function (head, column) {
      const button = make("button", head.textContent);
      button.type = "button";
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", () => sort(column));
    });
    input.addEventListener("input", show);
    more.addEventListener("click", function () { limit = Infinity; show(); });
    show();
  }

  document.querySelectorAll("table.data").forEach(control);
  document.querySelectorAll(".replay").forEach(function (p) {
    const button = make("button", "copy", p), code = p.querySelector("code");
    button.type = "button";
    button.className = "copy";
    button.addEventListener("click", function () {
      getSelection().selectAllChildren(code);
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).catch(() => {});
    });
  });
  // Paper shows what is folded on a screen.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => d.open = true));
}());
