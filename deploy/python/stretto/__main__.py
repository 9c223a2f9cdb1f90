# SPDX-License-Identifier: Apache-2.0
"""python3 -m stretto job metrics JOB --tensorboard DIR | --wandb DIR

What the program `stretto` has no library for. Exit codes are those of `stretto`.
"""
import argparse
import sys
from collections.abc import Iterator

from stretto import Client, Job, StepReport, StrettoError, TlsFiles
from stretto.export import write_tensorboard, write_wandb


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m stretto",
        description="Exports metrics through Python libraries; `stretto` has all other commands.")
    job = parser.add_subparsers(metavar="job", required=True).add_parser("job")
    metrics = job.add_subparsers(metavar="metrics", required=True).add_parser(
        "metrics", help="export the metrics of every step",
        description="Export the metrics of every step for TensorBoard or Weights & Biases.",
        epilog="`stretto job metrics` prints CSV and JSON.")
    metrics.add_argument("job", metavar="JOB", help="job name")
    target = metrics.add_mutually_exclusive_group(required=True)
    target.add_argument("--tensorboard", metavar="DIR", help="write event files into DIR/JOB")
    target.add_argument("--wandb", metavar="DIR", help="write an offline run into DIR/wandb")
    metrics.add_argument("--project", default="stretto", help="project of W&B (default: stretto)")
    metrics.add_argument("--follow", action="store_true",
                         help="write steps as they come, until the job has ended")
    metrics.add_argument("--coordinator", default="", metavar="ADDRESS",
                         help="HOST:PORT, or several, separated by commas")
    metrics.add_argument("--context", default="", help="context of the config file of stretto")
    for name in ("ca", "certificate", "key"):
        metrics.add_argument(f"--tls-{name}", default="", metavar="FILE", help="PEM file")
    metrics.add_argument("--token-file", default="", metavar="FILE",
                         help="file with your token, in place of certificate and key")
    return parser


def _steps(client: Client, name: str, follow: bool) -> Iterator[StepReport]:
    if not follow:
        yield from client.steps(name)
        return
    for event in client.follow(name):
        if isinstance(event, StepReport):
            yield event


def _count(steps: Iterator[StepReport], counted: list[int]) -> Iterator[StepReport]:
    for step in steps:
        counted[0] += 1
        yield step


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    counted = [0]
    try:
        tls = TlsFiles(options.tls_ca, options.tls_certificate, options.tls_key,
                       options.token_file)
        with Client(options.coordinator, context=options.context, tls=tls) as client:
            job: Job = client.get(options.job)
            steps = _count(_steps(client, options.job, options.follow), counted)
            if options.tensorboard:
                written = write_tensorboard(job, steps, options.tensorboard)
            else:
                written = write_wandb(job, steps, options.wandb, options.project)
    except StrettoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 5
    print(f"wrote {written}: {counted[0]} step{'' if counted[0] == 1 else 's'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
