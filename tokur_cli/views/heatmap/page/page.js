"use strict";
// Model text is only ever set as text (textContent, document.createTextNode), never as markup.

const lines = document.getElementById("data").textContent.split("\n");
const { compare, quantities } = JSON.parse(lines[0]);
const STEPS = 8;
const TOP = 5;
const LEADING = ["p_correct", "eu", ...quantities[0].scores]; // scores that are shown at once, the others when asked for
const responses = [];
for (let line = 1; line < lines.length; line += 2) {
  responses.push({ head: JSON.parse(lines[line]), line: line + 1, index: responses.length, card: null, shown: null });
}

let quantity = 0;
let filter = "all";
let current = null; // the token whose values are shown: { response, cell }

const $ = (id) => document.getElementById(id);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// ---- values and their steps -------------------------------------------------------------------------------------
// Token values and the ends of scales are whole numbers of 10^-quantum.

const doubt = (q, value) => (quantities[q].confidence ? -value : value);

function stepOf(q, value) {
  const [sure, unsure] = quantities[q].ends;
  const distance = doubt(q, value - sure);
  const length = doubt(q, unsure - sure);
  if (distance <= 0) return 0;
  return distance >= length ? STEPS - 1 : Math.min(STEPS - 1, Math.floor((STEPS * distance) / length));
}

function isOutside(q, value) {
  const [sure, unsure] = quantities[q].ends;
  return doubt(q, value) > doubt(q, unsure) || doubt(q, value) < doubt(q, sure);
}

function format(q, value, decimals) {
  if (value === null) return "–";
  return (value / 10 ** quantities[q].quantum).toFixed(decimals).replace(/^-(?=0\.?0*$)/, "");
}

const rounded = (q, value) => format(q, value, quantities[q].decimals);
const exact = (q, value) => format(q, value, quantities[q].quantum);

function tokensOf(tokens, cell) {
  return tokens.tokens ? tokens.tokens[cell] : [cell, 1];
}

// A cell of several tokens has the value of its least sure one.
function cellValue(tokens, cell, q) {
  const [first, count] = tokensOf(tokens, cell);
  let worst = null;
  for (let token = first; token < first + count; token += 1) {
    const value = tokens.values[q][token];
    if (value !== null && (worst === null || doubt(q, value) > doubt(q, worst))) worst = value;
  }
  return worst;
}

function classOf(tokens, cell) {
  const value = cellValue(tokens, cell, quantity);
  if (value === null) return tokensOf(tokens, cell)[1] ? "none" : "";
  return `step${stepOf(quantity, value)}${isOutside(quantity, value) ? " outside" : ""}`;
}

// ---- one response -----------------------------------------------------------------------------------------------

function scoreLine(scores) {
  const line = element("p", { className: "scores" });
  for (const [score, value] of scores) {
    line.append(element("span", {}, `${score} `, element("b", { textContent: value })), " ");
  }
  return line;
}

// A response is found again by its id, and by the sample's number behind it: #word-001.2
const anchorOf = (head) => (head.sample === null ? head.id : `${head.id}.${head.sample}`);

const notKnown = (count) => `${count} score${count > 1 ? "s" : ""} not known`;

function makeCard(response) {
  const { head } = response;
  const verdict = head.correct === null ? "unknown" : head.correct ? "right" : "wrong";
  const words = { right: "✓ right", wrong: "✗ wrong", unknown: "" };
  const facts = [];
  if (head.answer !== null) facts.push(`answer ${head.answer}`);
  if (head.reference !== null) facts.push(`reference ${head.reference}`);
  const name = head.sample === null ? head.id : `${head.id} · sample ${head.sample}`;
  const link = element("a", { className: "id", dir: "auto", textContent: name, href: `#${encodeURIComponent(anchorOf(head))}` });
  const title = element("h2", { id: `r${response.index}` }, link);
  title.append(
    element("span", { className: verdict, textContent: words[verdict] }),
    element("span", { className: "facts", textContent: facts.join(" · ") }),
  );
  const card = element("article", { tabIndex: -1 }, title);
  card.setAttribute("aria-labelledby", title.id);
  card.response = response;
  if (head.question) card.append(element("p", { className: "question", dir: "auto", textContent: head.question }));
  const leading = head.scores.filter(([score]) => LEADING.includes(score));
  const others = head.scores.filter(([score]) => !LEADING.includes(score));
  if (leading.length) card.append(scoreLine(leading));
  const titles = [];
  const folded = [];
  if (others.length) {
    titles.push(`${others.length} ${leading.length ? "other " : ""}score${others.length > 1 ? "s" : ""}`);
    folded.push(scoreLine(others));
  }
  if (head.unknown.length) {
    titles.push(titles.length ? `${head.unknown.length} not known` : notKnown(head.unknown.length));
    folded.push(element("p", { className: "scores", textContent: `not known: ${head.unknown.join(", ")}` }));
  }
  if (folded.length) {
    card.append(element("details", {}, element("summary", { textContent: titles.join(", ") }), ...folded));
  }
  response.body = element("div", { className: "body" });
  response.height = 140 + Math.ceil(head.length / 90) * 28; // a guess, until it was shown once
  response.body.style.minHeight = `${response.height}px`;
  card.append(response.body);
  response.card = card;
  return card;
}

function show(response) {
  if (response.shown) return;
  const tokens = JSON.parse(lines[response.line]);
  const text = element("div", { className: "text", dir: "auto", tabIndex: 0 });
  text.setAttribute("role", "application");
  text.setAttribute("aria-roledescription", "heat map");
  text.setAttribute("aria-label", "Response. Arrow keys move between tokens, N and P between the least sure ones.");
  const spans = tokens.cells.map((shown, cell) => {
    const span = element("span", { textContent: shown });
    span.cell = cell;
    return span;
  });
  text.append(...spans);
  text.response = response;
  text.addEventListener("keydown", moveInText);
  response.shown = { tokens, text, spans, aside: element("aside") };
  response.body.replaceChildren(text, response.shown.aside);
  response.body.style.minHeight = "";
  paint(response);
}

function hide(response) {
  if (!response.shown || response.shown.text.contains(document.activeElement)) return;
  if (current && current.response === response) closeValues();
  response.body.style.minHeight = `${response.body.offsetHeight || response.height}px`;
  response.body.replaceChildren();
  response.shown = null;
}

function paint(response) {
  const { tokens, spans, aside } = response.shown;
  spans.forEach((span, cell) => { span.className = classOf(tokens, cell); });
  aside.replaceChildren(...topTokens(response), ...stepSums(response));
}

function leastSure(tokens) {
  const found = new Map(); // by deciding token, so that one that lies in two cells counts once
  tokens.cells.forEach((shown, cell) => {
    const value = cellValue(tokens, cell, quantity);
    if (value === null) return;
    const [first, count] = tokensOf(tokens, cell);
    const token = tokens.values[quantity].indexOf(value, first);
    const known = found.get(token);
    if (token < first + count && (!known || tokens.cells[known.cell].length < shown.length)) {
      found.set(token, { cell, token, value });
    }
  });
  return [...found.values()].sort((a, b) => doubt(quantity, b.value) - doubt(quantity, a.value) || a.token - b.token);
}

function textBetween(tokens, from, to) {
  return tokens.cells.slice(Math.max(0, from), Math.max(0, to)).join("").replaceAll("\n", "");
}

function topTokens(response) {
  const { tokens } = response.shown;
  response.shown.ranked = leastSure(tokens);
  response.shown.rank = -1;
  const list = element("ol", { className: "tops" });
  for (const { cell, token, value } of response.shown.ranked.slice(0, TOP)) {
    const around = element("span", { className: "around" });
    around.append(
      element("i", {}, element("bdi", { textContent: textBetween(tokens, cell - 12, cell) })),
      element("b", { className: classOf(tokens, cell), textContent: textBetween(tokens, cell, cell + 1) }),
      element("i", { textContent: textBetween(tokens, cell + 1, cell + 13) }),
    );
    const number = element("span", { className: "number", textContent: rounded(quantity, value) });
    const button = element("button", { type: "button", title: `Go to token ${token + 1}` }, number, around);
    button.addEventListener("click", () => goTo(response, cell));
    list.append(element("li", {}, button));
  }
  return [element("h3", { textContent: `Least sure tokens by ${quantities[quantity].name}` }), list];
}

// The least sure step is the one with the least sure sum or mean, whichever the quantity is compared by.
function stepSums(response) {
  const { tokens } = response.shown;
  const byMean = quantities[quantity].aggregate === "mean";
  const sums = tokens.steps.map(([first, after]) => {
    const known = tokens.values[quantity].slice(first, after).filter((value) => value !== null);
    const total = known.length ? known.reduce((sum, value) => sum + value, 0) : null;
    const mean = known.length ? total / known.length : null;
    return { total, mean, key: known.length ? doubt(quantity, byMean ? mean : total) : null };
  });
  const keys = sums.map(({ key }) => key).filter((key) => key !== null);
  if (sums.length < 2 || !keys.length) return [];
  const worst = Math.max(...keys);
  const floor = byMean ? Math.min(...keys) : Math.min(0, ...keys);
  const list = element("ol", { className: "steps" });
  tokens.steps.forEach(([first, after, label], index) => {
    const { total, mean, key } = sums[index];
    const shown = byMean ? mean : total;
    const share = key === null || worst === floor ? 0 : (key - floor) / (worst - floor);
    const button = element("button", { type: "button" });
    button.title = `${label}\n${after - first} tokens, sum ${rounded(quantity, total)}, mean ${rounded(quantity, mean)}`;
    button.append(
      element("span", { className: "number", textContent: rounded(quantity, shown) }),
      element("span", { className: "label", dir: "auto", textContent: (key === worst ? "▶ " : "") + label }),
      meter(share),
    );
    button.classList.toggle("worst", key === worst);
    button.addEventListener("click", () => markStep(response, first, after));
    list.append(element("li", {}, button));
  });
  const name = quantities[quantity].name;
  const heading = `${byMean ? "Mean" : "Sum"} of ${name} by step, ▶ the least sure`;
  return [element("h3", { textContent: heading }), list];
}

function meter(share) {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const bar = document.createElementNS(namespace, "rect");
  svg.setAttribute("class", "meter");
  svg.setAttribute("width", "100%");
  svg.setAttribute("aria-hidden", "true");
  bar.setAttribute("width", `${(100 * share).toFixed(1)}%`);
  bar.setAttribute("height", "4");
  bar.setAttribute("rx", "2");
  svg.append(bar);
  return svg;
}

function markStep(response, first, after) {
  const { tokens, spans } = response.shown;
  let start = null;
  spans.forEach((span, cell) => {
    const [token, count] = tokensOf(tokens, cell);
    const inside = count > 0 && token >= first && token < after;
    span.classList.toggle("in-step", inside);
    if (inside && start === null) start = span;
  });
  if (start) start.scrollIntoView({ block: "center" });
}

// ---- the values of one token ------------------------------------------------------------------------------------

function goTo(response, cell) {
  const { text, spans } = response.shown;
  text.focus({ preventScroll: true });
  spans[cell].scrollIntoView({ block: "nearest" });
  openValues(response, cell, true);
}

function openValues(response, cell, speak) {
  closeValues();
  const { tokens, spans } = response.shown;
  const [first, count] = tokensOf(tokens, cell);
  current = { response, cell };
  spans[cell].classList.add("at");
  // A row a quantity: there may be many of them, while a character of several tokens is rare.
  const members = Array.from({ length: count }, (_, index) => first + index);
  const titles = members.map((token) => element("th", { textContent: `token ${token + 1}` }));
  const table = element("table", {}, element("tr", {}, element("th"), ...titles));
  for (const [q, { name }] of quantities.entries()) {
    const row = element("tr", {}, element("th", { textContent: name, className: q === quantity ? "chosen" : "" }));
    row.dataset.palette = quantities[q].palette;
    for (const token of members) {
      const value = tokens.values[q][token];
      const look = value === null ? "" : `step${stepOf(q, value)}${isOutside(q, value) ? " outside" : ""}`;
      row.append(element("td", { className: look, textContent: exact(q, value) }));
    }
    table.append(row);
  }
  const shown = tokens.cells[cell].replaceAll("\n", "");
  const what = element("p", {}, element("b", { textContent: shown }), count ? "" : " between tokens: no values");
  $("values").replaceChildren(what, ...(count ? [table] : []), ...members.flatMap((token) => alternatives(tokens, token)));
  $("values").hidden = false;
  placeValues();
  if (speak) {
    const value = exact(quantity, cellValue(tokens, cell, quantity));
    $("spoken").textContent = `${shown}, token ${first + 1}, ${quantities[quantity].name} ${value}`;
  }
}

// What else might have been written: the likeliest tokens under the model and under the mean of its draws.
function alternatives(tokens, token) {
  const others = tokens.others[token];
  if (!others) return [];
  const [texts, base, mean, draws] = others;
  const percent = (value) => (value === null ? "?" : value < 5 ? "<1 %" : `${Math.round(value / 10)} %`);
  const shares = mean ? [base, mean] : [base];
  const table = element("table", { className: "others" });
  table.append(element("tr", {}, element("th", { textContent: "likeliest" }), ...["p₀", "p̄"].slice(0, shares.length).map(
    (textContent) => element("th", { colSpan: 2, textContent }),
  )));
  texts.forEach((text, place) => {
    const row = element("tr", {}, element("td", {}, element("bdi", { textContent: text })));
    for (const share of shares) {
      row.append(element("td", { textContent: percent(share[place]) }), element("td", {}, meter(share[place] / 1000)));
    }
    table.append(row);
  });
  if (!draws.length) return [table];
  const written = draws.map((draw) => element("bdi", { textContent: typeof draw === "number" ? texts[draw] : draw }));
  const line = element("p", { className: "draws" }, `the draw${draws.length > 1 ? "s" : ""} would have written `);
  written.forEach((text, place) => line.append(place ? " · " : "", text));
  return [table, line];
}

// Below the token, or above it where there is no room.
function placeValues() {
  const box = $("values");
  const span = current.response.shown.spans[current.cell];
  const at = span.getClientRects()[0] || span.getBoundingClientRect();
  const top = at.bottom + 10 + box.offsetHeight > innerHeight ? at.top - box.offsetHeight - 10 : at.bottom + 10;
  box.style.top = `${Math.max(6, top)}px`;
  box.style.left = `${Math.max(6, Math.min(at.left, innerWidth - box.offsetWidth - 10))}px`;
}

function closeValues() {
  if (!current) return;
  if (current.response.shown) current.response.shown.spans[current.cell].classList.remove("at");
  current = null;
  $("values").hidden = true;
}

function moveInText(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { response } = event.currentTarget;
  const { shown } = response;
  const at = current && current.response === response ? current.cell : -1;
  const last = shown.spans.length - 1;
  let cell = null;
  if (event.key === "ArrowRight") cell = Math.min(at + 1, last);
  else if (event.key === "ArrowLeft") cell = Math.max(at - 1, 0);
  else if (event.key === "Home") cell = 0;
  else if (event.key === "End") cell = last;
  else if ((event.key === "n" || event.key === "p") && shown.ranked.length) {
    // N walks from the least sure token down, wherever the arrows have been since.
    const count = shown.ranked.length;
    shown.rank = event.key === "n" ? (shown.rank + 1) % count : (Math.max(shown.rank, 0) + count - 1) % count;
    cell = shown.ranked[shown.rank].cell;
  }
  if (cell === null || last < 0) return;
  event.preventDefault();
  goTo(response, cell);
}

// ---- the whole page ---------------------------------------------------------------------------------------------

function chooseQuantity(q) {
  quantity = q;
  $("quantities").querySelectorAll("input")[q].checked = true;
  const held = current;
  closeValues();
  drawLegend();
  for (const response of responses) if (response.shown) paint(response);
  if ($("order").value !== "file") arrange();
  if (held && held.response.shown) openValues(held.response, held.cell, true);
}

function chooseFilter(name) {
  filter = name;
  $("filters").querySelector(`input[value="${name}"]`).checked = true;
  arrange();
}

function drawLegend() {
  const { name, label, unit, edges, origin } = quantities[quantity];
  const scale = element("span", { className: "scale" }, "sure");
  for (let step = 0; step < STEPS; step += 1) {
    scale.append(element("b", { className: `step${step}`, textContent: edges[step] }));
  }
  scale.append(`${edges[STEPS]} unsure`);
  document.body.dataset.palette = quantities[quantity].palette;
  $("legend").replaceChildren(
    element("span", {}, element("span", { className: "name", textContent: name }), ` ${label}, ${unit}`),
    scale,
    element("span", { className: "note", textContent: `one scale for all responses: ${origin}` }),
    element("span", { className: "note outside", textContent: "beyond an end" }),
    element("span", { className: "note none", textContent: "no value" }),
    element("span", { className: "note", textContent: "↵ newline  ⇥ tab  ⟨ESC⟩ control code  ∎ token without text" }),
  );
}

function isWanted({ head }) {
  const wanted = { all: true, right: head.correct === true, wrong: head.correct === false, unknown: head.correct === null };
  const sought = $("find").value.trim().toLowerCase();
  return wanted[filter] && (!sought || `${head.id} ${head.question}`.toLowerCase().includes(sought));
}

function arrange() {
  closeValues();
  const order = $("order").value;
  const direction = order === "unsure" ? -1 : 1;
  const sorted = [...responses];
  if (order !== "file") {
    const key = ({ head }) => (head.doubts[quantity] === null ? direction * Infinity : head.doubts[quantity]);
    sorted.sort((a, b) => direction * (key(a) - key(b)) || a.index - b.index);
  }
  let count = 0;
  for (const response of sorted) {
    response.card.hidden = !isWanted(response);
    count += response.card.hidden ? 0 : 1;
  }
  $("responses").append(...sorted.map(({ card }) => card));
  $("count").textContent = `${count.toLocaleString("en")} of ${responses.length.toLocaleString("en")} responses`;
}

function goToResponse(direction) {
  const cards = [...$("responses").children].filter((card) => !card.hidden);
  const edge = document.querySelector("header").getBoundingClientRect().bottom + 30;
  const held = document.activeElement.closest("article");
  let at = held ? cards.indexOf(held) : cards.findIndex((card) => card.getBoundingClientRect().bottom > edge);
  if (held || direction < 0) at += direction;
  const card = cards[Math.max(0, Math.min(at, cards.length - 1))];
  if (!card) return;
  card.scrollIntoView({ block: "start" });
  show(card.response);
  card.response.shown.text.focus({ preventScroll: true });
}

// Shows the response that the address names.
function goToAddress() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* then it is taken as it is */ }
  const found = name && (responses.find(({ head }) => anchorOf(head) === name) || responses.find(({ head }) => head.id === name));
  if (!found) return;
  if (found.card.hidden) {
    $("find").value = "";
    chooseFilter("all");
  }
  show(found);
  found.card.scrollIntoView({ block: "start" });
  found.card.focus({ preventScroll: true });
}

function chooseTheme() {
  const themes = ["auto", "light", "dark"];
  const root = document.documentElement;
  const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  $("theme").textContent = `Theme: ${next}`;
}

function onKey(event) {
  const isTyping = event.target.closest("select, input[type=search]");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const filters = [...$("filters").querySelectorAll("input")].map(({ value }) => value);
  if (event.key === "j") goToResponse(1);
  else if (event.key === "k") goToResponse(-1);
  else if (event.key === "f") chooseFilter(filters[(filters.indexOf(filter) + 1) % filters.length]);
  else if (event.key >= "1" && event.key <= "9" && Number(event.key) <= quantities.length) {
    chooseQuantity(Number(event.key) - 1);
  } else if (event.key === "/") $("find").focus();
  else if (event.key === "Escape") closeValues();
  else return;
  event.preventDefault();
}

function addChoice(fieldset, name, value, label, checked, onChange) {
  const input = element("input", { type: "radio", name, value, checked });
  input.addEventListener("change", onChange);
  fieldset.append(element("label", {}, input, element("span", { textContent: label })));
}

function start() {
  document.documentElement.classList.toggle("compare", compare);
  quantities.forEach(({ name, label }, q) => {
    addChoice($("quantities"), "quantity", q, name, q === 0, () => chooseQuantity(q));
    $("quantities").lastChild.title = label;
  });
  const counts = { all: responses.length, right: 0, wrong: 0, unknown: 0 };
  for (const { head } of responses) counts[head.correct === null ? "unknown" : head.correct ? "right" : "wrong"] += 1;
  for (const [name, count] of Object.entries(counts)) {
    if (count || name === "all") {
      const label = `${name} ${count.toLocaleString("en")}`;
      addChoice($("filters"), "filter", name, label, name === "all", () => chooseFilter(name));
    }
  }
  drawLegend();
  $("responses").append(...responses.map(makeCard));
  arrange();

  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) (isIntersecting ? show : hide)(target.response);
  }, { rootMargin: "1200px" });
  for (const { card } of responses) watcher.observe(card);

  const main = $("responses");
  main.addEventListener("pointerover", (event) => {
    const text = event.target.closest(".text");
    if (text && event.target.cell !== undefined) openValues(text.response, event.target.cell, false);
  });
  main.addEventListener("pointerout", (event) => {
    if (event.target.cell !== undefined) closeValues();
  });
  // A tap ends with a click, after the pointer has left: the values stay until another one
  main.addEventListener("click", (event) => {
    const text = event.target.closest(".text");
    if (text && event.target.cell !== undefined) openValues(text.response, event.target.cell, false);
    else if (!event.target.closest("button")) closeValues();
  });
  main.addEventListener("focusout", closeValues);
  addEventListener("hashchange", goToAddress);
  goToAddress();
  addEventListener("scroll", () => { if (current) placeValues(); }, { passive: true });
  $("order").addEventListener("change", arrange);
  $("find").addEventListener("input", arrange);
  $("theme").addEventListener("click", chooseTheme);
  document.addEventListener("keydown", onKey);
}

start();
