// The data of the page: columns of all items, and blocks of strings that are unpacked when they are needed.
const KEPT_BLOCKS = 12;

async function unpacked(text) {
  const data = JSON.parse(text);
  if (typeof data !== "string") return data;
  const bytes = Uint8Array.from(atob(data), (unit) => unit.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Strings {
  constructor(sources, starts) {
    this.sources = sources;
    this.starts = starts;
    this.blocks = new Map();
  }

  // A block as a promise; those that were used last are kept.
  block(number) {
    const known = this.blocks.get(number) || unpacked(this.sources[number].textContent);
    this.blocks.delete(number);
    this.blocks.set(number, known);
    if (this.blocks.size > KEPT_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    return known;
  }

  async get(number) {
    if (number === null) return null;
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= number) low = middle;
      else high = middle - 1;
    }
    return (await this.block(low))[number - this.starts[low]];
  }

  all(numbers) {
    return Promise.all(numbers.map((number) => this.get(number)));
  }

  // Which strings hold the words, by number: 1 where it does. `told` hears how far it is; null where it says stop.
  async matching(needle, told) {
    const last = this.sources.length - 1;
    const found = new Map();
    for (let number = 0; number <= last; number += 1) {
      const block = await this.block(number);
      found.set(number, block.map((text) => text.toLowerCase().includes(needle)));
      if (!told(number + 1, last + 1)) return null;
    }
    return this.starts.flatMap((_, number) => found.get(number));
  }
}

class Store {
  constructor(columns, sources) {
    Object.assign(this, { models: columns.models, tasks: columns.tasks, rows: columns.rows, columns: columns.columns });
    this.told = new Strings(sources.slice(0, columns.told.length), columns.told);
    this.prompts = new Strings(sources.slice(columns.told.length), columns.prompts);
    this.size = this.columns.id.length;
    this.names = new Map();
    for (let item = 0; item < this.size; item += 1) this.names.set(this.name(item), item);
  }

  static async open() {
    const [columns, ...blocks] = document.querySelectorAll("script.data");
    return new Store(await unpacked(columns.textContent), blocks);
  }

  // The same in every report of the run: task, item, and which answer where there are several.
  name(item) {
    const { task, id, repeat } = this.columns;
    const { name, repeats } = this.tasks[task[item]];
    return WORDS.item(name, id[item]) + (repeats > 1 ? `#${repeat[item]}` : "");
  }

  // Letters of an answer: outcome, finish; empty where the model has none.
  letters(item, model) {
    const answer = this.columns.answers[item][model];
    return answer ? answer[0] : "";
  }

  // Whether any of the model's answers ended so.
  hasFinish(letter, model) {
    return this.columns.answers.some((of) => of[model] && of[model][0][1] === letter);
  }

  answer(item, model) {
    const answer = this.columns.answers[item][model];
    if (!answer) return null;
    const [letters, tokens, text, extracted, scores, fault, logprobs, pick] = answer;
    return { outcome: letters[0], finish: letters[1], tokens, text, extracted, scores, fault, logprobs: logprobs || null, pick };
  }

  // Whether a prompt is its question, word for word, so that one text shows both.
  isQuestionAlone(item) {
    const parts = this.columns.prompt[item];
    return parts.length === 1 && parts[0] === "q";
  }

  // The prompt that a model read; `q` among its parts is the question.
  async prompt(item) {
    const { prompt, question } = this.columns;
    const parts = prompt[item].map((part) => (part === "q" ? this.told.get(question[item]) : this.prompts.get(part)));
    return (await Promise.all(parts)).join("");
  }

  // Numbers of the strings in which one searches: question, gold, choices, both models' answers and what was found in them.
  searched(item, model) {
    const { question, gold, choices, answers } = this.columns;
    const of = [0, model].flatMap((one) => (answers[item][one] ? answers[item][one].slice(2, 4) : []));
    return [question[item], gold[item], ...choices[item], ...of];
  }
}
