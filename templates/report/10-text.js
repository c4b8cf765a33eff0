// Texts of others: data, never markup. Only textContent and createTextNode put them on the page.

// What is not seen or moves other characters: controls, marks and overrides of direction, separators, blanks of no
// width, lone surrogates. A joiner counts only behind ASCII; behind other letters it belongs to the script.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|(?<=^|[\u0000-\u007f])[\u200c\u200d]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const CODE_NAMES = {
  0: "NUL", 8: "backspace", 13: "CR", 27: "ESC", 127: "DEL", 0xad: "soft hyphen", 0x200b: "zero width space",
  0x200c: "zero width non-joiner", 0x200d: "zero width joiner", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x2028: "line separator", 0x2029: "paragraph separator",
  0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding", 0x202c: "pop directional formatting",
  0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2060: "word joiner",
  0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate",
  0x2069: "pop directional isolate", 0xfeff: "byte order mark",
};

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

function codeOf(unit) {
  const number = unit.charCodeAt(0);
  const code = element("span", "code", `U+${number.toString(16).toUpperCase().padStart(4, "0")}`);
  code.title = CODE_NAMES[number] || (number >= 0xd800 && number <= 0xdfff ? "lone surrogate" : "control character");
  return code;
}

// A fragment in which everything can be seen.
function visible(text) {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (found.index > from) fragment.append(document.createTextNode(text.slice(from, found.index)));
    fragment.append(codeOf(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) fragment.append(document.createTextNode(text.slice(from)));
  return fragment;
}

// A text on a line with words of ours around it: neither its direction nor its marks reach beyond it.
function inline(text) {
  return element("bdi", "inline-text", visible(text));
}

function isHigh(unit) {
  return unit >= 0xd800 && unit <= 0xdbff;
}

// Where two texts begin to differ, never inside a surrogate pair; -1 where they are equal.
function firstDifference(one, other) {
  if (one === other) return -1;
  const length = Math.min(one.length, other.length);
  let at = 0;
  while (at < length && one.charCodeAt(at) === other.charCodeAt(at)) at += 1;
  if (at > 0 && isHigh(one.charCodeAt(at - 1)) && (at < one.length || at < other.length)) {
    const low = [one.charCodeAt(at), other.charCodeAt(at)].some((unit) => unit >= 0xdc00 && unit <= 0xdfff);
    if (low) at -= 1;
  }
  return at;
}

// The end of the word, or else of the blanks, that begins at a place: what is marked there.
function endOfWord(text, at) {
  const found = /^(?:\s+|[^\s]+)/u.exec(text.slice(at, at + 60));
  return at + (found ? found[0].length : 0);
}

// A text with the first difference marked; where it ends at that place, that is marked and said.
function marked(text, at) {
  const box = element("div", "model-text");
  if (at < 0) {
    box.append(visible(text));
    return box;
  }
  const end = endOfWord(text, at);
  const said = text.slice(at, end);
  const mark = element("mark", "first", end > at ? visible(said) : WORDS.ends);
  if (end > at && !said.trim()) mark.prepend(element("span", "code", WORDS.blank));
  box.append(visible(text.slice(0, at)), mark, visible(text.slice(end)));
  return box;
}
