#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks docs/TUTORIAL.md and then docs/FINETUNING.md as a reader does: one home folder, one cluster, the commands in order.

  tests/docs/guides_test.py BINARIES [--keep]

  BINARIES  the folder of the programs; only those of the target `programs`, which the quickstart builds, are on PATH
  --keep    leave the folder and print its name

Runs every block marked `sh tutorial` or `sh finetuning`. Where a `text` block follows, the commands must print its lines in
that order: numbers may differ, `...` stands for anything. STRETTO_REWRITE=1 writes the printed numbers into the pages; run it
on a machine that does nothing else. Between the pages the test makes what the second one expects its reader to bring: a model
with a tokenizer of its own, trained here. The ports are free ones instead of the default ones.
Exit: 0; 1 a command failed or printed something else; 77 this is not a Debian.
"""
import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from shown import refreshed

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / 'tests/golden/tokenizer/gpt2_kind.json'
MARK = '@@ block '


def fail(message):
    sys.exit(f'FAILED: {message}')


def blocks(page, mark):
    """(commands, shown) of each block with this mark; shown is None where no output follows."""
    found, lines = [], (ROOT / page).read_text().splitlines()
    fences = [number for number, line in enumerate(lines) if line.startswith('```')]
    pairs = list(zip(fences[::2], fences[1::2]))
    for index, (begin, end) in enumerate(pairs):
        if lines[begin] != f'```sh {mark}':
            continue
        shown = None
        if index + 1 < len(pairs):
            following, last = pairs[index + 1]
            if lines[following] == '```text' and following - end <= 2:
                shown = lines[following + 1:last]
        found.append(('\n'.join(lines[begin + 1:end]), shown))
    return found


def walk(page, mark, environment, folder, least):
    """Runs the page's blocks as one shell, so that variables and the folder carry over."""
    found = blocks(page, mark)
    if len(found) < least:
        fail(f'{page}: found {len(found)} blocks marked `sh {mark}`, expected at least {least}')
    script = folder / f'{mark}.sh'
    script.write_text('\n'.join(f"printf '\\n{MARK}%d\\n' {number}\n{commands}" for number, (commands, _) in enumerate(found)))
    run = subprocess.run(['bash', '-euo', 'pipefail', str(script)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = run.stdout.decode(errors='replace').replace(str(folder), '~')
    print(text, flush=True)
    if run.returncode != 0:
        fail(f'{page}: the commands above ended with exit code {run.returncode}')
    outputs = re.split(f'\n?{MARK}\\d+\n', text)[1:]
    for (commands, shown), output in zip(found, outputs):
        if shown is not None:
            try:
                fresh = refreshed(shown, output)
            except ValueError as fault:
                fail(f'{page} shows other output than that of\n{commands}\n{fault}')
            if os.environ.get('STRETTO_REWRITE') == '1':
                old, new = (f'{commands}\n```\n\n```text\n' + '\n'.join(lines) + '\n```' for lines in (shown, fresh))
                (ROOT / page).write_text((ROOT / page).read_text().replace(old, new))
    return outputs


def programs(binaries, folder):
    """A folder with the programs that the quickstart and the first section of the tutorial build, and no other."""
    for page in ('deploy/quickstart.sh', 'docs/TUTORIAL.md'):
        if 'cmake --build --preset release --target programs\n' not in (ROOT / page).read_text():
            fail(f'{page}: found no build of the target programs, which this test puts on PATH')
    names = re.search(r'set\(programs ([^)]*)\)', (ROOT / 'cmake/package.cmake').read_text())[1].split()
    folder.mkdir()
    for name in names:
        if not (binaries / name).exists():
            fail(f'found no {binaries / name}, one of the target programs')
        (folder / name).symlink_to(binaries / name)
    return folder


@contextlib.contextmanager
def cluster(environment, folder):
    """The cluster of both pages. Yields its address."""
    starts = [blocks(page, 'cluster') for page in ('docs/TUTORIAL.md', 'docs/FINETUNING.md')]
    commands = {found[0][0] for found in starts if len(found) == 1}
    if len(commands) != 1 or any(len(found) != 1 for found in starts):
        fail(f'expected the same block `sh cluster` in both pages, found {starts}')
    log = folder / 'up.log'
    with log.open('w') as out:
        up = subprocess.Popen([*commands.pop().split(), '--listen', '127.0.0.1:0', '--metrics-listen', '127.0.0.1:0'],
                              env=environment, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline, address = time.monotonic() + 60, None
        while address is None:
            address = re.search(r'STRETTO_COORDINATOR=(\S+)', log.read_text())
            if address is None and (up.poll() is not None or time.monotonic() > deadline):
                fail(f'the cluster did not start:\n{log.read_text()}')
            time.sleep(0.1)
        yield address[1]
    finally:
        up.send_signal(signal.SIGINT)
        up.wait()


def make_base_model(environment, data):
    """models/base: what the reader of docs/FINETUNING.md brings. Its config.json alone names the end of a document."""
    tokenizer = data / 'models/tokenizer'
    tokenizer.mkdir(parents=True)
    shutil.copy(TOKENIZER, tokenizer / 'tokenizer.json')
    (tokenizer / 'tokenizer_config.json').write_text('{"model_max_length": 1024}\n')
    (tokenizer / 'config.json').write_text('{"eos_token_id": 0}\n')
    named = data / 'models/named'  # the same tokenizer where tokenizer_config.json names that token
    named.mkdir()
    shutil.copy(TOKENIZER, named / 'tokenizer.json')
    (named / 'tokenizer_config.json').write_text('{"eos_token": "<|endoftext|>"}\n')
    job = data / 'base.yaml'
    job.write_text('name: base\n'
                   'model: {layers: 2, hidden: 64, heads: 4, sequence_length: 64, vocab_size: 500}\n'
                   'data: {prefix: base}\n'
                   'parallelism: {tp_size: 2}\n'
                   'optimizer: {learning_rate: 3.0e-3, warmup_steps: 5}\n'
                   'steps: 30\n'
                   'micro_batch_size: 8\n')

    def run(*command):
        subprocess.run(command, cwd=data, env=environment, check=True)
    for name in ('base', 'named'):
        source = tokenizer if name == 'base' else named
        run('stretto', 'data', 'prepare', '/usr/share/common-licenses', '--output', name, '--tokenizer', f'hf:{source}')
    for suffix in ('.bin', '.idx'):
        if (data / f'base{suffix}').read_bytes() != (data / f'named{suffix}').read_bytes():
            fail(f'base{suffix} and named{suffix} differ; both tokenizers end documents with the same token')
    run('stretto', 'job', 'submit', str(job), '--wait')
    run('stretto', 'checkpoint', 'export', '../checkpoints/base', '--format', 'hf', '--output', 'models/base')
    if (data / 'models/base/tokenizer.json').read_bytes() != TOKENIZER.read_bytes():
        fail('the export of base has another tokenizer.json than the one that its data was prepared with')


def check_tuned(environment, state, outputs):
    """What the fine-tuning must have done, which its output shows only in part."""
    with (state / 'data/tuned.csv').open() as table:
        rows = list(csv.DictReader(table))
    measured = [float(row['held_out_loss']) for row in rows if row['held_out_loss']]
    if len(rows) != 40 or len(measured) != 4 or measured[-1] >= measured[0]:
        fail(f'tuned: found {len(rows)} steps with held-out losses {measured}, expected 40 with 4 that fall')
    for file in ('config.json', 'tokenizer.json', 'tokenizer_config.json'):
        if not (state / 'tuned-hf' / file).stat().st_size:
            fail(f'the export tuned-hf has an empty {file}')
    sampled = [output for (commands, _), output in zip(blocks('docs/FINETUNING.md', 'finetuning'), outputs)
               if commands.startswith('stretto sample')]
    if len(sampled) != 1 or not re.search('[a-z]', sampled[0]):
        fail(f'docs/FINETUNING.md: found {sampled}, expected one text of the model')
    job = json.loads(subprocess.run(['stretto', 'job', 'get', 'tuned', '-o', 'json'], env=environment, check=True,
                                    capture_output=True).stdout)
    if 'models/base' not in json.dumps(job) or 'licences-tuning' not in json.dumps(job):
        fail(f'tuned: expected the weights of models/base and the data licences-tuning, found {job}')


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not pathlib.Path('/usr/share/common-licenses').is_dir():
        print('skipped: no /usr/share/common-licenses here, so this is not a Debian')
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp()).resolve()
    try:
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(('STRETTO_', 'XDG_')) and key != 'NO_COLOR'}
        path = f'{programs(pathlib.Path(sys.argv[1]).resolve(), folder / "bin")}:{os.environ["PATH"]}'
        environment |= {'HOME': str(folder), 'PATH': path, 'LANG': 'C.UTF-8'}
        state = folder / '.local/state/stretto'
        with cluster(environment, folder) as address:
            environment['STRETTO_COORDINATOR'] = address
            walk('docs/TUTORIAL.md', 'tutorial', environment, folder, 13)
            make_base_model(environment, state / 'data')
            outputs = walk('docs/FINETUNING.md', 'finetuning', environment, folder, 6)
            check_tuned(environment, state, outputs)
        print('every command of docs/TUTORIAL.md and docs/FINETUNING.md ran and printed what the pages show')
    finally:
        if '--keep' in sys.argv:
            print(f'kept: {folder}')
        else:
            shutil.rmtree(folder)


main()
