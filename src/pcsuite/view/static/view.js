// Keyboard, theme and live figures. Everything else is links and forms, so that the address holds the state.
const links = (rel) => document.querySelector(`a[data-key="${rel}"]`);

function rows() { return [...document.querySelectorAll("[data-row]")]; }

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement?.closest?.("[data-row]"));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  (next.querySelector("a") ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const help = document.getElementById("help");
  const pressed = document.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
  if (pressed) { pressed.click(); event.preventDefault(); return; }
  switch (event.key) {
    case "j": case "ArrowDown": move(1); event.preventDefault(); break;
    case "k": case "ArrowUp": move(-1); event.preventDefault(); break;
    case "ArrowRight": case "n": links("next")?.click(); break;
    case "ArrowLeft": case "p": links("previous")?.click(); break;
    case "u": links("up")?.click(); break;
    case "/": document.querySelector("input[type=search]")?.focus(); event.preventDefault(); break;
    case "?": if (help) { help.open ? help.close() : help.showModal(); } break;
  }
});

for (const form of document.querySelectorAll("form[data-now]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

const button = document.getElementById("theme");
const kept = localStorage.getItem("pcsuite-theme");
if (kept) document.documentElement.dataset.theme = kept;
button?.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
    && (document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches));
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("pcsuite-theme", document.documentElement.dataset.theme);
});

const live = document.querySelector("[data-live]");
if (live) {
  let seen = Number(live.dataset.rows);
  const look = async () => {
    const answer = await fetch(live.dataset.live);
    if (!answer.ok) return;
    const state = await answer.json();
    live.querySelector("[data-field=rows]").textContent = state.rows.toLocaleString("en");
    live.querySelector("[data-field=failed]").textContent = state.failed.toLocaleString("en");
    live.querySelector("progress").value = state.rows;
    live.hidden = !state.live;
    if (state.rows !== seen) document.getElementById("stale").hidden = false;
    seen = state.rows;
    if (state.live) setTimeout(look, 2000);
  };
  look();
}

// Figures: a mark says its numbers beside itself, a name in the legend hides and shows its series.
const says = document.getElementById("says");
if (says) {
  const show = (mark) => {
    const box = mark.querySelector("circle").getBoundingClientRect();
    says.textContent = mark.dataset.says;
    says.hidden = false;
    const left = Math.min(box.right + 8, document.documentElement.clientWidth - says.offsetWidth - 8);
    says.style.left = `${Math.max(8, left)}px`;
    says.style.top = `${Math.max(8, box.top - says.offsetHeight - 6)}px`;
  };
  for (const mark of document.querySelectorAll("[data-says]")) {
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("focus", () => show(mark));
    mark.addEventListener("pointerleave", () => { says.hidden = true; });
    mark.addEventListener("blur", () => { says.hidden = true; });
  }
  for (const name of document.querySelectorAll("[data-hides]")) {
    name.addEventListener("click", () => {
      const shown = name.getAttribute("aria-pressed") === "true";
      name.setAttribute("aria-pressed", String(!shown));
      name.closest("figure").querySelector(`[data-series="${name.dataset.hides}"]`).toggleAttribute("hidden", shown);
    });
  }
}
