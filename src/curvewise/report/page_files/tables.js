// The same as the charts show, as tables of text, and the table of all models.
"use strict";

const RATES = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5];
const ROWS = 50;

function fillTables(state) {
  const { data } = state;
  const place = (id, table) => document.getElementById(id).replaceChildren(table);
  const nearest = (fpr) => data.grid.reduce((best, value, i) => (Math.abs(value - fpr) < Math.abs(data.grid[best] - fpr) ? i : best), 1);
  const rows = data.bands.filter((band) => band.group === state.group).flatMap((band) => RATES.map((fpr) => {
    const i = nearest(fpr);
    return [data.methods[band.method], rate(fpr), ...["mean", "low", "high", "std"].map((key) => rate(band[key][i]))];
  }));
  const curve = state.curves[state.model];
  const single = RATES.map((fpr) => [modelName(data, data.models[state.model]), `at most ${rate(fpr)}`, rate(curve.tpr[chooseCorner(curve, "maxFpr", fpr)])]);
  place("roc-table", oneModel(data) ? plainTable(["Model", "FPR", "TPR"], single) : plainTable(["Method", "FPR", "TPR, mean", "minimum", "maximum", "std"], rows));
  place("spread-table", plainTable(["Method", "Imbalance", "models", "mean", "minimum", "quarter", "median", "three quarters", "maximum", "std"], spreadRows(data)));
}

function spreadRows(data) {
  return data.groups.flatMap((group, g) => data.methods.map((name, method) => {
    const areas = data.models.filter((model) => model.group === g && model.method === method).map((model) => model.auc).sort((a, b) => a - b);
    if (!areas.length) return null;
    const quantile = (share) => {
      const at = share * (areas.length - 1);
      const low = Math.floor(at);
      return areas[low] + (at - low) * (areas[Math.min(low + 1, areas.length - 1)] - areas[low]);
    };
    const mean = areas.reduce((sum, area) => sum + area, 0) / areas.length;
    const square = areas.reduce((sum, area) => sum + (area - mean) ** 2, 0);
    const std = areas.length > 1 ? Math.sqrt(square / (areas.length - 1)) : NaN;
    return [name, group.name, areas.length, ...[mean, areas[0], quantile(0.25), quantile(0.5), quantile(0.75), areas[areas.length - 1], std].map((value) => number(value))];
  })).filter(Boolean);
}

// Columns of the table of models: what they are called, and how to read them.
function runColumns(data) {
  const columns = [["method", "Method", (model) => data.methods[model.method]]];
  if (data.groups.length > 1) columns.push(["beta", "beta", (model) => data.groups[model.group].beta]);
  columns.push(["seed", "subsample", (model) => model.seed]);
  for (const name of data.settings) columns.push([name, name, (model) => model.settings[name] ?? null]);
  for (const [key, name] of data.columns) columns.push([key, name, (model) => model[key]]);
  return columns;
}

const COMPARE = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
};

// A filter's words, which must be in the row, its comparisons of columns, and what is wrong with it.
// A column goes by its short name or its heading; a value with blanks is quoted.
function parseFilter(text, columns, models) {
  const found = { words: [], tests: [], problems: [] };
  const names = columns.flatMap((column) => [column[0], column[1]].map((name) => [name.toLowerCase(), column]));
  names.sort(([a], [b]) => b.length - a.length);
  let rest = text.toLowerCase();
  for (;;) {
    const parts = /^(.*?)(<=|>=|!=|==|[<>=])\s*("[^"]*"|[^\s<>=!]*)/.exec(rest);
    if (!parts) break;
    rest = rest.slice(parts[0].length);
    const before = parts[1].trim();
    const [name, column] = names.find(([each]) => ` ${before}`.endsWith(` ${each}`)) ?? [/\S*$/.exec(before)[0], null];
    found.words.push(before.slice(0, before.length - name.length));
    const operator = parts[2] === "==" ? "=" : parts[2];
    const value = parts[3].replaceAll('"', "");
    const problem = column ? valueProblem(column, operator, value, models) : `no column ${name || `before ${operator}`}`;
    if (problem) found.problems.push(problem);
    else found.tests.push((model) => passes(column[2](model), operator, value));
  }
  found.words = [...found.words, rest].join(" ").split(/\s+/).filter(Boolean);
  return found;
}

function valueProblem([key, , read], operator, value, models) {
  const kinds = new Set(models.map((model) => typeof (read(model) ?? undefined)));
  if (operator in COMPARE && !kinds.has("number")) return `${key} has no numbers: compare it by = or !=`;
  if ((operator in COMPARE || !kinds.has("string")) && Number.isNaN(typedNumber(value))) return `${key} needs a number, got ${value || "none"}`;
  return value ? "" : `${key} needs a value, got none`;
}

function passes(value, operator, text) {
  if (operator in COMPARE) return typeof value === "number" && COMPARE[operator](value, typedNumber(text));
  const same = typeof value === "number" ? value === typedNumber(text) : String(value ?? "").toLowerCase() === text;
  return same === (operator === "=");
}

function shownRuns(state) {
  const columns = runColumns(state.data);
  const { words, tests, problems } = parseFilter(state.filter, columns, state.data.models);
  state.filterProblem = problems.join("; ");
  const text = (model) => columns.slice(0, 1).concat(columns.slice(2)).map(([, , read]) => read(model)).join(" ").toLowerCase();
  const rows = problems.length ? [] : state.data.models.filter((model) => {
    const row = words.length ? text(model) : "";
    return words.every((word) => row.includes(word)) && tests.every((test) => test(model));
  });
  const sorted = columns.find(([key]) => key === state.sort.key);
  if (sorted) {
    const read = sorted[2];
    rows.sort((a, b) => state.sort.sign * compared(read(a), read(b)));
  }
  return rows;
}

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function drawRuns(state) {
  const columns = runColumns(state.data);
  const rows = shownRuns(state);
  const cut = state.all ? rows : rows.slice(0, ROWS);
  const heads = columns.map(([key, name, read]) => {
    const own = state.sort.key === key;
    const mark = own ? (state.sort.sign > 0 ? " ▲" : " ▼") : "";
    const head = element("th", { scope: "col", class: typeof read(state.data.models[0]) === "number" ? "number" : "", "aria-sort": own ? (state.sort.sign > 0 ? "ascending" : "descending") : "none" });
    head.append(element("button", { type: "button", "data-key": key }, name + mark));
    return head;
  });
  const body = element("tbody");
  for (const model of cut) {
    const cells = columns.map(([key, , read], place) => {
      const value = read(model);
      const shown = typeof value === "number" && state.data.columns.some(([each]) => each === key) ? number(value, key === "seconds" ? 2 : 4) : String(value ?? "–");
      if (place) return element("td", typeof value === "number" ? { class: "number" } : {}, shown);
      return element("td", {}, element("button", { type: "button", "aria-label": `Select ${modelName(state.data, model)}` }, shown));
    });
    body.append(element("tr", { "data-model": model.index, class: model.index === state.model ? "selected" : "" }, ...cells));
  }
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
  document.getElementById("runs").replaceChildren(table);
  document.getElementById("run-count").textContent = `${rows.length} of ${state.data.models.length} models${state.filterProblem ? `: ${state.filterProblem}` : ""}`;
  const more = document.getElementById("more");
  more.hidden = cut.length === rows.length;
  more.textContent = `Show all ${rows.length} models`;
}

// Quoted where needed; a leading sign that a spreadsheet would run as a formula is quoted by '.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function runsCsv(state) {
  const columns = runColumns(state.data);
  const lines = [columns.map(([, name]) => csvCell(name)), ...shownRuns(state).map((model) => columns.map(([, , read]) => csvCell(read(model))))];
  return `${lines.map((line) => line.join(",")).join("\n")}\n`;
}

function download(name, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
