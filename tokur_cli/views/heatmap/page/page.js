"use strict";
// Model text is only ever set as text (textContent, document.createTextNode), never as markup.

const lines = document.getElementById("data").textContent.split("\n");
const { compare, quantities } = JSON.parse(lines[0]);
const MARKS = { "-": "none", " ": "", a: "step0 outside", h: "step7 outside" }; // what a cell's mark means
[..."01234567"].forEach((mark, step) => { MARKS[mark] = `step${step}`; });
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

// Values are whole numbers of 10^-decimals.
function number(q, value) {
  const { decimals } = quantities[q];
  return value === null ? "–" : (value / 10 ** decimals).toFixed(decimals).replace(/^-(?=0\.?0*$)/, "");
}

const classOf = (tokens, q, cell) => MARKS[tokens.marks[q][cell]];
const tokensOf = (tokens, cell) => (tokens.tokens ? tokens.tokens[cell] : [cell, 1]); // the first, and how many

// ---- one response -----------------------------------------------------------------------------------------------

function scoreLine(scores) {
  const line = element("p", { className: "scores" });
  for (const [score, value] of scores) {
    line.append(element("span", {}, `${score} `, element("b", { textContent: value })), " ");
  }
  return line;
}

function makeCard(response) {
  const { head } = response;
  const verdict = head.correct === null ? "unknown" : head.correct ? "correct" : "incorrect";
  const card = element("article", {}, element("h2", {},
    element("span", { className: "id", dir: "auto", textContent: head.title }),
    element("span", { className: verdict, textContent: head.verdict }),
    element("span", { className: "facts", textContent: head.facts }),
  ));
  card.response = response;
  if (head.question) card.append(element("p", { className: "question", dir: "auto", textContent: head.question }));
  const [leading, others] = head.scores;
  card.append(scoreLine(leading));
  if (others.length) {
    card.append(element("details", {}, element("summary", { textContent: "other scores" }), scoreLine(others)));
  }
  response.body = element("div", { className: "body" });
  response.body.style.minHeight = `${140 + Math.ceil(head.length / 90) * 28}px`; // a guess, until it is shown
  card.append(response.body);
  response.card = card;
  return card;
}

function show(response) {
  if (response.shown) return;
  const tokens = JSON.parse(lines[response.line]);
  const text = element("div", { className: "text", dir: "auto" });
  const spans = tokens.cells.map((shown, cell) => {
    const span = element("span", { textContent: shown });
    span.cell = cell;
    return span;
  });
  text.append(...spans);
  text.response = response;
  response.shown = { tokens, text, spans, aside: element("aside") };
  response.body.replaceChildren(text, response.shown.aside);
  response.body.style.minHeight = "";
  paint(response);
}

function paint(response) {
  const { tokens, spans, aside } = response.shown;
  spans.forEach((span, cell) => { span.className = classOf(tokens, quantity, cell); });
  aside.replaceChildren(...topTokens(response), ...stepSums(response));
}

function topTokens(response) {
  const { tokens, spans } = response.shown;
  const between = (from, to) => tokens.cells.slice(Math.max(0, from), Math.max(0, to)).join("").replaceAll("\n", "");
  const list = element("ol", { className: "tops" });
  for (const [cell, token] of tokens.top[quantity]) {
    const value = element("span", { className: "number", textContent: number(quantity, tokens.values[quantity][token]) });
    const around = element("span", { className: "around" },
      element("i", {}, element("bdi", { textContent: between(cell - 12, cell) })),
      element("b", { className: classOf(tokens, quantity, cell), textContent: between(cell, cell + 1) }),
      element("i", { textContent: between(cell + 1, cell + 13) }),
    );
    const button = element("button", { type: "button", title: `Go to token ${token + 1}` }, value, around);
    button.addEventListener("click", () => {
      spans[cell].scrollIntoView({ block: "nearest" });
      openValues(response, cell);
    });
    list.append(element("li", {}, button));
  }
  return [element("h3", { textContent: `Least certain tokens by ${quantities[quantity].name}` }), list];
}

function stepSums(response) {
  const { tokens } = response.shown;
  const sums = tokens.sums[quantity];
  if (!sums) return [];
  const list = element("ol", { className: "steps" });
  tokens.steps.forEach(([first, after, label], index) => {
    const isLeastCertain = index === tokens.least[quantity];
    const className = isLeastCertain ? "least" : "";
    const button = element("button", { type: "button", title: `${label}\n${after - first} tokens`, className },
      element("span", { className: "number", textContent: sums[index] }),
      element("span", { className: "label", dir: "auto", textContent: (isLeastCertain ? "▶ " : "") + label }),
    );
    button.addEventListener("click", () => markStep(response, first, after));
    list.append(element("li", {}, button));
  });
  return [element("h3", { textContent: quantities[quantity].steps }), list];
}

function markStep(response, first, after) {
  const { tokens, spans } = response.shown;
  const inside = spans.filter((span, cell) => {
    const [token, count] = tokensOf(tokens, cell);
    return span.classList.toggle("in-step", count > 0 && token >= first && token < after);
  });
  if (inside.length) inside[0].scrollIntoView({ block: "center" });
}

// ---- the values of one token ------------------------------------------------------------------------------------

function openValues(response, cell) {
  closeValues();
  const { tokens, spans } = response.shown;
  const [first, count] = tokensOf(tokens, cell);
  current = { response, cell };
  spans[cell].classList.add("at");
  // A row a quantity: there may be many of them, while a character of several tokens is rare.
  const members = Array.from({ length: count }, (_, index) => first + index);
  const titles = members.map((token) => element("th", { textContent: `token ${token + 1}` }));
  const table = element("table", {}, element("tr", {}, element("th"), ...titles));
  quantities.forEach(({ name }, q) => {
    const row = element("tr", {}, element("th", { textContent: name, className: q === quantity ? "chosen" : "" }));
    for (const token of members) {
      const className = count > 1 ? "" : classOf(tokens, q, cell);  // that of its least certain token
      row.append(element("td", { className, textContent: number(q, tokens.values[q][token]) }));
    }
    table.append(row);
  });
  const shown = element("b", { textContent: tokens.cells[cell].replaceAll("\n", "") });
  const what = element("p", {}, shown, count ? "" : " between tokens: no values");
  $("values").replaceChildren(what, ...(count ? [table] : []), ...members.flatMap((token) => alternatives(tokens, token)));
  $("values").hidden = false;
  placeValues();
}

// What else might have been written: the likeliest tokens under the model and under the mean of its draws.
function alternatives(tokens, token) {
  const others = tokens.others[token];
  if (!others) return [];
  const [texts, base, mean, draws] = others;
  const percent = (value) => (value === null ? "?" : value < 5 ? "<1 %" : `${Math.round(value / 10)} %`);
  const shares = mean ? [["p₀", base], ["p̄", mean]] : [["p₀", base]];
  const heads = ["likeliest", ...shares.map(([name]) => name)];
  const table = element("table", { className: "others" });
  table.append(element("tr", {}, ...heads.map((textContent) => element("th", { textContent }))));
  texts.forEach((text, place) => {
    const figures = shares.map(([, share]) => element("td", { textContent: percent(share[place]) }));
    table.append(element("tr", {}, element("td", {}, element("bdi", { textContent: text })), ...figures));
  });
  const textContent = `the draws would have written ${draws.join(" · ")}`;
  return draws.length ? [table, element("p", { className: "draws", textContent })] : [table];
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

// ---- the whole page ---------------------------------------------------------------------------------------------

function chooseQuantity(q) {
  quantity = q;
  closeValues();
  drawLegend();
  for (const response of responses) if (response.shown) paint(response);
  arrange();
}

function drawLegend() {
  const { name, label, edges, origin } = quantities[quantity];
  const scale = element("span", { className: "scale" }, "certain");
  edges.slice(0, -1).forEach((edge, step) => scale.append(element("b", { className: `step${step}`, textContent: edge })));
  scale.append(`${edges[edges.length - 1]} uncertain`);
  const title = element("span", {}, element("span", { className: "name", textContent: name }), ` ${label}`);
  const note = element("span", { className: "note", textContent: `shared colour scale: ${origin}` });
  $("scale").replaceChildren(title, scale, note);
}

const FILTERS = {
  all: () => true,
  correct: ({ correct }) => correct === true,
  incorrect: ({ correct }) => correct === false,
  unknown: ({ correct }) => correct === null,
  given: ({ withheld }) => withheld === false,
  withheld: ({ withheld }) => withheld === true,
};

function arrange() {
  closeValues();
  const direction = { file: 0, uncertain: -1, certain: 1 }[$("order").value];
  const key = ({ head }) => (head.uncertainties[quantity] === null ? direction * Infinity : head.uncertainties[quantity]);
  const sorted = [...responses].sort((a, b) => (direction && direction * (key(a) - key(b))) || a.index - b.index);
  const sought = $("find").value.trim().toLowerCase();
  let count = 0;
  for (const { head, card } of sorted) {
    card.hidden = !FILTERS[filter](head) || !`${head.title} ${head.question}`.toLowerCase().includes(sought);
    count += card.hidden ? 0 : 1;
  }
  $("responses").append(...sorted.map(({ card }) => card));
  $("count").textContent = `${count.toLocaleString("en")} of ${responses.length.toLocaleString("en")} responses`;
}

function addChoice(fieldset, name, label, title, checked, onChange) {
  const input = element("input", { type: "radio", name, checked });
  input.addEventListener("change", onChange);
  fieldset.append(element("label", { title }, input, element("span", { textContent: label })));
}

function start() {
  document.documentElement.classList.toggle("compare", compare);
  quantities.forEach(({ name, label }, q) => {
    addChoice($("quantities"), "quantity", name, label, q === 0, () => chooseQuantity(q));
  });
  for (const [name, isWanted] of Object.entries(FILTERS)) {
    const count = responses.filter(({ head }) => isWanted(head)).length;
    const label = `${name} ${count.toLocaleString("en")}`;
    const choose = () => { filter = name; arrange(); };
    if (count || name === "all") addChoice($("filters"), "filter", label, "", name === "all", choose);
  }
  drawLegend();
  $("responses").append(...responses.map(makeCard));
  arrange();

  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) show(target.response);
  }, { rootMargin: "1200px" });
  for (const { card } of responses) watcher.observe(card);

  // A tap ends with a click, after the pointer has left: the values stay until another one
  const open = ({ target }) => {
    if (target.cell !== undefined) openValues(target.parentNode.response, target.cell);
    return target.cell !== undefined;
  };
  const main = $("responses");
  main.addEventListener("pointerover", open);
  main.addEventListener("pointerout", ({ target }) => { if (target.cell !== undefined) closeValues(); });
  main.addEventListener("click", (event) => { if (!open(event) && !event.target.closest("button")) closeValues(); });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") closeValues(); });
  addEventListener("scroll", () => { if (current) placeValues(); }, { passive: true });
  $("order").addEventListener("change", arrange);
  $("find").addEventListener("input", arrange);
}

start();
