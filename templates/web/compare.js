// Next to a plan: more users at once, and the same model on another machine. Each is a question of its own, asked when it
// is looked at.
import {ask} from "./ask.js";
import {bullets, make, number, quote, range, t, table} from "./dom.js";
import {listPlaces, usedOf} from "./memory.js";
import {state, writeAddress} from "./state.js";
import {suggest} from "./suggest.js";

const USERS = [1, 2, 4, 8, 16, 32, 64];
const EACH = "/chosen/speed/tpot_s"; // what each user gets is its inverse
const spotless = (place) => place.querySelectorAll("data").forEach((d) => d.removeAttribute("data-at")); // of other questions

const answerOrNone = (body) => ask("/v1/recommend", body).catch(() => null);

// A block that is filled when it is opened.
export function unfold(word, fill) {
  const place = make("div", {}, make("p", {class: "waiting"}, "…"));
  const details = make("details", {class: "block"}, make("summary", {}, t(word)), place);
  details.addEventListener("toggle", () => {
    place.setAttribute("aria-busy", "true");
    fill(place).finally(() => place.removeAttribute("aria-busy"));
  }, {once: true});
  return details;
}

export async function showUsers(place, body) {
  const answers = await Promise.all(USERS.map((concurrency) => answerOrNone({...body, concurrency})));
  const rows = USERS.map((n, i) => [n, answers[i]]).filter(([, a]) => a && a.chosen && a.chosen.speed && a.chosen.speed.tpot_s);
  if (!rows.length) { place.replaceChildren(t("speed_unknown")); return; }
  place.replaceChildren(drawEach(rows), table(t("users_caption"), [t("users"), t("tokens_s_each"), t("in_all"), t("first_token"), t("engine")],
    rows.map(([n, a]) => [make("strong", {}, String(n)), make("span", {}, number(a, `${EACH}/value`, "each"), " ", range(a, EACH, "each")),
      number(a, "/chosen/speed/output_tps/value", "rate"), number(a, "/chosen/speed/ttft_s/value", "seconds"),
      quote([a.chosen.engine, a.chosen.quantization].filter(Boolean).join(" "))])));
  spotless(place);
}

// Tokens a second for each over the number of users, with the bounds; both scales by doublings.
function drawEach(rows) {
  const rates = rows.map(([, a]) => { const s = a.chosen.speed.tpot_s; return [1 / s.value, 1 / s.high, 1 / s.low]; });
  const [least, most] = [Math.min(...rates.map((r) => r[1])), Math.max(...rates.map((r) => r[2]))].map(Math.log2);
  const x = (i) => `${8 + (84 * i) / Math.max(1, rows.length - 1)}%`;
  const y = (rate) => `${88 - (80 * (Math.log2(rate) - least)) / Math.max(0.5, most - least)}%`;
  const chart = make("svg", {class: "chart", role: "img", "aria-label": t("users_chart", {first: Math.round(rates[0][0]), last: Math.round(rates.at(-1)[0]), n: rows.at(-1)[0]})});
  rates.forEach(([value, low, high], i) => {
    if (i) chart.append(make("line", {class: "curve", x1: x(i - 1), y1: y(rates[i - 1][0]), x2: x(i), y2: y(value)}));
    chart.append(make("line", {class: "spread", x1: x(i), y1: y(low), x2: x(i), y2: y(high)}), make("circle", {class: "point", cx: x(i), cy: y(value), r: 4}),
      make("text", {class: "mark", x: x(i), y: "99%"}, String(rows[i][0])));
  });
  return chart;
}

// The same model on another machine, side by side.
export function compareMachines(answer, body, names) {
  const shown = make("div", {"aria-live": "polite"});
  const field = make("input", {id: "other-machine", autocomplete: "off", spellcheck: "false", placeholder: t("machine_hint"), value: state.vs});
  const form = make("div", {class: "field grow"}, make("label", {for: "other-machine"}, t("another_machine")), make("div", {class: "combo"}, field));
  const show = async (hardware) => {
    state.vs = hardware;
    writeAddress(false);
    if (!hardware) { shown.replaceChildren(); return; }
    shown.replaceChildren(make("p", {class: "waiting"}, "…"));
    try {
      const other = await ask("/v1/recommend", {...body, hardware});
      if (state.vs === hardware) shown.replaceChildren(drawBeside([answer, other], [t("here"), hardware]));
    } catch (fault) {
      if (state.vs === hardware) shown.replaceChildren(make("p", {class: "bad"}, quote(fault.message)));
    }
    spotless(shown);
  };
  field.addEventListener("change", () => show(field.value.trim()));
  suggest(field, () => names().hardware, () => names().usual.machines, (words) => { field.value = words; show(words.trim()); });
  if (state.vs) show(state.vs);
  return make("section", {class: "block"}, make("h3", {}, t("compare")), form, shown);
}

function drawBeside(answers, heads) {
  const one = (Number(state.users) || 1) === 1;
  const [pointer, form] = one ? ["/chosen/speed/decode_tps", "rate"] : [EACH, "each"];
  const rows = [
    ["engine", (a) => quote([a.chosen.engine, a.chosen.quantization].filter(Boolean).join(" "))],
    [one ? "tokens_s" : "tokens_s_each", (a) => make("strong", {}, number(a, `${pointer}/value`, form))],
    ["bounds", (a) => range(a, pointer, form)],
    ["first_token", (a) => number(a, "/chosen/speed/ttft_s/value", "seconds")],
    ["memory", (a) => make("span", {}, listPlaces(a, "/chosen/memory").slice(0, 2).flatMap((p, i) => (i ? [" + ", usedOf(a, p)] : [usedOf(a, p)])))],
    ["context", (a) => number(a, "/chosen/memory/context_length", "tokens")],
  ];
  const cell = (a, draw) => (a.chosen && a.chosen.memory && a.chosen.speed ? draw(a) : "–");
  const nothing = answers.filter((a) => !a.chosen).flatMap((a) => a.warnings.slice(0, 2));
  return make("div", {}, table(t("compare_caption"), ["", ...heads], rows.map(([word, draw]) => [t(word), ...answers.map((a) => cell(a, draw))])), bullets(nothing));
}
