"use strict";
// The one script of all pages. Each part looks for what it works on and does nothing where that is not there.

{ // A bundle in one file: the page that the address names is put into the document before anything looks for its parts.
  // Another address is another page: loading anew binds everything to it.
  const held = document.getElementById("bundled-pages");
  if (held) {
    const numberOf = () => Number(/^#\/(\d+)$/.exec(location.hash)?.[1] ?? 0);
    const pages = JSON.parse(held.textContent), shown = numberOf();
    const [title, body] = pages[shown] ?? pages[0];
    document.title = title;
    document.body.append(...new DOMParser().parseFromString(body, "text/html").body.childNodes);
    addEventListener("hashchange", () => { if (/^(#\/|$)/.test(location.hash) && numberOf() !== shown) location.reload(); });
  }
}

{ // Light and dark: what was chosen last counts on every page. A file may be opened where nothing can be stored.
  const root = document.documentElement, toggle = document.getElementById("theme");
  try { root.dataset.theme = localStorage.getItem("pcsuite-theme") ?? ""; } catch { /* not stored */ }
  if (!root.dataset.theme) delete root.dataset.theme;
  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("pcsuite-theme", root.dataset.theme); } catch { /* not stored */ }
    });
  }
}

// Filters within a page: a bar names the list it narrows. An entry is shown while every control agrees: a select with
// its data attribute, a search with its words, a button with its kind. An item whose entries are all hidden is hidden.
const bindFilters = (bar) => {
  const list = document.getElementById(bar.dataset.for);
  const about = (name) => document.querySelector(`[data-${name}-of="${bar.dataset.for}"]`);
  const reset = about("reset"), nothing = about("none"), count = about("count") ?? bar.querySelector(".count");
  const fields = [...bar.querySelectorAll("[data-field]")], kinds = [...bar.querySelectorAll("button[data-kind]")];
  const entries = [...list.querySelectorAll("[data-entry]")].map((entry) => ({ entry, group: entry.closest("[data-item]") }));
  const texts = new Map();
  const textOf = ({ entry, group }) => {
    if (!texts.has(entry)) texts.set(entry, `${entry.textContent} ${group?.dataset.item ?? ""} ${group?.firstElementChild.textContent ?? ""}`.toLowerCase());
    return texts.get(entry);
  };
  let chosen = null; // groups that a button elsewhere asked for
  const apply = () => {
    const off = new Set(kinds.filter((button) => button.getAttribute("aria-pressed") === "false").map((button) => button.dataset.kind));
    const rules = fields.filter((field) => field.value).map((field) => {
      if (field.type !== "search") return ({ entry, group }) => (entry.dataset[field.dataset.field] ?? group?.dataset[field.dataset.field]) === field.value;
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      return (one) => words.every((word) => textOf(one).includes(word));
    });
    const filled = new Set();
    let shown = 0;
    for (const one of entries) {
      const keep = !off.has(one.entry.dataset.kind) && (!chosen || chosen.includes(one.group?.dataset.item)) && rules.every((rule) => rule(one));
      one.entry.hidden = !keep;
      if (keep) { shown += 1; filled.add(one.group); }
    }
    for (const group of list.querySelectorAll("[data-item]")) group.hidden = !filled.has(group);
    const all = shown === entries.length;
    // A heading's number is that of all; beside controls it is said of how many.
    if (count) count.textContent = all && count.closest("h2") ? shown : `${shown} of ${entries.length}`;
    if (nothing) nothing.hidden = shown > 0;
    if (reset) reset.hidden = all;
  };
  const clear = () => {
    chosen = null;
    for (const field of fields) field.value = "";
  };
  bar.hidden = false;
  for (const field of fields) field.addEventListener("input", apply);
  for (const button of kinds) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }
  reset?.addEventListener("click", () => {
    clear();
    for (const button of kinds) button.setAttribute("aria-pressed", "true");
    apply();
  });
  if (list.querySelector("[data-item]")) {
    const show = () => { apply(); (bar.closest("section") ?? bar).scrollIntoView({ block: "start" }); };
    for (const button of document.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => { clear(); chosen = JSON.parse(button.dataset.show); show(); });
    }
    for (const button of document.querySelectorAll("[data-section-of]")) {
      const select = bar.querySelector('[data-field="section"]');
      button.addEventListener("click", () => {
        chosen = null;
        select.value = button.dataset.sectionOf;
        if (select.value !== button.dataset.sectionOf) select.value = "";
        show();
      });
    }
  } else {
    apply();
  }
};
document.querySelectorAll(".filters[data-for]").forEach(bindFilters);

// What has no value stays last, whichever way a table is sorted.
const isEmpty = (value) => value === "" || value === "n/a" || value === null || value === undefined;
const compareValues = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
const inOrder = (sign) => ([a], [b]) => isEmpty(a) || isEmpty(b) ? isEmpty(a) - isEmpty(b) : sign * compareValues(a, b);
// A heading becomes a button that calls sort(sign); the arrow is drawn by the style.
const sortButton = (head, sort) => {
  const button = document.createElement("button"), label = head.textContent.trim();
  button.type = "button";
  button.textContent = label;
  button.title = `Sort by ${label}`;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentElement.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    sort(sign);
  });
};

// Figures as files: the drawing with the colours of the page written into it, on the page's paper.
const bindSaving = (part) => {
  for (const group of part.querySelectorAll(".save")) {
    group.hidden = false;
    for (const button of group.querySelectorAll("[data-save]")) {
      button.addEventListener("click", () => {
        const drawn = button.closest("figure").querySelector("svg"), copy = drawn.cloneNode(true);
        const styles = getComputedStyle(document.documentElement), ink = getComputedStyle(drawn).color;
        const [, , width, height] = copy.getAttribute("viewBox").split(/\s+/).map(Number);
        copy.setAttribute("width", width);
        copy.setAttribute("height", height);
        const text = new XMLSerializer().serializeToString(copy)
          .replace(/var\((--[\w-]+)\)/g, (_, name) => styles.getPropertyValue(name).trim())
          .replaceAll("currentColor", ink)
          .replace(/(<svg[^>]*>)/, `$1<rect width="100%" height="100%" fill="${styles.getPropertyValue("--card").trim()}"/>`);
        const save = (blob) => {
          const link = document.createElement("a");
          link.href = URL.createObjectURL(blob);
          link.download = `${button.dataset.name}.${button.dataset.save}`;
          link.click();
          setTimeout(() => URL.revokeObjectURL(link.href), 10000);
        };
        if (button.dataset.save === "svg") { save(new Blob([text], { type: "image/svg+xml" })); return; }
        const image = new Image();
        image.onload = () => {
          const canvas = document.createElement("canvas");
          canvas.width = 2 * width;
          canvas.height = 2 * height;
          canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
          canvas.toBlob(save, "image/png");
        };
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
      });
    }
  }
};
bindSaving(document);

{ // Sorting of tables that stand in the page: by the cell's data-value, else by its text.
  const valueOf = (cell) => {
    const raw = cell.dataset.value ?? cell.textContent.trim();
    return raw === "" || isNaN(raw) ? raw : Number(raw);
  };
  for (const head of document.querySelectorAll("table[data-sortable] thead th")) {
    const body = head.closest("table").tBodies[0];
    sortButton(head, (sign) => {
      const rows = [...body.rows].map((row) => [valueOf(row.cells[head.cellIndex]), row]);
      body.append(...rows.sort(inOrder(sign)).map(([, row]) => row));
    });
  }
}

{ // Tables that are made when they are first seen: the rows are data until then, and nodes only as far as one reads.
  const MOST = 50, MORE = 200;
  const make = (name, text, css) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    if (css) element.className = css;
    return element;
  };
  const build = (box) => {
    const source = box.querySelector("script");
    if (!source) return;
    const { columns, rows, filters } = JSON.parse(source.textContent);
    const all = rows.map((cells, index) => ({ cells, index }));
    const words = new Map();
    const wordsOf = (row) => {
      if (!words.has(row)) words.set(row, row.cells.map((cell) => Array.isArray(cell) ? cell[0] : cell).join(" ").toLowerCase());
      return words.get(row);
    };
    const bar = make("div", "", "filters"), count = make("span", "", "count"), more = make("button");
    const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    const scroll = make("div", "", "scroll");
    let order = all, shown = all;
    const draw = (from, to) => {
      body.append(...shown.slice(from, to).map((row) => {
        const line = make("tr");
        row.cells.forEach((cell, index) => {
          const [text, value, style] = Array.isArray(cell) ? cell : [cell];
          const css = style ?? columns[index][2], box = make("td", text, columns[index][3] ? `${css} same`.trim() : css);
          if (value !== undefined && value !== null) box.dataset.value = value;
          line.append(box);
        });
        return line;
      }));
      const left = shown.length - body.rows.length;
      more.hidden = left <= 0;
      more.textContent = `Show ${Math.min(MORE, left)} more of ${left.toLocaleString("en")}`;
      count.textContent = `${shown.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}`;
    };
    const renew = () => { body.replaceChildren(); draw(0, MOST); };
    const fields = [];
    const apply = () => {
      const rules = fields.filter(({ control }) => control.value).map(({ keep }) => keep());
      shown = order.filter((row) => rules.every((rule) => rule(row)));
      renew();
    };
    const field = (label, control, name, keep) => {
      const around = make("label", label);
      control.dataset.field = name;
      around.append(control);
      bar.append(around);
      control.addEventListener("input", apply);
      fields.push({ control, keep });
    };
    for (const [name, label, values, at] of filters) {
      const select = make("select");
      select.append(new Option("all", ""), ...values.map((value) => new Option(value)));
      field(label, select, name, () => { const chosen = values.indexOf(select.value); return (row) => at[row.index] === chosen; });
    }
    if (all.length > 8) {
      const search = make("input");
      search.type = "search";
      search.placeholder = "words in a row";
      field("Search", search, "text", () => {
        const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
        return (row) => terms.every((word) => wordsOf(row).includes(word));
      });
    }
    columns.forEach(([label, numeric, , same], index) => {
      const cell = make("th", label, numeric ? "n" : same ? "same" : "");
      cell.scope = "col";
      head.append(cell);
      if (label) sortButton(cell, (sign) => {
        const valued = all.map((row) => { const cell = row.cells[index]; return [Array.isArray(cell) ? cell[1] ?? cell[0] : cell, row]; });
        order = valued.sort(inOrder(sign)).map(([, row]) => row);
        apply();
      });
    });
    more.type = "button";
    more.className = "more-rows";
    more.addEventListener("click", () => draw(body.rows.length, body.rows.length + MORE));
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", box.dataset.label);
    scroll.append(table);
    if (fields.length) bar.append(count);
    box.replaceChildren(...(fields.length ? [bar] : []), scroll, more);
    renew();
    addEventListener("beforeprint", () => draw(body.rows.length, shown.length)); // a sheet has no button to press
  };
  // A template's nodes are no part of the page until it is opened.
  const open = (part) => {
    for (const held of part.querySelectorAll("template[data-later]")) {
      if (held.closest("details:not([open])")) continue;
      const parent = held.parentElement;
      held.replaceWith(held.content);
      parent.querySelectorAll(".filters[data-for]").forEach(bindFilters);
      bindSaving(parent);
    }
    for (const box of part.querySelectorAll(".data-table")) {
      if (!box.closest("details:not([open])")) build(box);
    }
  };
  for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", () => { if (part.open) open(part); });
  open(document);
  // An address with a part of the page opens it, and what it stands in.
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (const part of [target.querySelector(":scope > details"), target.closest("details")]) {
      if (part) { part.open = true; open(part); }
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => { if (link.hash === location.hash) follow(); });
  if (location.hash) follow();
}

// What follows is for pages that are served, where links and forms hold the state in the address.

const help = document.getElementById("help");
if (help) { // The keyboard, on pages that list their keys.
  const follow = (name) => document.querySelector(`a[data-key="${name}"]`);
  const toggleHelp = () => { help.open ? help.close() : help.showModal(); };
  const move = (step) => {
    const rows = [...document.querySelectorAll("[data-row]")];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement?.closest?.("[data-row]"));
    const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
    (next.querySelector("a") ?? next).focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help.open && event.key !== "?") return;
    const pressed = document.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
    if (pressed) { pressed.click(); event.preventDefault(); return; }
    switch (event.key) {
      case "j": case "ArrowDown": move(1); event.preventDefault(); break;
      case "k": case "ArrowUp": move(-1); event.preventDefault(); break;
      case "ArrowRight": case "n": follow("next")?.click(); break;
      case "ArrowLeft": case "p": follow("previous")?.click(); break;
      case "u": (follow("up") ?? document.querySelector("nav a[href='/']"))?.click(); break;
      case "/": document.querySelector("input[type=search]")?.focus(); event.preventDefault(); break;
      case "?": toggleHelp(); break;
    }
  });
  document.getElementById("keys").addEventListener("click", toggleHelp);
}

for (const form of document.querySelectorAll("form[data-now]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// A page of a log's beginning: how far the rest has been read, and the page again once all of it is there.
const reading = document.querySelector("[data-reading]");
if (reading) {
  const look = async () => {
    const answer = await fetch(reading.dataset.reading).catch(() => null);
    const state = answer?.ok ? await answer.json() : {};
    if (answer?.ok && !state.reading) { location.reload(); return; }
    if (state.share) reading.querySelector("progress").value = state.share;
    setTimeout(look, 1000);
  };
  look();
}

const live = document.querySelector("[data-live]");
if (live) {
  let seen = Number(live.dataset.rows);
  const begun = { rows: null, at: 0 };
  // Whether it ever went on as far as the page knows: made while it did, it comes up again also where the first answer finds the end.
  let went = "going" in live.dataset;
  const say = (name, text) => { live.querySelector(`[data-field=${name}]`).textContent = text; };
  const look = async () => {
    let answer;
    try { answer = await fetch(live.dataset.live); } catch { return; }
    if (!answer.ok) return;
    const state = await answer.json();
    if (state.reading) { setTimeout(look, 2000); return; }
    if (begun.rows === null) { begun.rows = state.rows; begun.at = performance.now(); }
    const rate = (state.rows - begun.rows) / ((performance.now() - begun.at) / 1000);
    const left = rate > 0 && state.planned > state.rows ? ` (about ${Math.ceil((state.planned - state.rows) / rate / 60)} min to go),` : ",";
    say("rows", state.rows.toLocaleString("en"));
    say("rate", rate > 0 ? `${rate.toFixed(rate < 10 ? 1 : 0)} a second${left}` : "");
    say("failed", state.failed.toLocaleString("en"));
    live.querySelector("progress").value = state.rows;
    live.hidden = !state.live;
    went ||= state.live;
    // A page that was made while nothing ran shows intervals for a run that has ended.
    if (state.live && !("going" in live.dataset)) { location.reload(); return; }
    const note = live.querySelector("[data-stopping]");
    if (note) note.hidden = !state.stopping;
    for (const level of document.querySelectorAll("[data-level]")) {
      if (state.levels && level.dataset.level in state.levels) level.textContent = state.levels[level.dataset.level];
    }
    for (const cell of document.querySelectorAll("[data-effect]")) {
      const effect = state.effects?.[cell.dataset.effect];
      if (!effect) continue;
      for (const part of cell.querySelectorAll("[data-part]")) part.textContent = effect[part.dataset.part];
      cell.querySelector("[data-part=amount]").className = effect.tone;
    }
    // At its end the page shows all of it by itself, unless somebody is in the middle of typing.
    if (!state.live && state.current && (went || state.rows !== seen) && !document.activeElement?.closest?.("input, textarea, select")) { location.reload(); return; }
    if (state.rows !== seen) document.getElementById("stale").hidden = false;
    seen = state.rows;
    if (state.live || !state.current) setTimeout(look, state.live ? 2000 : 500);
  };
  look();
}

// The overview: what came out of runs whose logs are still being read is filled in as it becomes known, and runs that go
// on are followed to their end.
const fill = async () => {
  const body = document.querySelector("tbody[data-pending]");
  if (!body) return;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main tbody");
  const ticked = new Set([...body.querySelectorAll("input:checked")].map((box) => box.value));
  const focused = document.activeElement?.getAttribute?.("href");
  for (const box of fresh.querySelectorAll("input")) box.checked = ticked.has(box.value);
  body.replaceWith(document.adoptNode(fresh));
  if (focused) [...fresh.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  setTimeout(fill, fresh.dataset.pending === "live" ? 2000 : 500);
};
if (document.querySelector("tbody[data-pending]")) setTimeout(fill, 300);

// Figures: a mark says its numbers beside itself, a name in the legend hides and shows its series.
const says = document.getElementById("says");
if (says) {
  const show = (mark) => {
    const box = mark.getBoundingClientRect();
    says.textContent = mark.dataset.says;
    says.hidden = false;
    const left = Math.min(box.right + 8, document.documentElement.clientWidth - says.offsetWidth - 8);
    says.style.left = `${Math.max(8, left)}px`;
    says.style.top = `${Math.max(8, box.top - says.offsetHeight - 6)}px`;
  };
  const key = (name) => `${name.closest("figure").id}.${name.dataset.hides}`;
  const set = (name, shown) => {
    name.setAttribute("aria-pressed", String(shown));
    for (const part of name.closest("figure").querySelectorAll(`[data-series="${name.dataset.hides}"]`)) part.toggleAttribute("hidden", !shown);
  };
  const hidden = new Set((new URLSearchParams(location.search).get("hide") ?? "").split(","));
  const bindFigures = (part) => {
    for (const mark of part.querySelectorAll("[data-says]")) {
      mark.addEventListener("pointerenter", () => show(mark));
      mark.addEventListener("focus", () => show(mark));
      mark.addEventListener("pointerleave", () => { says.hidden = true; });
      mark.addEventListener("blur", () => { says.hidden = true; });
    }
    for (const name of part.querySelectorAll("[data-hides]")) {
      if (hidden.has(key(name))) set(name, false);
      // A name in the drawing is no button of the browser's: keys press it only if they are told to.
      name.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); name.dispatchEvent(new MouseEvent("click")); }
      });
      name.addEventListener("click", () => {
        set(name, name.getAttribute("aria-pressed") !== "true");
        const address = new URL(location.href);
        const off = [...document.querySelectorAll("[data-hides][aria-pressed=false]")].map(key);
        off.length ? address.searchParams.set("hide", off.join(",")) : address.searchParams.delete("hide");
        history.replaceState(null, "", address);
      });
    }
  };
  bindFigures(document);

  // Further figures are asked for once the first are there; their link serves where that fails.
  const further = document.querySelector("a[data-further]");
  const append = async () => {
    const answer = await fetch(further.href).catch(() => null);
    if (answer?.status !== 200) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const drawn of page.querySelectorAll(".plots > figure")) {
      document.querySelector(".plots").append(document.adoptNode(drawn));
      bindFigures(drawn);
      bindSaving(drawn);
    }
    further.parentElement.remove();
  };
  // A page from the disk has nobody to ask.
  if (further && location.protocol !== "file:") append();
}
