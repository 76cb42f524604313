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
evaluate digits --model m --max-fpr abc ->
    --max-fpr must be a valid number, got 'abc'; see curvewise evaluate --help
train digits --seed=1.5 -> --seed must be a valid integer, got '1.5'; see curvewise train --help
train table:gone.csv --target y -> 'gone.csv' | --data-dir
train table:@/god.csv -> god.csv | did you mean 'good.csv'
train npz:gone.npz -> 'gone.npz' | --data-dir
train folder:gone -> must name a folder that is there, got 'gone'
train cifar10:cat/dog --data-dir nowhere ->
    nowhere/cifar-10-batches-py | get cifar-10-python.tar.gz from https://
embed dogs-vs-cats --data-dir nowhere --out f.npz ->
    nowhere/dogs-vs-cats/train/cat.0.jpg | get train.zip from https://
data check melanoma --data-dir nowhere -> nowhere/isic2020/train.csv | get them from https://
train digits --weights gone.pth -> weights file gone.pth
evaluate digits --model gone -> no file gone | train
predict @/good.csv --model @/parts -> no file @/parts/model.safetensors
predict gone.csv --model @/people -> no gone.csv to predict
train table:@/good.csv --target outcom -> --target | did you mean 'outcome'
train table:@/good.csv -> `target` under [data]), one of 'age', 'city', 'outcome'
train table:@/good.csv --target outcome --group ag -> --group | 'ag'; did you mean 'age'
train table:@/good.csv --target outcome --positive il -> 'il'; did you mean 'ill'
evaluate table:@/good.csv --model @/people --target nobody -> 'nobody'
evaluate table:@/good.csv --model @/people --positive well -> the model's own 'ill', got 'well'
predict @/without_age.csv --model @/people -> lacks 'age'
train table:@/one_class.csv --target outcome -> 'outcome' must hold two classes, got one: 'well'
train table:@/good.csv --target age -> must hold two classes | got
train table:@/junk.csv --target outcome -> column 'age' | '#REF!' in row 5
predict @/word_after_training.csv --model @/people -> column 'age' | 'old' in row 1
train table:@/bytes.csv --target outcome -> bytes.csv must be text in UTF-8
train table:@/ragged.csv --target outcome ->
    ragged.csv | as many fields | 3 fields in line 3 and 2 be
train table:@/unclosed.csv --target outcome -> a quotation mark in line 2 that nothing closes
train table:@/empty.csv --target outcome -> empty.csv must have a header and rows, got an empty file
train table:@/no_rows.csv --target outcome -> no_rows.csv must have a header and rows below it
train table:@/nothing_known.csv --target outcome -> 'age' (empty)
train table:@/numbered.csv --target code -> got 300: 'id0',  | , ...
train folder:@/zero --image-size 12 ->
    1 of 32 images unreadable: @/zero/sound/3.png (the file is empty)
predict @/blank.jpg --model @/photos -> 1 of 1 images unreadable: @/blank.jpg (the file is empty)
predict @/cache --model @/photos -> @/cache | got none
predict @/good.csv --model @/photos -> images | good.csv
predict @/parts --model @/people -> one CSV | @/parts
train folder:@/single -> two sub-folders | got only 'crack'
train folder:@/parts --positive crak -> mean 'crack'
train digits --weights @/other.safetensors ->
    weights must fit MLP | body.0.weight: expected (128, 64), got (128, 3)
train digits --weights @/code.pth ->
    code.pth cannot be read as plain weights: it must be a whole .safetensors file, or one
evaluate table:@/good.csv --model @/good.csv ->
    good.csv is not a whole Curvewise file: it is of another kind, or was cut short
evaluate table:@/good.csv --model @/other.safetensors ->
    other.safetensors holds tensors, but not a Curvewise model
evaluate table:@/good.csv --model @/photos -> trained on a table, got one of folder:
evaluate digits:8 --model @/people -> got (64,) from digits:8
train npz:@/nan.npz -> nan in row 7, column 2
train table:@/infinite.csv --target outcome -> 'age' must be finite, got inf in row 1
predict @/good.csv --model @/fixed --tau 1 -> trained with lambda = nothing drawn, got tau = 1
predict @/good.csv --model @/people --tau 1 --max-fpr 0.1 -> --max-fpr | --tau
evaluate table:@/good.csv --model @/people --tau -1 -> tau must be >= 0 | got -1
train digits --reduction sum -> 'weighted_mean', 'mean' | 'sum'
train digits --set augment=crop-flip -> augment = crop-flip needs images, got digits:8
evaluate table:@/good.csv --model @/people --max-fpr 0.1 --cost-ratio 5 ->
    one of --max-fpr, --min-tpr, --cost-ratio can be given, got --max-fpr 0.1 and --cost-r
embed folder:@/parts --backbone nope --out f.npz ->
    --backbone must be one of 'efficientnet-lite0', got 'nope'
predict @/nan.npz --model @/people -> one CSV | nan.npz
predict @/images.npz --model @/photos -> (3, 12, 12), got (1, 12, 12)
predict @/labels.npz --model @/photos -> an array x or x_test, got y
predict @/good.csv --model @/people --threshold 1 --min-tpr 0.9 ->
    one of --threshold, --max-fpr, --min-tpr can be given, got --threshold 1 and --min-tpr
predict @/good.csv --model @/people --max-fpr 2 -> max_fpr | got 2
predict @/good.csv --model @/people --calibrated --prior 1 -> prior must | got 1
predict @/good.csv --model @/people --prior 0.2 ->
    --prior is for probabilities: give --calibrated too, got 0.2
predict @/people -> --model | @/people
predict @/good.csv --model @/people --out @/good.csv ->
    --out must be a CSV file of its own, got @/good.csv
train digits --out @/good.csv -> --out @/good.csv cannot be made into a folder: it is a file
predict @/good.csv --model @/people --out @/junk.csv -> @/junk.csv exists | --overwrite
predict @/good.csv --model @/people --out @/empty.csv/x.csv ->
    a folder that can be written to, got @/empty.csv/x.csv
train gone --out @/people -> is there already
evaluate table:@/good.csv --model @/people --out @/empty.csv/x ->
    @/empty.csv/x cannot be made into a folder: @/empty.csv is a file
evaluate folder:@/parts --model @/photos --all-rows -> --all-rows is for tables, got folder:
data clean --cache-dir @/parts --yes -> 'crack'
data clean --cache-dir gone --yes -> got gone
data clean --cache-dir @/cache --older-than -1 --yes -> older_than must be >= 0 | got -1
train digit -> did you mean 'digits'
train digits --preset quik -> did you mean 'quick'
train digits --set epochs -> NAME=VALUE, got 'epochs'
train digits --tau 0:3 -> LOW:HIGH:HEIGHT, got '0:3'
train digits --tau 0:3:9 -> height_at_high must be
train digits --omega 2 -> omega must be in [0, 1]
train digits --network resnet32 -> needs images
train digits --beta 0 -> beta must be >= 1
train digits --resume -> to go on from
embed digits --out x.npz -> needs images
data check digits:11 -> 11
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
evaluate digits:8 --model @/estimator.safetensors ->
    got an estimator in curvewise-1; it is for Python: curvewise.load
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
