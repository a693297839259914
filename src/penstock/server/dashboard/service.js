// What the page asks of the service, and the key that it asks with.

const KEY = "penstock-key";

export class Problem extends Error {
  constructor(status, details) {
    super(details.detail || details.title || `the service answers ${status}`);
    this.status = status;
    this.details = details;
  }
}

export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

export async function ask(path, body, more = {}) {
  const headers = {};
  const key = more.token || sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  const request = { headers, method: body === undefined ? "GET" : "POST", signal: more.signal };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const answer = await fetch(path, request);
  const text = await answer.text();
  let value = {};
  try {
    value = text ? JSON.parse(text) : {};
  } catch {
    value = { detail: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Problem(answer.status, value);
  return value;
}
