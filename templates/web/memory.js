// Memory drawn and in figures: what is used of what there is, by part, with the bounds.
import {make, number, read, show, t, table} from "./dom.js";

const PARTS = [["weights", "weights_bytes"], ["kv_cache", "kv_cache_bytes"], ["state", "recurrent_state_bytes"],
  ["compute", "compute_bytes"], ["other", "overhead_bytes"]];

// Devices, and the host where it holds a part of the model.
export function listPlaces(answer, at) {
  const places = (read(answer, `${at}/devices`) || []).map((_, i) => `${at}/devices/${i}`);
  const host = read(answer, `${at}/host`);
  if (host && (!places.length || host.weights_bytes)) places.push(`${at}/host`);
  return places;
}

// Whether the host holds layers or experts of a model that cards hold the rest of: more than an embedding table.
const EMBEDDING_BYTES = 1.5 * 2 ** 30;
function holdsLayers(answer, at) {
  const host = read(answer, `${at}/host`);
  return Boolean(host) && read(answer, `${at}/devices`).length > 0 && (host.kv_cache_bytes > 0 || host.weights_bytes > EMBEDDING_BYTES);
}

// "room", "just" (by its upper bound or its planner it is tight), "host", "no", "unknown"
export function judgeFit(answer, plan) {
  const fits = read(answer, `${plan}/memory/fits`) ?? null;
  if (fits === false || read(answer, `${plan}/starts`) === false) return "no";
  if (fits === null) return "unknown";
  if (holdsLayers(answer, `${plan}/memory`)) return "host";
  const tight = listPlaces(answer, `${plan}/memory`).some((p) => read(answer, `${p}/high_bytes`) > (read(answer, `${p}/budget_bytes`) ?? Infinity));
  return tight || "tight" in (read(answer, `${plan}/utility`) || {}) ? "just" : "room";
}

export const nameOf = (answer, place) => (place.endsWith("/host") ? t("host_memory") : read(answer, `${place}/name`));

export function drawBar(answer, place, most) {
  const percent = (bytes) => `${(100 * Math.min(bytes, most)) / most}%`;
  const bar = make("svg", {class: "bar", role: "img", "aria-label": describe(answer, place)});
  let from = 0;
  PARTS.forEach(([, key], i) => {
    const bytes = read(answer, `${place}/${key}`) || 0;
    if (bytes) bar.append(make("rect", {class: `part${i}`, x: percent(from), y: 0, width: percent(bytes), height: "100%"}));
    from += bytes;
  });
  const [low, high, budget] = ["low_bytes", "high_bytes", "budget_bytes"].map((k) => read(answer, `${place}/${k}`));
  if (low !== null && high !== null) bar.append(make("line", {class: "bounds", x1: percent(low), x2: percent(high), y1: "50%", y2: "50%"}));
  if (budget !== null) bar.append(make("line", {class: "limit", x1: percent(budget), x2: percent(budget), y1: 0, y2: "100%"}));
  return bar;
}

function describe(answer, place) {
  const [total, budget] = ["total_bytes", "budget_bytes"].map((k) => read(answer, `${place}/${k}`));
  const figure = (v) => (v === null ? t("unknown") : show(v, "gib"));
  return `${nameOf(answer, place)}: ${t("used_of", {used: figure(total), there: figure(budget)})}`;
}

const scale = (answer, places) =>
  Math.max(1, ...places.flatMap((p) => ["budget_bytes", "high_bytes", "total_bytes"].map((k) => read(answer, `${p}/${k}`) || 0))) * 1.01;

// "11.0 of 11.8 GiB"
export const usedOf = (answer, place) => make("span", {class: "used"}, number(answer, `${place}/total_bytes`, "gib"),
  read(answer, `${place}/budget_bytes`) === null ? "" : [` ${t("of")} `, number(answer, `${place}/budget_bytes`, "gib")], " GiB");

// Of a card: the fullest device, and the host where it holds layers.
export function drawShort(answer, at) {
  const places = listPlaces(answer, at);
  const share = (p) => (read(answer, `${p}/total_bytes`) || 0) / (read(answer, `${p}/budget_bytes`) || Infinity);
  const devices = places.filter((p) => !p.endsWith("/host"));
  const fullest = devices.reduce((best, p) => (best && share(best) >= share(p) ? best : p), null);
  const shown = [fullest, ...(fullest && !holdsLayers(answer, at) ? [] : places.filter((p) => p.endsWith("/host")))].filter(Boolean);
  return make("div", {class: "bars"}, shown.map((p) => make("div", {class: "bar-row"},
    make("p", {class: "bar-label"}, make("span", {}, (p === fullest && devices.length > 1 ? `${devices.length} × ` : "") + nameOf(answer, p)),
      usedOf(answer, p)), drawBar(answer, p, Math.max(read(answer, `${p}/budget_bytes`) || 0, read(answer, `${p}/total_bytes`) || 0, 1)))));
}

// Of a plan: every place on one scale, a legend, and the figures in a table that unfolds.
export function drawMemory(answer, at) {
  const places = listPlaces(answer, at);
  const most = scale(answer, places);
  const used = PARTS.map(([word, key], i) => [word, key, i]).filter(([, key]) => places.some((p) => read(answer, `${p}/${key}`)));
  const legend = make("p", {class: "legend"}, used.map(([word, , i]) => make("span", {}, swatch(i), ` ${t(word)}`)),
    make("span", {class: "dim"}, t("bar_lines")));
  const bars = places.map((p) => make("div", {class: "bar-row"},
    make("p", {class: "bar-label"}, make("span", {}, nameOf(answer, p)), usedOf(answer, p)), drawBar(answer, p, most)));
  const columns = [...used.map(([word, key]) => [t(word), key]), [t("total"), "total_bytes"], [t("at_least"), "low_bytes"],
    [t("at_most"), "high_bytes"], [t("there_is"), "budget_bytes"]];
  const rows = places.map((p) => [nameOf(answer, p), ...columns.map(([, key]) => number(answer, `${p}/${key}`, "gib"))]);
  return make("div", {class: "bars large"}, bars, legend, make("details", {}, make("summary", {}, t("figures")),
    table(t("memory_gib"), [t("place"), ...columns.map(([name]) => name)], rows)));
}

function swatch(i) {
  return make("svg", {class: "swatch", "aria-hidden": "true"}, make("rect", {class: `part${i}`, width: "100%", height: "100%"}));
}
