# SPDX-License-Identifier: Apache-2.0
"""torch_gpu_peer.py on the CPU, where PyTorch is (STRETTO_PEER_PYTHON). Exit 77: it is not.

The optimizer's masters are those of plain AdamW in f32, to the bit; a dry run measures every row.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
WORK = {"family": "llama", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn_hidden": 96,
        "sequence_length": 16, "padded_vocab": 128, "vocab_size": 120, "micro_batch_size": 2,
        "micro_batches": 2}


def masters_are_those_of_adamw():
    """And weights are the masters in bf16. Without masters the small updates would be lost."""
    import torch
    from torch_gpu_step import Masters
    torch.manual_seed(3)
    shapes = [[(8, 4), (4,)], [(16, 8)]]
    parts = [[torch.nn.Parameter(torch.randn(s).bfloat16()) for s in part] for part in shapes]
    weights = [p for part in parts for p in part]
    plain = [p.detach().float().clone() for p in weights]
    first = [p.detach().clone() for p in weights]
    expected = torch.optim.AdamW(plain, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    masters = Masters(torch, parts)
    for _ in range(20):
        for p, q in zip(weights, plain):
            p.grad = torch.randn(p.shape).bfloat16()
            q.grad = p.grad.float()
        expected.step()
        masters.step()
    found = [m for _, part, _ in masters.parts for m in part]
    for p, q, m, begin in zip(weights, plain, found, first):
        assert torch.equal(m, q), (m, q)
        assert torch.equal(p.detach(), m.bfloat16()), (p, m)
        assert not torch.equal(m, begin.float()), "no update"
    assert masters.bytes_per_parameter() == 16, masters.bytes_per_parameter()


def report_of(folder, command, work, *arguments):
    like, out = folder / "like.json", folder / "out.json"
    like.write_text(json.dumps({"dtype": "bf16", "copy": {"bytes": 2 * 64 * 64 * 2}, "work": work}))
    run = subprocess.run([sys.executable, "-B", str(FOLDER / "torch_gpu_peer.py"), command, "--dry-run",
                          "--like", str(folder / "none.json"), str(like), "--json", str(out),
                          *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout
    return json.loads(out.read_text()), run.stdout


def kernels_have_rows(folder):
    report, said = report_of(folder, "kernels", WORK, "--backends", "math,flash,cudnn")
    places = [row["place"] for row in report["kernels"]]
    assert places[:3] == ["copy", "product", "fwd qkv gemm"], places
    for row in report["kernels"]:
        assert row["place"] in said, said
        if row.get("backend") == "cudnn":  # not on a CPU: a row with its reason, and the next ones come
            assert row["failed"], row
        else:
            assert row["seconds"] > 0, row
    assert {row.get("backend") for row in report["kernels"]} == {None, "math", "flash", "cudnn"}
    assert places[-1] == "cross_entropy_grad", places


def steps_train(folder):
    for family in ("llama", "gpt"):
        work = WORK | {"family": family, "kv_heads": 2 if family == "llama" else 4}
        report, _ = report_of(folder, "step", work, "--variants", "eager.cudnn,eager.math,compile.math")
        cudnn, eager, compiled = report["variants"]
        assert cudnn["failed"], cudnn
        for row in (eager, compiled):
            assert row["bytes_per_parameter"] == 16 and row["tokens_per_second"] > 0, row
            assert abs(row["loss_first"] - 4.85) < 0.15, row  # ln 128
        assert abs(eager["loss_last"] - compiled["loss_last"]) < 0.02, report


def main():
    python = os.environ.get("STRETTO_PEER_PYTHON")
    if python and sys.argv[1:] != ["here"]:
        sys.exit(subprocess.run([python, "-B", __file__, "here"]).returncode)
    try:
        import torch  # noqa: F401
    except ImportError:
        print("skipped: STRETTO_PEER_PYTHON names no Python with PyTorch")
        sys.exit(77)
    sys.path.insert(0, str(FOLDER))
    with tempfile.TemporaryDirectory() as folder:
        masters_are_those_of_adamw()
        kernels_have_rows(pathlib.Path(folder))
        steps_train(pathlib.Path(folder))


if __name__ == "__main__":
    main()
