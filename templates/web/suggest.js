// A field that offers names as one types: a combobox with a list box, used by keyboard or finger.
import {make} from "./dom.js";

const MOST = 8;
const simplify = (text) => text.toLowerCase().replace(/[^a-z0-9.]+/g, " ").trim();

// Names that hold every word typed, in any order; those that begin with what was typed come first.
export function findNames(names, typed) {
  const wanted = simplify(typed).split(" ").filter(Boolean);
  if (!wanted.length) return [];
  const found = names.filter((n) => { const name = simplify(n); return wanted.every((w) => name.includes(w)); });
  const rank = (n) => { const name = simplify(n); return (name.split(" ").includes(wanted[0]) ? 0 : 1000) + name.length; };
  return found.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

// `names()` are all names, `usual()` those that are offered before anything is typed; `take` gets the choice.
export function suggest(input, names, usual, take) {
  const id = `${input.id}-list`;
  const list = make("ul", {id, role: "listbox", class: "suggestions", hidden: "", "aria-label": input.id});
  input.after(list);
  for (const [name, value] of Object.entries({role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list"}))
    input.setAttribute(name, value);
  list.setAttribute("aria-labelledby", input.labels[0] ? (input.labels[0].id ||= `${input.id}-label`) : "");
  let at = -1;

  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function open() {
    const typed = input.value.trim();
    const offered = typed ? findNames(names(), typed) : usual();
    list.replaceChildren(...offered.map((name, i) => make("li", {id: `${id}-${i}`, role: "option", "aria-selected": "false",
      onpointerdown: (event) => event.preventDefault(), onclick: () => choose(name)}, name)));
    at = -1;
    input.removeAttribute("aria-activedescendant");
    const none = !offered.length || (offered.length === 1 && offered[0] === typed);
    list.hidden = none;
    input.setAttribute("aria-expanded", String(!none));
  }
  function move(step) {
    if (list.hidden) open();
    const options = [...list.children];
    if (!options.length) return;
    at = (at + step + options.length + (at < 0 && step < 0 ? 1 : 0)) % options.length;
    options.forEach((o, i) => o.setAttribute("aria-selected", String(i === at)));
    options[at].scrollIntoView({block: "nearest"});
    input.setAttribute("aria-activedescendant", options[at].id);
  }
  function choose(name) {
    input.value = name;
    close();
    take(name);
  }
  input.addEventListener("input", open);
  input.addEventListener("click", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { move(event.key === "ArrowDown" ? 1 : -1); event.preventDefault(); }
    else if (event.key === "Escape" && !list.hidden) { close(); event.preventDefault(); }
    else if (event.key === "Enter") {
      if (at >= 0) choose(list.children[at].textContent);
      else { close(); take(input.value.trim()); }
      event.preventDefault();
    }
  });
}
