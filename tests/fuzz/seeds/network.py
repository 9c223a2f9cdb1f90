# SPDX-License-Identifier: Apache-2.0
"""What comes over the network: certificates, tokens, steps, messages of a worker, requests."""
import json
import pathlib
import struct
import subprocess

from state import framed

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


def message(kind, text):
    """Returns a message of ours in Protobuf's wire format."""
    files = ("job", "worker", "plan", "trainer")
    command = ["protoc", f"--encode=stretto.v1alpha1.{kind}", f"-I{PROTO}",
        *(f"{PROTO}/stretto/v1alpha1/{name}.proto" for name in files)]
    return subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def certificate():
    yield from {f"uri-{n}": f"spiffe://a/stretto/{words}" for n, words in enumerate((
        "coordinator", "worker", "worker/n", "worker/n/m", "user", "user/local", "user/a", "user/a/admin", "user/a/viewer/p",
        "user/a/submitter/p/operator/q", "user/a/viewer/p/admin", "user/a/x", "user/a/viewer/P/admin", "nobody",
        "user/a b"))}.items()
    yield "uri-short", "spiffe://a"
    yield "uri-end", "spiffe://a/stretto"
    yield "uri-other", "https://a/stretto/user/a"


def user_tokens():
    claims = {"aud": "stretto", "exp": 1800003600, "jti": "0" * 32, "nbf": 1799996400,
        "sub": "spiffe://test/stretto/user/alice/admin"}
    yield "claims", json.dumps(claims)
    for name, changes in (("service", {"aud": "x"}), ("id", {"jti": "0"}), ("begin", {"nbf": "x"}), ("end", {"exp": -1}),
        ("end-far", {"exp": 1 << 60}),
                          ("holder", {"sub": 5}), ("worker", {"sub": "spiffe://a/stretto/worker"}), ("turned", {"exp": 5})):
        yield f"claims-{name}", json.dumps(claims | changes)
    yield "claims-list", "[]"
    key = {"crv": "Ed25519", "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "kty": "OKP",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    for name, keys, revoked in (
            ("revoked", [key], [{"exp": 1800000000, "jti": "a" * 32}]), ("none-revoked", [key], []), ("none", [], []),
            ("many", [key] * 17, []), ("number", [5], []),
            ("kind", [key | {"kty": "RSA"}], []), ("id", [key | {"kid": "x"}], []), ("no-list", {}, []),
            ("no-end", [key], [{"jti": "a"}]),
            ("revoked-number", [key], [5])):
        yield f"keys-{name}", json.dumps({"keys": keys, "revoked": revoked})
    yield "token", "YQ.YQ.YQ\n"
    yield "token-word", "YQ"
    yield "token-two", "YQ.YQ"
    yield "token-space", "Y Q.YQ.YQ"
    yield "token-long", "Y" * 4097
    # The header that the target's own key has, with claims and a signature that are none.
    header = "eyJhbGciOiJFZERTQSIsImtpZCI6Ik5heTF6LUdnRFNNbmNxQzdvWDRDRDdlRzltcHJ1MVBxR3JXT1UyN2lKa0EiLCJ0eXAiOiJKV1QifQ"
    yield "token-header", header + ".e30.AAAA"
    yield "token-forged", header + ".e30." + "A" * 86


PROGRAM = """record { program { machine: "m" groups: "tp" groups: "dp" lanes: "compute" lanes: "comm.tp" lanes: "empty" operation_count: 4
  operations { lane: 0 kind: "gemm" label: "L0.fc1 fwd" phase: "forward" }
  operations { lane: 1 kind: "all_reduce" label: "L0" phase: "forward" group: "tp" waits: 0 }
  operations { lane: 1 kind: "recv" label: "L1" phase: "backward" group: "tp" waits: 0 }
  operations { lane: 0 kind: "gemm" label: "L1.fc1" phase: "backward" waits: 2 } } }"""
STEP = """record { step { step: 1 begin_nanoseconds: 1000 end_nanoseconds: 2000 begin_time { seconds: 1800000000 }
  report { step: 1 loss: 3.5 grad_norm: 1 tokens: 128 wall_seconds: 0.5 evaluation { loss: 3 } ledger { communication_seconds: 1 hidden_seconds: 0.5 } }
  data_waits { begin_nanoseconds: -5 begin_nanoseconds: 900 duration_nanoseconds: 10 duration_nanoseconds: 5 }
  checkpoint_waits { begin_nanoseconds: 920 duration_nanoseconds: 10 }
  evaluations { begin_nanoseconds: 940 duration_nanoseconds: 30 }
  operations { begin_nanoseconds: 10 begin_nanoseconds: 50 begin_nanoseconds: 300 begin_nanoseconds: 60
               duration_nanoseconds: 90 duration_nanoseconds: 200 duration_nanoseconds: 100 duration_nanoseconds: 100 } } }"""


def trace():
    def response(text):
        return message("StreamJobTraceResponse", text)

    program, step = response(PROGRAM), response(STEP)
    yield "whole", framed(program, step, response(STEP.replace("step: 1", "step: 2").replace("end_nanoseconds: 2000",
        "end_nanoseconds: 20000000000")))
    yield "two-machines", framed(program, step, response("rank: 1 " + PROGRAM.replace('"m"', '"n"')), response("rank: 1 " + STEP))
    yield "no-machine", framed(response(PROGRAM.replace('machine: "m"', "")), step)
    yield "parts", framed(response('record { program { operation_count: 1 lanes: "a" } }'),
                          response('record { program { operations { lane: 0 kind: "a" phase: "forward" } } }'),
                          response("record { step { step: 1 data_waits {} } }"), response("record { warning: 'lost' }"),
                          response("record {}"))
    yield "half-step", framed(program, response("record { step { step: 1 } }"), response("record { step { step: 2 } }"))
    yield "half-program", framed(response("record { program { operation_count: 1 } }"), step)
    yield "no-program", framed(response("record { step { step: 1 } }"))
    for name, old, new in (("lane", "lane: 0", "lane: 9"), ("phase", '"forward"', '"x"'), ("group", 'group: "tp"', 'group: "x"'),
        ("wait", "waits: 0", "waits: 9")):
        yield f"program-{name}", framed(response(PROGRAM.replace(old, new, 1)))
    for name, old, new in (
            ("durations", "duration_nanoseconds: 90", ""), ("duration", "duration_nanoseconds: 90", "duration_nanoseconds: -1"),
            ("begin", "begin_nanoseconds: 10 ", "begin_nanoseconds: 9223372036854775807 "),
            ("intervals", "duration_nanoseconds: 90", "duration_nanoseconds: 90 begin_nanoseconds: 1 duration_nanoseconds: 1"),
            ("step-begin", "begin_nanoseconds: 1000", "begin_nanoseconds: -1"),
            ("step-end", "end_nanoseconds: 2000", "end_nanoseconds: 1"),
            ("second", "seconds: 1800000000", "seconds: -1"), ("loss", "loss: 3.5", "loss: nan"),
            ("disagrees", "begin_nanoseconds: 10 ", "begin_nanoseconds: 900 "),
            ("before", "begin_nanoseconds: 10 ", "begin_nanoseconds: -900 ")):
        yield f"step-{name}", framed(program, response(STEP.replace(old, new, 1)))
    yield "names", framed(response(PROGRAM.replace('"L0"', '"\\033[2J"').replace('"empty"', '"a\\nb"')), step)


def worker_message():
    for name, text in (
            ("kind", "register { devices { kind: 99 } }"), ("number", "register { newest_epoch: -5 }"),
            ("control", 'register { host: "a\\001" }'),
            ("long", 'register { host: "' + "h" * 300 + '" }'), ("prose", 'report { exit { message: "a\\001" } }'),
            ("prose-long", 'report { exit { message: "' + "\\001" * 3000 + '" } }'),
            ("prose-too-long", 'report { exit { message: "' + "m" * 9000 + '" } }'),
            ("time", "heartbeat { time { seconds: -1 } }"), ("not-finite",
            "report { step { ledger { wall_seconds: inf } loss: nan } }"),
            ("entries", "report { step { ledger {" + "entries {}" * 300 + "} } }"),
            ("facts", 'inspection { facts: "a\\001" problems { field: "a\\001" } }'),
            ("samples", 'report { samples { samples { prompt: "a" text: "b" } } }'),
            ("log", 'log_data { data: "\\001" record { warning: "w" } }')):
        yield name, message("WorkerMessage", text)
    yield "unknown", message("WorkerMessage", 'register { host: "a" }') + b"\xa0\x06\x01"


def coordinator_message():
    def session(*texts):
        messages = [message("CoordinatorMessage", text) for text in texts]
        return b"".join(struct.pack("<H", len(one)) + one for one in messages)
    uid = "0123456789abcdef0123456789abcdef"
    job = f'job_uid: "{uid}" epoch: %d'
    assign = f'assign {{ job_id: "gpt" {job} world_size: 2 ranks {{ rank: 0 slot: 0 }} ranks {{ rank: 1 slot: 1 }} }}'
    stop = f"stop {{ {job} }}"
    held = f"registered {{ held {{ {job} rank: %d keep: %s acked_sequence: %d }} cluster_id: \"c\" }}"
    yield "whole", session("registered { cluster_id: 'c' }", assign % 1, f"save {{ {job % 1} request: 1 }}", stop % 1,
        f"ack {{ {job % 1} rank: 0 sequence: 1 }}", assign % 2, stop % 2)
    yield "epochs", session(assign % 2, assign % 1, assign % 3, stop % 2, assign % 3, stop % 3)
    yield "held", session(assign % 1, held % (1, 0, "true", 0), held % (1, 1, "false", 0), stop % 1)
    yield "acked-far", session(assign % 1, held % (1, 0, "true", (1 << 63) - 1), held % (1, 1, "true", -5), stop % 1)
    yield "epoch-far", session(assign % ((1 << 63) - 1), assign % -(1 << 63), stop % ((1 << 63) - 1))
    for name, folder in (("up", ".."), ("slash", "a/b"), ("empty", ""), ("nothing", "a\\000b")):
        yield f"name-{name}", session((assign % 1).replace('"gpt"', f'"{folder}"'), (assign % 1).replace(uid, folder.ljust(8, "/")))
    yield "log", session(assign % 1, f"log_request {{ stream: 1 {job % 1} }}", f"log_request {{ {job % 2} rank: -1 }}")
    yield "half", session(assign % 1, stop % 1)[:-3]


def trainer_message():
    def reports(*texts, ids='job_id: "gpt" job_uid: "0123456789abcdef0123456789abcdef" epoch: 1', first=1):
        messages = [message("TrainerMessage", "report { %s sequence: %d %s }" % (ids, n, text)) for n, text in enumerate(texts, first)]
        return b"".join(struct.pack("<H", len(one)) + one for one in messages)
    step = "step { step: 1 loss: 2.5 tokens: 8 ledger { wall_seconds: 1 entries { part: COMPUTE_ALONE seconds: 1 } } }"
    yield "whole", reports("prepared { peak_flops: 1e12 }", "first_operation { time { seconds: 1 } }", step,
        "checkpoint { step: 1 bytes: 5 }", 'warning { condition: "LogIntact" }', 'exit { reason: "Completed" }')
    yield "other", reports(step, 'exit { reason: "Completed" }', ids='job_id: "other" job_uid: "x" epoch: 2 rank: 3')
    yield "other-log", reports(step, 'exit { reason: "Completed" }', ids='job_id: "other" job_uid: "x" epoch: 2 rank: 3', first=5)
    yield "job", reports(step, ids='job_id: "\\"} 1" job_uid: "0123456789abcdef0123456789abcdef" epoch: 1')
    yield "twice", reports(step, 'exit { reason: "Completed" }', step)
    yield "prose", reports('exit { message: "\\001" reason: "\\001" }')
    yield "entries", reports("step { ledger {" + "entries { part: 99 }" * 300 + "} loss: nan }")
    yield "number", reports("step { step: -5 tokens: -5 ledger { wall_seconds: -1 entries { part: EXPOSED seconds: inf } } }")
    yield "half", reports(step, step)[:-9]
    dropped = "dropped { reports: %d ledger { wall_seconds: 3 } }" + step
    yield "dropped", reports(step, dropped % 3, step, dropped % -1, dropped % (1 << 62))
    yield "dropped-first", reports(dropped % 5, 'exit { reason: "Completed" }', first=6)


def request_CreateJob():
    job = 'job_id: "new" job { spec { model { preset: "gpt-tiny" } data { prefix: "text" } steps: 5 } }'
    yield "id", message("CreateJobRequest", job.replace("new", "New"))
    yield "request-id", message("CreateJobRequest", job + 'request_id: "a b"')
    yield "request-id-long", message("CreateJobRequest", job + 'request_id: "' + "r" * 129 + '"')
    yield "no-spec", message("CreateJobRequest", 'job_id: "new"')
    yield "unknown", message("CreateJobRequest", job) + b"\xa0\x06\x01" * 9
    # The job again, with fields in its spec that nobody knows, and in the parts of a blend.
    for name, inner in (("unknown-spec", b"\xa0\x06\x01"), ("unknown-part", b"\x12\x05\x12\x03\xa0\x06\x01")):
        spec = bytes([0x1a, len(inner)]) + inner
        yield name, message("CreateJobRequest", job) + bytes([0x12, len(spec)]) + spec


def request_ListJobs():
    for name, text in (
            ("project-bad", 'project: "A"'), ("state", "states: RUNNING states: PENDING"),
            ("state-none", "states: STATE_UNSPECIFIED"), ("state-far", "states: 99"),
            ("labels", "labels { key: 'a' value: 'b' } labels { key: 'c' }"), ("labels-many", "labels { key: 'a' }" * 65),
            ("label-key", "labels { key: '-' }"),
            ("label-value", "labels { key: 'a' value: '-' }"), ("retired", "retired: true"),
            ("retired-labels", "retired: true labels { key: 'a' }"), ("size", "page_size: 5"), ("size-negative", "page_size: -1")):
        yield name, message("ListJobsRequest", text)


def request_GetJob():
    for name in ("jobs/runs", "jobs/A", "runs", "jobs/none"):
        yield name.replace("/", "-"), message("GetJobRequest", f'name: "{name}"')


def page():
    key = "Bearer 0123456789abcdef"
    for name, path in (("index", "/"), ("script", "/main.js"), ("palette", "/palette.css"), ("jobs", "/api/jobs"), ("job", "/api/jobs/gpt"),
        ("events", "/api/jobs/gpt/events"), ("steps", "/api/jobs/gpt/steps"), ("timeline", "/api/jobs/gpt/timeline.svg"),
        ("workers", "/api/workers"), ("other", "/api/other"), ("deep", "/api/jobs/gpt/a/b"), ("part", "/api/jobs/gpt/a"),
        ("worker", "/api/workers/a"), ("none", "/none"), ("no-job", "/api/jobs/b"), ("bad-job", "/api/jobs/B"), ("nothing", ""),
        ("control", "/\x1b[2J")):
        yield name, f"{path}\n\nlocalhost:9090\n{key}\n1\n"
    job = "/api/jobs/gpt/timeline.svg"
    for name, query in (("step", "step=3"), ("step-zero", "a=b&step=0"), ("step-word", "step=\x01"), ("step-twice", "step=1&step=2")):
        yield name, f"{job}\n{query}\n\n\n\n"
    yield "token", "/api/jobs\npage_token=x\n\n\n\n"
    for name, host in (("v4", "127.0.0.1:1"), ("v6", "[::1]:1"), ("v6-bare", "::1]"), ("name", "evil.example:9090"), ("word", "localhost")):
        yield f"host-{name}", f"/api/jobs\n\n{host}\n{key}\n\n"
    for name, words in (("other", "Bearer x"), ("dots", "Bearer a.b.c"), ("none", "")):
        yield f"key-{name}", f"/api/jobs\n\n\n{words}\n\n"
    text = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    yield "certificate", f"/api/jobs\n\n\n\n1\n{text}"
    yield "certificate-alone", f"/api/jobs\n\n\n\n\n{text}"
    yield from {"listen-loopback": "127.0.0.1:1", "listen-all": "0.0.0.0:9090", "key-good": "0" * 64, "key-short": "0" * 63}.items()


def gate():
    def hello(magic=b"stretto1", rank=2, to=1):
        return magic + struct.pack("<ii", rank, to) + bytes(32)

    yield "hello-proof", hello() + bytes(32)
    yield "hello-half-proof", hello() + bytes(5)
    yield "hello-magic", hello(magic=b"stretto2")
    yield "hello-rank", hello(rank=0)
    yield "hello-rank-far", hello(rank=9)
    yield "hello-to", hello(to=3)
    yield "answer", bytes(64)
