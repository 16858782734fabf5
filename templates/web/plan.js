// The plan behind a card: how to start it, where memory goes, longer contexts, what else there is, what would change it.
import {ask, isSite} from "./ask.js";
import {compareMachines, showUsers, unfold} from "./compare.js";
import {announce, bullets, code, find, hasWords, make, number, pill, range, read, quote, t, table} from "./dom.js";
import {drawMemory, judgeFit, listPlaces, usedOf} from "./memory.js";
import {bigNumber, listFacts, showNothing} from "./run.js";
import {commandOf, machineWords, recommendBody, state} from "./state.js";

const CONTEXTS = [8192, 16384, 32768, 65536, 131072];
let turn = 0;

export async function showPlan(model, close, showMachine, names) {
  const own = ++turn;
  const place = find("plan");
  const body = recommendBody(model);
  const back = make("button", {type: "button", class: "back", onclick: close}, "← ", t("all_models"));
  place.replaceChildren(back, make("p", {class: "waiting"}, "…"));
  announce(t("asking"));
  const answer = await ask("/v1/recommend", body);
  if (own !== turn) return;
  showMachine(answer.machine);
  place.dataset.body = JSON.stringify(body);
  place.replaceChildren(back, ...(answer.chosen ? drawPlan(answer, body, own, names) : [title(model), showNothing(answer, model)]));
  announce(t("plan_shown", {model}), "out");
  place.querySelector("h2").focus({preventScroll: true});
}

function title(model) {
  const [, owner, name] = model.match(/^(?:(.*)\/)?([^/]*)$/);
  return make("h2", {tabindex: "-1"}, name, owner ? make("span", {class: "dim owner"}, ` ${owner}`) : null);
}

const section = (word, ...content) => (content.flat().some(Boolean)
  ? make("section", {class: "block"}, make("h3", {}, t(word)), ...content) : null);

function drawPlan(answer, body, own, names) {
  const chosen = answer.chosen;
  const fit = judgeFit(answer, "/chosen");
  const top = make("div", {class: "plan-top"}, bigNumber(answer, "/chosen"),
    make("div", {}, pill(t(`fit_${fit}`), fit), make("p", {class: "how"}, t("runs_with", {engine: chosen.engine}), " ",
      make("strong", {}, [chosen.engine, chosen.engine_version].filter(Boolean).join(" ")), ", ", quote(chosen.quantization || ""))),
    listFacts(answer, "/chosen"));
  const start = section("start_it", chosen.install ? code(t("install"), chosen.install) : null,
    chosen.command ? code(t("command"), chosen.command) : null, chosen.test ? code(t("test"), chosen.test) : null,
    make("p", {class: "dim"}, t("same_command"), " ", make("code", {}, commandOf(body))));
  const memory = chosen.memory ? section("memory", drawMemory(answer, "/chosen/memory")) : null;
  const longer = make("div", {"aria-busy": "true"});
  showContexts(longer, answer, body, own);
  const left = make("div", {}, start, section("launch_files", ...launchFiles(body)));
  const right = make("div", {}, memory, section("contexts", longer), section("speed", drawSpeed(answer)));
  return [title(chosen.model), top, make("div", {class: "columns"}, left, right),
    ...(isSite() ? [] : [unfold("more_users", (place) => showUsers(place, body)), compareMachines(answer, body, names)]),
    section("why", bullets([...chosen.reasons, ...chosen.notes])),
    section("what_else", ...listOthers(answer, body)), section("what_changes", ...listChanges(answer)),
    section("good_to_know", bullets(answer.warnings))].filter(Boolean);
}

function drawSpeed(answer) {
  const rows = [["one_request", "decode_tps", "rate"], ["in_all", "output_tps", "rate"], ["prompt", "prefill_tps", "rate"],
    ["first_token", "ttft_s", "seconds"]].filter(([, key]) => read(answer, `/chosen/speed/${key}`))
    .filter(([, key]) => key !== "output_tps" || (Number(state.users) || 1) > 1)
    .map(([word, key, form]) => [t(word), number(answer, `/chosen/speed/${key}/value`, form), range(answer, `/chosen/speed/${key}`, form)]);
  return rows.length ? make("div", {}, table(t("speed_caption"), ["", t("likely"), t("bounds")], rows),
    make("details", {}, make("summary", {}, t("where_from")), bullets(read(answer, "/chosen/speed/notes") || []))) : null;
}

// Each longer context is planned anew: what it takes, and how fast it stays.
async function showContexts(place, answer, body, own) {
  const known = [...CONTEXTS];
  if (body.context_length && !known.includes(body.context_length)) known.push(body.context_length);
  const rows = await Promise.all(known.sort((a, b) => a - b).map(async (context) => {
    try {
      return [context, await ask("/v1/recommend", {...body, context_length: context})];
    } catch {
      return null;
    }
  }));
  if (own !== turn) return;
  place.removeAttribute("aria-busy");
  const found = rows.filter(Boolean);
  if (!found.length) { place.replaceChildren(...(listHeld(answer))); return; }
  const one = (Number(state.users) || 1) === 1;
  place.replaceChildren(table(t("contexts_caption"), [t("tokens"), t("memory"), t("tokens_s"), t("format")], found.map(([context, a]) => {
    const tokens = make("strong", {}, number({context}, "/context", "tokens"));
    if (!a.chosen || !a.chosen.memory) return [tokens, t("no_room"), "–", "–"];
    const places = listPlaces(a, "/chosen/memory");
    return [tokens, make("span", {}, places.slice(0, 2).flatMap((p, i) => (i ? [" + ", usedOf(a, p)] : [usedOf(a, p)]))),
      one ? number(a, "/chosen/speed/decode_tps/value", "rate") : number(a, "/chosen/speed/tpot_s/value", "each"),
      quote(a.chosen.quantization || "–")];
  })));
  place.querySelectorAll("data").forEach((d) => d.removeAttribute("data-at")); // of other questions than the plan's
}

function listHeld(answer) {
  const ladder = read(answer, "/chosen/holds/ladder") || [];
  return ladder.length ? [table(t("held_caption"), [t("tokens"), t("requests")], ladder.map((_, i) => [
    number(answer, `/chosen/holds/ladder/${i}/context_length`, "tokens"), number(answer, `/chosen/holds/ladder/${i}/held`, "count")]))] : [];
}

// Other engines for the same model, each with the command that prints its plan.
function listOthers(answer, body) {
  const others = answer.alternatives.map((a, i) => [a, i]).filter(([a]) => a.memory);
  const draw = ([a, i]) => make("details", {class: "other"}, make("summary", {},
    make("span", {class: "other-name"}, quote(a.engine), " ", make("span", {class: "dim"}, quote(a.quantization || ""))),
    make("span", {class: "other-rate"}, a.speed ? number(answer, `/alternatives/${i}/speed/decode_tps/value`, "rate") : t("unknown"), ` ${t("tokens_s")}`)),
  a.gains.length ? bullets(a.gains) : null, a.command ? code(t("command"), a.command)
    : code(t("command"), commandOf(body, ` --engine ${a.engine}`)));
  const [shown, rest] = [others.slice(0, 4), others.slice(4)];
  return [...shown.map(draw), rest.length ? make("details", {class: "rest"}, make("summary", {}, t("more_n", {n: rest.length})), ...rest.map(draw)) : null];
}

function listChanges(answer) {
  const faster = answer.speculation;
  return [bullets([...answer.growth, ...answer.near_misses.map((m) => [m.what, m.missing, m.would_fit_if].filter(Boolean).join("; "))]),
    faster ? make("div", {}, make("p", {}, t("speculation"), " ", range(answer, "/speculation/gain", "plain"), "×"),
      code(t("settings"), Object.entries(faster.settings).map(([k, v]) => `--${k} ${v}`).join(" "))) : null,
    bullets(answer.remedies)];
}

// Files of `advise render`, asked for one at a time.
const TARGETS = ["docker", "compose", "systemd", "kubernetes", "command"];
function launchFiles(body) {
  if (isSite()) return [make("p", {class: "dim"}, t("render_here"), " ", make("code", {}, commandOf(body).replace("advise recommend", "advise render --target compose --output deploy")))];
  const place = make("div", {class: "files", "aria-live": "polite"});
  const show = async (target, button) => {
    for (const b of button.parentElement.children) b.setAttribute("aria-pressed", String(b === button));
    place.replaceChildren(make("p", {class: "waiting"}, "…"));
    try {
      const made = await ask("/v1/render", {...body, target});
      place.replaceChildren(...made.files.map((f) => code(f.name, f.content)));
    } catch (fault) {
      place.replaceChildren(make("p", {class: "dim"}, quote(fault.message)));
    }
  };
  const buttons = TARGETS.map((target) => make("button", {type: "button", class: "chip-button", "aria-pressed": "false",
    onclick: (event) => show(target, event.currentTarget)}, hasWords(`target_${target}`) ? t(`target_${target}`) : target));
  return [make("p", {class: "chips"}, buttons), place];
}
