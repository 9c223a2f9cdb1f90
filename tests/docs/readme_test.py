#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md shows the quickstart as it is today.

  tests/docs/readme_test.py [LOG]

The job file of README.md must be the one that deploy/quickstart.sh writes. LOG is what a run of the quickstart printed: it must
have the lines that README.md shows, numbers aside. STRETTO_REWRITE=1 writes the numbers of LOG into README.md.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from shown import refreshed

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / 'README.md'


def written_job():
    """The job file perl-gpt.yaml, by the quickstart's own function and call."""
    script = (ROOT / 'deploy/quickstart.sh').read_text()
    function = re.search(r'^job_file\(\) \{$.*?^\}$', script, re.M | re.S)[0]
    call = re.search(r'^job_file perl-gpt .*$', script, re.M)[0]
    with tempfile.TemporaryDirectory() as state:
        subprocess.run(['bash', '-euc', f'steps=150 state={state}\n{function}\n{call}'], check=True)
        return (pathlib.Path(state) / 'perl-gpt.yaml').read_text()


def main():
    page = README.read_text()
    job = re.search(r'^```yaml\n(name: perl-gpt\n.*?)^```$', page, re.M | re.S)[1]
    if job != written_job():
        sys.exit(f'README.md: found the job file\n{job}expected that of deploy/quickstart.sh\n{written_job()}')
    if len(sys.argv) < 2:
        return
    transcript = re.search(r'^```text\n(\$ stretto job submit perl-gpt.*?)\n```$', page, re.M | re.S)[1]
    command, *lines = transcript.splitlines()
    try:
        fresh = refreshed(lines, pathlib.Path(sys.argv[1]).read_text())
    except ValueError as fault:
        sys.exit(f'README.md shows other output than that of the quickstart: {fault}')
    if os.environ.get('STRETTO_REWRITE') == '1':
        README.write_text(page.replace(transcript, '\n'.join([command, *fresh])))


main()
