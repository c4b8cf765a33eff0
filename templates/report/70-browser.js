// Filters, list and detail together, and the page's address that tells what is shown.
const TYPING_PAUSE = 150;

class Browser {
  constructor(store) {
    this.store = store;
    this.filters = new Filters(store);
    this.controls = Object.fromEntries(["task", "model", "outcome"].map((name) => [name, byId(`filter-${name}`)]));
    this.searchBox = byId("search");
    this.count = byId("count");
    this.item = null;
    this.unknown = byId("unknown");
    this.detail = new Detail(byId("detail"), store, { move: (by) => this.list.move(by), choose: (item) => this.choose(item) });
    this.list = new List(byId("list"), (item) => this.row(item), (item) => this.chosen(item));
    this.fillControls();
    this.listen();
  }

  fillControls() {
    const option = (value, words) => Object.assign(element("option", "", words), { value });
    const { task, model } = this.controls;
    task.append(option("", WORDS.allTasks));
    const group = (label, options) => {
      if (options.length) task.append(Object.assign(element("optgroup", "", ...options), { label }));
    };
    group(WORDS.groups, this.store.rows.map((row, number) => option(`r${number}`, row.name)));
    group(WORDS.tasks, this.store.tasks.map((one, number) => option(String(number), `${one.name} (${one.items})`)));
    this.store.models.forEach((one, number) => {
      if (number > 0 || this.store.models.length === 1) model.append(option(String(number), one.label));
    });
    this.markUntold();
  }

  // Where it is not told how answers ended, those that were cut cannot be asked for.
  markUntold() {
    const isUntold = this.store.models.map((_, model) => this.store.hasFinish("u", model));
    if (!isUntold.includes(true)) return;
    const choice = [...this.controls.outcome.options].find((one) => one.value === "truncated");
    choice.disabled = !isUntold.includes(false);
    choice.textContent += WORDS.untold(choice.disabled);
  }

  listen() {
    for (const [name, control] of Object.entries(this.controls)) {
      control.addEventListener("change", () => this.set(name, control.value));
    }
    let pause = 0;
    this.searchBox.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => this.search(this.searchBox.value), TYPING_PAUSE);
    });
    this.searchBox.form.addEventListener("submit", (event) => {
      event.preventDefault();
      byId("list").focus();
    });
  }

  set(name, value) {
    this.filters[name] = name === "model" ? Number(value) : value;
    this.controls[name].value = value;
    this.refresh();
  }

  cycle(name, by) {
    const values = [...this.controls[name].options].filter((option) => !option.disabled).map((option) => option.value);
    const at = values.indexOf(this.controls[name].value);
    this.set(name, values[(at + by + values.length) % values.length]);
  }

  async search(words, isFirstChosen = true) {
    const isDone = await this.filters.search(words, (done, all) => {
      if (all > 1) this.count.textContent = WORDS.searching(done, all);
    });
    if (isDone) this.refresh(isFirstChosen);
  }

  refresh(isFirstChosen = true) {
    const items = this.filters.items();
    this.count.textContent = WORDS.count(items.length, this.store.size);
    this.list.show(items, this.item, isFirstChosen);
  }

  // An item that was asked for by name and that the filters hide: they are widened, and the page says so.
  reveal(item) {
    this.choose(item);
    this.count.textContent = `${WORDS.widened} ${this.count.textContent}`;
  }

  // What was asked for by name and this report has not; it stays until something is chosen.
  tellUnknown(sentences) {
    this.unknown.replaceChildren(inline(sentences.join(" ")));
    this.unknown.hidden = !sentences.length;
  }

  // An item by its number, also where the filters hide it: then all of its task are shown.
  choose(item) {
    this.item = item;
    const at = this.list.items.indexOf(item);
    if (at >= 0) {
      this.list.choose(at);
      return;
    }
    this.filters.words = this.searchBox.value = "";
    Object.assign(this.filters, { found: null, outcome: "all", task: "" });
    this.controls.outcome.value = "all";
    this.controls.task.value = "";
    this.refresh();
  }

  chosen(item) {
    this.item = item;
    this.unknown.hidden = true;
    this.detail.show(item, this.filters.model);
    writeAddress(this);
  }

  row(item) {
    const { columns } = this.store;
    const { model } = this.filters;
    const change = model > 0 ? CHANGES[columns.change[item][model - 1]] : null;
    const head = element("div", "head", element("span", "id", inline(this.store.name(item))));
    const outcomes = change ? [change] : outcomesOf(this.store, item, model);
    outcomes.forEach((words, number) => head.append(...(number ? [WORDS.then, badge(words)] : [badge(words)])));
    return element("div", "row", head, element("div", "text", element("bdi", "", visible(columns.snippet[item]))));
  }
}

// Both outcomes where they differ, else the one.
function outcomesOf(store, item, model) {
  const letters = [0, model].map((one) => store.letters(item, one)[0]).filter(Boolean);
  return [...new Set(letters)].map((letter) => OUTCOMES[letter]);
}

function byId(id) {
  return document.getElementById(id);
}
