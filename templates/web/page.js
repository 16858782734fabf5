// The page: fields and address hold the question, a tab shows its answer.
import {ask, Fault, isSite, listUses, loadNames, setKey} from "./ask.js";
import {announce, find, hasWords, languages, loadWords, make, quote, setLanguage, t} from "./dom.js";
import {showOffers} from "./buy.js";
import {prepareCheck, showFindings} from "./check.js";
import {fillSliders, readSliders, showVerdict} from "./fit.js";
import {addModel, describeMachine, showList} from "./run.js";
import {showPlan} from "./plan.js";
import {DEFAULTS, TABS, readAddress, state, writeAddress} from "./state.js";
import {suggest} from "./suggest.js";

const FIELDS = {question: ["on", "ram", "os", "use", "users", "context", "licence"], fit: ["model", "quantization", "engine", "tp", "kv"], buy: ["budget", "model"]};
const NAMED = {buy: {model: "buy"}}; // fields whose place in the state has another name
let names = {models: [], hardware: [], quantizations: [], engines: [], usual: {machines: [], models: []}};
let scrolled = 0;

const places = (form) => FIELDS[form].map((name) => [find(form).elements[name], (NAMED[form] || {})[name] || name]);

function showState() {
  for (const form of Object.keys(FIELDS))
    for (const [field, name] of places(form)) field.value = name === "engine" && !state.engine ? "llama.cpp" : state[name];
  find("question").elements.thinking.checked = Boolean(state.thinking);
  for (const name of ["ram", "os"]) find("question").elements[name].disabled = !state.on;
  find("language").value = document.documentElement.lang;
  fillSliders();
}

function readState() {
  for (const form of Object.keys(FIELDS)) for (const [field, name] of places(form)) state[name] = field.value.trim();
  if (state.engine === "llama.cpp") state.engine = "";
  if (!Number(state.users)) state.users = "1";
  state.thinking = find("question").elements.thinking.checked ? "no" : "";
  for (const name of ["ram", "os"]) find("question").elements[name].disabled = !state.on;
}

function showTab() {
  for (const tab of TABS) {
    const [button, panel] = [find(`tab-${tab}`), find(`panel-${tab}`)];
    const chosen = tab === state.tab;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    panel.hidden = !chosen;
  }
  for (const part of document.querySelectorAll("[data-on]")) part.hidden = !part.dataset.on.split(" ").includes(state.tab);
  const plan = state.tab === "run" && Boolean(state.plan);
  find("list").hidden = plan;
  find("plan").hidden = !plan;
  document.body.classList.toggle("with-plan", plan);
  find("title").textContent = t(`title_${state.tab}`);
  document.title = plan ? `${state.plan.split("/").pop()} – advise` : `${t(`title_${state.tab}`)} – advise`;
}

function showMachine(machine) {
  const place = find("found");
  place.replaceChildren(describeMachine(machine));
  if (state.on && !isSite()) place.append(" ", make("button", {type: "button", class: "link", onclick: () => go({on: "", ram: "", os: "", plan: ""})}, t("use_this")));
  else if (!state.on) place.append(" ", make("span", {class: "dim"}, t("type_another")));
}

// The answer to what is asked, on the tab that is shown.
async function update() {
  showTab();
  const own = {...state};
  try {
    if (state.tab === "run") await (state.plan ? showPlan(state.plan, closePlan, showMachine, () => names) : showList(openPlan, showMachine));
    else if (state.tab === "fit") await showVerdict();
    else if (state.tab === "buy") await showOffers((hardware) => go({tab: "run", on: hardware, ram: "", os: "", plan: ""}));
    else await showFindings();
  } catch (fault) {
    if (Object.keys(own).every((name) => own[name] === state[name])) showFault(fault);
  }
}

function showFault(fault) {
  if (fault.code === "api_key") find("key").hidden = false;
  const place = find("status");
  place.className = "bad";
  const shown = hasWords(`fault_${fault.code}`) ? document.createTextNode(t(`fault_${fault.code}`, {what: fault.message})) : quote(fault.message);
  place.replaceChildren(shown);
  if (!(fault instanceof Fault)) { if (!(fault instanceof TypeError)) throw fault; place.replaceChildren(t("fault_network")); return; }
  if (fault.near.length && state.tab !== "check") place.append(" ", t("did_you_mean"), ...fault.near.slice(0, 5).flatMap((name) => [" ",
    make("button", {type: "button", class: "link", onclick: () => takeNear(name)}, name)]));
}

// A near match takes the place of the name that is not known.
function takeNear(name) {
  const wrong = names.models.includes(name) ? (state.tab === "run" ? "plan" : state.tab === "buy" ? "buy" : "model") : "on";
  go({[wrong]: name});
}

function go(changes) {
  Object.assign(state, changes);
  showState();
  writeAddress(true);
  return update();
}

function openPlan(model) {
  scrolled = scrollY;
  go({plan: model}).then(() => find("title").scrollIntoView({block: "start"}));
}

function closePlan() {
  const model = state.plan;
  go({plan: ""}).then(() => {
    scrollTo(0, scrolled);
    [...find("cards").children].find((c) => c.dataset.model === model)?.querySelector("button")?.focus({preventScroll: true});
  });
}

let later = null;
function changed() {
  clearTimeout(later);
  readState();
  later = setTimeout(() => { writeAddress(false); update(); }, 150);
}

function listen() {
  for (const tab of TABS) find(`tab-${tab}`).addEventListener("click", () => go({tab, plan: ""}));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1, Home: -TABS.indexOf(state.tab), End: TABS.length - 1 - TABS.indexOf(state.tab)}[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const tab = TABS[(TABS.indexOf(state.tab) + step + TABS.length) % TABS.length];
    find(`tab-${tab}`).focus();
    go({tab, plan: ""});
  });
  const question = find("question");
  question.addEventListener("change", (event) => { if (event.target.id !== "on" && event.target.id !== "api-key") { state.plan = state.tab === "run" ? state.plan : ""; changed(); } });
  find("on").addEventListener("change", () => takeMachine(find("on").value.trim()));
  find("users").addEventListener("input", changed);
  find("fit").addEventListener("input", (event) => { if (event.target.type === "range") { readSliders(); find("users").value = state.users; changed(); } });
  find("fit").addEventListener("change", (event) => { if (event.target.type !== "range") changed(); });
  for (const form of ["question", "fit", "another"]) find(form).addEventListener("submit", (event) => event.preventDefault());
  find("buy").addEventListener("submit", (event) => { event.preventDefault(); readState(); writeAddress(true); update(); });
  find("language").addEventListener("change", (event) => { state.lang = event.target.value; setLanguage(state.lang); find("cards").replaceChildren(); showState(); writeAddress(false); update(); });
  find("api-key").addEventListener("change", (event) => { setKey(event.target.value); find("key").hidden = true; begin(); });
  suggest(find("on"), () => names.hardware, () => names.usual.machines, takeMachine);
  suggest(find("another-model"), () => names.models, () => names.usual.models, (model) => { if (model) { find("another-model").value = ""; addModel(model, openPlan).catch(showFault); } });
  suggest(find("fit-model"), () => names.models, () => names.usual.models, () => changed());
  suggest(find("buy-model"), () => names.models, () => names.usual.models, () => {});
  suggest(find("quantization"), () => names.quantizations, () => [], () => changed());
  prepareCheck(() => update());
  addEventListener("popstate", () => { readAddress(); showState(); update(); });
}

function takeMachine(words) {
  if (words === state.on) return;
  go({on: words, ...(words ? {} : {ram: "", os: ""})});
}

// Names and first answer: again when a key was given.
async function begin() {
  try {
    names = await loadNames();
  } catch (fault) {
    showFault(fault);
    return;
  }
  find("engine").replaceChildren(...names.engines.map((n) => make("option", {}, n)));
  if (isSite()) {
    state.on = names.hardware.includes(state.on) ? state.on : names.hardware[0];
    Object.assign(state, {users: "1", context: "", licence: "", thinking: ""});
    for (const chip of document.querySelectorAll(".chip")) chip.hidden = !listUses().includes(chip.firstChild.value);
  }
  showState();
  await update();
}

readAddress();
await loadWords();
setLanguage(state.lang);
find("language").replaceChildren(...languages().map(([code, name]) => make("option", {value: code, lang: code}, name)));
listen();
showTab();
await begin();
export {DEFAULTS, ask, announce};
