// Talks to the server. Everything else gets answers, or an ApiError with a sentence for people.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let askForKey = async () => false;
export function onKeyNeeded(handler) {
  askForKey = handler;
}

export async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached. Is it still running?", 0);
  }
  if (answer.status === 401 && path !== "/v1/session" && (await askForKey())) return call(path, options);
  if (answer.status === 204) return null;
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new ApiError(body?.error?.message ?? `The server answered ${answer.status}.`, answer.status);
  return body;
}

export const post = (path, body) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const pageUrl = (id, what, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return `/v1/pages/${encodeURIComponent(id)}/${what}${query ? "?" + query : ""}`;
};

// fetch tells nothing about how far an upload is; XMLHttpRequest does.
export function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/v1/documents/${encodeURIComponent(file.name)}`);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onerror = () => reject(new ApiError("The upload was cut off.", 0));
    request.onload = () => {
      let body = null;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        // answered below
      }
      if (request.status === 202) resolve(body);
      else reject(new ApiError(body?.error?.message ?? `The server answered ${request.status}.`, request.status));
    };
    request.send(file);
  });
}
