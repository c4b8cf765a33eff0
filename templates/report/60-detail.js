// One item: question and prompt, gold, and both models' answers side by side.
class Detail {
  constructor(box, store, actions) {
    this.box = box;
    this.store = store;
    this.actions = actions;
    this.turn = 0;
    this.isPromptOpen = false;
    this.state = JSON.parse(document.getElementById("asked").textContent);
  }

  // Draws an item beside the given compressed model; of two calls the later one counts.
  async show(item, model) {
    this.turn += 1;
    const turn = this.turn;
    if (item === null) {
      this.box.replaceChildren();
      return;
    }
    const parts = await this.parts(item, model);
    if (turn !== this.turn) return;
    this.box.replaceChildren(...parts);
    this.box.scrollTop = 0;
  }

  async parts(item, model) {
    const { columns, told } = this.store;
    const [question, gold] = await told.all([columns.question[item], columns.gold[item]]);
    const models = model > 0 ? [0, model] : [0];
    const sides = await Promise.all(models.map((one) => this.side(item, one)));
    const choices = await told.all(columns.choices[item]);
    return [
      this.title(item, model),
      this.repeats(item),
      ...this.asked(item, question),
      element("h4", "", WORDS.gold),
      gold === null ? element("p", "", WORDS.empty) : element("div", "model-text gold", visible(gold || WORDS.empty)),
      ...this.answers(item, sides, choices),
    ].filter(Boolean);
  }

  title(item, model) {
    const change = model > 0 ? CHANGES[this.store.columns.change[item][model - 1]] : null;
    const step = element("span", "step", button(WORDS.previous, () => this.actions.move(-1)), button(WORDS.next, () => this.actions.move(1)));
    const name = element("h3", "", inline(this.store.name(item)));
    return element("div", "title", name, change ? badge(change) : null, step);
  }

  // Buttons for the other answers to an item that was asked several times.
  repeats(item) {
    const { task, id, repeat } = this.store.columns;
    const of = this.store.tasks[task[item]].repeats;
    if (of < 2) return null;
    const box = element("div", "repeats", element("span", "small", `${WORDS.repeats}:`));
    for (let other = 0; other < this.store.size; other += 1) {
      if (task[other] !== task[item] || id[other] !== id[item]) continue;
      const letters = this.store.letters(other, 0);
      const one = button(String(repeat[other] + 1), () => this.actions.choose(other));
      one.title = `${WORDS.repeat(repeat[other], of)}: ${OUTCOMES[letters[0]] || WORDS.nothing}`;
      if (other === item) one.setAttribute("aria-current", "true");
      box.append(one);
    }
    return box;
  }

  asked(item, question) {
    const why = this.state.stored ? "stored" : "missing";
    const text = question === null ? element("p", "small", WORDS.noQuestion[why]) : element("div", "model-text", visible(question));
    if (!this.store.columns.prompt[item].length) return [element("h4", "", WORDS.question), text, element("p", "small", WORDS.noPrompt[why])];
    if (this.store.isQuestionAlone(item)) return [element("h4", "", WORDS.questionAlone(this.state.checked)), text];
    const prompt = element("details", "prompt", element("summary", "", WORDS.prompt(this.state.checked)));
    const fill = async () => {
      this.isPromptOpen = prompt.open;
      if (!prompt.open || prompt.querySelector(".model-text")) return;
      const whole = await this.store.prompt(item);
      if (!prompt.querySelector(".model-text")) prompt.append(element("div", "model-text", visible(whole)));
    };
    prompt.addEventListener("toggle", fill);
    prompt.open = this.isPromptOpen;
    return [element("h4", "", WORDS.question), text, prompt];
  }

  async side(item, model) {
    const answer = this.store.answer(item, model);
    const label = this.store.models[model].label;
    if (!answer) return { label, model, answer: null };
    const [text, extracted, scores, fault] = await this.store.told.all([answer.text, answer.extracted, answer.scores, answer.fault]);
    return { label, model, answer: { ...answer, text, extracted, scores, fault } };
  }

  answers(item, sides, choices) {
    const given = sides.map((side) => side.answer);
    const texts = given.map((answer) => (answer ? answer.text : null));
    const isPair = given.length === 2;
    const isScored = given.some((answer) => answer && answer.logprobs);
    const at = isPair && texts.every((text) => text !== null) ? firstDifference(...texts) : -1;
    const parts = [];
    if (isPair) parts.push(element("p", "says", said(given, texts, at)));
    if (at >= 0) parts[0].append(" ", button(WORDS.jump, () => this.toDifference()));
    if (isScored) parts.push(this.choices(item, sides, choices));
    const shown = sides.map((side) => this.oneSide(side, at, isScored));
    return [...parts, element("div", isPair ? "pair" : "", ...shown)];
  }

  oneSide({ label, model, answer }, at, isScored) {
    const role = model === 0 ? WORDS.baseline : WORDS.compressed;
    const head = element("div", "side-head", element("strong", "", inline(label)), label === role ? null : element("span", "small", role));
    if (!answer) return element("section", "", head, element("p", "small", WORDS.nothing));
    head.append(badge(OUTCOMES[answer.outcome]));
    const facts = element("dl", "side-facts");
    const fact = (name, value) => facts.append(element("dt", "", name), element("dd", "", value));
    fact(WORDS.extracted, answer.extracted === null ? WORDS.noAnswer : inline(answer.extracted || WORDS.empty));
    // Nothing ends a scored choice; a text of no tokens is one of which no count is stored.
    if (!isScored || answer.finish === "e") fact(WORDS.finish, FINISHES[answer.finish]);
    if (!isScored && (answer.tokens || (answer.finish !== "u" && !answer.text))) fact(WORDS.tokens, String(answer.tokens));
    if (answer.scores) fact(WORDS.scores, inline(answer.scores));
    if (answer.fault) fact(WORDS.fault, inline(answer.fault));
    const text = isScored || answer.text === null ? null : answer.text === "" && at < 0 ? element("p", "small", WORDS.empty) : marked(answer.text, at);
    return element("section", "", head, facts, text);
  }

  // Log-probabilities of the choices by both models; gold and picks are marked in words.
  choices(item, sides, texts) {
    const right = this.store.columns.right[item];
    const head = element("tr", "", th(texts.length > 1 ? WORDS.choice : WORDS.scoredText), ...sides.map(({ label }) => th(inline(label), "n")));
    const rows = texts.map((text, number) => {
      const name = th(inline(text || WORDS.empty));
      if (number === right) name.append(" ", element("span", "badge correct", WORDS.right));
      const cells = sides.map(({ answer }) => logprob(answer, number));
      return element("tr", number === right ? "gold" : "", name, ...cells);
    });
    const table = element("table", "choices", element("caption", "visually-hidden", WORDS.logprobs), element("thead", "", head), element("tbody", "", ...rows));
    return element("div", "scroll", table);
  }

  toDifference() {
    this.box.querySelector("mark.first")?.scrollIntoView({ block: "center" });
  }

  togglePrompt() {
    const prompt = this.box.querySelector("details.prompt");
    if (prompt) prompt.open = !prompt.open;
  }
}

function said(given, texts, at) {
  if (given.some((answer) => !answer)) return WORDS.oneOnly;
  if (given.every((answer) => answer.logprobs)) {
    if (given.every((answer) => answer.pick === null)) return "";
    return given[0].pick === given[1].pick ? WORDS.equalPicks : WORDS.otherPicks;
  }
  if (texts.some((text) => text === null)) return WORDS.oneOnly;
  return at < 0 ? WORDS.equal : WORDS.differ(at, texts[0].slice(0, at).split("\n").length);
}

function logprob(answer, number) {
  const value = answer && answer.logprobs ? answer.logprobs[number] : undefined;
  const isPicked = Boolean(answer) && answer.pick === number;
  const cell = element("td", isPicked ? "n picked" : "n");
  if (isPicked) cell.append(element("span", "tag", `${WORDS.picked} `));
  cell.append(value === null || value === undefined ? "–" : value.toFixed(3));
  return cell;
}

function th(content, className = "") {
  const cell = element("th", className, content);
  cell.scope = className === "n" ? "col" : "row";
  return cell;
}

function badge(words) {
  return element("span", `badge ${words.replace(" ", "-")}`, words);
}

function button(words, action) {
  const made = element("button", "", words);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}
