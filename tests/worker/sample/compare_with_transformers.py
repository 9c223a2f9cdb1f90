#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the logits of `stretto sample` with those of transformers, for models in Hugging Face folders.

    compare_with_transformers.py PROGRAM FOLDER...

PROGRAM is stretto, or stretto-model of a build. Draws tokens, runs both in float32 on the CPU and prints for each folder
the largest difference; exits 1 where one is above 1e-4. Needs torch, transformers and numpy: in this Python, or in the
one that STRETTO_PEER_PYTHON names; else says so and exits 77.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

BOUND = 1e-4


def peer():
    """torch, transformers and numpy, perhaps in another Python."""
    try:
        import numpy
        import torch
        import transformers
        return numpy, torch, transformers
    except ImportError as error:
        other = os.environ.pop("STRETTO_PEER_PYTHON", None)  # tried once
        if other:
            os.execv(other, [other, *sys.argv])
        print(f"skipped: {error}")
        sys.exit(77)


def differences(program, folder, np, torch, transformers):
    """The largest difference of a logit, the largest logit, and how many positions were compared."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    positions = min(model.config.max_position_embeddings, 200)
    tokens = torch.randint(model.config.vocab_size, (1, positions), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = model.eval()(tokens).logits[0].numpy()
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "logits"
        subprocess.run([program, "sample", f"hf:{folder}", "--prompt-ids", ",".join(map(str, tokens[0].tolist())),
                        "--tokens", "0", "--logits", path], check=True)
        ours = np.fromfile(path, "<f4").reshape(theirs.shape)
    return float(np.abs(ours - theirs).max()), float(np.abs(theirs).max()), positions


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    modules = peer()
    modules[2].logging.set_verbosity_error()
    program, folders = sys.argv[1], sys.argv[2:]
    worst = 0.0
    for folder in folders:
        difference, largest, positions = differences(program, folder, *modules)
        # NaN is no number to be at most anything.
        worst = difference if not difference <= worst else worst
        print(f"{folder}: largest difference of logits {difference:.2g} over {positions} positions, "
              f"largest logit {largest:.3g}", flush=True)
    if not worst <= BOUND:
        sys.exit(f"found a difference of {worst:.2g}, expected at most {BOUND}")


if __name__ == "__main__":
    main()
