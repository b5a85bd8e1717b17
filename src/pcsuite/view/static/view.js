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
  if (document.getElementById("help")?.open && event.key !== "?") return;
  const pressed = document.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
  if (pressed) { pressed.click(); event.preventDefault(); return; }
  switch (event.key) {
    case "j": case "ArrowDown": move(1); event.preventDefault(); break;
    case "k": case "ArrowUp": move(-1); event.preventDefault(); break;
    case "ArrowRight": case "n": links("next")?.click(); break;
    case "ArrowLeft": case "p": links("previous")?.click(); break;
    case "u": (links("up") ?? document.querySelector("nav a[href='/']"))?.click(); break;
    case "/": document.querySelector("input[type=search]")?.focus(); event.preventDefault(); break;
    case "?": toggleHelp(); break;
  }
});

function toggleHelp() {
  const help = document.getElementById("help");
  if (help) { help.open ? help.close() : help.showModal(); }
}
document.getElementById("keys")?.addEventListener("click", toggleHelp);

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
  const begun = { rows: null, at: 0 };
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
    if (state.rows !== seen) document.getElementById("stale").hidden = false;
    seen = state.rows;
    if (state.live) setTimeout(look, 2000);
  };
  look();
}

// The overview: what came out of runs whose logs are still being read is filled in as it becomes known.
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
  setTimeout(fill, 500);
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
  for (const mark of document.querySelectorAll("[data-says]")) {
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("focus", () => show(mark));
    mark.addEventListener("pointerleave", () => { says.hidden = true; });
    mark.addEventListener("blur", () => { says.hidden = true; });
  }
  const hides = [...document.querySelectorAll("[data-hides]")];
  const key = (name) => `${name.closest("figure").id}.${name.dataset.hides}`;
  const set = (name, shown) => {
    name.setAttribute("aria-pressed", String(shown));
    for (const part of name.closest("figure").querySelectorAll(`[data-series="${name.dataset.hides}"]`)) part.toggleAttribute("hidden", !shown);
  };
  const hidden = new Set((new URLSearchParams(location.search).get("hide") ?? "").split(","));
  for (const name of hides) {
    if (hidden.has(key(name))) set(name, false);
    // A name in the drawing is no button of the browser's: keys press it only if they are told to.
    name.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); name.dispatchEvent(new MouseEvent("click")); }
    });
    name.addEventListener("click", () => {
      set(name, name.getAttribute("aria-pressed") !== "true");
      const address = new URL(location.href);
      const off = hides.filter((one) => one.getAttribute("aria-pressed") === "false").map(key);
      off.length ? address.searchParams.set("hide", off.join(",")) : address.searchParams.delete("hide");
      history.replaceState(null, "", address);
    });
  }
}
