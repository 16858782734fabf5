// "What can I run": models as cards, the best first. The first answer names them; each card is then the answer to
// `advise recommend --model`, so a card and its plan say the same.
import {ask} from "./ask.js";
import {announce, find, make, number, pill, range, read, quote, t} from "./dom.js";
import {drawShort, judgeFit} from "./memory.js";
import {recommendBody, state, machineWords} from "./state.js";

let turn = 0;
const extra = []; // models that were named by hand, for the machine and use at hand
let extraFor = "";

export async function showList(openPlan, showMachine) {
  const own = ++turn;
  const cards = find("cards");
  const body = recommendBody();
  const topic = JSON.stringify(body);
  if (extraFor !== topic) { extra.length = 0; extraFor = topic; }
  cards.setAttribute("aria-busy", "true");
  if (!cards.children.length) cards.replaceChildren(...Array.from({length: 6}, () => make("li", {class: "card empty", "aria-hidden": "true"})));
  else cards.classList.add("old");
  announce(t("asking"));
  let first;
  try {
    first = await ask("/v1/recommend", body);
  } catch (fault) {
    if (own !== turn) return;
    cards.replaceChildren();
    cards.classList.remove("old");
    throw fault;
  }
  if (own !== turn) return;
  showMachine(first.machine);
  const entries = listEntries(first);
  const made = entries.map((e) => e.card);
  cards.classList.remove("old");
  cards.replaceChildren(...made);
  if (!entries.length) { cards.replaceChildren(make("li", {class: "card wide"}, showNothing(first, ""))); }
  announce(entries.length ? t("found_models", {n: entries.length}) : t("nothing_fits"), entries.length ? "out" : "bad");
  await Promise.all(entries.map((e) => fill(e, openPlan, own)));
  if (own !== turn) return;
  cards.removeAttribute("aria-busy");
}

function listEntries(first) {
  const chosen = first.chosen;
  if (!chosen) return [];
  const out = [{model: chosen.model, kind: first.choices[0]?.kind || "", answer: first, body: recommendBody()}];
  for (const other of [...first.choices.slice(1), ...first.models, ...extra.map((model) => ({model}))])
    if (!out.some((e) => e.model === other.model)) out.push({model: other.model, kind: other.kind || "", body: recommendBody(other.model)});
  for (const e of out) e.card = make("li", {class: "card", "data-model": e.model}, heading(e), make("p", {class: "waiting"}, "…"));
  return out;
}

async function fill(entry, openPlan, own) {
  try {
    const answer = entry.answer || await ask("/v1/recommend", entry.body);
    if (own === turn) drawCard(entry, answer, openPlan);
  } catch (fault) {
    if (own === turn) entry.card.replaceChildren(heading(entry), make("p", {class: "bad"}, quote(fault.message)));
  }
}

// One more card, for a model that was named.
export async function addModel(model, openPlan) {
  const cards = find("cards");
  const there = [...cards.children].find((c) => c.dataset.model === model);
  if (there) { there.querySelector("button")?.focus(); return; }
  const entry = {model, kind: "", body: recommendBody(model)};
  entry.card = make("li", {class: "card", "data-model": model}, heading(entry), make("p", {class: "waiting"}, "…"));
  cards.prepend(entry.card);
  extra.push(model);
  await fill(entry, openPlan, turn);
  entry.card.querySelector("button")?.focus();
}

const KINDS = new Set(["ablest", "quick", "light"]);
function heading(entry, button) {
  const [, owner, name] = entry.model.match(/^(?:(.*)\/)?([^/]*)$/);
  return make("header", {}, KINDS.has(entry.kind) ? make("p", {class: "kind"}, t(`kind_${entry.kind}`)) : null,
    make("h2", {}, button ? make("button", {type: "button", class: "open", onclick: button}, name) : name),
    owner ? make("p", {class: "dim owner"}, owner) : null);
}

function drawCard(entry, answer, openPlan) {
  const card = entry.card;
  card.dataset.body = JSON.stringify(entry.body);
  const chosen = answer.chosen;
  if (!chosen || !chosen.memory) { card.replaceChildren(heading(entry), showNothing(answer, entry.model)); return; }
  const fit = judgeFit(answer, "/chosen");
  card.replaceChildren(heading(entry, () => openPlan(entry.model)), bigNumber(answer, "/chosen"), pill(t(`fit_${fit}`), fit),
    drawShort(answer, "/chosen/memory"), listFacts(answer, "/chosen"));
}

// Tokens a second for each user, with the bounds.
export function bigNumber(answer, at) {
  const one = (Number(state.users) || 1) === 1;
  const [pointer, form] = one ? [`${at}/speed/decode_tps`, "rate"] : [`${at}/speed/tpot_s`, "each"];
  if (!read(answer, pointer)) return make("p", {class: "big"}, t("speed_unknown"));
  return make("p", {class: "big"}, make("strong", {}, number(answer, `${pointer}/value`, form)), " ",
    make("span", {class: "unit"}, make("span", {}, one ? t("tokens_s") : t("tokens_s_each")), range(answer, pointer, form)));
}

export function listFacts(answer, at) {
  const quality = read(answer, `${at}/quality`);
  const facts = [[t("context"), [number(answer, `${at}/memory/context_length`, "tokens"), ` ${t("tokens")}`]]];
  if (quality) {
    facts.push([t("ability"), [number(answer, `${at}/quality/ability`, "signed"), " ± ", number(answer, `${at}/quality/spread`, "plain")]]);
    if (quality.answer_s !== null) facts.push([t(quality.thinks ? "answer_thought" : "answer"), [number(answer, `${at}/quality/answer_s`, "seconds")]]);
  }
  facts.push([t("licence"), [read(answer, `${at}/licence/model`) ? quote(read(answer, `${at}/licence/model`)) : t("unknown")]]);
  return make("dl", {class: "facts"}, facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

export function showNothing(answer, model) {
  const why = [...answer.warnings, ...answer.remedies];
  return make("div", {}, make("p", {class: "bad"}, model ? t("does_not_fit") : t("nothing_fits")),
    why.length ? make("ul", {class: "says"}, why.slice(0, 5).map((w) => make("li", {}, quote(w)))) : null);
}

// The machine of an answer in words, for the line below the field.
export function describeMachine(machine) {
  const cards = machine.devices.map((d) => d.name);
  const named = [...new Set(cards)].map((n) => { const count = cards.filter((x) => x === n).length; return count > 1 ? `${count} × ${n}` : n; });
  const ram = machine.memory.total_bytes;
  const parts = [named.join(" + ") || (machine.cpu.model ? `${machine.cpu.model}, ${t("no_gpu")}` : t("no_gpu")),
    ram === null ? t("ram_unknown") : [number({ram}, "/ram", "ram"), " GiB RAM"], machine.os_version || machine.os || ""].filter(Boolean);
  return make("span", {class: "machine-words"}, t(machineWords() === "this" ? "this_machine" : "taken_as"), " ",
    make("strong", {}, parts.flatMap((p, i) => (i ? [" · ", ...[p].flat()] : [p].flat()))));
}
