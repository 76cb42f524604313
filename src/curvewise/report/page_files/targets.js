// What the operating point begins at, and the rules that can be typed for it.
"use strict";

const RULES = { maxFpr: "max-fpr", minTpr: "min-tpr", costRatio: "cost-ratio", threshold: "threshold" };
const byId = (id) => document.getElementById(id);

const SHARE = { low: 0, high: 1, percent: true, text: "from 0 to 1" };
const TARGETS = {
  maxFpr: { name: "FPR", ...SHARE },
  minTpr: { name: "TPR", ...SHARE },
  costRatio: { name: "The cost of a miss", low: 0, high: Infinity, text: "a number of false alarms from 0 on" },
  threshold: { name: "The threshold", low: -Infinity, high: Infinity, text: "a score" },
  prevalence: { name: "The share of positives", ...SHARE, open: true, text: "between 0 and 1" },
};

// The operating point that a model was saved with, if it is of the selected curve.
function ownPoint(state) {
  const { own } = state.data;
  return own && own.model === state.model ? own : null;
}

// The corner that another model begins with: that of the FPR before; at first, its own point.
function firstCorner(state, before) {
  const own = ownPoint(state);
  if (!before && own) return own.corner;
  return chooseCorner(state.curves[state.model], "maxFpr", before ? before.fpr : 0.01);
}

// What is typed for a rule, null for nothing, undefined if it is told to be wrong.
function readTarget(id, { name, low, high, percent, open, text }) {
  const typed = byId(id).value.trim();
  if (!typed) return null;
  const fits = (value) => Number.isFinite(value) && (open ? value > low && value < high : value >= low && value <= high);
  const value = typedNumber(typed);
  const share = typed.endsWith("%");
  if (fits(value) && (percent || !share)) return value;
  const hint = percent && !share && fits(value / 100) ? ` (for ${typed} % write ${typed} %)` : "";
  byId("target-error").textContent = `${name} must be ${text}, got ${typed}${hint}`;
  return undefined;
}

// Read the typed targets; the rule typed last is the one in force.
function applyTargets(state) {
  byId("target-error").textContent = "";
  const curve = state.curves[state.model];
  const prevalence = readTarget("prevalence", TARGETS.prevalence);
  if (prevalence === undefined) return;
  state.prevalence = prevalence;
  const value = state.rule && readTarget(RULES[state.rule], TARGETS[state.rule]);
  if (value === undefined) return;
  const share = prevalence === null ? pointAt(curve, 0, null).prevalence : prevalence;
  showPoint(state, value === null ? state.corner : chooseCorner(curve, state.rule, value, share));
  if (state.rule === "threshold" && value !== null) tellBetween(state, value);
}

// Inner points of upright and level stretches are not in the page: a typed threshold between two
// corners may call some samples more than the corner above it.
function tellBetween(state, value) {
  const curve = state.curves[state.model];
  const next = Math.min(state.corner + 1, curve.fpr.length - 1);
  const [more, other] = ["true", "false"].map((kind) => curve[kind][next] - curve[kind][state.corner]);
  const most = more && other ? 0 : more + other - 1;
  if (most < 1 || curve.thresholds[state.corner] === value) return;
  const kind = state.data.classes[more ? 1 : 0];
  byId("target-note").hidden = false;
  byId("target-note").textContent = `The point shown is the curve's next corner above ${value}. At ${value} itself, up to ${most.toLocaleString("en")} more “${kind}” may be called positive.`;
}

// A point chosen by hand follows no rule any more.
function choose(state, index) {
  state.rule = null;
  for (const id of Object.values(RULES)) byId(id).value = "";
  byId("target-error").textContent = "";
  showPoint(state, index);
}
