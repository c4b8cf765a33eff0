// Parts of the page, its theme, its keys and its address.
const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "evalcard-theme";

function readTheme() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null; // a page that is a file may have no storage
  }
}

function setTheme(name) {
  const theme = THEMES.includes(name) ? name : THEMES[0];
  if (theme === THEMES[0]) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme-name").textContent = theme;
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // as above
  }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme || THEMES[0];
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

const LONGEST_NAME = 200; // of what an address asked for, as the page repeats it

const TABS = ["summary", "items"];

function showTab(name, isFocused = false) {
  for (const tab of TABS) {
    const control = byId(`tab-${tab}`);
    control.setAttribute("aria-selected", String(tab === name));
    control.tabIndex = tab === name ? 0 : -1;
    byId(tab).hidden = tab !== name;
  }
  if (isFocused) byId(`tab-${name}`).focus();
  document.documentElement.style.setProperty("--top", `${document.querySelector(".top").offsetHeight}px`);
}

function isShown(name) {
  return !byId(name).hidden;
}

// #items?item=...&task=...&model=...&show=...&q=...; the rest of the page keeps plain anchors.
function writeAddress({ store, filters, item }) {
  if (!isShown("items")) return;
  const told = new URLSearchParams();
  if (item !== null) told.set("item", store.name(item));
  if (filters.task) told.set("task", filters.task[0] === "r" ? `row:${store.rows[Number(filters.task.slice(1))].name}` : store.tasks[Number(filters.task)].name);
  if (filters.model > 1) told.set("model", store.models[filters.model].slug);
  if (filters.outcome !== "all") told.set("show", filters.outcome);
  if (filters.words) told.set("q", filters.words);
  history.replaceState(null, "", `#items?${told}`);
}

async function readAddress(browser) {
  const address = location.hash;
  const [place, query] = address.slice(1).split("?");
  if (place !== "items") return false;
  const told = new URLSearchParams(query || "");
  const { filters, controls } = browser;
  const found = namedIn(told, browser);
  Object.assign(filters, { task: found.task ?? "", outcome: found.show ?? "all" });
  if (found.model > 0) filters.model = found.model;
  for (const name of Object.keys(controls)) controls[name].value = String(filters[name]);
  browser.searchBox.value = told.get("q") || "";
  const asked = browser.item = found.item ?? null;
  showTab("items");
  await browser.search(browser.searchBox.value, found.item !== null);
  if (asked !== null && browser.item !== asked) browser.reveal(asked);
  const unknown = Object.keys(found).filter((name) => found[name] === null);
  browser.tellUnknown(unknown.map((name) => WORDS.unknown[name](told.get(name).slice(0, LONGEST_NAME))));
  if (unknown.length) history.replaceState(null, "", address);
  return true;
}

// What an address names: undefined where it names nothing, null where this report has no such thing.
function namedIn(told, { store, controls }) {
  const at = (number, of = String) => (number < 0 ? null : of(number));
  const find = {
    item: (name) => store.names.get(name) ?? store.names.get(`${name}#0`) ?? null, // the first of several answers
    task: (name) => at(store.tasks.findIndex((one) => one.name === name)) ?? at(store.rows.findIndex((row) => `row:${row.name}` === name), (number) => `r${number}`),
    model: (slug) => at(store.models.findIndex((one) => one.slug === slug), Number),
    show: (name) => ([...controls.outcome.options].some((one) => one.value === name && !one.disabled) ? name : null),
  };
  return Object.fromEntries(Object.keys(find).map((name) => [name, told.get(name) ? find[name](told.get(name)) : undefined]));
}

function openItems(browser) {
  showTab("items");
  browser.list.render();
  if (browser.list.at < 0) browser.refresh();
  else browser.list.choose(browser.list.at);
  byId("list").focus();
}

function openSummary() {
  showTab("summary");
  history.replaceState(null, "", "#summary");
  byId("main").focus();
}

function keysOf(browser) {
  const inItems = {
    j: () => browser.list.move(1), ArrowDown: () => browser.list.move(1),
    k: () => browser.list.move(-1), ArrowUp: () => browser.list.move(-1),
    PageDown: () => browser.list.move(browser.list.page), PageUp: () => browser.list.move(-browser.list.page),
    Home: () => browser.list.choose(0), End: () => browser.list.choose(browser.list.items.length - 1),
    f: () => browser.cycle("outcome", 1), F: () => browser.cycle("outcome", -1),
    m: () => browser.cycle("model", 1), t: () => browser.cycle("task", 1),
    d: () => browser.detail.toDifference(), p: () => browser.detail.togglePrompt(),
    Escape: () => clearSearch(browser), "/": () => browser.searchBox.select(),
  };
  const anywhere = {
    "?": () => byId("help").showModal(),
    s: () => (isShown("items") ? openSummary() : openItems(browser)),
    "/": () => { openItems(browser); browser.searchBox.focus(); },
  };
  return (key) => (isShown("items") && key !== "/" && inItems[key]) || anywhere[key];
}

function clearSearch(browser) {
  if (!browser.searchBox.value) return;
  browser.searchBox.value = "";
  browser.search("");
}

// Keys that a control needs itself are left to it: letters while one types, arrows in a choice or in a long answer.
function isTheirs(event) {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return true;
  if (target.matches("input, select, textarea")) return true;
  const isArrow = key.length > 1 && key !== "Escape";
  return isArrow && !(target.id === "list" || target === document.body || target.id === "main");
}

function listenToKeys(browser) {
  const keys = keysOf(browser);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === browser.searchBox) {
      if (browser.searchBox.value) clearSearch(browser);
      else byId("list").focus();
      event.preventDefault();
      return;
    }
    if (isTheirs(event)) return;
    const action = keys(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function listenToTabs(browser) {
  byId("tab-summary").addEventListener("click", openSummary);
  byId("tab-items").addEventListener("click", () => openItems(browser));
  document.querySelector(".tabs").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    showTab(isShown("items") ? "summary" : "items", true);
    if (isShown("items")) browser.refresh();
    event.preventDefault();
    event.stopPropagation();
  });
  for (const link of document.querySelectorAll(".to-items")) {
    link.hidden = false;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      browser.filters.model = Number(link.dataset.model);
      browser.controls.model.value = link.dataset.model;
      showTab("items");
      browser.set("outcome", link.dataset.show);
      byId("list").focus();
    });
  }
}

async function start() {
  setTheme(readTheme());
  byId("theme").addEventListener("click", nextTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  for (const part of document.querySelectorAll(".tabs, .tools")) part.hidden = false;
  showTab("summary");
  addEventListener("resize", () => showTab(isShown("items") ? "items" : "summary"));
  let browser;
  try {
    browser = new Browser(await Store.open());
  } catch (error) {
    byId("items").replaceChildren(element("p", "notice blocker", WORDS.broken));
    byId("tab-items").addEventListener("click", () => showTab("items"));
    throw error;
  }
  listenToTabs(browser);
  listenToKeys(browser);
  if (!(await readAddress(browser))) browser.refresh();
  addEventListener("hashchange", () => readAddress(browser));
  document.documentElement.dataset.ready = "yes";
}

start();
