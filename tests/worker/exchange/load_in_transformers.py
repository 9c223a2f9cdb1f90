#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `stretto checkpoint export` writes is what transformers computes: each model of tests/golden/models is exported, loaded
strictly, and its logits compared with the golden ones.

    load_in_transformers.py STRETTO_MODEL GOLDEN_MODELS

Needs torch and transformers (4.45 or newer); without them it says so and ends with 77.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}; STRETTO_PEER_PYTHON names an interpreter that has torch and transformers")
    sys.exit(77)

# f32 on both sides, of logits around 1: sums of some hundred products in another order.
BOUND = 1e-4


def load(folder):
    dtype = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True, **{dtype: torch.float32})
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{folder.name}: {kind}: {info[kind]}"
    return model.eval()


def check(program, golden, work):
    notes = json.loads((golden / "golden.json").read_text())
    kind, path = notes["open"].split(":")
    folder = work / golden.name
    subprocess.run([program, "checkpoint", "export", f"{kind}:{golden.parent / path}", "--format", "hf", "--output", folder,
                    "--max-shard-size", "40kB"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    model = load(folder)
    with torch.no_grad():
        found = model(torch.tensor(notes["input_ids"])).logits.numpy()
    expected = np.fromfile(golden / "logits.f32", "<f4").reshape(notes["logits_shape"])
    # Logits that are all alike would agree with anything.
    assert float(expected.std()) > 0.1, golden.name
    difference = float(np.abs(found - expected).max())
    dtype = json.loads((folder / "config.json").read_text())["torch_dtype"]
    print(f"{golden.name} ({dtype}): export in transformers {transformers.__version__}: logits differ by at most "
          f"{difference:.3g}, bound {BOUND:g}")
    return difference <= BOUND


def main():
    program, golden = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        folders = sorted(path.parent for path in golden.glob("*/golden.json"))
        assert folders, f"no golden models in {golden}"
        bad = [folder.name for folder in folders if not check(program, folder, pathlib.Path(work))]
    if bad:
        sys.exit(f"beyond the bound: {', '.join(bad)}")


if __name__ == "__main__":
    main()
