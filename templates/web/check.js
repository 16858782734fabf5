// "Check a file": deployment files that are dropped, chosen or pasted. Their text goes to this page's own server only.
import {ask, isSite} from "./ask.js";
import {announce, code, find, make, number, pill, quote, t} from "./dom.js";
import {machineWords, state} from "./state.js";

const files = new Map(); // name -> text
const MOST_BYTES = 500_000;

export function prepareCheck(run) {
  const drop = find("drop");
  for (const kind of ["dragenter", "dragover"])
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files, run); });
  find("file").addEventListener("change", (event) => take(event.target.files, run));
  find("file-text").addEventListener("input", () => { files.clear(); find("file-names").textContent = ""; });
  find("check").addEventListener("submit", (event) => { event.preventDefault(); run(); });
}

async function take(given, run) {
  files.clear();
  for (const file of given) {
    if (file.size > MOST_BYTES) { announce(t("file_too_large", {name: file.name}), "bad"); return; }
    files.set(file.name, await file.text());
  }
  find("file-names").textContent = [...files.keys()].join(", ");
  if (files.size === 1) find("file-text").value = [...files.values()][0];
  run();
}

// A pasted text has no name: what it looks like names it.
export function nameText(text) {
  if (/^\s*FROM\s/m.test(text)) return "Dockerfile";
  if (/^\[Service\]/m.test(text)) return "pasted.service";
  if (/^\s*apiVersion:/m.test(text)) return "kubernetes.yaml";
  if (/^\s*services:/m.test(text)) return "compose.yaml";
  if (/^\s*[\w-]+:(\s|$)/m.test(text) && !/^\s*(docker|vllm|llama-server|#!)/.test(text)) return "pasted.yaml";
  return "pasted.sh";
}

export async function showFindings() {
  const place = find("findings");
  if (isSite()) return;
  const text = find("file-text").value;
  const given = files.size ? Object.fromEntries(files) : text.trim() ? {[nameText(text)]: text} : null;
  if (!given) { place.replaceChildren(); announce(t("check_first")); return; }
  announce(t("asking"), "out");
  place.setAttribute("aria-busy", "true");
  try {
    const body = {files: given, ...(state.on ? {hardware: machineWords()} : {})};
    const answer = await ask("/v1/check", body);
    place.dataset.body = JSON.stringify(body);
    place.replaceChildren(...draw(answer));
    announce(place.querySelector(".verdict").textContent, "out");
  } catch (fault) {
    place.replaceChildren();
    throw fault;
  } finally {
    place.removeAttribute("aria-busy");
  }
}

function draw(answer) {
  const status = {0: "room", 1: "no"}[answer.summary.exit_status] || "unknown";
  const count = (key) => make("span", {}, `${t(key)}: `, number(answer, `/summary/${key}`, "count"));
  return [make("p", {class: `verdict ${status}`}, make("strong", {}, t(`check_${status}`)), " ", make("span", {class: "dim"}, count("errors"), " · ", count("warnings"))),
    ...answer.deployments.map((d, i) => drawDeployment(answer, d, i)),
    make("ul", {class: "findings"}, answer.findings.map((f) => make("li", {class: f.severity}, make("p", {}, pill(t(`severity_${f.severity}`), f.severity === "error" ? "no" : f.severity === "warning" ? "just" : "unknown"),
      " ", make("span", {class: "dim"}, `${f.file}:${f.line ?? ""}`), " ", quote(f.message)), f.fix ? make("p", {class: "fix"}, "→ ", quote(f.fix)) : null, make("p", {class: "dim rule"}, quote(f.rule))))),
    answer.problems.length ? make("ul", {class: "says"}, answer.problems.map((p) => make("li", {}, quote(p.text || p.message || JSON.stringify(p))))) : null].filter(Boolean);
}

function drawDeployment(answer, d, i) {
  const word = d.starts === true ? "room" : d.starts === false ? "no" : "unknown";
  const title = [d.name, d.engine, d.model, d.quantization].filter(Boolean).join(" · ");
  return make("section", {class: "block"}, make("h2", {}, quote(title || d.source)), make("p", {}, pill(t(`starts_${word}`), word)),
    ...(d.memory ? d.memory.devices.map((_, k) => make("p", {class: "dim"}, quote(d.memory.devices[k].name), ": ", number(answer, `/deployments/${i}/memory/devices/${k}/total_bytes`, "gib"), ` ${t("of")} `,
      number(answer, `/deployments/${i}/memory/devices/${k}/budget_bytes`, "gib"), " GiB")) : []),
    make("ul", {class: "says"}, d.why.map((w) => make("li", {}, quote(w)))));
}
