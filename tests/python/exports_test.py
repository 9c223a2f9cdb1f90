#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`python3 -m stretto job metrics` writes what TensorBoard and W&B read, by their own libraries. Each
is skipped where its library is not installed.

  exports_test.py BIN     (the installed package is on PYTHONPATH; BIN has the program `stretto`)
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from fake import Coordinator, job
from stretto.__main__ import main
from stretto.v1alpha1 import job_pb2 as pb

LIBRARIES = [name for name in ("tensorboard", "wandb") if importlib.util.find_spec(name)]
if not LIBRARIES:
    print("skipped: found neither tensorboard nor wandb here (PyPI)")
    sys.exit(77)


BIN = pathlib.Path(sys.argv.pop(1))


def needs(library):
    return unittest.skipIf(library not in LIBRARIES, f"found no {library} here (PyPI)")


class ExportsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        steps = [pb.StepReport(step=number, loss=5 - number, evaluation=pb.Evaluation(loss=0.5))
                 for number in (1, 2, 3)]
        for report in steps:
            report.end_time.seconds = 1000 + report.step
        done = job(pb.Job.SUCCEEDED, 3, uid="abc123", spec=pb.JobSpec(steps=3))
        events = [pb.WatchJobResponse(job=done), *(pb.WatchJobResponse(step=one) for one in steps)]
        self.server = Coordinator({"GetJob": [done], "WatchJob": [events]})
        self.addCleanup(self.server.__exit__)

    def export(self, *flags):
        return main(["job", "metrics", "gpt", "--coordinator", self.server.address, *flags])

    @needs("tensorboard")
    def test_tensorboard_reads_every_step_at_its_time(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        self.assertEqual(self.export("--tensorboard", str(self.folder)), 0)
        events = EventAccumulator(str(self.folder / "gpt"))
        events.Reload()
        points = [(point.step, point.wall_time, float(point.tensor_proto.float_val[0]))
                  for point in events.Tensors("train/loss")]
        self.assertEqual(points, [(1, 1001, 4), (2, 1002, 3), (3, 1003, 2)])
        self.assertIn("held_out/loss", events.Tags()["tensors"])
        self.assertEqual(self.export("--tensorboard", str(self.folder)), 1)  # not twice

    @needs("tensorboard")
    def test_the_command_line_exports_by_this_package(self):
        command = [BIN / "stretto", "--coordinator", self.server.address, "job", "metrics", "gpt",
                   "--tensorboard", self.folder / "runs"]
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(command, env={**os.environ, "PATH": path}, check=False,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn(f"wrote {self.folder / 'runs/gpt'}: 3 steps", done.stderr)
        self.assertEqual(len(list(self.folder.glob("runs/gpt/events.out.tfevents.*"))), 1)

    # As users run it: W&B's own process writes what is left when the process that asked it ends.
    @needs("wandb")
    def test_wandb_gets_an_offline_run(self):
        command = [sys.executable, "-m", "stretto", "job", "metrics", "gpt", "--coordinator",
                   self.server.address, "--wandb", str(self.folder)]
        self.assertEqual(subprocess.run(command, check=False).returncode, 0)
        (run,) = self.folder.glob("wandb/offline-run-*")
        (data,) = run.glob("run-abc123.wandb")
        content = data.read_bytes()
        for expected in (b"train/loss", b"held_out/loss", b"abc123", b"gpt"):
            self.assertIn(expected, content)


if __name__ == "__main__":
    unittest.main()
