// Questions and their answers: of the server that gives the page, or of the files next to it that hold what was asked of
// one before (`advise site`). Both are asked with the same bodies.
let key = "";
let known = null; // of a site: {machines: {words: file}, others: {question: answer}}
const kept = new Map(); // question -> promise of its answer
const MOST_KEPT = 60;

export class Fault extends Error {
  constructor(error) {
    super(error.message);
    Object.assign(this, {code: error.code, near: error.near || []});
  }
}

export const setKey = (given) => { key = given; kept.clear(); };
export const isSite = () => known !== null;
export const listUses = () => known && known.uses;

// The catalogue's names; in a site also which questions are answered.
export async function loadNames() {
  const names = await fetchJson("names.json");
  known = names.answers || null;
  document.documentElement.classList.add(known ? "site" : "server");
  return names;
}

const sort = (value) => (value && typeof value === "object" && !Array.isArray(value)
  ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, sort(value[name])])) : value);
const spell = (path, body) => `${path} ${JSON.stringify(sort(body))}`;

// The answer to a question. Equal questions are asked once; what failed is asked again.
export function ask(path, body) {
  const question = spell(path, body);
  if (!kept.has(question)) {
    if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
    const answer = known ? look(question, body.hardware) : fetchJson(path, body);
    kept.set(question, answer);
    answer.catch(() => kept.delete(question));
  }
  return kept.get(question);
}

async function fetchJson(path, body) {
  const headers = body ? {"content-type": "application/json"} : {};
  if (key) headers.authorization = "Bearer " + key;
  const response = await fetch(path.replace(/^\//, ""), {method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body)});
  const answer = await response.json();
  if (answer.error) throw new Fault(answer.error);
  return answer;
}

async function look(question, hardware) {
  const file = hardware === undefined ? known.others : known.machines[hardware];
  if (file === undefined) throw new Fault({code: "not_here", message: hardware});
  const answers = await readFile(file);
  const answer = answers[question];
  if (answer === undefined) throw new Fault({code: "not_here", message: hardware || ""});
  if (answer.error) throw new Fault(answer.error);
  return answer;
}

function readFile(file) {
  if (!kept.has(file)) kept.set(file, unpack(file));
  return kept.get(file);
}

// Answers lie there as JSON with gzip.
async function unpack(file) {
  const response = await fetch(file);
  return new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).json();
}
