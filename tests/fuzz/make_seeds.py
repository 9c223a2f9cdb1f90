#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs tests/fuzz/corpus/TARGET/made-* : whole values with every field, where the fuzzer would have to guess names.

    tests/fuzz/make_seeds.py
"""
import json
import pathlib

CORPUS = pathlib.Path(__file__).with_name("corpus")


def field(number, content):
    """A field of Protobuf with a length below 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def job():
    failure = {"rank": 0, "worker": "w", "exit_code": 1, "signal": 9, "reason": "r", "message": "m", "step": 3, "phase": "forward",
               "last_operation": "o", "time": 5}
    return {
        "world_size": 2, "split_blocks": True, "stages": [[1, 2], [2, 1]], "layouts": [[[1, 1]]], "layout": 1, "labels": {"a": "b"},
        "device_kind": 1, "total_steps": 9, "priority": 2, "project": "p", "owner": "o", "saves": True, "request_id": "q", "state": 3,
        "conditions": [{"type": "Scheduled", "status": 1, "reason": "r", "message": "m", "time": 1}],
        "create_time": 1, "start_time": 2, "end_time": 3, "attempt": 2, "epoch": 4,
        "ranks": [{"worker": "w", "slot": 1, "state": 3, "exit_code": 0, "signal": 0, "exit_reason": "", "last_step": 1}],
        "restart": {"max": 3, "backoff": 5, "on": [1, 2]}, "restarts": 1,
        "attempts": [{"number": 1, "epoch": 3, "workers": ["w"], "start_time": 1, "end_time": 2, "from_step": 0, "saved_step": 1,
                      "steps": 2, "cause": 1, "layout": 0, "first_failure": failure}],
        "next_attempt_time": 7, "suspend_time": 8, "paused": 9, "preempted_by": "x", "stop_reason": "s", "stop_with_checkpoint": True,
        "first_failure": failure, "suspect": failure, "last_checkpoint": "c", "best_checkpoint": "b", "last_checkpoint_step": 1,
        "checkpoint_request": 2, "submit_to_first_operation": 3, "submit_to_first_step": 4,
        "events": [{"number": 1, "time": 2, "state": 3, "reason": "r", "message": "m", "caller": "c", "count": 1}]}


def stored_state():
    yield "job", json.dumps(job())
    yield "job-state", json.dumps(job() | {"state": 99})
    yield "job-layout", json.dumps(job() | {"layout": 7})
    yield "worker", json.dumps({"incarnation": "i", "host": "h", "build": "b", "state": 1, "register_time": 1, "cordon": "c",
                                "devices": [{"slot": 0, "kind": 1, "description": "d", "memory_bytes": 1, "fault": "f"}],
                                "faults": [1, 2]})
    yield "part", field(1, field(1, b"key") + field(2, b"value")) + field(1, field(1, b"gone") + b"\x18\x01")
    # Four bytes a frame (page, size, wrong, filling), then the database: whole, continued after damage, of the other order.
    for name, order in (("big", b"\x01"), ("little", b"\x02")):
        yield f"log-{name}", order + b"\x01\x00.a" + b"\x02\x02.b" + b"\x03\x03.c" + b"\x09\x00.d" + b"\x00\x00" + b"p" * 40
        yield f"log-damaged-{name}", order + b"\x01\x01xa" + b"\x02\x02.b" + b"\x02\x02.c" + b"q" * 17
    # A leaf of a table with a record of every type of value, and one that continues on another page.
    header = bytes([0, 1, 2, 3, 4, 5, 6, 8, 9, 14, 15])
    record = bytes([len(header) + 1]) + header + bytes(1 + 2 + 3 + 4 + 6 + 8 + 1 + 1)
    cell = bytes([len(record), 5]) + record
    long = bytes([0x82 | 0xa0, 0x10, 7]) + b"\x03\x00\xc0" + bytes(4000)
    page = bytearray(4096)
    page[0], page[3:5], page[8:10], page[10:12] = 13, bytes([0, 2]), (4000).to_bytes(2, "big"), (20).to_bytes(2, "big")
    page[4000:4000 + len(cell)] = cell
    page[20:20 + 3000] = long[:3000]
    yield "leaf", bytes(page) + bytes([0, 0, 0, 1]) + bytes(100)


def note(**changes):
    fields = {"family": "llama", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn_hidden": 128, "sequence_length": 128,
              "vocab_size": 256, "norm_epsilon": 1e-5, "tied_head": False, "rotary_base": 10000,
              "rotary_scaling": {"kind": "llama3", "factor": 8, "low_frequency_factor": 1, "high_frequency_factor": 4,
                                 "original_sequence_length": 64},
              "weights": "BF16", "tokenizer": "bytes"}
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not None})


def hf_config():
    yield "note", note()
    yield "note-linear", note(rotary_scaling={"kind": "linear", "factor": 2})
    yield "note-none", note(rotary_scaling={"kind": "none"})
    yield "note-order", note(rotary_scaling={"kind": "llama3", "factor": 8, "low_frequency_factor": 4, "high_frequency_factor": 4,
                                             "original_sequence_length": 64})
    yield "note-gpt", note(family="gpt", rotary_base=None, rotary_scaling=None, kv_heads=4)
    yield "note-wrong", note(family="x", layers=0, weights="x")
    yield "index-escape", json.dumps({"weight_map": {"a": "../b"}})
    yield "index-number", json.dumps({"weight_map": {"a": 1}})


def words():
    yield from {"quota": "a:devices=2,queued=1 b:queued=3", "quota-name": "A:devices=1", "quota-key": "a:x=1",
                "quota-number": "a:devices=0", "quota-twice": "a:queued=1 a:queued=1", "addresses": "a:1,b:2,a:1"}.items()


def certificate():
    yield from {f"uri-{n}": f"spiffe://a/stretto/{words}" for n, words in enumerate((
        "coordinator", "worker", "worker/n", "worker/n/m", "user", "user/local", "user/a", "user/a/admin", "user/a/viewer/p",
        "user/a/submitter/p/operator/q", "user/a/viewer/p/admin", "user/a/x", "user/a/viewer/P/admin", "nobody", "user/a b"))}.items()
    yield "uri-short", "spiffe://a"
    yield "uri-end", "spiffe://a/stretto"
    yield "uri-other", "https://a/stretto/user/a"


def main():
    for seeds in (stored_state, hf_config, words, certificate):
        for name, content in seeds():
            path = CORPUS / seeds.__name__ / f"made-{name}"
            path.write_bytes(content.encode() if isinstance(content, str) else content)


main()
