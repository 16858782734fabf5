// Elements, the fixed words in the reader's language, and numbers with their place in the answer.
const GIB = 2 ** 30;
const SVG = new Set(["svg", "rect", "line", "path", "circle", "text", "g", "title", "polyline"]);
let words = {};
let language = "en";

export const find = (id) => document.getElementById(id);

// Text is always inserted as text: children are elements or strings, and null is left out.
export function make(tag, attributes = {}, ...children) {
  const made = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat(2).filter((c) => c !== null && c !== undefined && c !== ""));
  return made;
}

export async function loadWords() {
  words = await (await fetch("words.json")).json();
}

export const languages = () => Object.entries(words.name);

export function setLanguage(wanted) {
  const known = Object.keys(words.name);
  const asked = [wanted, ...navigator.languages.map((l) => l.slice(0, 2))];
  language = asked.find((l) => known.includes(l)) || "en";
  document.documentElement.lang = language;
  for (const [attribute, set] of [["t", (e, w) => { e.textContent = w; }], ["tLabel", (e, w) => e.setAttribute("aria-label", w)],
    ["tPlaceholder", (e, w) => e.setAttribute("placeholder", w)]]) {
    const selector = `[data-${attribute.replace(/[A-Z]/g, (c) => "-" + c.toLowerCase())}]`;
    for (const element of document.querySelectorAll(selector)) set(element, t(element.dataset[attribute]));
  }
  return language;
}

// The words of a key: English where a language has none, with {names} filled in.
export function t(key, values = {}) {
  const entry = words[key] || {};
  const text = entry[language] || entry.en || key;
  return text.replace(/\{(\w+)\}/g, (_, name) => (name in values ? values[name] : ""));
}
export const hasWords = (key) => key in words;

// What the program says stands as it says it, in English.
export const quote = (text) => make("span", {lang: "en"}, text);

export const read = (answer, pointer) =>
  pointer.split("/").slice(1).reduce((value, key) => (value === null || value === undefined ? null : value[key]), answer);

const format = (value, options) => new Intl.NumberFormat(language, options).format(value);
const significant = (value) => (value >= 100 ? {maximumFractionDigits: 0} : value >= 20 ? {maximumFractionDigits: 0}
  : value >= 1 ? {maximumFractionDigits: 1} : {maximumSignificantDigits: 2});
const FORMS = {
  rate: (v) => format(v, significant(v)),
  each: (v) => format(1 / v, significant(1 / v)), // seconds for one more token, as tokens a second
  gib: (v) => format(v / GIB, {minimumFractionDigits: 1, maximumFractionDigits: 1}),
  ram: (v) => format(v / GIB, {maximumFractionDigits: 1}),
  count: (v) => format(v, {}),
  tokens: (v) => (v >= 1024 && v % 1024 === 0 ? format(v / 1024, {}) + "k" : format(v, {})),
  seconds: (v) => (v < 120 ? format(v, significant(v)) + " s" : format(v / 60, significant(v / 60)) + " min"),
  money: (v) => format(v, {maximumFractionDigits: 0}),
  watts: (v) => format(v, {maximumFractionDigits: 0}) + " W",
  signed: (v) => format(v, {signDisplay: "exceptZero", minimumFractionDigits: 1, maximumFractionDigits: 1}),
  plain: (v) => format(v, {minimumFractionDigits: 1, maximumFractionDigits: 1}),
};
export const show = (value, form) => FORMS[form](value);

// Every number of an answer is a <data> with its value and its place in the JSON.
export function number(answer, pointer, form) {
  const value = read(answer, pointer);
  if (value === null || value === undefined) return document.createTextNode(t("unknown"));
  return make("data", {value: String(value), "data-at": pointer}, show(value, form));
}

// "23–110": the bounds of an interval; those of seconds for a token are turned where they are shown as a rate
export function range(answer, pointer, form) {
  const [low, high] = form === "each" ? ["high", "low"] : ["low", "high"];
  if (read(answer, pointer) === null) return document.createTextNode("");
  return make("span", {class: "range"}, number(answer, `${pointer}/${low}`, form), "–", number(answer, `${pointer}/${high}`, form));
}

export function table(caption, headers, rows) {
  const head = make("tr", {}, headers.map((h, i) => make("th", {scope: "col", class: i ? "n" : null}, h)));
  const body = rows.map((row) => make("tr", {}, row.map((cell, i) => (i
    ? make("td", {class: "n", "data-label": headers[i]}, cell) : make("th", {scope: "row"}, cell)))));
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, body));
}

export function bullets(texts) {
  return texts.length ? make("ul", {class: "says"}, texts.map((x) => make("li", {}, quote(x)))) : null;
}

export const pill = (text, kind) => make("span", {class: `pill ${kind}`}, text);

// A block of code with a button that copies it.
export function code(label, text) {
  const button = make("button", {type: "button", class: "copy", "aria-label": `${t("copy")}: ${label}`}, t("copy"));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = t("copied");
      announce(t("copied"));
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.closest(".code").querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }
    setTimeout(() => { button.textContent = t("copy"); }, 2000);
  });
  return make("div", {class: "code"}, make("p", {class: "code-label"}, make("span", {}, label), button),
    make("pre", {tabindex: "0", "aria-label": label}, make("code", {}, text)));
}

export function announce(text, kind = "") {
  const place = find("status");
  place.className = kind;
  place.textContent = text;
}
