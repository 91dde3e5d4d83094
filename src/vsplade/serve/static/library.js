// Documents: adding with progress, removing, what could not be read.

import { call, upload } from "./api.js";
import { $, bytes, count, make } from "./dom.js";

const POLL = 400; // milliseconds between two looks at a job
const PAGE = 50;
let state = null;
let changed = async () => {};
let shown = PAGE;
const jobs = new Map(); // id -> row

export function startLibrary(shared, onChange) {
  state = shared;
  changed = onChange;
  $("choose").onclick = $("empty-choose").onclick = () => $("files").click();
  $("files").onchange = () => {
    addFiles([...$("files").files]);
    $("files").value = "";
  };
  $("document-name").oninput = () => {
    shown = PAGE;
    listDocuments();
  };
  $("documents-more").onclick = () => {
    shown += PAGE;
    listDocuments();
  };
  startDropping();
}

function startDropping() {
  let depth = 0;
  const withFiles = (event) => event.dataTransfer?.types.includes("Files");
  const over = (on) => ($("drop").hidden = !on || state.status?.read_only);
  document.addEventListener("dragenter", (event) => withFiles(event) && over((depth += 1)));
  document.addEventListener("dragleave", (event) => withFiles(event) && over((depth -= 1) > 0));
  document.addEventListener("dragover", (event) => withFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    depth = 0;
    over(false);
    if (!state.status?.read_only) addFiles([...event.dataTransfer.files]);
  });
}

export async function openLibrary() {
  if (!$("library").open) $("library").showModal();
  $("adding").hidden = Boolean(state.status?.read_only);
  showState();
  await Promise.all([listDocuments(), listProblems()]);
}

function showState() {
  const { pages, documents, bytes: size, encoder, generation } = state.status ?? {};
  if (pages === undefined) return;
  $("state").textContent = `${count(pages, "page")} of ${count(documents, "document")}${size === null ? "" : `, ${bytes(size)} on disk`}. `
    + `Read by “${encoder}”, commit ${generation}.`;
}

// -- adding ---------------------------------------------------------------------------------------------

async function addFiles(files) {
  if (!files.length) return;
  await openLibrary();
  // one after the other: the server works them off one by one as well
  for (const file of files) await addFile(file);
}

async function addFile(file) {
  const bar = make("progress", { max: "1", value: "0", "aria-label": `Progress of ${file.name}` });
  const note = make("span", { class: "count" }, "uploading");
  const row = make("li", {}, make("span", {}, file.name), bar, note);
  $("jobs").prepend(row);
  jobs.set(row, true);
  working();
  try {
    const most = state.status?.limits.upload_bytes ?? Infinity;
    if (file.size > most) throw new Error(`This file has ${bytes(file.size)}; ${bytes(most)} are allowed.`);
    const job = await upload(file, (share) => (bar.value = share));
    follow(job.id, bar, note, row);
  } catch (error) {
    finish(row, bar, note, "failed", error.message);
  }
}

async function follow(id, bar, note, row) {
  bar.removeAttribute("value");
  for (;;) {
    let job;
    try {
      job = await call(`/v1/jobs/${id}`);
    } catch (error) {
      return finish(row, bar, note, "failed", error.message);
    }
    if (job.state === "done" || job.state === "failed") {
      const failed = job.state === "failed";
      finish(row, bar, note, job.state, failed ? `Not added: ${job.error}.` : summary(job.report));
      await Promise.all([changed(), listDocuments(), listProblems()]);
      return showState();
    }
    if (job.total) {
      bar.max = job.total;
      bar.value = job.done;
    }
    note.textContent = job.state === "queued" ? "waiting" : job.total ? `${job.done} of ${count(job.total, "page")}` : "reading";
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

function summary(report) {
  const added = report.new + report.updated;
  const failed = report.failures.length ? `, ${report.failures.length} could not be read` : "";
  return added ? `${count(added, "page")} added${failed}` : `already here${failed}`;
}

function finish(row, bar, note, kind, text) {
  bar.remove();
  note.className = kind;
  note.textContent = text;
  jobs.delete(row);
  working();
}

function working() {
  $("job-dot").hidden = !jobs.size;
}

// -- listing and removing -------------------------------------------------------------------------------

async function listDocuments() {
  const given = new URLSearchParams({ limit: String(Math.min(1000, shown)), name: $("document-name").value });
  const { total, documents } = await call(`/v1/documents?${given}`);
  $("documents").replaceChildren(...documents.map(documentRow));
  $("documents-more").hidden = documents.length >= total;
}

function documentRow(one) {
  const remove = make("button", { type: "button", class: "danger", "aria-label": `Remove ${one.name}`, onclick: () => askToRemove(one) }, "Remove");
  remove.hidden = Boolean(state.status?.read_only);
  const link = make("a", { href: `/v1/documents/${encodeURIComponent(one.doc_id)}/file`, target: "_blank", rel: "noopener" }, one.name);
  return make("li", { "data-document": one.doc_id }, make("span", {}, link), make("span", { class: "count" }, count(one.pages, "page")), remove);
}

function askToRemove(one) {
  $("confirm-text").textContent = `${one.name}: ${count(one.pages, "page")} will no longer be found. A file that was uploaded here is deleted.`;
  $("confirm").showModal();
  $("confirm-no").onclick = () => $("confirm").close();
  $("confirm-yes").onclick = async () => {
    $("confirm").close();
    try {
      await call(`/v1/documents/${encodeURIComponent(one.doc_id)}`, { method: "DELETE" });
      await changed();
      showState();
    } catch (error) {
      $("state").textContent = error.message;
    }
    await listDocuments();
  };
}

async function listProblems() {
  const { problems } = await call("/v1/problems");
  $("problems").hidden = !problems.length;
  $("problems").querySelector("summary").textContent = `${count(problems.length, "file or page")} could not be read`.replace("file or pages", "files or pages");
  $("problems").querySelector("ul").replaceChildren(
    ...problems.map(({ name, page, reason }) => make("li", {}, `${name}${page ? `, page ${page}` : ""}: ${reason}`)));
}
