"use strict";
(function () {
  var root = document.documentElement;
  var toggle = document.getElementById("theme");
  function remember(value) { try { localStorage.setItem("pcsuite-theme", value); } catch (ignored) { /* a file opened without storage */ } }
  try { var kept = localStorage.getItem("pcsuite-theme"); if (kept) { root.dataset.theme = kept; } } catch (ignored) { /* same */ }
  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", function () {
      var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      remember(root.dataset.theme);
    });
  }

  // Filters: each control names a data attribute; an element shows when all controls of its group agree.
  document.querySelectorAll(".filters").forEach(function (bar) {
    bar.hidden = false;
    var target = document.getElementById(bar.dataset.for);
    var entries = Array.prototype.slice.call(target.querySelectorAll("[data-entry]"));
    var count = bar.querySelector(".count");
    function apply() {
      var shown = 0;
      var wanted = Array.prototype.map.call(bar.querySelectorAll("[data-field]"), function (control) {
        return [control.dataset.field, control.value, control.type === "search"];
      });
      entries.forEach(function (entry) {
        var keep = wanted.every(function (rule) {
          if (!rule[1]) { return true; }
          if (rule[2]) { return entry.textContent.toLowerCase().indexOf(rule[1].toLowerCase()) >= 0; }
          return entry.dataset[rule[0]] === rule[1];
        });
        entry.hidden = !keep;
        shown += keep ? 1 : 0;
      });
      if (count) { count.textContent = shown + " of " + entries.length; }
    }
    bar.addEventListener("input", apply);
    apply();
  });

  // Sorting: a header button sorts its table by the cell's data-value, else by its text.
  function value(row, column) {
    var cell = row.cells[column];
    var raw = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    var number = raw === "" ? NaN : Number(raw);
    return isNaN(number) ? raw : number;
  }
  function compare(a, b) {
    var emptyA = a === "" || a === "n/a", emptyB = b === "" || b === "n/a";
    if (emptyA || emptyB) { return emptyA === emptyB ? 0 : emptyA ? 1 : -1; }
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  document.querySelectorAll("table[data-sortable] thead th").forEach(function (head) {
    var label = head.textContent.trim();
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.title = "Sort by " + label;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () {
      var table = head.closest("table"), body = table.tBodies[0];
      var column = head.cellIndex, descending = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th[aria-sort]").forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      Array.prototype.slice.call(body.rows)
        .map(function (row, place) { return [value(row, column), place, row]; })
        .sort(function (a, b) {
          var order = compare(a[0], b[0]);
          var empty = a[0] === "" || a[0] === "n/a" || b[0] === "" || b[0] === "n/a";
          return (descending && !empty ? -order : order) || a[1] - b[1];
        })
        .forEach(function (entry) { body.appendChild(entry[2]); });
    });
  });
})();
