"""What a run gave, written into the store: state, metrics and scores."""

import sqlite3
from collections.abc import Mapping
from typing import Any, get_args

from curvewise.base.errors import InputError, require_choice
from curvewise.sweep.plan import Result, State
from curvewise.sweep.records import packed, plain, summed

FINAL = ("done", "diverged")  # training again would give the same


def write_result(connection: sqlite3.Connection, result: Result, about: Mapping[str, Any]) -> bool:
    """Write what a planned run gave, within a transaction; tell whether it was new."""
    require_choice("state", result.state, get_args(State))
    found = connection.execute(
        "SELECT r.id, r.state, r.attempts + 1, p.n_test, p.n_validation "
        "FROM runs r LEFT JOIN problems p USING (fingerprint) WHERE r.identity = ?",
        (result.identity,),
    ).fetchone()
    if found is None:
        raise InputError(f"a result must be of a planned run, got {result.identity!r}")
    run, state, attempts, n_test, n_validation = found
    if state in FINAL:
        return False
    metrics = {name: plain(float(value)) for name, value in result.metrics.items()}
    outcome = {
        "state": result.state,
        "metrics": metrics,
        "seconds": float(result.seconds),
        "message": result.message,
        **about,
    }
    connection.execute(
        "UPDATE runs SET state = ?, attempts = ?, auc = ?, seconds = ?, outcome = ?, "
        "outcome_sum = ? WHERE id = ?",
        (
            result.state,
            attempts,
            metrics.get("auc"),
            result.seconds,
            *summed(outcome, attempts),
            run,
        ),
    )
    connection.execute("DELETE FROM scores WHERE run = ?", (run,))
    parts = (
        ("test", result.scores, n_test),
        ("validation", result.validation_scores, n_validation),
    )
    for part, scores, n in parts:
        if scores is not None:
            if scores.ndim != 1 or n not in (None, len(scores)):
                raise InputError(
                    f"{part} scores must have shape ({n if n is not None else 'n'},), "
                    f"got {scores.shape}"
                )
            connection.execute(
                "INSERT INTO scores VALUES (?, ?, ?)",
                (run, part, packed(scores, "<f4")),
            )
    return True
