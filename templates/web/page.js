"use strict";
const GIB = 2 ** 30;
const USERS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512];
const PARTS = [["weights", "weights_bytes"], ["KV cache", "kv_cache_bytes"], ["recurrent state", "recurrent_state_bytes"],
  ["compute", "compute_bytes"], ["other", "overhead_bytes"]];
const RATES = {{ rates | tojson }};
const DEFAULTS = {model: "llama3.1:8b", quantization: "", engine: "llama.cpp", hardware: "RTX 4090", tp: "", kv: "",
  context: "8192", users: "1"};
const form = document.getElementById("question");
const field = (name) => form.elements[name];
const find = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "line"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// context lengths in half powers of two: 512, 768, 1024, 1536, ...
const toTokens = (step) => (step % 2 ? 3 * 2 ** ((step - 1) / 2 - 1) : 2 ** (step / 2));
function toStep(tokens) {
  let best = 18;
  for (let step = 18; step <= 40; step++) if (Math.abs(toTokens(step) - tokens) < Math.abs(toTokens(best) - tokens)) best = step;
  return best;
}
const toUsers = (step) => USERS[step];
const toUserStep = (users) => USERS.reduce((best, u, i) => (Math.abs(u - users) < Math.abs(USERS[best] - users) ? i : best), 0);

function readState() {
  const context = toTokens(Number(field("context").value));
  return {
    model: field("model").value.trim(), quantization: field("quantization").value.trim(), engine: field("engine").value,
    hardware: field("this").checked ? "this" : field("hardware").value.trim(), tp: field("tp").value, kv: field("kv").value,
    context: String(context), users: String(toUsers(Number(field("users").value))),
  };
}

function showState(state) {
  for (const name of ["model", "quantization", "tp", "kv"]) field(name).value = state[name];
  if (![...field("engine").options].some((o) => o.value === state.engine)) field("engine").append(make("option", {}, state.engine));
  field("engine").value = state.engine;
  field("this").checked = state.hardware === "this";
  field("hardware").value = state.hardware === "this" ? "" : state.hardware;
  field("context").value = toStep(Number(state.context));
  field("users").value = toUserStep(Number(state.users));
  showSliders();
}

function showSliders() {
  const state = readState();
  find("context-shown").textContent = Number(state.context).toLocaleString("en") + " tokens";
  find("users-shown").textContent = state.users;
  field("context").setAttribute("aria-valuetext", find("context-shown").textContent);
  field("users").setAttribute("aria-valuetext", state.users);
  field("hardware").disabled = field("this").checked;
  field("hardware").required = !field("this").checked;
}

function keepState(state) {
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  history.replaceState(null, "", kept.length ? "?" + new URLSearchParams(kept) : location.pathname);
}

function makeBody(state) {
  const body = {model: state.model, hardware: state.hardware, engine: state.engine, context_length: Number(state.context),
    sequences: Number(state.users), workload: {concurrency: Number(state.users)}};
  if (state.quantization) body.quantization = state.quantization;
  if (state.kv) body.kv_cache_type = state.kv;
  if (state.tp) body.settings = {tensor_parallel: Number(state.tp)};
  return body;
}

async function ask(path, body, signal) {
  const headers = {"content-type": "application/json"};
  if (field("key").value) headers.authorization = "Bearer " + field("key").value;
  const response = await fetch(path, {method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal});
  if (response.status === 401) find("key").hidden = false;
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error.message + (answer.error.near.length ? " Did you mean: " + answer.error.near.join(", ") + "?" : ""));
  return answer;
}

// every number is a <data> with its place in the JSON
const read = (answer, pointer) => pointer.split("/").slice(1).reduce((value, key) => (value === null || value === undefined ? null : value[key]), answer);
function number(answer, pointer, form) {
  const value = read(answer, pointer);
  if (value === null || value === undefined) return document.createTextNode("unknown");
  const text = form === "gib" ? (value / GIB).toFixed(2) : form === "count" ? value.toLocaleString("en")
    : value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2);
  return make("data", {value: String(value), "data-at": pointer}, text);
}

function makeTable(caption, headers, rows) {
  const head = make("tr", {}, ...headers.map((h, i) => make("th", i ? {scope: "col", class: "n"} : {scope: "col"}, h)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => (i ? make("td", {class: "n"}, cell) : make("th", {scope: "row"}, cell)))));
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
}

function listPlaces(answer) {
  const places = answer.devices.map((_, i) => "/devices/" + i);
  if (answer.host && (!places.length || answer.host.weights_bytes)) places.push("/host");
  return places;
}

function drawBars(answer) {
  const places = listPlaces(answer);
  const most = Math.max(...places.flatMap((p) => ["/budget_bytes", "/high_bytes", "/total_bytes"].map((k) => read(answer, p + k) || 0))) * 1.03;
  const percent = (bytes) => (100 * bytes) / most + "%";
  const out = places.map((place) => {
    const bar = make("svg", {class: "bar", role: "img", "aria-label": read(answer, place + "/name") + ": the values stand in the table below"});
    let from = 0;
    PARTS.forEach(([, key], i) => {
      const bytes = read(answer, place + "/" + key) || 0;
      if (bytes) bar.append(make("rect", {class: "c" + i, x: percent(from), y: 4, width: percent(bytes), height: 22}));
      from += bytes;
    });
    const [low, high, budget] = ["/low_bytes", "/high_bytes", "/budget_bytes"].map((k) => read(answer, place + k));
    if (low !== null && high !== null) bar.append(make("line", {class: "bounds", x1: percent(low), x2: percent(high), y1: 15, y2: 15}));
    if (budget !== null) bar.append(make("line", {class: "limit", x1: percent(budget), x2: percent(budget), y1: 0, y2: 30}));
    return make("div", {}, make("p", {class: "bar-label"}, read(answer, place + "/name")), bar);
  });
  const swatch = (i) => { const s = make("svg", {class: "swatch", "aria-hidden": "true"}); s.append(make("rect", {class: "c" + i, width: 12, height: 12})); return s; };
  out.unshift(make("p", {class: "legend"}, ...PARTS.map(([name], i) => make("span", {}, swatch(i), " " + name)), "thin line: the bounds; thick line: what there is"));
  find("bars").replaceChildren(...out);
}

function show(answer) {
  const verdict = find("verdict");
  verdict.className = {true: "good", false: "bad"}[String(answer.fits)] || "unsure";
  const what = `${answer.model} ${answer.quantization} with ${answer.engine}`;
  verdict.textContent = {true: `${what} fits.`, false: `${what} does not fit.`}[String(answer.fits)] || `${what}: cannot tell.`;
  if (answer.message) verdict.textContent += " " + answer.message;
  drawBars(answer);
  const columns = [...PARTS, ["total", "total_bytes"], ["at least", "low_bytes"], ["at most", "high_bytes"], ["there is", "budget_bytes"]];
  find("memory").replaceChildren(makeTable("Memory, GiB", ["place", ...columns.map(([name]) => name)],
    listPlaces(answer).map((p) => [read(answer, p + "/name"), ...columns.map(([, key]) => number(answer, p + "/" + key, "gib"))])));
  const rates = RATES.filter(([key]) => answer.speed && answer.speed[key]);
  find("speed").replaceChildren(rates.length ? makeTable("Speed with bounds", ["", "at least", "likely", "at most"],
    rates.map(([key, name]) => [name, ...["low", "value", "high"].map((k) => number(answer, `/speed/${key}/${k}`, "rate"))])) : make("p", {}, "not known"));
  const ladder = (answer.holds && answer.holds.ladder) || [];
  find("ladder").replaceChildren(ladder.length ? makeTable("Requests held at once", ["tokens of one request", "requests"],
    ladder.map((_, i) => [number(answer, `/holds/ladder/${i}/context_length`, "count"), number(answer, `/holds/ladder/${i}/held`, "count")])) : make("p", {}, "not known"));
  find("notes").replaceChildren(make("ul", {}, ...[...answer.short, ...answer.warnings].map((w) => make("li", {}, w))));
  find("answer").hidden = false;
  find("answer").classList.remove("old");
}

function showFault(place, fault) {
  place.className = "bad";
  place.textContent = fault.message;
}

let running = null;
async function update() {
  showSliders();
  const state = readState();
  keepState(state);
  const body = makeBody(state);
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  find("curl").textContent = `curl ${location.origin}/v1/estimate -H 'Content-Type: application/json' -d '${quoted}'`;
  if (!state.model || !state.hardware) return;
  if (running) running.abort();
  running = new AbortController();
  const own = running;
  find("answer").classList.add("old");
  try {
    const answer = await ask("/v1/estimate", body, own.signal);
    if (own === running) show(answer);
  } catch (fault) {
    if (fault.name !== "AbortError" && own === running) { showFault(find("verdict"), fault); find("answer").hidden = true; }
  }
}

async function recommend() {
  const state = readState();
  const place = find("advice-verdict");
  place.className = "";
  place.textContent = "One moment …";
  find("advice").replaceChildren();
  try {
    const answer = await ask("/v1/recommend", {hardware: state.hardware, model: state.model, concurrency: Number(state.users), context_length: Number(state.context)});
    const chosen = answer.chosen;
    if (!chosen) {
      place.className = "bad";
      place.textContent = "Nothing fits.";
      find("advice").replaceChildren(make("ul", {}, ...answer.remedies.map((r) => make("li", {}, r.text || r))));
      return;
    }
    place.className = "good";
    place.textContent = [chosen.engine, chosen.model, chosen.quantization].filter(Boolean).join(", ");
    const command = make("pre", {tabindex: "0"}, make("code", {}, chosen.command || ""));
    const fill = make("button", {type: "button"}, "Show its memory above");
    fill.addEventListener("click", () => {
      showState({...state, engine: chosen.engine, model: chosen.model || state.model, quantization: chosen.quantization || ""});
      update();
    });
    find("advice").replaceChildren(make("ul", {}, ...chosen.reasons.map((r) => make("li", {}, r.text || r))), command, make("p", {}, fill));
  } catch (fault) {
    showFault(place, fault);
  }
}

let later = null;
form.addEventListener("input", () => { showSliders(); clearTimeout(later); later = setTimeout(update, 60); });
form.addEventListener("submit", (event) => event.preventDefault());
find("recommend").addEventListener("click", recommend);
addEventListener("popstate", start);

async function start() {
  const given = Object.fromEntries(new URLSearchParams(location.search));
  const state = {...DEFAULTS, ...Object.fromEntries(Object.entries(given).filter(([name]) => name in DEFAULTS))};
  showState(state);
  update();
  try {
    const names = await ask("/names.json");
    field("engine").replaceChildren(...names.engines.map((n) => make("option", {}, n)));
    field("engine").value = state.engine;
    for (const [list, of] of [["models", names.models], ["quantizations", names.quantizations], ["hardware", names.hardware]])
      find(list).replaceChildren(...of.map((n) => make("option", {value: n})));
  } catch (fault) {
    showFault(find("verdict"), fault);
  }
}
start();
