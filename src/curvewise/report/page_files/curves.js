// The page's data: JSON in the page, and the corners of all curves unpacked from one text.
"use strict";

async function unpackCorners(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const total = packed.lengths.reduce((sum, length) => sum + length, 0);
  const falseSteps = new Uint32Array(joined(planes, 0, total, 4));
  const trueSteps = new Uint32Array(joined(planes, 4 * total, total, 4));
  const last = joined(planes, 8 * total, total, packed.bytes);
  const thresholds = packed.bytes === 4 ? new Float32Array(last) : new Float64Array(last);
  const curves = [];
  let start = 0;
  for (const length of packed.lengths) {
    curves.push(makeCurve(falseSteps, trueSteps, thresholds, start, length));
    start += length;
  }
  return curves;
}

// Bytes lie plane by plane: all first bytes, then all second ones.
function joined(planes, start, count, size) {
  const bytes = new Uint8Array(count * size);
  for (let plane = 0; plane < size; plane += 1) {
    const from = start + plane * count;
    for (let i = 0; i < count; i += 1) bytes[i * size + plane] = planes[from + i];
  }
  return bytes.buffer;
}

function makeCurve(falseSteps, trueSteps, thresholds, start, length) {
  const curve = {
    false: new Float64Array(length), true: new Float64Array(length),
    fpr: new Float64Array(length), tpr: new Float64Array(length),
    thresholds: thresholds.subarray(start, start + length),
  };
  for (let i = 0; i < length; i += 1) {
    curve.false[i] = falseSteps[start + i] + (i ? curve.false[i - 1] : 0);
    curve.true[i] = trueSteps[start + i] + (i ? curve.true[i - 1] : 0);
  }
  for (let i = 0; i < length; i += 1) {
    curve.fpr[i] = curve.false[i] / curve.false[length - 1];
    curve.tpr[i] = curve.true[i] / curve.true[length - 1];
  }
  return curve;
}

// Where an upright stretch adds positives one by one, precision bends: put points in between.
function precisionLine(curve, prevalence) {
  const recall = [];
  const precision = [];
  for (let i = 1; i < curve.tpr.length; i += 1) {
    const steps = curve.false[i] === curve.false[i - 1] ? 8 : 1;
    for (let step = 1; step <= steps; step += 1) {
      const tpr = curve.tpr[i - 1] + ((curve.tpr[i] - curve.tpr[i - 1]) * step) / steps;
      if (tpr > 0) {
        recall.push(tpr);
        precision.push(precisionAt(tpr, curve.fpr[i], prevalence));
      }
    }
  }
  return [recall, precision];
}

// Corners that can be told apart on a screen; the first and the last stay.
function visible(curve, log) {
  const chosen = [];
  const place = (fpr) => (log ? Math.log10(Math.max(fpr, 1e-4)) / 4 : fpr);
  let last = -1;
  for (let i = 0; i < curve.fpr.length; i += 1) {
    const far = last < 0 || i === curve.fpr.length - 1
      || Math.abs(place(curve.fpr[i]) - place(curve.fpr[last])) > 0.002
      || Math.abs(curve.tpr[i] - curve.tpr[last]) > 0.002;
    if (far) {
      chosen.push(i);
      last = i;
    }
  }
  return chosen;
}

function settingsText(model) {
  const parts = Object.entries(model.settings).map(([name, value]) => `${name} = ${value}`);
  return parts.join(", ");
}

function modelName(data, model) {
  const seed = data.groups[model.group].subsamples > 1 ? `, subsample ${model.seed}` : "";
  const settings = settingsText(model);
  return `${data.methods[model.method]}${settings ? `: ${settings}` : ""}${seed}`;
}

// One trained model: at several values of a setting, or at one.
const oneModel = (data) => Boolean(data.swept) || data.models.length === 1;

// What people type: 0.05, 0,05 or 5 %; NaN for anything else.
function typedNumber(text) {
  const plain = text.trim().replace(",", ".");
  const share = plain.endsWith("%");
  const digits = share ? plain.slice(0, -1).trim() : plain;
  return digits ? Number(digits) / (share ? 100 : 1) : NaN;
}

const rate = (value) => (value === null || Number.isNaN(value) ? "–" : `${Number((100 * value).toPrecision(4))}\u00a0%`);
const limits = (interval) => `${rate(interval[0])} to ${rate(interval[1])}`;
const number = (value, digits = 4) => (value === null || value === undefined || Number.isNaN(value) ? "–" : value.toFixed(digits));

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// A plain table: text only, so nothing in the data is ever read as HTML.
function plainTable(heads, rows, caption) {
  const table = element("table");
  if (caption) table.append(element("caption", {}, caption));
  table.append(element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))));
  const body = element("tbody");
  for (const row of rows) {
    const cells = row.map((cell, place) => (place ? element("td", {}, String(cell)) : element("th", { scope: "row" }, String(cell))));
    body.append(element("tr", {}, ...cells));
  }
  table.append(body);
  return table;
}
