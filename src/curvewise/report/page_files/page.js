// Starts the page: reads the data, draws the parts one after the other, and connects them.
"use strict";

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function describe(state) {
  const { data } = state;
  const group = data.groups[state.group];
  const [negative, positive] = data.classes;
  const counts = group.train.length === 2 ? `${group.train[0].toLocaleString("en")} “${negative}” and ${group.train[1].toLocaleString("en")} “${positive}” to train on` : "";
  const test = group.test.map(([n, p]) => `${n.toLocaleString("en")} and ${p.toLocaleString("en")}`).join(" or ");
  const models = `${data.models.filter((model) => model.group === state.group).length.toLocaleString("en")} ${data.swept ? `values of ${data.swept}` : data.models.length > 1 ? "models" : "model"}`;
  const over = group.subsamples > 1 ? ` on ${group.subsamples} subsamples` : "";
  const parts = [`How well is “${positive}” told from “${negative}”? ${models}${over}`, group.name, counts, `${test} to test`];
  byId("question").textContent = `${parts.filter(Boolean).join("; ")}.`;
  byId("answer-text").textContent = group.about + group.answer.join(" ");
  const told = [...group.warnings, ...data.notes];
  if (data.diverged) told.push(`${data.diverged} runs have no scores: they diverged, failed or are not finished.`);
  byId("warnings").replaceChildren(...told.map((text) => element("p", { class: "warning", role: "note" }, text)));
  byId("roc-note").textContent = data.swept
    ? `One model, scored at several ${data.swept}: all of its curves, and the selected one.`
    : oneModel(data) ? "One model, on its test samples."
    : "The line of a method is the mean TPR of its models at each FPR; the band says how far they spread.";
}

function fillModels(state) {
  const { data } = state;
  const groups = data.methods.map((name, method) => {
    const own = data.models.filter((model) => model.group === state.group && model.method === method);
    const list = element("optgroup", { label: name });
    for (const model of own) list.append(element("option", { value: model.index }, `${modelName(data, model)} (AUC ${number(model.auc)})`));
    return own.length ? list : "";
  });
  byId("model").replaceChildren(...groups);
  byId("model").value = String(state.model);
}

// Another model: its curve everywhere, and the same rule or the same FPR on it.
async function select(state, index) {
  const before = state.point;
  state.model = index;
  const model = state.data.models[index];
  if (model.group !== state.group) {
    showGroup(state, model.group);
    byId("group").value = String(model.group);
    await refresh(state, ["settings"]);
  }
  byId("model").value = String(index);
  byId("selected-name").textContent = modelName(state.data, model);
  if (state.data.swept) {
    byId("swept").value = String(state.sweptOrder.indexOf(index));
    byId("swept-value").textContent = String(model.settings[state.data.swept]);
    byId("swept").setAttribute("aria-valuetext", `${state.data.swept} = ${model.settings[state.data.swept]}`);
  }
  for (const row of byId("runs").querySelectorAll("tbody tr")) row.classList.toggle("selected", Number(row.dataset.model) === index);
  byId("prevalence").placeholder = number(model.positives / (model.positives + model.negatives));
  showPoint(state, firstCorner(state, before));
  if (state.rule) applyTargets(state);
  fillTables(state);
  await refresh(state, ["roc", "spread", "explorer", "calibration"]);
}

function showGroup(state, group) {
  state.group = group;
  describe(state);
  if (state.data.models[state.model].group !== group) state.model = state.data.models.find((model) => model.group === group).index;
  const own = state.data.panels.filter((panel) => panel.group === group).map((panel) => panel.method);
  byId("settings").hidden = !own.length;
  options(byId("settings-method"), [...new Set(own)].map((method) => [String(method), state.data.methods[method]]));
  fillModels(state);
}

// Charts are drawn when they come near the window, and again when what they show has changed.
const PARTS = {
  roc: (state) => Promise.all([drawRoc(state), drawPrecision(state)]),
  spread: (state) => drawSpread(state),
  explorer: (state) => drawPointChart(state),
  calibration: (state) => Promise.all([drawReliability(state), drawHistogram(state)]),
  settings: (state) => drawPanels(state),
};

async function drawPart(state, name) {
  state.stale.delete(name);
  state.drawing += 1;
  await PARTS[name](state);
  connectCharts(state);
  state.drawing -= 1;
}

async function refresh(state, names = Object.keys(PARTS)) {
  const shown = names.filter((name) => !byId(name).hidden);
  for (const name of shown) state.stale.add(name);
  for (const name of shown) if (state.near.has(name)) await drawPart(state, name);
}

function watchParts(state) {
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) state.near.add(target.id);
      else state.near.delete(target.id);
      if (isIntersecting && state.stale.has(target.id)) drawPart(state, target.id);
    }
  }, { rootMargin: "300px" });
  for (const name of Object.keys(PARTS)) observer.observe(byId(name));
}

function connectCharts(state) {
  const once = (id, actions) => {
    const chart = byId(id);
    if (!chart.on || chart.dataset.connected) return;
    chart.dataset.connected = "true";
    for (const [event, action] of Object.entries(actions)) chart.on(event, action);
  };
  for (const id of ["roc-chart", "spread-chart"]) once(id, { plotly_click: state.onClick });
  once("point-chart", {
    plotly_afterplot: () => placeHandle(state),
    plotly_relayout: () => placeHandle(state),
    plotly_click: (event) => {
      const [hit] = event.points;
      if (hit.curveNumber === 1) choose(state, hit.pointNumber);
    },
  });
}

function connect(state) {
  const { data } = state;
  const on = (id, event, action) => byId(id).addEventListener(event, action);
  on("theme", "click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    refresh(state);
  });
  on("group", "change", (event) => {
    showGroup(state, Number(event.target.value));
    select(state, state.model);
    refresh(state, ["spread", "settings"]);
  });
  on("model", "change", (event) => select(state, Number(event.target.value)));
  on("swept", "input", (event) => select(state, state.sweptOrder[Number(event.target.value)]));
  for (const radio of document.querySelectorAll("input[name=scale], input[name=band]")) {
    radio.addEventListener("change", () => {
      state[radio.name] = radio.value;
      refresh(state, ["roc", "explorer"]);
    });
  }
  on("every-curve", "change", (event) => {
    state.every = event.target.checked;
    refresh(state, ["roc"]);
  });
  for (const id of ["metric", "settings-method"]) on(id, "change", () => drawPanels(state));
  for (const id of ["heat-x", "heat-y"]) on(id, "change", () => drawHeat(state));
  on("filter", "input", (event) => {
    state.filter = event.target.value;
    drawRuns(state);
  });
  on("more", "click", () => {
    state.all = true;
    drawRuns(state);
  });
  on("download", "click", () => download("models.csv", runsCsv(state)));
  on("runs", "click", (event) => {
    const { key } = event.target.dataset;
    const row = event.target.closest("tr[data-model]");
    if (key) {
      state.sort = { key, sign: state.sort.key === key ? -state.sort.sign : 1 };
      drawRuns(state);
      byId("runs").querySelector(`[data-key="${CSS.escape(key)}"]`).focus();
    } else if (row) select(state, Number(row.dataset.model));
  });
  let theme = "light";
  window.addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    setTheme("light");
    paper = 660;
    for (const name of Object.keys(PARTS)) if (!byId(name).hidden) drawPart(state, name);
  });
  window.addEventListener("afterprint", () => {
    setTheme(theme);
    paper = null;
    refresh(state);
  });
}

async function start() {
  const data = JSON.parse(byId("page-data").textContent);
  const state = {
    data, curves: await unpackCorners(data.corners), group: 0, model: data.chosen, scale: "linear", band: "range",
    every: false, filter: "", sort: { key: "auc", sign: -1 }, all: false, rule: null, prevalence: null, corner: 0,
    near: new Set(), stale: new Set(), drawing: 0,
  };
  window.curvewiseState = state;
  state.onClick = (event) => {
    const found = event.points.map((each) => each.customdata).find((each) => each && typeof each === "object");
    if (found) select(state, found.model);
  };
  setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  for (const place of document.querySelectorAll("[data-class]")) place.textContent = `“${data.classes[Number(place.dataset.class)]}”`;
  options(byId("group"), data.groups.map((group, i) => [String(i), group.name]));
  byId("group-control").hidden = data.groups.length < 2;
  options(byId("metric"), data.metrics);
  byId("spread").hidden = data.models.length <= data.methods.length || Boolean(data.swept);
  byId("band-controls").hidden = byId("every-control").hidden = oneModel(data);
  byId("swept-control").hidden = !data.swept;
  if (data.swept) {
    state.sweptOrder = data.models.map((model) => model.index).sort((a, b) => data.models[a].settings[data.swept] - data.models[b].settings[data.swept]);
    byId("swept-name").textContent = data.swept;
    byId("swept").max = String(state.sweptOrder.length - 1);
  }
  showGroup(state, data.models[state.model].group);
  byId("group").value = String(state.group);
  byId("provenance").tBodies[0].append(...data.provenance.map(([name, text]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, text))));
  startExplorer(state);
  drawRuns(state);
  connect(state);
  await select(state, state.model);
  performance.mark("curvewise-text");
  // The chart library comes last in the file: all the text is there before it is read.
  if (document.readyState === "loading") await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));
  await drawPart(state, "roc");
  refresh(state, ["spread", "settings"]);
  watchParts(state);
  performance.mark("curvewise-ready");
  document.documentElement.dataset.ready = "true";
}

start();
