#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends and receives the boxes of stretto-bench reshard with torch.distributed on gloo.

Reads the report of stretto-bench and, for each case, makes its plain transfers: one send and one
receive for each box and receiver, in order. Rank 0 adds the times to the report, as "peer".
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rank', type=int, required=True)
    parser.add_argument('--rendezvous', required=True, help='empty folder shared by the ranks')
    parser.add_argument('--interface', help='name of the network interface')
    parser.add_argument('--report', required=True, help='JSON of stretto-bench reshard')
    parser.add_argument('--repeats', type=int, default=3)
    return parser.parse_args()


def move(distributed, transfers, rank, tensors):
    for number, (sender, receiver, _) in enumerate(transfers):
        if rank == sender:
            distributed.send(tensors[number], receiver)
        elif rank == receiver:
            distributed.recv(tensors[number], sender)


def main():
    options = arguments()
    if options.interface:
        os.environ['GLOO_SOCKET_IFNAME'] = options.interface
    import torch
    from torch import distributed

    report = json.loads(pathlib.Path(options.report).read_text())
    cases = {result['case']: result['plain_transfers'] for result in report['results']}
    ranks = 8
    distributed.init_process_group(
        'gloo', init_method=f'file://{options.rendezvous}/torch', rank=options.rank,
        world_size=ranks)
    drain = torch.ones(1 << 19)
    peer = []
    for case, transfers in cases.items():
        tensors = {
            number: torch.full((size // 4,), float(sender == options.rank) * (number + 1))
            for number, (sender, receiver, size) in enumerate(transfers)
            if options.rank in (sender, receiver)
        }
        runs = []
        for _ in range(options.repeats + 1):
            distributed.all_reduce(drain.clone())
            distributed.barrier()
            begin = time.monotonic()
            move(distributed, transfers, options.rank, tensors)
            seconds = torch.tensor([time.monotonic() - begin], dtype=torch.float64)
            distributed.all_reduce(seconds, op=distributed.ReduceOp.MAX)
            runs.append(seconds.item())
        for number, tensor in tensors.items():
            assert bool((tensor == number + 1).all()), f'{case}: transfer {number}'
        runs = runs[1:]  # the first one opens connections
        peer.append({'case': case, 'seconds': statistics.median(runs), 'runs': runs})
    if options.rank != 0:
        return
    report['peer'] = {'name': f'torch {torch.__version__}', 'cases': peer}
    pathlib.Path(options.report).write_text(json.dumps(report, indent=2) + '\n')
    print(f"torch {torch.__version__}, gloo send and recv:", file=sys.stderr)
    for row in peer:
        ratio = row['seconds'] / report['wire_seconds']
        print(f'{row["case"]:<12} {row["seconds"]:7.3f} s {ratio:10.3f} over wire', file=sys.stderr)


if __name__ == '__main__':
    main()
