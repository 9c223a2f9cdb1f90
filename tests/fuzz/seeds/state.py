# SPDX-License-Identifier: Apache-2.0
"""What programs write and read again: records of a run, the coordinator's state, the record of a CA."""
import json
import struct

from models import changed


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def record(message, damage=0):
    return struct.pack("<II", len(message), crc32c(message) ^ damage) + message


def field(number, content):
    """A field of Protobuf with a length below 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def report(sequence):
    """A RankReport with an exit."""
    number = bytes([sequence & 0x7f | 0x80, sequence >> 7]) if sequence > 127 else bytes([sequence])
    return field(2, b"u") + b"\x18\x01\x28" + number + field(10, b"")


def framed(*messages):
    """Messages each after its length, which the target frames."""
    return b"".join(len(message).to_bytes(2, "little") + message for message in messages)


def flight_page(magic=0x0003544847494c4653, phase=3, channels=2):
    page = struct.pack("<QqI4xq4qqqqI4x", magic, 7, phase, 1000, 18, 900, 17, 950, 1000, 500, 2000, channels)
    channel = struct.pack("<32sqqqiII4x", b"tp", 5, 4, 970, 3, 1, 3)
    return (page + 48 * channel).ljust(4096, b"\0")


def records():
    good, lost = record(report(1)), record(report(3))
    yield "reports", good + record(report(2))
    yield "reports-damaged", good + b"\xff" * 12 + lost + b"xyz"
    yield "reports-checksum", good + record(report(2), damage=1) + lost
    yield "reports-again", good + record(report(2), damage=1) + record(report(1)) + lost
    yield "reports-far", good + record(report(2), damage=1) + record(report(9000)) + lost
    yield "reports-other", good + record(b"\xff\xff") + lost
    yield "reports-zeros", good + bytes(20)
    yield "reports-no-length", good + bytes(8) + b"x" * 20
    yield "reports-two-lost", good + record(report(4))
    # Steps, of which the target's log of 64 bytes keeps the newest, and of the others an evaluation.
    step = lambda number, inner=b"": record(field(2, b"u") + bytes([0x18, 1, 0x28, number]) + field(8, b"\x08" + bytes([number]) + inner))
    steps = b"".join(step(number) for number in range(1, 9))
    yield "reports-steps", steps
    yield "reports-evaluated", step(1) + step(2, field(13, b"")) + step(3) + step(4, b"\x48\x01") + step(5)
    yield "reports-long", b"".join(step(number, field(13, b"")) for number in range(1, 30))
    yield "reports-dropped", good + record(report(9) + field(14, b"\x08\x07")) + record(report(10) + field(14, b"\x08\x63")) + record(report(11))
    yield "reports-kinds", record(report(1)[:-2] + field(6, b"")) + record(report(2)[:-2] + field(7, b"")) + b"".join(step(number) for number in range(3, 9))
    # Half of the bytes are the program, the others the steps.
    step = [field(2, bytes([8, number])) for number in (1, 2)]
    machine = lambda size: field(1, field(1, b"m" * size))
    yield "trace-two", framed(machine(12), *step)
    yield "trace-one", framed(machine(0), step[0])
    yield "trace-none", framed(machine(4))
    yield "trace-other", framed(machine(0), b"\xff\xff\xff\xff")
    yield "trace-program-other", framed(b"\xff\xff\xff\xff", step[0])
    yield "trace-warning", framed(machine(0), field(3, b"ab"))
    steps = record(step[0], damage=1) + record(step[1])
    yield "trace-damaged", record(machine(len(steps) - 12)) + steps
    torn = record(step[0]) + record(step[1])[:-1]
    yield "trace-torn", record(machine(len(torn) - 12)) + torn
    yield "flight", flight_page()
    yield "flight-magic", flight_page(magic=1)
    yield "flight-phase", flight_page(phase=99)
    yield "flight-channels", flight_page(channels=1 << 31)
    yield "position", bytes([8 * phase + 1 for phase in range(10)]) + bytes(range(8)) + b"\xff"
    yield "position-channels", b"\x03" * 60 + b"\x04\x05\x06"


def job():
    failure = {"rank": 0, "worker": "w", "exit_code": 1, "signal": 9, "reason": "r", "message": "m", "step": 3,
    "phase": "forward",
               "last_operation": "o", "time": 5}
    return {
        "world_size": 2, "split_blocks": True, "stages": [[1, 2], [2, 1]], "layouts": [[[1, 1]]], "layout": 1,
        "labels": {"a": "b"},
        "device_kind": 1, "total_steps": 9, "priority": 2, "project": "p", "owner": "o", "saves": True, "request_id": "q",
        "state": 3,
        "conditions": [{"type": "Scheduled", "status": 1, "reason": "r", "message": "m", "time": 1}],
        "create_time": 1, "start_time": 2, "end_time": 3, "attempt": 2, "epoch": 4,
        "ranks": [{"worker": "w", "slot": 1, "state": 3, "exit_code": 0, "signal": 0, "exit_reason": "", "last_step": 1}],
        "restart": {"max": 3, "backoff": 5, "on": [1, 2]}, "restarts": 1,
        "attempts": [{"number": 1, "epoch": 3, "workers": ["w"], "start_time": 1, "end_time": 2, "from_step": 0, "saved_step": 1,
                      "steps": 2, "cause": 1, "layout": 0, "first_failure": failure}],
        "next_attempt_time": 7, "suspend_time": 8, "paused": 9, "preempted_by": "x", "stop_reason": "s",
        "stop_with_checkpoint": True,
        "first_failure": failure, "suspect": failure, "last_checkpoint": "c", "best_checkpoint": "b", "last_checkpoint_step": 1,
        "checkpoint_request": 2, "submit_to_first_operation": 3, "submit_to_first_step": 4,
        "events": [{"number": 1, "time": 2, "state": 3, "reason": "r", "message": "m", "caller": "c", "count": 1}]}


def stored_state():
    yield "job", json.dumps(job())
    for name, path, value in (
            ("state", ("state",), 99), ("layout", ("layout",), 7), ("condition", ("conditions", 0, "status"), 9),
            ("rank", ("ranks", 0, "state"), 9),
            ("attempt", ("attempts", 0, "cause"), 9), ("event", ("events", 0, "state"), 99), ("restart", ("restart", "on"), [9]),
            ("fraction", ("epoch",), 0.5), ("text", ("epoch",), "x"), ("stages", ("stages",), [[1]])):
        yield f"job-{name}", changed(job(), path, value)
    worker = {"incarnation": "i", "host": "h", "build": "b", "state": 1, "register_time": 1, "cordon": "c",
              "devices": [{"slot": 0, "kind": 1, "description": "d", "memory_bytes": 1, "fault": "f"}], "faults": [1, 2]}
    yield "worker", json.dumps(worker)
    yield "worker-state", json.dumps(worker | {"state": 9})
    write = field(1, field(1, b"key") + field(2, b"value"))
    yield "part", write + field(1, field(1, b"gone") + b"\x18\x01")
    yield "part-long", write + field(1, field(1, b"long") + field(2, b"v" * 90)) + field(1, field(1, b"more") + field(2, b"v"))
    # Four bytes a frame (page, size, wrong, filling), then the database: whole, continued after damage, of the other order.
    for name, order in (("big", b"\x01"), ("little", b"\x02")):
        yield f"log-{name}", order + b"\x01\x00.a" + b"\x02\x02.b" + b"\x03\x03.c" + b"\x09\x00.d" + b"\x00\x00" + b"p" * 40
        yield f"log-damaged-{name}", order + b"\x01\x01xa" + b"\x02\x02.b" + b"\x02\x02.c" + b"q" * 17
    yield "log-old", b"\x01" + b"\x01\x01.a" + b"\x02\x02ob" + b"\x02\x02oc" + b"q" * 17
    yield "log-header", b"\x11" + b"\x01\x01.a" + b"\x02\x02.b" + b"q" * 17
    # A leaf of a table with a record of every type of value, and one that continues on another page.
    header = bytes([0, 1, 2, 3, 4, 5, 6, 8, 9, 14, 15])
    values = bytes([len(header) + 1]) + header + bytes(1 + 2 + 3 + 4 + 6 + 8 + 1 + 1)
    cell = bytes([len(values), 5]) + values
    long = bytes([0x82 | 0xa0, 0x10, 7]) + b"\x03\x00\xc0" + bytes(4000)
    yield "leaf", page_of(cell, long[:3000]) + bytes([0, 0, 0, 1]) + bytes(100)
    # A blob of which 489 bytes are in the leaf and 4092 on a page of their own.
    blob = b"\x03\xc7\x50" + bytes(4578)
    for name, following in (("overflow", 2), ("overflow-far", 9)):
        yield f"leaf-{name}", page_of(b"\xa3\x65\x05" + blob[:489] + struct.pack(">I", following)) + bytes(4 + 4092)
    yield "leaf-wrong", page_of(b"\x02\x01\x02\x07", b"\x02\x01\x09\x01", b"\x7f\x01\x02", b"\xff" * 10 + b"\x01",
        b"\x03\x01\x01\x02\x03", b"\x00\x01")
    yield "leaf-cut", page_of(b"\x01\x01")[:8] + b"\xff\xff" + bytes(4086)


def page_of(*cells):
    page = bytearray(4096)
    page[0], page[3:5] = 13, len(cells).to_bytes(2, "big")
    at = 8 + 2 * len(cells)
    for number, cell in enumerate(cells):
        page[8 + 2 * number:10 + 2 * number] = at.to_bytes(2, "big")
        page[at:at + len(cell)] = cell
        at += len(cell)
    return bytes(page[:4096])


def authority():
    issued = "2026-11-26T09:30:00Z issued 4f0c worker-a 2026-11-26T09:25:00Z 2027-02-24T09:30:00Z URI:a\n"
    yield "revoked", issued + "2026-11-27T10:00:00Z revoked 4f0c keyCompromise\n"
    yield "revoked-unknown", issued + "2026-11-27T10:00:00Z revoked 5 keyCompromise\n"
    yield "revoked-time", issued + "yesterday revoked 4f0c keyCompromise\n"
    yield "issued-begin", issued.replace("2026-11-26T09:25:00Z", "x")
    yield "issued-end", issued.replace("2027-02-24T09:30:00Z", "x")
    yield "line", "a b c\n"
    yield "no-list", "a\n==\nb"
