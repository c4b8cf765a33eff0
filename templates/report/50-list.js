// A list of any length: only the rows that can be seen are in the document.
const ROW_HEIGHT = 52;
const AROUND = 8;

class List {
  constructor(box, draw, chosen) {
    this.box = box;
    this.draw = draw;
    this.chosen = chosen;
    this.items = [];
    this.at = -1;
    this.spacer = element("div", "spacer");
    this.spacer.setAttribute("role", "presentation");
    box.replaceChildren(this.spacer);
    box.addEventListener("scroll", () => this.render(), { passive: true });
    box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(Number(row.dataset.at));
    });
    new ResizeObserver(() => this.render()).observe(box);
  }

  // Shows other items; the one that was chosen stays so where it is among them, else the first is, or none.
  show(items, item, isFirstChosen = true) {
    this.items = items;
    this.spacer.style.height = `${items.length * ROW_HEIGHT}px`;
    this.box.querySelector(".empty")?.remove();
    if (!items.length) {
      this.box.prepend(element("p", "empty", `${WORDS.none} ${WORDS.noneHelp}`));
      this.at = -1;
      this.render();
      this.chosen(null);
      return;
    }
    const at = items.indexOf(item);
    if (at >= 0 || isFirstChosen) {
      this.choose(Math.max(0, at));
      return;
    }
    this.at = -1;
    this.box.scrollTop = 0;
    this.render();
    this.chosen(null);
  }

  choose(at) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(at, this.items.length - 1));
    const top = this.at * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop) this.box.scrollTop = top;
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) this.box.scrollTop = top + ROW_HEIGHT - clientHeight;
    this.render();
    this.chosen(this.items[this.at]);
  }

  move(by) {
    this.choose(this.at + by);
  }

  get page() {
    return Math.max(1, Math.floor(this.box.clientHeight / ROW_HEIGHT) - 1);
  }

  render() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_HEIGHT) - AROUND);
    const last = Math.min(this.items.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW_HEIGHT) + AROUND);
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(at));
    this.spacer.replaceChildren(...rows);
    const active = this.at >= first && this.at < last ? `row-${this.at}` : null;
    if (active) this.box.setAttribute("aria-activedescendant", active);
    else this.box.removeAttribute("aria-activedescendant");
  }

  row(at) {
    const row = this.draw(this.items[at]);
    row.id = `row-${at}`;
    row.dataset.at = at;
    row.style.top = `${at * ROW_HEIGHT}px`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(at === this.at));
    row.setAttribute("aria-setsize", this.items.length);
    row.setAttribute("aria-posinset", at + 1);
    return row;
  }
}
