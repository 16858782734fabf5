// "What to buy": what is worth the most at each of several budgets, or for one.
import {ask, isSite} from "./ask.js";
import {announce, bullets, find, make, number, pill, range, read, quote, show, t} from "./dom.js";
import {hardwareBody} from "./state.js";

let turn = 0;

export async function showOffers(openMachine) {
  const own = ++turn;
  const place = find("offers");
  const body = hardwareBody();
  place.setAttribute("aria-busy", "true");
  place.replaceChildren(make("p", {class: "waiting"}, body.ladder && !isSite() ? t("ladder_waits") : "…"));
  announce(t("asking"), "out");
  let answer;
  try {
    answer = await ask("/v1/hardware", body);
  } catch (fault) {
    if (own === turn) place.replaceChildren();
    throw fault;
  } finally {
    if (own === turn) place.removeAttribute("aria-busy");
  }
  if (own !== turn) return;
  place.dataset.body = JSON.stringify(body);
  const rows = body.ladder ? listLadder(answer) : answer.options.slice(0, 8).map((_, i) => ({at: `/options/${i}`, budget: null}));
  place.replaceChildren(rows.length ? make("ol", {class: "ladder"}, rows.map((row) => drawOffer(answer, row, openMachine))) : make("p", {class: "bad"}, t("nothing_fits")),
    make("details", {}, make("summary", {}, t("good_to_know")), bullets(answer.notes)));
  announce(t("found_offers", {n: rows.length}), "out");
}

// One row for each machine of the ladder: budgets that lead to the same one stand together.
function listLadder(answer) {
  const out = [];
  answer.ladder.forEach((rung, i) => {
    const last = out[out.length - 1];
    if (rung.option === null) return;
    if (last && last.option === rung.option) last.budgets.push(i);
    else out.push({option: rung.option, at: `/options/${rung.option}`, budgets: [i]});
  });
  return out;
}

function drawOffer(answer, row, openMachine) {
  const option = read(answer, row.at);
  const budgets = row.budgets && row.budgets.map((i) => number(answer, `/ladder/${i}/budget`, "money"));
  const marks = Object.entries(answer.named).filter(([, i]) => `/options/${i}` === row.at).map(([kind]) => pill(t(`named_${kind}`), "room"));
  const price = option.price !== null
    ? [make("strong", {}, number(answer, `${row.at}/price`, "money")), ` ${option.currency}`, option.price_range ? [" ", range(answer, `${row.at}/price_range`, "money")] : null]
    : [make("strong", {}, number(answer, `${row.at}/monthly_cost`, "money")), ` ${option.currency} ${t("a_month")}`];
  const rate = read(answer, `${row.at}/speed/decode_tps`);
  return make("li", {class: "offer"},
    budgets ? make("p", {class: "budget"}, t("up_to"), " ", make("strong", {}, budgets[budgets.length - 1]), ` ${answer.currency}`) : null,
    make("div", {class: "offer-body"}, make("h2", {}, quote(option.hardware)), make("p", {class: "dim"}, quote(`${option.model.split("/").pop()}, ${option.quantization}, ${option.engine}`)), make("p", {}, marks),
      make("dl", {class: "facts"}, fact("price", price.flat()), rate ? fact("tokens_s", [make("strong", {}, number(answer, `${row.at}/speed/decode_tps/value`, "rate")), " ", range(answer, `${row.at}/speed/decode_tps`, "rate")]) : null,
        option.power_watts ? fact("power", [number(answer, `${row.at}/power_watts`, "watts")]) : null),
      make("details", {}, make("summary", {}, t("details")), bullets([...option.why, option.needs, option.host && `${option.host}`, `${option.price_kind}, ${option.price_date}: ${option.price_source}`].filter(Boolean)),
        isSite() ? null : make("button", {type: "button", onclick: () => openMachine(option.hardware)}, t("what_runs_there")))));
}

const fact = (word, value) => make("div", {}, make("dt", {}, t(word)), make("dd", {}, value));
export const money = (value) => show(value, "money");
