// The search box, the results, and what is in the address bar.

import { call, onKeyNeeded, pageUrl, post } from "./api.js";
import { $, count, drawMarks, make, snippetNodes, whyNodes, wordList } from "./dom.js";
import { openLibrary, startLibrary } from "./library.js";
import { closeViewer, openViewer, startViewer } from "./viewer.js";

const FIRST = 10;
const MORE = 20;
const PAUSE = 5; // milliseconds after a key: several that come at once ask once
const state = { status: null, q: "", k: FIRST, filters: [], fuse: false, wordsOnly: false, hits: [], number: 0 };
let running = null;
let timer = 0;

// -- the address bar holds the search, so that a link leads to it ---------------------------------------

function readAddress() {
  const given = new URLSearchParams(location.search);
  state.q = given.get("q") ?? "";
  state.filters = given.getAll("filter");
  state.fuse = given.get("fuse") === "true";
  state.wordsOnly = given.get("words_only") === "true";
  return given.get("page");
}

function writeAddress({ page = null, push = false } = {}) {
  const given = new URLSearchParams();
  if (state.q) given.set("q", state.q);
  for (const filter of state.filters) given.append("filter", filter);
  for (const [name, value] of Object.entries(switches())) given.set(name, value);
  if (page) given.set("page", page);
  const text = given.toString();
  history[push ? "pushState" : "replaceState"](null, "", text ? `/?${text}` : "/");
  document.title = state.q ? `${state.q} – vsplade` : "vsplade";
}

// Those that are on, as the API takes them.
function switches() {
  return { ...(state.fuse && { fuse: "true" }), ...(state.wordsOnly && { words_only: "true" }) };
}

// -- searching ------------------------------------------------------------------------------------------

async function search({ keep = false } = {}) {
  running?.abort();
  const mine = (running = new AbortController());
  if (!keep) state.k = FIRST;
  writeAddress();
  showError(null);
  if (!state.q.trim()) return showStart();
  const given = new URLSearchParams({ q: state.q, k: state.k, explain: "true" });
  for (const filter of state.filters) given.append("filter", filter);
  for (const [name, value] of Object.entries(switches())) given.set(name, value);
  $("results").classList.add("stale");
  const started = performance.now();
  try {
    const found = await call(`/v1/search?${given}`, { signal: mine.signal });
    if (mine !== running) return;
    state.hits = found.hits;
    showHits(found, performance.now() - started, keep);
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    showError(error.message);
    showSummary(null);
  } finally {
    if (mine === running) $("results").classList.remove("stale");
  }
}

function showError(message) {
  $("error").hidden = !message;
  $("error").textContent = message ?? "";
}

// Pages that no search finds until somebody repairs the index: shown as long as that is so.
function showDamage(damaged) {
  const files = damaged?.files.slice(0, 10) ?? [];
  const more = (damaged?.files.length ?? 0) - files.length;
  const again = files.length ? ` They are of: ${files.join(", ")}${more > 0 ? ` and ${more} more` : ""}.` : "";
  const text = damaged ? `${damaged.message}${again} Whoever runs this server can repair it with vsplade index --recover.` : "";
  if ($("damage").textContent !== text) $("damage").textContent = text;
  $("damage").hidden = !damaged;
}

function showStart() {
  state.hits = [];
  $("results").replaceChildren();
  $("more").hidden = true;
  showSummary(null);
  const empty = state.status !== null && state.status.pages === 0;
  $("empty").hidden = !empty;
  $("start").hidden = empty || state.status === null;
}

function showHits(found, milliseconds, keep) {
  $("empty").hidden = $("start").hidden = true;
  const hits = found.hits;
  const list = $("results");
  const before = keep ? list.children.length : 0;
  const best = Math.max(...hits.map((hit) => hit.score), 1e-9);
  const fresh = hits.slice(before).map((hit, place) => hitCard(hit, before + place, best));
  if (keep) list.append(...fresh);
  else list.replaceChildren(...fresh);
  $("more").hidden = hits.length < state.k || state.k >= (state.status?.limits.k ?? 1000);
  showSummary(found, milliseconds);
  state.number += 1;
  for (const card of fresh) watch(card, state.number);
}

// What the search says beside its pages: which words were found, what was not understood, why nothing came.
function showSummary(found, milliseconds = 0) {
  const lines = [];
  if (found) showDamage(found.damaged);
  $("notes").replaceChildren(...(found?.notes ?? []).map((note) => make("li", {}, note)));
  $("notes").hidden = !found?.notes.length;
  if (found?.hits.length) {
    const time = `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
    const pages = $("more").hidden ? count(found.hits.length, "page") : `The best ${found.hits.length} pages`;
    lines.push(make("span", {}, `${pages} for “${found.query}” in ${time}`));
  }
  if (found?.message) lines.push(make("strong", { class: "message" }, found.message));
  if (found && !found.hits.length && state.filters.length) lines.push(make("span", {}, "Take a filter away, or use other words."));
  const missing = found?.words.some((word) => word.status !== "found");
  if (missing) lines.push(wordList(found.words, found.damaged ? "Within reach: " : "In the whole index: "));
  $("summary").replaceChildren(...lines);
}

// -- one result -----------------------------------------------------------------------------------------

function hitCard(hit, place, best) {
  const title = `${hit.name}, page ${hit.page_num}`;
  const boxes = make("div", { class: "marks" });
  const picture = make("img", { alt: "", loading: "lazy", src: pageUrl(hit.id, "thumbnail") });
  const sheet = make("div", { class: "sheet loading" }, picture, boxes);
  const { width, height } = hit.metadata;
  if (width > 0 && height > 0) sheet.style.aspectRatio = `${width} / ${height}`;
  picture.addEventListener("load", () => sheet.classList.remove("loading"));
  picture.addEventListener("error", () => {
    sheet.classList.remove("loading");
    picture.remove();
  });
  const meter = make("b");
  meter.style.width = `${(100 * hit.score) / best}%`;
  const panel = make("div", { id: `why-${place}`, hidden: true });
  const toggle = make("button", {
    type: "button", class: "why-toggle", "aria-expanded": "false", "aria-controls": `why-${place}`,
    "aria-label": `Why ${title}`, onclick: () => showWhy(toggle, panel, hit),
  }, "Why?");
  const open = make("button", { type: "button", class: "open", onclick: () => openHit(hit) }, hit.name);
  const tags = Object.entries(hit.metadata).filter(([key]) => state.facets?.has(key));
  const card = make("li", { class: "hit", "data-id": hit.id },
    make("button", { type: "button", class: "thumb", tabindex: "-1", "aria-label": `Open ${title}`, onclick: () => openHit(hit) }, sheet),
    make("div", {},
      make("h2", {}, open),
      make("div", { class: "where" },
        make("span", {}, `Page ${hit.page_num}${hit.metadata.pages ? ` of ${hit.metadata.pages}` : ""}`),
        make("span", { class: "score", title: "Score" }, make("span", { class: "meter", "aria-hidden": "true" }, meter),
          make("span", { class: "hidden" }, "Score "), hit.score.toFixed(2)),
        ...tags.map(([key, value]) => make("span", { class: "tag" }, `${key}: ${value}`)), toggle),
      wordList(hit.words ?? [], "On this page: "),
      make("p", { class: "snippet waiting" }, "…"),
      make("div", { class: "strip", "aria-hidden": "true", hidden: true, onclick: () => openHit(hit) }), panel));
  return card;
}

function showWhy(toggle, panel, hit) {
  const open = panel.hidden;
  panel.hidden = !open;
  toggle.setAttribute("aria-expanded", String(open));
  if (open && !panel.children.length) panel.append(...whyNodes(hit.matches ?? []));
}

// Marks and snippets need the page's file: they are asked for when a result comes into view.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    fill(entry.target);
  }
}, { rootMargin: "200px" });

function watch(card, number) {
  card.dataset.number = number;
  seen.observe(card);
}

async function fill(card) {
  const snippet = card.querySelector(".snippet");
  const query = state.q;
  try {
    const places = await call(pageUrl(card.dataset.id, "places", { q: query, ...switches() }));
    if (!card.isConnected) return;
    drawMarks(card.querySelector(".marks"), places.marks);
    snippet.replaceChildren(...snippetNodes(places.snippet));
    snippet.classList.remove("waiting");
    if (places.best) showStrip(card, places);
  } catch (error) {
    snippet.textContent = error.status === 404 ? "The file of this page cannot be shown now." : error.message;
  }
}

// The page itself around the best place, large enough to read.
function showStrip(card, { best, marks }) {
  const strip = card.querySelector(".strip");
  const boxes = make("div", { class: "marks" });
  const picture = make("img", { alt: "", src: pageUrl(card.dataset.id, "image", { edge: "1200" }) });
  const sheet = make("div", { class: "sheet" }, picture, boxes);
  strip.replaceChildren(sheet);
  strip.hidden = false;
  drawMarks(boxes, marks);
  picture.onerror = () => (strip.hidden = true);
  picture.onload = () => {
    const { width, height } = strip.getBoundingClientRect();
    const wide = Math.max(width, Math.min(picture.naturalWidth, 1.35 * width));
    const tall = (wide * picture.naturalHeight) / picture.naturalWidth;
    const middle = [((best[0] + best[2]) / 2) * wide, ((best[1] + best[3]) / 2) * tall];
    const within = (value, most) => Math.max(0, Math.min(value, most));
    sheet.style.width = `${wide}px`;
    sheet.style.left = `${-within(middle[0] - width / 2, wide - width)}px`;
    sheet.style.top = `${-within(middle[1] - height / 2, Math.max(0, tall - height))}px`;
  };
}

function openHit(hit) {
  writeAddress({ page: hit.id, push: true });
  openViewer(hit, state, switches());
}

// -- filters --------------------------------------------------------------------------------------------

async function loadFacets() {
  const { facets } = await call("/v1/facets");
  state.facets = new Set(facets.map((facet) => facet.key));
  const shown = facets.filter((facet) => facet.values.length);
  $("facets").replaceChildren(...shown.map(facetMenu));
  $("fuse-box").hidden = !state.status.fusable;
  $("words-only-box").hidden = !state.status.by_meaning;
  showSwitches();
  $("controls").hidden = !shown.length && !state.status.fusable && !state.status.by_meaning;
}

function showSwitches() {
  $("fuse").checked = state.fuse;
  $("words-only").checked = state.wordsOnly;
}

function chosen(key) {
  const filter = state.filters.find((text) => text.startsWith(`${key}=`));
  return new Set(filter ? filter.slice(key.length + 1).split(",") : []);
}

function facetMenu({ key, values, more }) {
  const menu = make("details");
  const summary = make("summary");
  const name = () => {
    const now = chosen(key);
    summary.textContent = now.size ? `${key}: ${[...now].join(", ")}` : key;
    menu.classList.toggle("active", now.size > 0);
  };
  const boxes = values.map(({ value, pages }) => {
    const box = make("input", { type: "checkbox", value: String(value) });
    box.checked = chosen(key).has(String(value));
    // a comma would be read as two values
    box.disabled = String(value).includes(",");
    box.addEventListener("change", () => {
      const now = chosen(key);
      if (box.checked) now.add(box.value);
      else now.delete(box.value);
      state.filters = state.filters.filter((text) => !text.startsWith(`${key}=`));
      if (now.size) state.filters.push(`${key}=${[...now].join(",")}`);
      name();
      search();
    });
    return make("label", {}, box, make("span", {}, String(value)), make("span", {}, pages.toLocaleString("en")));
  });
  const rest = more ? [make("small", {}, `and ${count(more, "other value")}`)] : [];
  menu.append(summary, make("fieldset", {}, make("legend", { class: "hidden" }, `Filter by ${key}`), ...boxes, ...rest));
  name();
  return menu;
}

// -- keyboard -------------------------------------------------------------------------------------------

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("q").focus();
    $("q").select();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (typing && event.target.id !== "q") return;
    const buttons = [...document.querySelectorAll(".hit .open")];
    const place = buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    if (!buttons.length || (typing && event.key === "ArrowUp")) return;
    event.preventDefault();
    if (place < 0) return $("q").focus();
    buttons[Math.min(place, buttons.length - 1)].focus();
    document.activeElement.closest(".hit").scrollIntoView({ block: "nearest" });
  } else if (event.key === "w" && !typing) {
    document.activeElement.closest?.(".hit")?.querySelector(".why-toggle").click();
  } else if (event.key === "Escape" && !typing) {
    for (const menu of document.querySelectorAll("#facets details[open]")) menu.open = false;
  }
}

// -- key, colours, start --------------------------------------------------------------------------------

let asking = null;
function askForKey() {
  asking ??= new Promise((resolve) => {
    $("login").showModal();
    $("login-form").onsubmit = async (event) => {
      event.preventDefault();
      try {
        await post("/v1/session", { key: $("key").value });
        $("key").value = "";
        $("login").close();
        resolve(true);
        asking = null;
      } catch (error) {
        $("login-error").textContent = error.message;
      }
    };
  });
  return asking;
}

const THEMES = { "": "as the system", light: "light", dark: "dark" };
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", name);
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  $("theme").textContent = { "": "◐", light: "☀", dark: "☾" }[name];
}

async function loadStatus() {
  state.status = await call("/v1/status");
  const { pages, documents } = state.status;
  showDamage(state.status.damaged);
  $("count-documents").textContent = documents.toLocaleString("en");
  $("start-text").textContent = `${count(pages, "page")} of ${count(documents, "document")} can be searched.`;
  await loadFacets();
  return state.status;
}

async function showAddress({ typed = "" } = {}) {
  const page = readAddress();
  if (typed) state.q = typed;
  else $("q").value = state.q;
  showSwitches();
  await search();
  const hit = page && state.hits.find((one) => one.id === page);
  if (hit) {
    writeAddress({ page });
    openViewer(hit, state, switches());
  } else closeViewer();
}

async function start() {
  setTheme(localStorage.getItem("theme") in THEMES ? localStorage.getItem("theme") : "");
  onKeyNeeded(askForKey);
  startViewer(() => writeAddress());
  startLibrary(state, async () => {
    await loadStatus();
    if (state.q) await search({ keep: false });
    else showStart();
  });
  $("q").addEventListener("input", () => {
    clearTimeout(timer);
    state.q = $("q").value;
    timer = setTimeout(search, PAUSE);
  });
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    state.q = $("q").value;
    search();
  });
  for (const [id, name] of [["fuse", "fuse"], ["words-only", "wordsOnly"]]) {
    $(id).addEventListener("change", () => {
      state[name] = $(id).checked;
      search();
    });
  }
  $("more").addEventListener("click", () => {
    state.k += MORE;
    search({ keep: true });
  });
  $("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES);
    setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length]);
  });
  $("help").addEventListener("click", () => $("keys").showModal());
  $("open-library").addEventListener("click", () => openLibrary());
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("#facets details[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  window.addEventListener("popstate", () => showAddress());
  try {
    readAddress();
    await loadStatus();
  } catch (error) {
    showError(error.message);
  }
  // What was typed while this script was still on its way counts, and not what the address says.
  await showAddress({ typed: $("q").value });
  if (!state.q) $("q").focus();
}

start();
