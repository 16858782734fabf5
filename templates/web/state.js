// What is asked: it stands in the address, fills the fields, and becomes the bodies of requests.
import {isSite} from "./ask.js";

export const TABS = ["run", "fit", "buy", "check"];
export const DEFAULTS = {tab: "run", on: "", ram: "", os: "", use: "chat", users: "1", context: "", licence: "", thinking: "",
  plan: "", model: "", quantization: "", engine: "", tp: "", kv: "", length: "8192", budget: "", buy: "", vs: "", lang: ""};
export const state = {...DEFAULTS};

export function readAddress() {
  const given = new URLSearchParams(location.search);
  for (const name of Object.keys(DEFAULTS)) state[name] = given.get(name) ?? DEFAULTS[name];
  if (!TABS.includes(state.tab)) state.tab = DEFAULTS.tab;
}

// `step`: whether the browser's Back leads here
export function writeAddress(step) {
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  const address = kept.length ? "?" + new URLSearchParams(kept) : location.pathname;
  if (address !== location.search) history[step ? "pushState" : "replaceState"](null, "", address);
}

// The machine in words: what was typed, with RAM and system where it does not say them; `this` is the server's.
export function machineWords() {
  if (!state.on) return "this";
  if (isSite()) return state.on;
  const ram = state.ram.trim().replace(",", ".");
  return [state.on, ram && !/\bram\b/i.test(state.on) ? (/[a-z]/i.test(ram) ? `${ram} RAM` : `${ram}GB RAM`) : "",
    state.os && !/\b(linux|windows|macos|android)\b/i.test(state.on) ? state.os : ""].filter(Boolean).join(", ");
}

const withoutEmpty = (body) => Object.fromEntries(Object.entries(body).filter(([, v]) => v !== "" && v !== null && v !== undefined));

// `advise recommend`: without a model, the ones that are worth the most; with one, the plan for it
export function recommendBody(model, context) {
  return withoutEmpty({hardware: machineWords(), use_case: state.use, concurrency: Number(state.users) || 1, model,
    context_length: Number(context || state.context) || "", licence: model ? "" : state.licence,
    thinking: state.thinking && !model ? false : ""});
}

export function estimateBody() {
  const users = Number(state.users) || 1;
  const body = {model: state.model, hardware: machineWords(), quantization: state.quantization, engine: state.engine || "llama.cpp",
    context_length: Number(state.length), sequences: users, workload: {concurrency: users}, kv_cache_type: state.kv,
    settings: state.tp ? {tensor_parallel: Number(state.tp)} : ""};
  return withoutEmpty(body);
}

export function hardwareBody() {
  const body = {use_case: state.use, concurrency: Number(state.users) || 1, model: state.buy, budget: state.budget.trim()};
  return withoutEmpty(body.budget || body.model ? body : {...body, ladder: true});
}

// The command that gives the same answer.
export function commandOf(body, rest = "") {
  const quoted = (x) => (/^[\w./:-]+$/.test(x) ? x : `"${x}"`);
  const words = ["advise recommend"];
  if (body.hardware !== "this") words.push(`--on ${quoted(body.hardware)}`);
  if (body.model) words.push(`--model ${quoted(body.model)}`);
  if (body.use_case !== "chat") words.push(`--use-case ${body.use_case}`);
  if (body.concurrency !== 1) words.push(`--users ${body.concurrency}`);
  if (body.context_length) words.push(`--context ${body.context_length}`);
  return words.join(" ") + rest;
}
