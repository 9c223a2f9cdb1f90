#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Job files, dicts, tables, addresses, contexts and certificate files, without a coordinator.

  spec_test.py SOURCE     (the installed package is on PYTHONPATH)
"""
import fcntl
import json
import math
import pathlib
import random
import sys
import tempfile
import unittest
from unittest import mock

import stretto
from stretto.cluster import choose_cluster
from stretto.fill import fill, values_of
from stretto.tls import TlsFiles
from stretto.v1alpha1 import job_pb2 as pb

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()


class JobTest(unittest.TestCase):
    def refused(self, job, message):
        with self.assertRaises(stretto.InvalidInput) as raised:
            stretto.read_job(job) if isinstance(job, dict) else stretto.parse_job(job, "j.yaml")
        self.assertEqual(str(raised.exception), message)

    def test_every_example_is_read(self):
        examples = sorted((SOURCE / "deploy/examples").glob("*.yaml"))
        self.assertGreater(len(examples), 2)
        for path in examples:
            with self.subTest(path=path.name):
                job = stretto.read_job(path)
                self.assertTrue(job.name and job.spec.steps and job.spec.data.ListFields())

    def test_text_and_dict_are_the_same_job(self):
        text = """
name: gpt
model: {preset: gpt-10m, dropout: 0.1}
data: {blend: [{prefix: a, weight: 0.7}, {prefix: "2024", weight: 1}]}
optimizer: {learning_rate: 1e-3, warmup_steps: +40}
precision: bf16
restart: {on: [crash, node_loss], layouts: [{tp_size: 1}]}
checkpoint: {asynchronous: false}
seed: 18446744073709551615
labels: {team: speech, "2024": "1"}
"""
        values = {
            "name": "gpt", "model": {"preset": "gpt-10m", "dropout": 0.1},
            "data": {"blend": [{"prefix": "a", "weight": 0.7}, {"prefix": "2024", "weight": 1}]},
            "optimizer": {"learning_rate": 1e-3, "warmup_steps": 40}, "precision": "bf16",
            "restart": {"on": ("crash", "node_loss"), "layouts": [{"tp_size": 1}]},
            "checkpoint": {"asynchronous": False}, "seed": 2**64 - 1,
            "labels": {"team": "speech", "2024": "1"}}
        read = stretto.parse_job(text)
        self.assertEqual(read.spec, stretto.read_job(values).spec)
        self.assertEqual(read.name, "gpt")
        self.assertEqual(read.spec.precision, pb.PRECISION_BF16)
        self.assertEqual(read.spec.optimizer.learning_rate, 1e-3)
        self.assertEqual(list(read.spec.restart.on),
                         [pb.RestartSpec.CRASH, pb.RestartSpec.NODE_LOSS])
        self.assertTrue(read.spec.checkpoint.HasField("asynchronous"))
        self.assertEqual(dict(read.spec.labels), {"team": "speech", "2024": "1"})

    def test_a_printed_job_is_a_job_file(self):
        job = "{name: jobs/gpt, uid: 7f, state: running, spec: {steps: 3, seed: 0}, attempt: 1}"
        for text in (job, f"{{job: {job}, fits: true}}"):
            read = stretto.parse_job(text)
            self.assertEqual((read.name, read.spec.steps), ("gpt", 3))
        self.refused("{name: jobs/gpt, spce: {}, spec: {}}", 'j.yaml:1:18: unknown field "spce"; '
                     "expected one of: " + ", ".join(pb.Job.DESCRIPTOR.fields_by_name))
        self.refused("name: jobs/gpt\nspec:\n  stepz: 3\n",
                     'j.yaml:3:10: unknown field "stepz"; did you mean "steps"?')
        self.refused("job: 3\n", "j.yaml:1:6: found 3, expected the fields of a job")

    def test_an_empty_section_is_set(self):
        self.assertTrue(stretto.parse_job("eval: {}").spec.HasField("eval"))

    def test_words_of_yaml_1_1_are_strings(self):
        for word in ("yes", "on", "1:30", "2024-01-01", "0x10"):
            self.assertEqual(stretto.parse_job(f"data: {{prefix: {word}}}").spec.data.prefix, word)

    def test_refusals_name_place_field_found_and_expected(self):
        self.refused("steps: 3.5", "j.yaml:1:8: steps: found 3.5, expected an integer")
        self.refused("\n\nsteps: ten", 'j.yaml:3:8: steps: found "ten", expected an integer')
        self.refused("steps:", "j.yaml:1:7: steps: found nothing, expected an integer")
        self.refused("steps: [1]", "j.yaml:1:1: steps: found a list, expected an integer")
        self.refused("steps: true", "j.yaml:1:8: steps: found true, expected an integer")
        self.refused("parallelism: {tp_size: 4294967296}",
                     "j.yaml:1:24: parallelism.tp_size: found 4294967296, expected an integer from "
                     "-2147483648 to 2147483647")
        self.refused("precision: bf61", 'j.yaml:1:12: precision: found "bf61", expected one of: '
                     'f32, bf16; did you mean "bf16"?')
        self.refused("data: {prefix: 7}", "j.yaml:1:16: data.prefix: found 7, expected a string; "
                     'quote it: "7"')
        self.refused("model: {dropout: .nan}",
                     "j.yaml:1:18: model.dropout: found nan, expected a finite number")
        self.refused("checkpoint: {disabled: 1}",
                     "j.yaml:1:24: checkpoint.disabled: found 1, expected true or false")
        self.refused("restart: {on: crash}", 'j.yaml:1:15: restart.on: found "crash", expected a '
                     "list, each one of: crash, node_loss, hang, out_of_memory, preemption")
        self.refused("model: gpt", 'j.yaml:1:8: model: found "gpt", expected a mapping of: '
                     + ", ".join(pb.ModelSpec.DESCRIPTOR.fields_by_name))
        self.refused("parallelism: {tp_sise: 2}", 'j.yaml:1:24: parallelism: unknown field '
                     '"tp_sise"; did you mean "tp_size"?')
        self.refused("labels: {team: 5}", "j.yaml:1:1: labels[team]: found 5, expected a string; "
                     'quote it: "5"')
        self.refused("labels: gpu", 'j.yaml:1:9: labels: found "gpu", expected a mapping')
        self.refused("name: 5", "j.yaml:1:7: name: found 5, expected a string")
        self.refused({"steps": "ten"}, 'steps: found "ten", expected an integer')
        self.refused({"steps": math.inf}, "steps: found inf, expected an integer")
        self.refused({"steps": {1}}, "steps: found a set, expected an integer")
        self.refused({"data": {"blend": [{"prefix": "a"}, {"weight": "b"}]}},
                     'data.blend[1].weight: found "b", expected a number')

    def test_unusual_yaml_is_refused(self):
        self.refused("", "j.yaml:1:1: found nothing, expected fields")
        self.refused("- a", "j.yaml: found a list, expected the fields of a job")
        self.refused("steps: 1\nsteps: 2",
                     "j.yaml:2:1: steps: duplicate field; first given on line 1")
        self.refused("a: &x 1\nb: *x",
                     "j.yaml:1:4: found an anchor or an alias, expected the value itself")
        self.refused("steps: !!int 5",
                     "j.yaml:1:8: found the tag tag:yaml.org,2002:int, expected a value without one")
        self.refused("? [a]\n: b", "j.yaml:1:3: found a key that is not a word, expected a field "
                     "name")
        with self.assertRaisesRegex(stretto.InvalidInput, r"j.yaml:2:1: .*document"):
            stretto.parse_job("steps: 1\n---\nsteps: 2", "j.yaml")

    def test_files_that_cannot_be_read_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            absent, binary = pathlib.Path(folder, "absent.yaml"), pathlib.Path(folder, "binary.yaml")
            binary.write_bytes(b"name: \xff")
            with self.assertRaisesRegex(stretto.InvalidInput, f"{absent}.*No such file"):
                stretto.read_job(str(absent))
            with self.assertRaisesRegex(stretto.InvalidInput,
                                        f"{binary}: found byte 0xff at 6, expected UTF-8"):
                stretto.read_job(binary)
        with self.assertRaisesRegex(stretto.InvalidInput, "found 7, expected a dict, the path"):
            stretto.read_job(7)

    def test_damaged_text_is_read_or_refused_and_nothing_else(self):
        text = (SOURCE / "deploy/examples/first-job.yaml").read_text()
        draw = random.Random(18)
        for _ in range(400):
            at = draw.randrange(len(text))
            damaged = text[:at] + draw.choice("{}[]:,&*!|>'\"%@`\t\x00\n 9-#") + text[at + 1:]
            try:
                stretto.parse_job(damaged, "j.yaml")
            except stretto.InvalidInput as error:
                self.assertTrue(str(error).startswith("j.yaml"), error)

    def test_the_values_of_a_message_fill_it_again(self):
        texts = [path.read_text() for path in sorted((SOURCE / "deploy/examples").glob("*.yaml"))]
        texts.append('{model: {preset: gpt-10m, dropout: 0.1}, precision: bf16, eval: {}, '
                     'checkpoint: {asynchronous: false}, seed: 18446744073709551615, '
                     'data: {blend: [{prefix: a, weight: 0.7}, {prefix: "2024", weight: 1}]}, '
                     'restart: {on: [crash, node_loss], layouts: [{tp_size: 1}]}, '
                     'labels: {team: speech, "2024": "1"}}')
        self.assertGreater(len(texts), 3)
        for text in texts:
            spec = stretto.parse_job(text).spec
            values = json.loads(json.dumps(values_of(spec)))
            self.assertEqual(fill(pb.JobSpec(), values), spec)
        self.assertEqual(values["precision"], "bf16")
        self.assertEqual(values_of(pb.JobSpec(precision=99)), {"precision": 99})

    def test_a_message_is_filled_in_place(self):
        spec = fill(pb.JobSpec(steps=1), {"seed": 2})
        self.assertEqual((spec.steps, spec.seed), (1, 2))


class TableTest(unittest.TestCase):
    LEDGER = pb.Ledger(
        entries=[pb.Ledger.Entry(part=pb.Ledger.EXPOSED, group="tp", phase="forward", seconds=1),
                 pb.Ledger.Entry(part=pb.Ledger.EXPOSED, group="tp", phase="backward", seconds=2),
                 pb.Ledger.Entry(part=pb.Ledger.IDLE, seconds=1)],
        wall_seconds=4, communication_seconds=8, hidden_seconds=5)

    def test_a_step_has_a_column_for_each_part_of_the_ledger(self):
        step = pb.StepReport(step=2, loss=3, ledger=self.LEDGER,
                             evaluation=pb.Evaluation(loss=1, perplexity=math.e))
        (row,) = stretto.metrics_table([step])
        self.assertEqual((row["exposed_seconds"], row["idle_seconds"], row["data_wait_seconds"]),
                         (3, 1, 0))
        self.assertEqual((row["overlap_ratio"], row["held_out_perplexity"]), (5 / 8, math.e))
        parts = {f"{name.lower()}_seconds" for name in pb.Ledger.Part.keys()}
        self.assertEqual(parts - set(row), {"part_unspecified_seconds"})

    def test_preempted_time_is_beside_the_parts_where_it_is_known(self):
        known = pb.Ledger(preempted_seconds=0)
        known.MergeFrom(self.LEDGER)
        rows = stretto.metrics_table([pb.StepReport(ledger=known),
                                      pb.StepReport(ledger=self.LEDGER), pb.StepReport()])
        self.assertEqual([row["preempted_seconds"] for row in rows], [0, None, None])
        self.assertEqual(rows.columns[-1], "preempted_seconds")
        self.assertEqual(sum(row["seconds"] for row in stretto.ledger_table(known)), 4)

    def test_seconds_are_added_as_the_command_adds_them(self):
        entries = [pb.Ledger.Entry(part=pb.Ledger.IDLE, seconds=value) for value in (0.1, 0.2, 0.3)]
        (row,) = stretto.metrics_table([pb.StepReport(ledger=pb.Ledger(entries=entries))])
        self.assertEqual(row["idle_seconds"], 0.1 + 0.2 + 0.3)

    def test_a_ledger_has_shares_of_the_wall_time(self):
        table = stretto.ledger_table(self.LEDGER)
        self.assertEqual([row["share"] for row in table], [0.25, 0.5, 0.25])
        self.assertEqual(table[1]["phase"], "backward")
        self.assertIsNone(stretto.overlap_ratio(pb.Ledger()))

    def test_without_pandas_a_table_says_what_is_missing(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(stretto.MissingLibrary, "found no pandas, expected it"):
                stretto.metrics_table([]).to_pandas()

    def test_a_table_is_a_data_frame(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("found no pandas here (Debian package python3-pandas)")
        frame = stretto.metrics_table([pb.StepReport(step=1, ledger=self.LEDGER),
                                       pb.StepReport(step=2)]).to_pandas()
        self.assertEqual(list(frame["step"]), [1, 2])
        self.assertEqual(frame["exposed_seconds"][0], 3)
        self.assertTrue(pandas.isna(frame["exposed_seconds"][1]))
        self.assertEqual(list(stretto.metrics_table([]).to_pandas().columns[:2]), ["step", "loss"])


class ClusterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "stretto").mkdir()
        self.home = {"XDG_CONFIG_HOME": str(self.folder)}

    def config(self, text):
        (self.folder / "stretto/config.yaml").write_text(text)

    def refused(self, message, *arguments, **options):
        with self.assertRaisesRegex(stretto.InvalidInput, message):
            choose_cluster(*arguments, environment=self.home, **options)

    def test_a_cluster_is_chosen_again_from_its_environment(self):
        self.config("current_context: lab\ncontexts:\n  lab: {coordinator: lab-1:7070}\n")
        others = {**self.home, "STRETTO_CONTEXT": "none", "STRETTO_TLS_KEY": "other.key", "A": "b"}
        for tls in (TlsFiles(), TlsFiles("ca.crt", "me.crt", "me.key"),
                    TlsFiles("ca.crt", token_file="me.token")):
            cluster = stretto.Cluster(("a:1", "b:2"), tls)
            environment = cluster.environment(others)
            self.assertEqual(environment["A"], "b")
            with mock.patch.object(TlsFiles, "check"):
                self.assertEqual(choose_cluster(environment=environment), cluster)

    def test_the_address_comes_from_argument_variable_context_or_default(self):
        def chosen(*arguments, **variables):
            return str(choose_cluster(*arguments, environment={**self.home, **variables}))

        self.assertEqual(chosen(), "127.0.0.1:7070")
        self.config("current_context: lab\ncontexts:\n  lab: {coordinator: lab-1:7070}\n"
                    '  laptop: {coordinator: "[::1]:7"}\n')
        self.assertEqual(chosen(), "lab-1:7070")
        self.assertEqual(chosen(STRETTO_CONTEXT="laptop"), "[::1]:7")
        self.assertEqual(chosen(STRETTO_COORDINATOR="a:1,b:2"), "a:1,b:2")
        self.assertEqual(chosen("", "laptop", STRETTO_COORDINATOR="a:1"), "[::1]:7")
        self.assertEqual(chosen("c:3", STRETTO_COORDINATOR="a:1", STRETTO_CONTEXT="laptop"), "c:3")

    @mock.patch.object(stretto.TlsFiles, "check")
    def test_the_certificates_of_ones_own_up_need_no_name(self, _):
        def tls(address="localhost:7070", **options):
            return choose_cluster(address, environment={**self.home, "XDG_STATE_HOME":
                                                        str(self.folder)}, **options).tls

        self.assertFalse(tls())
        path = self.folder / "stretto/local/7070"
        path.parent.mkdir()
        path.write_text("/c")
        self.assertFalse(tls(), "nobody has locked it")
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # as `stretto up` does while it runs
            self.assertEqual(tls().ca, "/c/ca.crt")
            self.assertEqual(tls("127.0.0.1:7070").key, "/c/user-admin.key")
            for other in ("127.0.0.1:7071", "lab-1:7070", "127.0.0.1:7070,127.0.0.1:7071"):
                self.assertFalse(tls(other), other)
        self.assertFalse(tls(), "that cluster has ended")

    def test_bad_addresses_are_refused(self):
        for address in ("host", ":7070", "host:", "host:x", "host:65536", "a b:1", "a:1,,b:1",
                        "::1:7070", "http://host:80"):
            self.refused(r"coordinator: found \".*\", expected HOST:PORT", address)
        self.refused('found "a:1" twice, expected different addresses', "a:1,a:1")

    def test_a_bad_config_is_named_with_its_place(self):
        self.config("contexts: {lab: {cordinator: x}}")
        self.refused(r'config.yaml:1:\d+: contexts\[lab\]: unknown field "cordinator"; did you mean')
        self.config("contexts: {lab: {coordinator: 'lab-1:1'}}")
        self.refused('config.yaml: no context "lap"; did you mean "lab"', context="lap")

    def test_files_of_a_context_are_relative_to_its_folder(self):
        self.config("contexts: {lab: {coordinator: 'lab-1:1', tls: {ca: ca.crt, certificate: "
                    "me.crt, key: me.key}}}")
        self.refused(f"TLS ca {self.folder}/stretto/ca.crt: found No such file", context="lab")

    def test_files_of_tls_are_checked(self):
        ca, certificate, key = (self.folder / name for name in ("ca.crt", "me.crt", "me.key"))
        self.refused("TLS: found only ca, expected ca, certificate and key",
                     tls=stretto.TlsFiles(ca=str(ca)))
        for path in (ca, certificate, key):
            path.write_text("nothing")
        files = stretto.TlsFiles(str(ca), str(certificate), str(key))
        key.chmod(0o604)
        self.refused("me.key: found mode 0604, which lets everybody", tls=files)
        key.chmod(0o600)
        self.refused("ca.crt: found no certificate, expected that of the CA", tls=files)

    def test_the_file_of_a_token_is_checked_and_never_shown(self):
        ca, token = self.folder / "ca.crt", self.folder / "me.token"
        files = stretto.TlsFiles(ca=str(ca), token_file=str(token))
        ca.write_text("nothing")
        self.refused("TLS token_file .*me.token: found No such file", tls=files)
        token.write_text("a.b.c\n")
        token.chmod(0o640)
        self.refused("ca.crt: found no certificate", tls=files)
        self.assertEqual(files.token(), "a.b.c")
        self.assertNotIn("a.b.c", repr(files))
        token.chmod(0o644)
        self.refused("me.token: found mode 0644, which lets everybody .* have the token", tls=files)
        token.chmod(0o600)
        for text in ("", "secret", "a.b", "a.b.c.d", "a.b.c\nd", "a." + "b" * 5000 + ".c"):
            token.write_text(text)
            with self.subTest(text=text[:20]), self.assertRaises(stretto.InvalidInput) as raised:
                files.check()
            self.assertRegex(str(raised.exception), "me.token: found no token, expected the one")
            self.assertNotIn("secret", str(raised.exception))
        token.write_text("a.b.c")
        self.refused("found only ca and certificate and token_file, expected ca, certificate and key, "
                     "or ca and token_file",
                     tls=stretto.TlsFiles(str(ca), str(ca), "", str(token)))
        self.refused("found only token_file", tls=stretto.TlsFiles(token_file=str(token)))

    @mock.patch.object(stretto.TlsFiles, "check")
    def test_a_token_and_a_certificate_take_the_place_of_each_other(self, _):
        def tls(tls=None, **variables):
            return choose_cluster(tls=tls, environment={**self.home, **variables}).tls

        self.config("contexts: {lab: {coordinator: 'lab-1:1', tls: {ca: ca.crt, certificate: "
                    "me.crt, key: me.key}}}\ncurrent_context: lab\n")
        self.assertTrue(tls().certificate)
        chosen = tls(STRETTO_TOKEN_FILE="/t")
        self.assertEqual((chosen.certificate, chosen.key, chosen.token_file), ("", "", "/t"))
        self.assertTrue(chosen.ca.endswith("ca.crt"))
        self.config("contexts: {lab: {coordinator: 'lab-1:1', tls: {ca: ca.crt, token_file: "
                    "me.token}}}\ncurrent_context: lab\n")
        self.assertEqual(tls().token_file, f"{self.folder}/stretto/me.token")
        chosen = tls(stretto.TlsFiles(certificate="/c", key="/k"), STRETTO_TOKEN_FILE="/t")
        self.assertEqual((chosen.certificate, chosen.key, chosen.token_file), ("/c", "/k", ""))


if __name__ == "__main__":
    unittest.main()
