// What every page with data uses: elements, embedded data, files to save. Texts only ever become text nodes.
"use strict";
const byId = (id) => document.getElementById(id);
const json = (id) => JSON.parse(byId(id).textContent);
const number = (value) => value.toLocaleString("en-US");

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function numbers(encoded, ArrayType) {             // base64 of a little-endian array
  const bytes = atob(encoded), array = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) array[i] = bytes.charCodeAt(i);
  return new ArrayType(array.buffer);
}

// Control characters and marks that turn the direction of writing, spelled out: a text must not be shown in
// another order than it has, nor hide a part of itself.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const visible = (text) => text.replace(UNSAFE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

// ---- files ---------------------------------------------------------------------------------------------
// A spreadsheet must not run a text as a formula; the rule is that of calmix.io.spreadsheet.
const FORMULA = /^[=+\-@\t\r]/, NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const safeCell = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);
const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
const csvLine = (cells) => cells.map((cell) => quoted(safeCell(String(cell)))).join(",");

function save(name, content, type = "text/csv") {
  const link = element("a", null, { download: name });
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
