// The operating point: one corner of the selected curve, and everything that follows from it.
"use strict";

function drawPointChart(state) {
  const { data } = state;
  const zeros = data.models.filter((model) => model.tpr_zero !== null && (data.swept || model.index === state.model));
  const traces = [chance(state), selectedTrace(state), {
    x: zeros.map((model) => drawnRate(state, model.fpr_zero)), y: zeros.map((model) => model.tpr_zero), mode: "markers",
    name: data.swept ? `t = 0.5 at each ${data.swept}` : data.half, showlegend: zeros.length > 0,
    marker: {
      symbol: "diamond", line: { color: cssColor("text"), width: 1 },
      size: zeros.map((model) => (model.index === state.model ? 14 : 9)),
      color: data.swept ? zeros.map((model) => model.settings[data.swept]) : "#E69F00", colorscale: "Viridis",
    },
    text: zeros.map((model) => (data.swept ? `${data.swept} = ${model.settings[data.swept]}` : data.half)),
    hovertemplate: "%{text}<br>TPR %{y:.2%}, FPR %{x:.3%}<extra>t = 0.5</extra>",
  }, ...ownTraces(state)];
  const shape = { xaxis: rateAxis(state), yaxis: axis("True positive rate", { range: [-0.02, 1.02], tickformat: "~%" }), showlegend: true };
  return draw("point-chart", traces, shape, "ROC curve of the selected model").then(() => placeHandle(state));
}

// The point that predict works at: a ring, in which the handle can lie.
function ownTraces(state) {
  const { own, models, swept } = state.data;
  if (!own) return [];
  const curve = state.curves[own.model];
  const at = swept ? ` at ${swept} = ${models[own.model].settings[swept]}` : "";
  return [{
    x: [drawnRate(state, curve.fpr[own.corner])], y: [curve.tpr[own.corner]], mode: "markers", name: "the model's own point",
    marker: { symbol: "circle-open", size: 28, color: themed("#009E73"), line: { width: 3 } }, text: [literal(own.rule + at)],
    hovertemplate: "%{text}<br>TPR %{y:.2%}, FPR %{x:.3%}<extra>the model's own point</extra>",
  }];
}

// Where a point of the chart is, in pixels of the stage.
function pixels(state) {
  const { xaxis, yaxis } = byId("point-chart")._fullLayout;
  return {
    xaxis, yaxis,
    x: (fpr) => xaxis._offset + xaxis.d2p(drawnRate(state, fpr)),
    y: (tpr) => yaxis._offset + yaxis.d2p(tpr),
  };
}

function placeHandle(state) {
  const handle = byId("handle");
  if (!byId("point-chart")._fullLayout) return;
  const at = pixels(state);
  const point = state.point;
  const [x, y] = [at.x(point.fpr), at.y(point.tpr)];
  const left = at.xaxis._offset - 2;
  const top = at.yaxis._offset - 2;
  const inside = x >= left && x <= left + at.xaxis._length + 4 && y >= top && y <= top + at.yaxis._length + 4;
  handle.style.display = inside ? "block" : "none";
  handle.style.transform = `translate(${x}px, ${y}px)`;
  const clip = (value, from, length) => Math.min(Math.max(value, from), from + length);
  const [low, high] = point.fprInterval.map((fpr) => clip(at.x(fpr), at.xaxis._offset, at.xaxis._length));
  const [bottom, upper] = point.tprInterval.map((tpr) => clip(at.y(tpr), at.yaxis._offset, at.yaxis._length));
  place(byId("bar-x"), inside, low, y - 1, high - low, 2);
  place(byId("bar-y"), inside, x - 1, upper, 2, bottom - upper);
}

function place(bar, shown, x, y, width, height) {
  bar.style.display = shown ? "block" : "none";
  bar.style.transform = `translate(${x}px, ${y}px)`;
  bar.style.width = `${Math.max(width, 0)}px`;
  bar.style.height = `${Math.max(height, 0)}px`;
}

// All numbers of a corner at once; what only follows it is drawn when the hand rests.
function showPoint(state, index) {
  const curve = state.curves[state.model];
  state.corner = Math.min(Math.max(index, 0), curve.fpr.length - 1);
  const point = pointAt(curve, state.corner, state.prevalence);
  const own = ownPoint(state);
  if (own && !state.rule && own.corner === state.corner && own.threshold !== null) point.threshold = own.threshold;
  state.point = point;
  forgetCopied();
  byId("target-note").hidden = true;
  const text = thresholdText(point.threshold, state.data.corners.bytes === 4);
  const small = (words) => element("small", {}, ` ${words}`);
  byId("n-threshold").replaceChildren(text === "inf" ? "∞ (nothing is called positive)" : text);
  byId("n-tpr").replaceChildren(rate(point.tpr), small(`(${limits(point.tprInterval)})`));
  byId("n-fpr").replaceChildren(rate(point.fpr), small(`(${limits(point.fprInterval)})`));
  byId("n-ppv").replaceChildren(rate(point.ppv), small(`at ${rate(point.prevalence)} positives`));
  byId("n-alarms").replaceChildren(String(Number(point.alarms.toPrecision(4))));
  for (const [id, count] of [["m-tp", point.tp], ["m-fn", point.fn], ["m-fp", point.fp], ["m-tn", point.tn]]) byId(id).textContent = count.toLocaleString("en");
  const handle = byId("handle");
  handle.setAttribute("aria-valuenow", String(Number(point.fpr.toPrecision(4))));
  handle.setAttribute("aria-valuetext", `TPR ${rate(point.tpr)}, FPR ${rate(point.fpr)}, threshold ${text}`);
  placeHandle(state);
  clearTimeout(state.resting);
  state.resting = setTimeout(() => {
    byId("spoken").textContent = `Threshold ${text}: TPR ${rate(point.tpr)} (${limits(point.tprInterval)}), FPR ${rate(point.fpr)} (${limits(point.fprInterval)}), precision ${rate(point.ppv)}, ${Number(point.alarms.toPrecision(4))} alarms per 1,000 cases.`;
    markThreshold(state);
  }, 150);
}

function nearestCorner(state, x, y) {
  const at = pixels(state);
  const curve = state.curves[state.model];
  let best = 0;
  let least = Infinity;
  for (let i = 0; i < curve.fpr.length; i += 1) {
    const far = (at.x(curve.fpr[i]) - x) ** 2 + (at.y(curve.tpr[i]) - y) ** 2;
    if (far < least) [least, best] = [far, i];
  }
  return best;
}

function startExplorer(state) {
  const handle = byId("handle");
  for (const id of ["bar-x", "bar-y"]) handle.before(element("div", { id, class: "bar" }));
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
  });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const stage = handle.parentElement.getBoundingClientRect();
    choose(state, nearestCorner(state, event.clientX - stage.left, event.clientY - stage.top));
  });
  handle.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose(state, state.corner + steps[event.key]);
  });
  for (const [rule, id] of Object.entries(RULES)) {
    byId(id).addEventListener("input", () => {
      for (const other of Object.values(RULES)) if (other !== id) byId(other).value = "";
      state.rule = rule;
      applyTargets(state);
    });
  }
  byId("prevalence").addEventListener("input", () => applyTargets(state));
  byId("targets").addEventListener("submit", (event) => event.preventDefault());
  for (const kind of ["command", "python"]) {
    byId(`copy-${kind}`).addEventListener("click", () => copyPoint(state, kind));
    byId(`copy-${kind}`).hidden = !state.data.copy[kind];
  }
}

function copyText(state, kind) {
  const fill = state.data.models[state.model].fill;
  const template = state.data.copy[kind];
  const values = {
    ...fill, threshold: thresholdText(state.point.threshold, state.data.corners.bytes === 4),
    fpr: String(state.point.fpr), prevalence: String(state.point.prevalence),
  };
  const missing = [...template.matchAll(/\{(\w+)\}/g)].some(([, name]) => !(name in values));
  return missing ? "" : template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// A text of another point must not be taken for this one's.
function forgetCopied() {
  byId("copy-text").hidden = true;
  byId("copy-text").textContent = byId("copied").textContent = "";
}

async function copyPoint(state, kind) {
  const text = copyText(state, kind);
  const nothing = !Number.isFinite(state.point.threshold);
  byId("copy-text").hidden = !text || nothing;
  byId("copy-text").textContent = text;
  if (nothing || !text) {
    byId("copied").textContent = nothing ? "This point calls nothing positive: choose another." : "Models of this method have no command: copy the Python.";
    return;
  }
  try {
    await navigator.clipboard.writeText(text);
    if (byId("copy-text").textContent === text) byId("copied").textContent = "Copied.";
  } catch {
    if (byId("copy-text").textContent !== text) return;
    getSelection().selectAllChildren(byId("copy-text"));
    byId("copied").textContent = "Press Ctrl+C to copy the text below.";
  }
}
