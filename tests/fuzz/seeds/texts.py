# SPDX-License-Identifier: Apache-2.0
"""Texts that people write: job files, the client's files, words of a command line, plans, programs, costs."""


def wrong(base, **places):
    """Yields `base` with one text in it replaced by another, by the name of what is wrong then."""
    for name, (old, new) in places.items():
        assert base.count(old) > 0, (name, old)
        yield name.replace("_", "-"), base.replace(old, new, 1)


FULL_JOB = """name: full
model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, dropout: 0.1, norm_epsilon: 1e-5, tied_head: true,
  rotary_scaling: {kind: llama3, factor: 8, low_frequency_factor: 1, high_frequency_factor: 4}}
data: {blend: [{prefix: a, weight: 0.5}, {prefix: b, weight: 1}], held_out: 0.1, document_mask: true}
parallelism: {tp_size: 2, stages: [{layers: 1, tp_size: 2}, {layers: 1}], wire: bf16}
schedule:
  name: helix
  parameters: {slice_sizes: [1, 2], recompute: full}
  pipeline: {order: 1f1b, warm_up: [1, 0], wgrad_delay: send, transfer: chain}
optimizer: {learning_rate: 0, warmup_steps: 0}
precision: bf16
seed: 18446744073709551615
steps: 0
checkpoint: {keep: 0, asynchronous: false}
eval: {interval_steps: 2, early_stop: {patience: 1}}
restart: {max: 0, backoff: 0.5, on: [crash, node_loss], layouts: [{tp_size: 1}]}
labels: {a: x, b: "5"}
sample: {interval_steps: 2, prompts: ["a\\nb", "5"], temperature: 0}
epochs: 0.5
"""


def job_file():
    yield "full", FULL_JOB
    yield from {
        "list-for-bool": "checkpoint: {disabled: [a]}", "list-for-number": "optimizer: {learning_rate: [1]}",
        "list-for-choice": "precision: [a]", "list-for-integer": "steps: [1]", "list-for-text": "data: {prefix: [a]}",
        "mapping-for-integer": "steps: {a: 1}", "nothing-in-list": "data: {blend: [null]}", "no-list": "restart: {on: crash}",
        "no-list-of-texts": "sample: {prompts: a}", "no-list-of-integers": "schedule: {parameters: {slice_sizes: 1}}",
        "no-number": "optimizer: {learning_rate: x}", "quoted-number": 'optimizer: {learning_rate: "1"}',
        "quoted-integer": 'steps: "3"', "number-for-text": "data: {prefix: 5}", "long": "precision: " + "x" * 70,
        "near-choice": "precision: bf17", "near-field": "stepz: 3", "far-field": "qqqqqqqq: 3", "sign": "optimizer: {beta1: +.5}",
        "label-twice": "labels: {a: x, a: y}", "no-map": "labels: [a]", "label-nothing": "labels: {a: }",
        "label-number": "labels: {a: 5}", "label-key": "labels: {5: x}",
        "second": "---\nsteps: 1\n---\nsteps: 2\n", "key-list": "? [a]\n: b\n", "key-mapping": "{a: b}: c\n", "nothing": "~",
        "comment": "# nothing\n", "word": "steps", "list": "[steps]", "open": "steps: [1", "tag": "steps: !int 1",
        "alias": "steps: &x 1\nseed: *x\n", "tab": "a:\n  \tb: 1\n", "control": "a: \x01", "delete": "a: \x7f",
        "euro": "data: {prefix: \u20ac\U0001f600\u00e9}", "name-capital": "name: A", "name-nothing": "name:",
        "name-number": "name: 5",
        "whole": "name: jobs/a\nspec: {steps: 1}\n", "whole-unknown": "spec: {}\nspecx: 1\n", "whole-list": "spec: [1]\n",
        "whole-twice": "spec: {steps: 1}\nspec: {steps: 2}\n", "whole-name": "name: jobs/A\nspec: {}\n",
        "dry": "job: {spec: {steps: 3}}\nplan: {}\n", "dry-list": "job: [1]\n", "dry-unknown": "job: {}\nplanx: 1\n",
        "dry-twice": "job: {}\njob: {}\n"}.items()
    for number, bytes_ in enumerate((b"\xff", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
                                     b"\xe2\x82", b"\xe2\x82x")):
        yield f"not-utf8-{number}", b"a: " + bytes_


def client_files():
    yield from {
        "address": "a:1", "addresses": "a:1,[::1]:2", "port-zero": "a:0",
        "local": 'contexts: {home: {coordinator: "127.0.0.1:7070"}}\ncurrent_context: home\n',
        "token": 'contexts: {lab: {coordinator: "a:1", tls: {ca: /ca, token_file: t}}}\ncurrent_context: la\n',
        "far-context": 'contexts: {lab: {coordinator: "a:1"}}\ncurrent_context: qqqqqq\n', "no-context": "current_context: a\n",
        "no-coordinator": "contexts: {a: {}}\n", "context-port": 'contexts: {a: {coordinator: "a:0"}}\n',
        "context-twice": 'contexts: {a: {coordinator: "a:1,a:1"}}\n', "space": " \n", "open": "contexts: {",
        "commands-none": "[]", "commands-number": "[5]", "commands-name": '[{"name": 5}]'}.items()


def words():
    yield from {
        "quota": "a:devices=2,queued=1 b:queued=3", "quota-name": "A:devices=1", "quota-key": "a:x=1",
        "quota-number": "a:devices=0", "quota-twice": "a:queued=1 a:queued=1", "quota-one": "a:devices=1,queued=2",
        "addresses": "a:1,b:2,a:1", "address-good": "[::1]:80", "address-open": "[::1:80", "address-three": "a:b:1",
        "address-port": "a:70000", "address-space": "a b:1", "address-none": ":1", "address-empty": "[]:1",
        "address-control": "a\x01:1",
        "loopback": "127.0.0.1:1", "localhost": "localhost:0", "steps": "3:5", "steps-turned": "5:3", "steps-first": ":2",
        "steps-last": "2:", "steps-none": ":", "step": "7", "step-zero": "0", "name": "jobs/a", "name-hyphen": "jobs/a-",
        "name-long": "jobs/" + "a" * 64, "ago": "90s", "ago-days": "2d1h", "ago-day": "3d", "ago-long": "3h", "ago-minutes": "5m", "ago-negative": "-1s",
        "ago-negative-days": "-1d", "ago-without-end": "inf", "time": "2026-01-02T03:04:05.5Z", "time-shown": "2026-01-02 03:04:05 UTC",
        "time-early": "1960-01-02T03:04:05Z", "time-late": "infinite-future", "time-epoch": "1970-01-01T00:00:00.5Z",
        "characters": "\n\t\r\x01\x7f \u00e9 \u200e\u2028\u202a\u2066\u061c \U0001f600"}.items()
    for number, bytes_ in enumerate((b"\xff", b"\xc3", b"\xc3(", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80")):
        yield f"not-utf8-{number}", b"a" + bytes_


def line_filter():
    log = "2026-01-02T03:04:05.678Z info  a: one\nno time\n2026-01-02T03:04:06.000Z warn  a: two\nlast"
    yield from {
        "all": "\n\n" + log, "since": "1767323046\n\n" + log, "grep": "\none|last\n" + log, "both": "1767323046 5 10\nt\n" + log,
        "tail": "0 0 100001\n\n", "tail-negative": "0 0 -1\n\n", "grep-wrong": "\n(\n" + log, "grep-long": "\n" + "a" * 1001 + "\n",
        "grep-control": "\n[\x01\n", "times": "1\n\n2026-01-02T03:04:05.67xZ\n2026-01-02 03:04:05.678Z\n2026\n"}.items()


def kernel_tables():
    memory = "MemTotal:       1024 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n"
    first, second = "4:cpu,memory:/a/b\n3:cpu:/\n", "0::/a/b\n"
    def of(*tables):
        return "\n%%\n".join(tables)
    yield from {
        "first": of(memory, first, "4096\n", "2048\n", "total_inactive_file 100\n"),
        "second": of(memory, second, "4096\n", "8192\n", "inactive_file 9000\n"),
        "no-limit": of(memory, second, "max\n", "2048\n"), "no-groups": memory, "no-total": "MemAvailable: 1 kB\n",
        "no-available": "MemTotal: 1 kB\n", "unit": "MemTotal: 1 MB\nMemAvailable: 1 kB 2\n", "no-unit": "MemTotal: 1\nMemAvailable: 1\n",
        "huge": "MemTotal: 9223372036854775807 kB\nMemAvailable: 1 kB\n",
        "turned": of(memory, second, "-9223372036854775808\n", "9223372036854775807\n", "inactive_file -9223372036854775808\n"),
        "lines": of(memory, "x\n0:a\n:::\n0::/\n0::/a/b/c/\n", "1\n", "x\n", "y\n")}.items()


def notes():
    yield from {
        "settings": '{"optimizer.decay_steps": "150", "seed": "1234"}', "settings-number": '{"seed": 1}', "settings-list": "[]",
        "settings-steps": '{"optimizer.decay_steps": "x"}', "nothing": "", "open": "{", "twice": '{"a": "1", "a": "2"}',
        "project": '{"project": "speech"}', "project-other": '{"project": "vision"}', "project-none": '{"project": ""}',
        "project-number": '{"project": 1}', "project-more": '{"project": "a", "b": "c"}',
        "deep": "[" * 40, "not-utf8": b'{"a": "\xff"}'}.items()
    note = '{"kind": "bytes", "vocab_size": 257, "end_of_document": 256, "hash": "00"}'
    yield "note", note
    yield "note-masked", note.replace("}", ', "masked": true}')
    yield from wrong(note, note_kind=('"bytes"', "1"), note_hash=('"hash"', '"hush"'), note_size=("257", "-1"), note_large=("257", "4294967296"),
                     note_end=("256", "257"), note_no_end=('"end_of_document"', '"end"'), note_masked_not=("}", ', "masked": false}'),
                     note_more=("}", ', "more": 1}'))


def weave_plan():
    head = "weave f0|b0 pace=1\n"
    yield from {
        "good": head + "  f ln1 qkv L1 s1\n  b d.head s1\n  b loss\n", "pace": "weave f0|b0 pace=x",
        "pace-far": "weave f0|b0 pace=9999999",
        "half-cell": "weave f0 pace=1", "letter": "weave g0|b0 pace=1", "signed": "weave f-1|b0 pace=1", "no-pace": "weave f0|b0",
        "strand": head + "x a\n", "barrier": head + "  |\n  f ln1 L1 s1\n", "barrier-more": head + "| L0\n", "blank": head + "\n\n", "no-word": head + "f L1 s1\n", "capital": head + "f A\n",
        "long": head + "f " + "A" * 90 + "\n", "twice": head + head, "cell": "weave f1|b1 pace=1",
        "two": "weave f0|b1 pace=1\nweave f1|b0 pace=0",
        "cells": "weave f0|b0 pace=1\nweave f1|b1 pace=1", "layer": head + "f ln1 L2 s0\n", "slice": head + "f ln1 L1 s2\n",
        "last-layer": head + "f ln1 L0 s1\n", "last-slice": head + "f ln1 L1 s0\n", "unknown": head + "f nothing L1 s1\n",
        "without-layer": head + "f ln1 s1\n", "with-layer": head + "f head L1 s1\n"}.items()


PROGRAM = """program rank=0 world=2
group tp 0,1
lane compute
lane comm.tp
buffer %0 a f32 2,2 parameter @0
buffer %1 b bf16 2 activation alias=%0+1
buffer %2 c i32 2 input
0 compute layer_norm L0.x fwd mb0 s1 in=%0 out=%1 epsilon=0.5
1 comm.tp all_reduce Lx.y bwd in=%0 out=%0 on=tp wait=0
"""


def program_text():
    yield "whole", PROGRAM
    yield "none", "\n"
    yield "before", "lane compute\n"
    yield from wrong(
        PROGRAM, program_twice=("group tp", "program rank=0 world=2\ngroup tp"), program_words=(" world=2", ""),
        rank_word=("rank=0", "rank:0"),
        world_word=("world=2", "world:2"), world=("world=2", "world=0"), rank=("rank=0", "rank=2"),
        group_words=("tp 0,1", "tp 0 1"),
        group_rank=("tp 0,1", "tp 0,2"), lane_words=("lane compute", "lane compute x"), buffer_words=(" parameter @0", ""),
        buffer_id=("buffer %0", "buffer 0"), buffer_order=("buffer %0", "buffer %1"), buffer_number=("buffer %0", "buffer %x"),
        dtype=("f32", "f64"), shape=("2,2", "2,x"), elements=("2,2", "1099511627776,2"), arena=("parameter", "parameters"),
        offset=("@0", "@x"), alias=("alias=%0", "alias=%1"), alias_offset=("%0+1", "%0+x"), buffer_word=("@0", "at=0"),
        op_words=("0 compute layer_norm L0.x fwd mb0 s1 in=%0 out=%1 epsilon=0.5", "0 compute layer_norm"),
        op_number=("0 compute", "x compute"),
        op_order=("0 compute", "1 compute"), op_lane=("0 compute", "0 nothing"), op_kind=("layer_norm", "nothing"),
        phase=("fwd", "forth"),
        operand=("in=%0", "in=%7"), operand_form=("in=%0", "in=0"), result=("out=%1", "out=x"), group=("on=tp", "on=dp"),
        wait=("wait=0", "wait=x"),
        real=("epsilon=0.5", "epsilon=nan"), negative=("epsilon=0.5", "epsilon=-1"), micro_batch=("mb0", "mbx"),
        op_slice=("s1", "sx"),
        op_word=("s1", "q1"), attribute=("layer_norm L0.x", "rotary L0.x"))
    yield from wrong(PROGRAM.replace("layer_norm L0.x", "embed L0.x").replace("epsilon=0.5", "first=1"),
        attribute_of_another=("first=1", "base=1"))
    yield from wrong(PROGRAM.replace("layer_norm L0.x", "add_position L0.x").replace("epsilon=0.5", "first=1"),
        attribute_far=("first=1", "first=-1"))


PROFILE = """stretto costs 2
machine cpu
build 0.5.0
link latency 2e-05 spread 0.03
link bandwidth 125000000 spread 0.004
link cpu 0.125
link burst 262144
pair product all_reduce 0.25 0.5 turn 0.004 spread 0.02
operation 0.5 spread 0.02 gelu f32[8,16] > f32[8,16]
end 10
"""
TUNING = "tn m 4096 n 8192 k 1024 lda 1024 ldb 1024 ldd 4096 bf16 f32 bias 1 beta 0 align 16 sms 0 us 93.4 limited 1 workspace 0 algorithm"
ATTENTION = ("attention length 2048 heads 32 kv_heads 8 head_dim 128 backward 0 repeatable 0 library 91900 own_us 310.5 library_us 240.5 "
             "together 1")
TUNINGS = (f"stretto tuning 4\ndevice NVIDIA H200\nlibrary 130100\n{TUNING}" + "".join(f" {word:016x}" for word in range(8)) +
           f"\n{ATTENTION}\nend 2\n")


def costs():
    yield "table", "# measured\ngemm f32[1024,384] 0.25\n\nfwd fc1 gemm 1e-3 # ours\n"
    yield "table-word", "gemm"
    yield "profile", PROFILE
    yield "profile-alone", "stretto costs 2\nmachine m\nbuild b\nend 4\n"
    yield from ((f"profile-{name}", text) for name, text in wrong(
        PROFILE, title=("costs 2", "costs x"), version=("costs 2", "costs 1"), behind=("end 10\n", "end 10\nend 11\n"),
        cut=("end 10\n", ""),
        no_machine=("machine cpu\n", ""), count=("end 10", "end 9"), word=("machine", "nothing"),
        name=("machine cpu", "machine "),
        name_twice=("build 0.5.0", "machine cpu"), link=("link cpu", "link burst"),
        links=("pair product", "link x 1\npair product"),
        share=("cpu 0.125", "cpu 1"), zero=("latency 2e-05", "latency 0"), not_finite=("latency 2e-05", "latency inf"),
        spread=("spread 0.03", "x 0.03"), spread_far=("spread 0.03", "spread 0.9"), spread_text=("spread 0.03", "spread x"),
        burst=("burst 262144", "burst -1"),
        rest=("burst 262144", "burst 262144 x"), pair=("product all_reduce", "product nothing"),
        pair_class=("product all_reduce", "x all_reduce"),
        pair_share=("0.25 0.5", "0.25 x"), pair_spread=("0.004 spread 0.02", "0.004"), turn=("turn 0.004", "torn 0.004"),
        no_operation=(" gelu f32[8,16] > f32[8,16]", ""),
        bandwidth=("bandwidth 125000000", "bandwidth x")))
    operation = PROFILE.splitlines()[8]
    yield "profile-operation-twice", PROFILE.replace(operation, f"{operation}\n{operation}").replace("end 10", "end 11")
    yield "profile-half-link", PROFILE.replace("link burst 262144\n", "").replace("end 10", "end 9")
    yield "profile-no-build", PROFILE.replace("build 0.5.0\n", "").replace("end 10", "end 9")
    yield "tunings", TUNINGS
    yield "tunings-timed", TUNINGS.replace("us 93.4", "us 0").replace("bf16 f32", "f32 bf16").replace("tn m", "nt m")
    yield from ((f"tunings-{name}", text) for name, text in wrong(
        TUNINGS, title=("tuning 4", "tuning 2"), device=("H200", "H100"), library=("130100", "1"), form=("tn m", "t m"),
            forms=("tn m", "xx m"),
        number=("m 4096", "m 0"), far=("sms 0", "sms 99999"), name=("ldd", "lde"), type=("bf16", "f64"), time=("us 93.4", "us x"),
        hex=("0000000000000001", "x"), more=("0000000000000007", "0000000000000007 1"), less=(" 0000000000000007", ""),
        attention=("own_us 310.5", "own_us 0"), together=("together 1", "together 0"), end=("end 2", "end 3"),
        no_end=("end 2\n", "")))
