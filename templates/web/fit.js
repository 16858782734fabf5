// "Does this fit": one deployment, by `advise estimate`, with a number in the verdict.
import {ask} from "./ask.js";
import {announce, bullets, find, make, number, range, read, show, t, table} from "./dom.js";
import {drawMemory, judgeFit, listPlaces, usedOf} from "./memory.js";
import {estimateBody, state} from "./state.js";

const USERS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512];
let turn = 0;

// context lengths in half powers of two: 512, 768, 1024, 1536, ...
const toTokens = (step) => (step % 2 ? 3 * 2 ** ((step - 1) / 2 - 1) : 2 ** (step / 2));
const nearest = (values, wanted) => values.reduce((best, v, i) => (Math.abs(v - wanted) < Math.abs(values[best] - wanted) ? i : best), 0);
const LENGTHS = Array.from({length: 23}, (_, i) => toTokens(18 + i));

export function fillSliders() {
  const form = find("fit");
  form.elements.context.value = 18 + nearest(LENGTHS, Number(state.length));
  form.elements.users.value = nearest(USERS, Number(state.users) || 1);
  showSliders();
}

export function readSliders() {
  const form = find("fit");
  state.length = String(toTokens(Number(form.elements.context.value)));
  state.users = String(USERS[Number(form.elements.users.value)]);
  showSliders();
}

function showSliders() {
  const form = find("fit");
  const [tokens, users] = [`${show(Number(state.length), "count")} ${t("tokens")}`, show(Number(state.users) || 1, "count")];
  for (const [field, output, text] of [["context", "fit-context-shown", tokens], ["users", "fit-users-shown", users]]) {
    find(output).textContent = text;
    form.elements[field].setAttribute("aria-valuetext", text);
  }
}

export async function showVerdict() {
  const own = ++turn;
  const place = find("verdict");
  if (!state.model) { place.replaceChildren(make("p", {class: "dim"}, t("fit_first"))); announce(""); return; }
  place.classList.add("old");
  const body = estimateBody();
  let answer;
  try {
    answer = await ask("/v1/estimate", body);
  } catch (fault) {
    if (own !== turn) return;
    place.replaceChildren();
    place.classList.remove("old");
    throw fault;
  }
  if (own !== turn) return;
  place.dataset.body = JSON.stringify(body);
  place.classList.remove("old");
  place.replaceChildren(...draw(answer));
  announce(place.querySelector(".verdict").textContent, "out");
}

function draw(answer) {
  const at = {memory: answer, starts: answer.starts}; // judged as a plan is
  const fit = judgeFit({plan: at}, "/plan");
  const fullest = listPlaces(answer, "").reduce((best, p) => {
    const share = (x) => (read(answer, `${x}/total_bytes`) || 0) / (read(answer, `${x}/budget_bytes`) || Infinity);
    return best === null || share(p) > share(best) ? p : best;
  }, null);
  const name = answer.model.split("/").pop();
  const verdict = make("p", {class: `verdict ${fit}`}, make("strong", {}, t(`verdict_${fit}`)), " ",
    answer.fits !== false && fullest ? usedOf(answer, fullest) : null, " ", make("span", {class: "dim"}, `${name}, ${answer.quantization}, ${answer.engine}`));
  const why = answer.fits === null ? answer.warnings : [];
  const rate = read(answer, "/speed/decode_tps");
  const speed = rate ? make("p", {class: "big"}, make("strong", {}, number(answer, "/speed/decode_tps/value", "rate")), " ",
    make("span", {class: "unit"}, make("span", {}, t("tokens_s")), range(answer, "/speed/decode_tps", "rate"))) : null;
  const rows = [["one_request", "decode_tps", "rate"], ["in_all", "output_tps", "rate"], ["prompt", "prefill_tps", "rate"],
    ["first_token", "ttft_s", "seconds"]].filter(([, key]) => read(answer, `/speed/${key}`))
    .filter(([, key]) => key !== "output_tps" || answer.sequences > 1)
    .map(([word, key, form]) => [t(word), number(answer, `/speed/${key}/value`, form), range(answer, `/speed/${key}`, form)]);
  const ladder = read(answer, "/holds/ladder") || [];
  return [make("div", {class: "plan-top"}, verdict, speed), bullets([...why, ...answer.short, ...(answer.message ? [answer.message] : [])]),
    make("div", {class: "columns"}, make("section", {class: "block"}, make("h2", {}, t("memory")), drawMemory(answer, "")),
      make("div", {}, rows.length ? make("section", {class: "block"}, make("h2", {}, t("speed")), table(t("speed_caption"), ["", t("likely"), t("bounds")], rows)) : null,
        ladder.length > 0 && answer.sequences > 1 ? make("section", {class: "block"}, make("h2", {}, t("holds")), table(t("held_caption"), [t("tokens"), t("requests")],
          ladder.map((_, i) => [number(answer, `/holds/ladder/${i}/context_length`, "tokens"), number(answer, `/holds/ladder/${i}/held`, "count")]))) : null)),
    answer.fits !== null && answer.warnings.length ? make("details", {}, make("summary", {}, t("good_to_know")), bullets(answer.warnings)) : null].filter(Boolean);
}
