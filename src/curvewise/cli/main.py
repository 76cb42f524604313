"""The command line: `curvewise compare`, `train`, `evaluate`, `predict`, `sweep`, `data`, ..."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from curvewise.base.errors import CurvewiseError
from curvewise.base.machine import VERSION
from curvewise.cli.compare import compare, report
from curvewise.cli.models import data_app, embed, evaluate, predict, train
from curvewise.cli.options import UsageError, examples, usage_sentence
from curvewise.cli.sweep import paper_app, sweep_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"curvewise {VERSION}")
        raise typer.Exit


@app.callback()
def curvewise(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train classifiers for the whole ROC curve when one class is rare."""


EXAMPLES = """\
compare digits:8 --beta 100
compare table:people.csv --target outcome --methods ce,vs,lct
compare folder:photos --embed efficientnet-lite0 --beta 100
report out/demo -o report.html
report pairs.db --task fashion-mnist:0/6 --beta 100 -o pairs.html
report out/people --data table:people.csv -o people.html
train digits:8 --beta 50 --out out/digits
train table:people.csv --target outcome --max-fpr 0.05
train folder:photos --image-size 96 --network resnet32 --set epochs=50
train npz:features.npz --beta 100
evaluate digits:8 --model out/digits --out out/again
evaluate table:people.csv --model out/people --tau 1 --min-tpr 0.9
predict new.csv --model out/people --calibrated --out answers.csv
predict photos more/1.jpg --model out/photos --max-fpr 0.01
embed dogs-vs-cats --out features.npz""".splitlines()
for command in (compare, report, train, evaluate, predict, embed):
    shown = [line for line in EXAMPLES if line.startswith(f"{command.__name__} ")]
    app.command(epilog=examples(*shown))(command)
app.add_typer(sweep_app, name="sweep")
app.add_typer(paper_app, name="paper")
app.add_typer(data_app, name="data")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our own warnings as one line each; leave those for developers as they are."""
    with warnings.catch_warnings():
        before = warnings.showwarning
        told: set[str] = set()  # a sweep reads the same data again and again

        def show(message: Any, category: type[Warning], *more: Any) -> None:
            if category is not UserWarning:
                before(message, category, *more)
            elif str(message) not in told:
                told.add(str(message))
                print(f"curvewise: warning: {message}", file=sys.stderr)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    try:
        with _plain_warnings():
            # Commands return nothing, an Exit its code.
            sys.exit(app(standalone_mode=False, prog_name="curvewise"))
    except CurvewiseError as error:
        sys.exit(_told(str(error)))
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # that one's message is the help
            sys.exit(_told(usage_sentence(error)))
        print(error.ctx.get_help())
        sys.exit(2)
    except typer.Abort:
        print("Aborted.", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(_told(f"{error.filename} cannot be used: {error.strerror}"))


def _told(sentence: str) -> int:
    print(f"curvewise: {sentence}", file=sys.stderr)
    return 2
