#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `stretto data prepare` is on one core, and what memory it takes.

  tests/bench/data_prepare.py [--mib 64] [--bin build/release/bin] [--json FILE]

Text: the copyright files of this machine's packages, again and again. Bytes, and byte-level BPE. Where
STRETTO_PEER_PYTHON names a Python with `tokenizers`, its BPE has 50,257 tokens, learned from every other file and used on the
rest, and `tokenizers` itself encodes the same lines on one thread in the same run; else the small one of the tests is used.
MB are 10^6 bytes of text; rates are per second of CPU time (user and system), so that other work on the machine counts little.
"""
import argparse, glob, json, os, pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

TRAIN = """
import sys, tokenizers
from tokenizers import models, pre_tokenizers, decoders, trainers
t = tokenizers.Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
t.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=50257, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
t.save(sys.argv[2] + "/tokenizer.json")
"""
PEER = """
import sys, time, tokenizers
t = tokenizers.Tokenizer.from_file(sys.argv[2] + "/tokenizer.json")
lines = open(sys.argv[1], encoding="utf-8").readlines()
begin = time.process_time()
for i in range(0, len(lines), 1000):
    t.encode_batch(lines[i:i + 1000])
print(time.process_time() - begin)
"""


def write_text(path, files, size):
    """Whole files of `files`, in turn, until `size` bytes are there."""
    with open(path, "wb") as out:
        while out.tell() < size:
            before = out.tell()
            for name in files:
                data = pathlib.Path(name).read_bytes()
                try:
                    data.decode()
                except UnicodeDecodeError:
                    continue
                out.write(data[: size - out.tell()] if data.isascii() else data)
                if out.tell() >= size:
                    break
            if out.tell() == before:
                sys.exit("found no text in /usr/share/doc/*/copyright")


def run(command, env=None):
    """CPU seconds, peak resident bytes."""
    pid = os.posix_spawnp(command[0], command, env or os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64, help="of text; memory is shown for it and for four times as much")
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--json")
    options = parser.parse_args()
    peer = os.environ.get("STRETTO_PEER_PYTHON")
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        files = sorted(glob.glob("/usr/share/doc/*/copyright"))
        tokenizer = work / "tokenizer"
        tokenizer.mkdir()
        if peer:
            write_text(work / "learn.txt", files[0::2], options.mib << 20)
            subprocess.run([peer, "-c", TRAIN, work / "learn.txt", tokenizer], check=True)
        else:
            shutil.copy(ROOT / "tests/golden/tokenizer/gpt2_kind.json", tokenizer / "tokenizer.json")
        (tokenizer / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
        rows = []
        for mib in (options.mib, 4 * options.mib):
            text = work / "text.txt"
            write_text(text, files[1::2] or files, mib << 20)
            size = text.stat().st_size
            for name in ("bytes", f"hf:{tokenizer}"):
                cpu, peak = run([f"{options.bin}/stretto-data", "prepare", str(text), "--output", str(work / "out"),
                                 "--overwrite", "--threads", "1", "--tokenizer", name])
                row = {"mib": mib, "tokenizer": name.split(":")[0], "cpu_seconds": round(cpu, 2),
                       "mb_per_second": round(size / 1e6 / cpu, 1), "peak_mib": peak >> 20}
                if peer and name != "bytes" and mib == options.mib:
                    env = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
                    seconds = float(subprocess.run([peer, "-c", PEER, text, tokenizer], check=True, env=env,
                                                   capture_output=True, text=True).stdout)
                    row["tokenizers_mb_per_second"] = round(size / 1e6 / seconds, 1)
                rows.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
