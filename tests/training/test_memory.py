"""Training from a memory map needs little memory of its own: mapped pages do not count."""

import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from curvewise.base.machine import old_objects_spared

STATUS = Path("/proc/self/status")
SCRIPT = textwrap.dedent(
    """
    import sys, threading, time
    import numpy as np, torch
    import curvewise as cw
    torch.set_num_threads(1)

    seen = []
    def watch():
        while True:
            lines = open("/proc/self/status").read().splitlines()
            seen.extend(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            time.sleep(0.05)
    threading.Thread(target=watch, daemon=True).start()

    x = np.load(sys.argv[1], mmap_mode="r")
    y = np.arange(len(x)) % 100 == 0
    network = cw.build_network("small-cnn", in_shape=x.shape[1:], seed=0)
    family = cw.LossFamily(tau=cw.LinearDensity(0.0, 3.0, 0.33))
    recipe = cw.Recipe(steps=8, batch_size=128, augment="resized-crop-flips", lr=0.01)
    scale = ((0.5,) * 3, (0.25,) * 3)
    fitted = cw.fit(network, family, x, y.astype(np.int64), recipe, normalization=scale)
    assert fitted.finished
    print(max(seen))
    """
)


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
def test_twenty_thousand_large_images_train_in_less_than_a_gigabyte(tmp_path):
    path = tmp_path / "images.npy"
    x = np.lib.format.open_memmap(path, "w+", np.uint8, (20_000, 3, 256, 256))
    x[::500] = np.random.default_rng(0).integers(0, 256, (40, 3, 256, 256), dtype=np.uint8)
    x.flush()
    command = [sys.executable, "-c", SCRIPT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1_000_000  # kilobytes


def test_old_objects_are_spared_and_collected_again_after():
    with old_objects_spared():
        with old_objects_spared():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() > 0  # the inner block has not ended the outer one
    assert gc.get_freeze_count() == 0
