// A page large: steps through its document, jumps to the next hit, shows marks and why.

import { call, pageUrl } from "./api.js";
import { $, drawMarks, snippetNodes, whyNodes } from "./dom.js";

let now = null; // {hit, pages, place, hits, q}
let asked = 0;
let leave = () => {};

export function openViewer(hit, state, switches) {
  const pages = [{ id: hit.id, page_num: hit.page_num }];
  now = { q: state.q, filters: state.filters, switches, name: hit.name, doc_id: hit.doc_id, pages, place: 0, hits: null };
  if (!$("viewer").open) $("viewer").showModal();
  $("view-frame").focus();
  show();
  loadDocument(now);
}

export function closeViewer() {
  if ($("viewer").open) $("viewer").close();
}

async function loadDocument(mine) {
  try {
    const document = await call(`/v1/documents/${encodeURIComponent(mine.doc_id)}`);
    if (mine !== now) return;
    const id = mine.pages[mine.place].id;
    mine.pages = document.page_ids;
    mine.place = Math.max(0, mine.pages.findIndex((page) => page.id === id));
    const given = new URLSearchParams({ q: mine.q, k: String(Math.min(1000, mine.pages.length)), filter: `doc_id=${mine.doc_id}`, ...mine.switches });
    const found = await call(`/v1/search?${given}`);
    if (mine !== now) return;
    mine.hits = new Set(found.hits.map((hit) => hit.id));
  } catch (error) {
    if (mine === now) mine.hits = new Set();
  }
  showTools();
}

async function show() {
  const mine = now;
  const page = mine.pages[mine.place];
  const number = ++asked;
  $("view-error").hidden = true;
  $("view-boxes").replaceChildren();
  $("view-snippet").replaceChildren();
  const image = $("view-image");
  image.hidden = false;
  image.alt = `${mine.name}, page ${page.page_num}`;
  image.onerror = () => {
    image.hidden = true;
    $("view-error").textContent = "This page cannot be shown: its file is gone or damaged.";
    $("view-error").hidden = false;
  };
  image.src = pageUrl(page.id, "image");
  $("view-frame").scrollTop = 0;
  showTools();
  try {
    const [places, why] = await Promise.all([
      call(pageUrl(page.id, "places", { q: mine.q, ...mine.switches })),
      call(`/v1/explain?${explained(mine, page)}`),
    ]);
    if (number !== asked) return;
    drawMarks($("view-boxes"), places.marks);
    $("view-snippet").replaceChildren(...snippetNodes(places.snippet));
    showWhy(why);
  } catch (error) {
    if (number === asked) $("view-why").textContent = error.message;
  }
}

// The same filters as the search had: scores depend on the best page that passes them.
function explained({ q, filters, switches }, { id }) {
  const given = new URLSearchParams({ q, id, ...switches });
  for (const filter of filters) given.append("filter", filter);
  return given;
}

function showWhy(why) {
  const target = $("view-why");
  if (!why.matches.length) target.textContent = "No word of the search stands on this page.";
  else target.replaceChildren(...whyNodes(why.matches));
}

function showTools() {
  const { pages, place, name, doc_id, hits } = now;
  const page = pages[place];
  $("view-name").textContent = name;
  $("view-page").textContent = `page ${page.page_num}${pages.length > 1 ? ` (${place + 1} of ${pages.length})` : ""}`;
  $("view-previous").disabled = place === 0;
  $("view-next").disabled = place === pages.length - 1;
  const others = hits ? [...hits].filter((id) => id !== page.id).length : 0;
  $("view-hit").disabled = !others;
  $("view-hit").textContent = hits && hits.size > 1 ? `Next hit (${hits.size})` : "Next hit";
  $("view-original").href = `/v1/documents/${encodeURIComponent(doc_id)}/file#page=${page.page_num}`;
}

function step(by) {
  const place = now.place + by;
  if (place < 0 || place >= now.pages.length) return;
  now.place = place;
  show();
}

function nextHit() {
  if (!now.hits) return;
  const { pages } = now;
  for (let far = 1; far <= pages.length; far += 1) {
    const place = (now.place + far) % pages.length;
    if (now.hits.has(pages[place].id) && place !== now.place) {
      now.place = place;
      return show();
    }
  }
}

function toggle(button, name, on) {
  const pressed = $(button).getAttribute("aria-pressed") !== "true";
  $(button).setAttribute("aria-pressed", String(pressed));
  $("viewer").classList.toggle(name, pressed === on);
}

export function startViewer(onClose) {
  leave = onClose;
  $("view-previous").onclick = () => step(-1);
  $("view-next").onclick = () => step(1);
  $("view-hit").onclick = nextHit;
  $("view-marks").onclick = () => toggle("view-marks", "no-marks", false);
  $("view-zoom").onclick = () => toggle("view-zoom", "zoom", true);
  $("view-close").onclick = closeViewer;
  $("viewer").addEventListener("close", () => {
    asked += 1;
    $("view-image").removeAttribute("src");
    leave();
  });
  // On the document: a button that is switched off loses the focus, and its keys with it.
  document.addEventListener("keydown", (event) => {
    if (!$("viewer").open || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), n: nextHit, m: () => $("view-marks").click(), z: () => $("view-zoom").click(), o: () => $("view-original").click() };
    if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}
