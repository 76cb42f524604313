"""Bad input through the command line: exit code 2, one line that names it, nothing left behind."""

import shlex
from pathlib import Path

import pytest

from command_line import command

# COMMAND -> what the line on standard error names; @ is the folder of files and models.
TABLE = """
trian -> no such command 'trian'; did you mean 'train'? See curvewise --help
sweep runn -> no such command 'runn'; did you mean 'run'? See curvewise sweep --help
train -> missing argument 'source'; see curvewise train --help
train --nope -> --nope
train digits --out -> --out
data check digits 8 -> (8)
evaluate digits -> missing option '--model'; see curvewise evaluate --help
evaluate digits --model m --max-fpr abc -> --max-fpr must be a valid number, got 'abc'
train digits --seed=1.5 -> --seed must be a valid integer, got '1.5'; see curvewise train --help
train table:gone.csv --target y -> 'gone.csv' | --data-dir
train cifar10:cat/dog --data-dir nowhere -> nowhere/cifar-10-batches-py | get cifar-10-python
train digits --weights gone.pth -> weights file gone.pth
evaluate digits --model gone -> no file gone | train
predict @/good.csv --model @/parts -> no file @/parts/model.safetensors
predict gone.csv --model @/people -> no gone.csv to predict
train table:@/good.csv --target outcom -> --target | did you mean 'outcome'
evaluate table:@/good.csv --model @/people --target nobody -> 'nobody'
evaluate table:@/good.csv --model @/people --positive well -> the model's own 'ill', got 'well'
predict @/without_age.csv --model @/people -> lacks 'age'
predict @/word_after_training.csv --model @/people -> column 'age' | 'old' in row 1
train table:@/nothing_known.csv --target outcome -> 'age' (empty)
train table:@/numbered.csv --target code -> got 300: 'id0',  | , ...
train folder:@/zero --image-size 12 -> 1 of 32 images unreadable: @/zero/sound/3.png (the file is
predict @/blank.jpg --model @/photos -> 1 of 1 images unreadable: @/blank.jpg (the file is empty)
predict @/cache --model @/photos -> @/cache | got none
predict @/good.csv --model @/photos -> images | good.csv
predict @/parts --model @/people -> one CSV | @/parts
evaluate table:@/good.csv --model @/good.csv -> good.csv is not a whole Curvewise file
evaluate table:@/good.csv --model @/photos -> trained on a table, got one of folder:
evaluate digits:8 --model @/people -> got (64,) from digits:8
predict @/good.csv --model @/fixed --tau 1 -> trained with lambda = nothing drawn, got tau = 1
predict @/good.csv --model @/people --tau 1 --max-fpr 0.1 -> --max-fpr | --tau
evaluate table:@/good.csv --model @/people --tau -1 -> tau must be >= 0 | got -1
train digits --reduction sum -> 'weighted_mean', 'mean' | 'sum'
train digits --set augment=crop-flip -> augment = crop-flip needs images, got digits:8
evaluate table:@/good.csv --model @/people --max-fpr 0.1 --cost-ratio 5 ->
    one of --max-fpr, --min-tpr, --cost-ratio can be given, got --max-fpr 0.1 and --cost-r
predict @/labels.npz --model @/people -> one CSV | labels.npz
predict @/images.npz --model @/photos -> (3, 12, 12), got (1, 12, 12)
predict @/labels.npz --model @/photos -> an array x or x_test, got y
predict @/good.csv --model @/people --threshold 1 --min-tpr 0.9 ->
    one of --threshold, --max-fpr, --min-tpr can be given, got --threshold 1 and --min-tpr
predict @/good.csv --model @/people --prior 0.2 -> --prior is for probabilities: give --calibr
predict @/people -> --model | @/people
predict @/good.csv --model @/people --out @/good.csv -> --out must be a CSV file of its own
train digits --out @/good.csv -> --out @/good.csv cannot be made into a folder: it is a file
predict @/good.csv --model @/people --out @/new.csv -> @/new.csv exists | --overwrite
predict @/good.csv --model @/people --out @/empty.csv/x.csv -> a folder that can be written to
train gone --out @/people -> is there already
evaluate table:@/good.csv --model @/people --out @/empty.csv/x -> folder: @/empty.csv is a file
evaluate folder:@/parts --model @/photos --all-rows -> --all-rows is for tables, got folder:
data clean --cache-dir @/parts --yes -> 'crack'
train digits --preset quik -> did you mean 'quick'
train digits --set epochs -> NAME=VALUE, got 'epochs'
train digits --tau 0:3 -> LOW:HIGH:HEIGHT, got '0:3'
train digits --resume -> to go on from
report nowhere.db -> there is no nowhere.db
report @/parts -> must hold one of model.safetensors and runs.db
report @/tiny.db -> --task must choose one of digits:8, digits:3
report @/tiny.db --task digits:9 -> got 'digits:9'
report @/tiny.db --task digits:8 --beta 7 -> --beta must be one of 20, 50
report @/tiny.db --sweep tinny -> did you mean 'tiny'
report @/tiny.db --data digits:8 -> --data is for models
report @/people --task digits:8 -> --task is for stores
report @/tiny.db --task digits:8 -o @/parts -> --out must be a file, got the folder
report @/tiny.db --task digits:8 -o @/good.csv -> is no report
report @/scores.csv -> --target must be a column of scores.csv, got none; it has
report @/scores.csv --target outcom -> did you mean 'outcome'
report @/scores.csv --target outcome --score agee -> did you mean 'age'
report @/scores.csv --target outcome --score word -> must hold numbers in every row
report @/new.csv --target outcome -> --score must name a column of scores of new.csv
report @/scores.csv --target outcome --beta 3 -> --beta is for stores, got a table
report @/estimator.safetensors -> needs --data table:FILE with rows that it has not seen
report @/estimator.safetensors --data digits:8 -> curvewise.write_report
report @/estimator.safetensors --data table:@/new.csv -> --target must be a column of
report @/estimator.safetensors --positive well -> --positive is for models of train
report @/estimator.safetensors --score a -> --score is for tables, got a model
sweep run nowhere.toml -> nowhere.toml
sweep status nowhere.db -> nowhere.db
sweep export @/tiny.db runs.txt -> .txt
sweep run @/tiny.toml --executor proceses -> processes
compare digits:8 --methods vs,lcd -> lcd
compare digits:8 --seeds 0 -> seeds
compare digits:8 --embed efficientnet-lite0 -> images
compare digits:8 --embed-size 96 -> size goes together with embed
evaluate digits:8 --model @/estimator.safetensors -> got an estimator in curvewise-1; it is for
train digits:8 --set learning_rate=0.5 -> 'learning_rate' is no setting, which are |  lr,
compare digits:8 --set lr=fast -> lr
compare digits:8 --set network.width=3 -> width
train @/good.csv --target outcome -> did you mean 'table:@/good.csv'?
"""
CASES = dict(line.split(" -> ") for line in TABLE.strip().replace(" ->\n    ", " -> ").splitlines())


def everything(*folders: Path) -> set[tuple[Path, int]]:
    """Every file and folder with its size, so that nothing can come or change unseen."""
    found = (path for folder in folders for path in folder.rglob("*"))
    return {(path, path.stat().st_size if path.is_file() else 0) for path in found}


@pytest.mark.parametrize("words", CASES)
def test_one_line_that_names_it_and_nothing_left_behind(words, place, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def placed(text: str) -> str:
        return text.replace("@/tiny.db", str(store)).replace("@", str(place))

    before = everything(place)
    ended = command(*map(placed, shlex.split(words)))
    assert (ended.code, ended.out) == (2, ""), ended
    assert ended.err.startswith("curvewise: ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 400 + 4 * len(str(place))
    for named in CASES[words].split(" | "):
        assert placed(named) in ended.err
    left = {path for path, _ in everything(tmp_path)}
    assert left <= {tmp_path / "cache", tmp_path / "cache" / "curvewise"}
    assert everything(place) == before
