// Small helpers. Text always goes in as text, never as HTML: names of files may hold anything.

export const $ = (id) => document.getElementById(id);

export function make(tag, facts = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

// Two layers for each place: a highlighter that dark print shines through, and a line for dark pages.
export function drawMarks(target, marks) {
  target.replaceChildren();
  for (const { box, text } of marks) {
    const [left, top, right, bottom] = box;
    for (const tag of ["span", "i"]) {
      const place = make(tag, tag === "i" ? { "data-word": text } : {});
      place.style.left = `${(left - 0.004) * 100}%`;
      place.style.top = `${(top - 0.003) * 100}%`;
      place.style.width = `${(right - left + 0.008) * 100}%`;
      place.style.height = `${(bottom - top + 0.006) * 100}%`;
      target.append(place);
    }
  }
}

// [start, end] count Unicode characters, as Python does; JavaScript counts differently beyond the basic plane.
export function snippetNodes({ text, marks }) {
  const letters = Array.from(text);
  const nodes = [];
  let place = 0;
  for (const [start, end] of marks) {
    nodes.push(letters.slice(place, start).join(""), make("mark", {}, letters.slice(start, end).join("")));
    place = end;
  }
  nodes.push(letters.slice(place).join(""));
  return nodes;
}

// Matches that are no words, by their terms.
const BESIDE_WORDS = { "-1": "what the page is about", "-2": "other pages of its document" };

export function whyTable(matches) {
  const best = Math.max(...matches.map((match) => match.product), 1e-9);
  const rows = matches.map((match) => {
    const bar = make("b");
    bar.style.width = `${(100 * match.product) / best}%`;
    const name = BESIDE_WORDS[match.term] ?? `${match.token}${match.in_part ? " (part of a word)" : ""}`;
    return make("tr", {}, make("td", {}, name), make("td", {}, match.query_weight.toFixed(2)),
      make("td", {}, match.page_weight.toFixed(3)), make("td", {}, match.product.toFixed(2)),
      make("td", { "aria-hidden": "true" }, make("div", { class: "meter" }, bar)));
  });
  const head = ["Word", "In the query", "On the page", "Adds"].map((name) => make("th", { scope: "col" }, name));
  return make("table", { class: "why" }, make("thead", {}, make("tr", {}, ...head, make("td", { "aria-hidden": "true" }))),
    make("tbody", {}, ...rows));
}

const STATUS = { found: "found", "in part": "only parts of it", "not found": "not found" };

// Each word of the query with what became of it; not by colour alone.
export function wordList(words, title) {
  if (!words.length) return null;
  const items = words.map(({ word, status }) => make("li", { class: status.replace(" ", "-"), title: STATUS[status] },
    word, status === "found" ? "" : " ", status === "found" ? null : make("small", {}, STATUS[status])));
  return make("ul", { class: "words", "aria-label": title.replace(": ", "") }, ...items);
}

// The table, and the words that are meant but do not stand on the page.
export function whyNodes(matches) {
  const meant = matches.flatMap((match) => Object.entries(match.meant_by ?? {}));
  const lines = meant.map(([word, by]) => make("li", {}, make("b", {}, word), `, meant by: ${by.join(", ")}`));
  return [whyTable(matches), ...(lines.length ? [make("ul", { class: "meant", "aria-label": "Words that are meant, but do not stand here" }, ...lines)] : [])];
}
