// Which items are shown: by task, compressed model, outcome and words. All in the page's address.
const PASSES = {
  all: () => true,
  flipped: (change) => change === "l" || change === "g",
  lost: (change) => change === "l",
  gained: (change) => change === "g",
  differs: (change) => change !== "s" && change !== "-",
  truncated: (change, ours, theirs) => [ours, theirs].some((one) => one[0] === "t" || one[1] === "l"),
  unparsed: (change, ours, theirs) => ours[0] === "n" || theirs[0] === "n",
  error: (change, ours, theirs) => ours[0] === "e" || theirs[0] === "e",
};

class Filters {
  constructor(store) {
    this.store = store;
    this.task = "";
    this.model = Math.min(1, store.models.length - 1);
    this.outcome = "all";
    this.words = "";
    this.found = null;
  }

  // Numbers of the tasks that were asked for; null for all. `r3` is the third row of several tasks, `2` a task.
  tasks() {
    if (this.task === "") return null;
    return new Set(this.task[0] === "r" ? this.store.rows[Number(this.task.slice(1))].tasks : [Number(this.task)]);
  }

  items() {
    const { task, change } = this.store.columns;
    const [wanted, passes, found] = [this.tasks(), PASSES[this.outcome], this.found];
    const shown = [];
    for (let item = 0; item < this.store.size; item += 1) {
      if (wanted && !wanted.has(task[item])) continue;
      const of = this.model > 0 ? change[item][this.model - 1] : "-";
      if (!passes(of, this.store.letters(item, 0), this.store.letters(item, this.model))) continue;
      if (found && !this.matches(item, found)) continue;
      shown.push(item);
    }
    return shown;
  }

  matches(item, found) {
    if (this.store.searched(item, this.model).some((number) => number !== null && found[number])) return true;
    return this.store.name(item).toLowerCase().includes(this.words);
  }

  // Looks the words up in every string; false where other words came meanwhile.
  async search(words, told) {
    const needle = words.trim().toLowerCase();
    this.words = needle;
    if (!needle) {
      this.found = null;
      return true;
    }
    const found = await this.store.told.matching(needle, (done, all) => {
      told(done, all);
      return this.words === needle;
    });
    if (found === null || this.words !== needle) return false;
    this.found = found;
    return true;
  }
}
