// SPDX-License-Identifier: Apache-2.0

// Jobs on GPUs, as far as they go without one: everything is the service's own, but the device is
// the emulated one (emulated_plugin.cc), and so are its driver and what tells how many there are.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "worker/data/indexed_dataset.h"

namespace stretto::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Fake(const std::string& name) { return absl::StrCat(STRETTO_FAKES, "/", name); }

// Kernels take a fiber for each of their threads: the smallest model there is.
constexpr char kTiny[] =
    "{family: gpt, layers: 2, hidden: 16, heads: 2, ffn_hidden: 32, sequence_length: 8, "
    "vocab_size: 257}";

class GpuJobTest : public ClusterTest {
 protected:
  // Workers with two cores and two GPUs each. `plugin`: the folder it is found in.
  void StartGpus(const std::string& plugin, const std::vector<std::string>& workers = {"node-a"},
                 const Arguments& coordinator = {}) {
    setenv("STRETTO_PLUGIN_PATH", Fake(plugin).c_str(), 1);
    setenv("LD_LIBRARY_PATH", Fake("driver").c_str(), 1);
    // Away from the plug-in that may lie beside the program.
    std::filesystem::create_directories(Path("bin"));
    std::filesystem::copy_file(absl::StrCat(STRETTO_BINARY_DIR, "/stretto-trainer"),
                               Path("bin/stretto-trainer"));
    StartCoordinator(coordinator);
    for (const std::string& worker : workers) {
      StartWorker(
          worker, 2,
          {"--nvml", Fake("nvml/libtwo_gpus.so"), "--trainer", Path("bin/stretto-trainer")});
    }
  }

  static JobFile OnGpus(const std::string& name, int steps, const std::string& more = "") {
    return {.name = name,
            .steps = steps,
            .model = kTiny,
            .more = "device: cuda\noptimizer: {decay_steps: 6}\n" + more};
  }

  std::vector<double> Losses(const std::string& name) {
    std::vector<double> losses;
    for (const Json& step : Steps(name)) losses.push_back(step["loss"].get<double>());
    return losses;
  }

  // Two slices, and options of a pipeline.
  static std::string Scheduled(const std::string& pipeline) {
    return absl::StrCat("{name: domino_row, parameters: {slices: 2}, pipeline: {", pipeline, "}}");
  }

  // Trains with stages on GPUs and on cores, whose products and sums round differently, and
  // compares losses, also of an evaluation.
  void ExpectTrainsAsOnCores(const JobFile& job) {
    SCOPED_TRACE(job.name);
    const std::string more = "global_batch_size: 16\neval: {interval_steps: 3, batches: 3}\n";
    JobFile gpu = job;
    gpu.more += more;
    gpu.data = "{prefix: text, held_out: 0.2}";
    JobFile cpu = gpu;
    cpu.name = job.name + "-cpu";
    cpu.more = "optimizer: {decay_steps: 6}\n" + more;
    RunJob(gpu);
    RunJob(cpu);
    const std::vector<double> found = Losses(gpu.name), expected = Losses(cpu.name);
    ASSERT_EQ(found.size(), 3u);
    ASSERT_EQ(expected.size(), 3u);
    for (size_t step = 0; step < found.size(); ++step)
      EXPECT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << "step " << step + 1;
    const auto evaluated = [&](const std::string& name) {
      return Steps(name)[2]["evaluation"]["loss"].get<double>();
    };
    EXPECT_NEAR(evaluated(gpu.name), evaluated(cpu.name), 1e-5 * evaluated(cpu.name));
  }

  static std::set<int64_t> SlotsOf(const Json& job) {
    std::set<int64_t> slots;
    for (const Json& rank : job["placement"]) slots.insert(Int(rank.value("slot", Json(0))));
    return slots;
  }
};

TEST_F(GpuJobTest, TrainsAsOnCoresAndAccountsForEverySecond) {
  StartGpus("emulated");
  const Json gpu = RunJob(OnGpus("gpu", 6, "profile: {steps: 1}\n"));
  JobFile same = OnGpus("cpu", 6);
  same.more = "optimizer: {decay_steps: 6}\n";
  const Json cpu = RunJob(same);
  EXPECT_EQ(SlotsOf(gpu), (std::set<int64_t>{2, 3}));
  EXPECT_EQ(SlotsOf(cpu), (std::set<int64_t>{0, 1}));
  // Another order of all sums in f32, at worst: kF32LossBound of tests/parity/expect.h.
  const std::vector<double> found = Losses("gpu"), expected = Losses("cpu");
  ASSERT_EQ(found.size(), 6u);
  ASSERT_EQ(expected.size(), 6u);
  for (size_t step = 0; step < found.size(); ++step)
    EXPECT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << "step " << step + 1;
  EXPECT_LT(found.back(), found.front());

  ASSERT_EQ(gpu["progress"]["rank_ledgers"].size(), 2u);
  for (const Json& ledger : gpu["progress"]["rank_ledgers"]) {
    double sum = 0;
    for (const Json& entry : ledger["entries"]) sum += entry["seconds"].get<double>();
    const double wall = ledger["wall_seconds"].get<double>();
    EXPECT_NEAR(sum, wall, 0.01 * wall);
    EXPECT_GT(ledger["communication_seconds"].get<double>(), 0);
  }
  EXPECT_EQ(gpu["profile"]["verified_parity"], true) << gpu["profile"];
  EXPECT_GT(gpu["profile"]["t_comp"].get<double>(), 0);
  EXPECT_THAT(Stretto({"job", "describe", "gpu"}).out, HasSubstr("Device:      cuda\n"));
  EXPECT_THAT(ReadRun("gpu", 1, "trainer.log"), HasSubstr("computes on cuda: device 0, emulated"));
  EXPECT_THAT(Metrics(worker_ports_["node-a"]),
              HasSubstr("stretto_steps_total{training_job=\"gpu\""));
}

TEST_F(GpuJobTest, ReplicasTrainAsOneDoes) {
  StartGpus("emulated");
  JobFile two = OnGpus("two", 4, "profile: {steps: 1}\nglobal_batch_size: 8\n");
  two.tp_size = 1;
  two.dp_size = 2;
  JobFile one = OnGpus("one", 4, "global_batch_size: 8\n");
  one.tp_size = 1;
  EXPECT_EQ(RunJob(two)["profile"]["verified_parity"], true);
  RunJob(one);
  const std::vector<double> found = Losses("two"), expected = Losses("one");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0], expected[0]);
  for (size_t step = 1; step < found.size(); ++step)
    EXPECT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << "step " << step + 1;
}

TEST_F(GpuJobTest, ReplicasThatShareUpdatesTrainAsOthersDo) {
  StartGpus("emulated");
  JobFile plain = OnGpus("plain", 4, "global_batch_size: 8\n");
  plain.tp_size = 1;
  plain.dp_size = 2;
  JobFile shared = OnGpus("shared", 4, "profile: {steps: 1}\nglobal_batch_size: 8\n");
  shared.tp_size = 1;
  shared.dp_size = 2;
  shared.zero = 1;
  RunJob(plain);
  EXPECT_EQ(RunJob(shared)["profile"]["verified_parity"], true);
  ASSERT_EQ(Losses("plain").size(), 4u);
  EXPECT_EQ(Losses("shared"), Losses("plain"));
}

// Stages, with replicas and with tensor parallelism, on the GPUs of one node and of two.
TEST_F(GpuJobTest, StagesTrainAsOnCores) {
  StartGpus("emulated", {"node-a", "node-b"});
  struct Case {
    std::string name;
    int tp_size, dp_size;
  };
  for (const Case& of : {Case{"two", 1, 1}, Case{"four", 2, 1}, Case{"replicas", 1, 2}}) {
    JobFile job = OnGpus(of.name, 3);
    job.tp_size = of.tp_size;
    job.dp_size = of.dp_size;
    job.pp_size = 2;
    ExpectTrainsAsOnCores(job);
  }
}

// The emulated device has room for a step's micro-batches at once.
TEST_F(GpuJobTest, WeightGradientsMergedAsMemoryAllowsTrainAsOnCores) {
  StartGpus("emulated");
  JobFile job = OnGpus("merged", 3);
  job.schedule = "{name: domino_row, parameters: {slices: 2, auto_merge_wgrads: true}}";
  ExpectTrainsAsOnCores(job);
  EXPECT_THAT(ReadRun("merged", 1, "trainer.log"),
              HasSubstr("weight gradients merged over 4 of 4 micro-batches"));
}

// A stage that runs further ahead begins passes before the ones before them end.
TEST_F(GpuJobTest, StagesThatRunAheadTrainAsOnCores) {
  StartGpus("emulated", {"node-a", "node-b"});
  JobFile job = OnGpus("eager", 3);
  job.pp_size = 2;
  job.schedule = Scheduled("order: eager_1f1b");
  ExpectTrainsAsOnCores(job);
}

TEST_F(GpuJobTest, UnlikeStagesTrainAsOnCores) {
  StartGpus("emulated", {"node-a", "node-b"});
  for (const std::string transfer : {"send", "chain", "gather"}) {
    JobFile job = OnGpus(transfer, 3);
    job.stages = "[{layers: 1, tp_size: 1}, {layers: 1, tp_size: 2}]";
    job.schedule = Scheduled("transfer: " + transfer);
    ExpectTrainsAsOnCores(job);
  }
}

TEST_F(GpuJobTest, AScheduleThatComputesAWrongBitFailsTheJob) {
  StartGpus("wrong_bit");
  const Json job = RunJob(OnGpus("wrong", 1, "profile: {steps: 1}\n"), "failed");
  const Json condition = ConditionOf(job, "Prepared");
  EXPECT_EQ(condition["reason"], "PrepareFailed");
  EXPECT_THAT(condition["message"].get<std::string>(), HasSubstr("parity failed: rank "));
  EXPECT_EQ(job["first_failure"]["exit_code"], 1) << job["first_failure"];
  EXPECT_FALSE(job.contains("profile")) << job["profile"];
}

TEST_F(GpuJobTest, GoesOnFromACheckpointBitByBit) {
  StartGpus("emulated");
  RunJob(OnGpus("whole", 6));
  RunJob(OnGpus("half", 3));
  RunJob(OnGpus("rest", 6, "checkpoint: {resume_from: half}\n"));
  const std::vector<double> whole = Losses("whole"), rest = Losses("rest");
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(rest, std::vector<double>(whole.begin() + 3, whole.end()));
  // Cores round otherwise.
  JobFile on_cores = OnGpus("cores", 6);
  on_cores.more = "optimizer: {decay_steps: 6}\ncheckpoint: {resume_from: half}\n";
  const Outcome refused = Stretto(Submit(on_cores, {}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, ::testing::HasSubstr("as in job half"));
}

// Weights that are given reach the device, and come back, as they do on cores.
TEST_F(GpuJobTest, StartsFromWeights) {
  std::filesystem::copy(STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed", Path("data/gpt2"));
  auto writer = IndexedDatasetWriter::Create(Path("data/low"), TokenType::kU16, true);
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  ASSERT_TRUE(writer.ok() && writer->AddDocument(tokens).ok() && writer->Finish().ok());
  StartGpus("emulated");
  const auto job = [](const std::string& name, int steps, const std::string& device) {
    return JobFile{.name = name,
                   .steps = steps,
                   .model =
                       "{layers: 2, hidden: 40, heads: 4, sequence_length: 8, vocab_size: "
                       "131, initial_weights: \"hf:gpt2\"}",
                   .data = "low",
                   .more = absl::StrCat("device: ", device, "\n")};
  };
  RunJob(job("gpu", 0, "cuda"));
  RunJob(job("cpu", 0, "cpu"));
  for (int rank : {0, 1}) {
    const std::string shard = absl::StrCat("/step-00000000/rank-0000", rank, ".safetensors");
    EXPECT_EQ(ContentOf(CheckpointFolder("gpu") + shard),
              ContentOf(CheckpointFolder("cpu") + shard));
  }
  RunJob(job("gpu-step", 1, "cuda"));
  RunJob(job("cpu-step", 1, "cpu"));
  const std::vector<double> found = Losses("gpu-step"), expected = Losses("cpu-step");
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(expected.size(), 1u);
  EXPECT_NEAR(found[0], expected[0], 1e-5 * expected[0]);
}

TEST_F(GpuJobTest, KilledRankEndsTheJob) {
  StartGpus("emulated");
  const auto waiting = StartStretto(Submit(OnGpus("doomed", 100000), {"--wait"}));
  ASSERT_TRUE(Eventually([&] { return Stretto({"job", "get", "doomed"}).code == 0; }));
  AwaitStep("doomed", 2);
  const pid_t other = TrainerPid("doomed", 0);
  ASSERT_EQ(kill(TrainerPid("doomed", 1), SIGKILL), 0);
  EXPECT_EQ(waiting->Wait(), 3);
  const Json failure = Job("doomed")["first_failure"];
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_EQ(failure["signal"], SIGKILL);
  EXPECT_GT(failure["last_operation"].get<std::string>().size(), 10u) << failure;
  EXPECT_FALSE(IsRunning(other));
  // Its GPUs are free again.
  RunJob(OnGpus("next", 1));
}

TEST_F(GpuJobTest, CancelEndsAStepThatWaitsForAPeer) {
  StartGpus("emulated");
  ASSERT_EQ(Stretto(Submit(OnGpus("stuck", 100000), {})).code, 0);
  AwaitStep("stuck", 2);
  ASSERT_EQ(kill(TrainerPid("stuck", 1), SIGSTOP), 0);
  EXPECT_EQ(Stretto({"job", "cancel", "stuck"}).code, 0);
  const Json job = AwaitState("stuck", "cancelled");
  EXPECT_FALSE(job.contains("first_failure")) << job["first_failure"];
  // By its own hand, before the daemon's grace was over.
  EXPECT_THAT(ReadRun("stuck", 0, "trainer.log"),
              ::testing::ContainsRegex("ended: (Cancelled|Terminated) after step"));
}

// Both processes look at their devices, of which one waits for the other, and do nothing else.
TEST_F(GpuJobTest, ARankWhoseDeviceStopsIsNamedWithWhoWaitsForItOnADevice) {
  StartGpus("stalls", {"node-a"}, {"--hang-timeout", "4"});
  const Json job = RunJob(OnGpus("stalls", 100000), "failed");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["reason"], "Hang") << job["conditions"].dump(1);
  const Json& failure = job["first_failure"];
  EXPECT_EQ(failure["rank"], 1) << failure;
  EXPECT_GE(Int(failure["step"]), 1);
  EXPECT_THAT(failure["message"].get<std::string>(),
              AllOf(HasSubstr("hangs in step "),
                    HasSubstr(" and waits for no rank; rank 0 waits "
                              "for it in call "),
                    HasSubstr(" of group tp.0")));
}

TEST_F(GpuJobTest, ClusterWithoutGpusRefusesTheJob) {
  StartCoordinator();
  StartWorker("node-a", 2, {"--nvml", ""});
  const Outcome outcome = Stretto(Submit(OnGpus("lost", 1), {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("job \"lost\" needs 2 GPUs; this cluster has 0 on 1 worker"));
}

// What a job fails with when the node lacks something.
struct Lack {
  std::string plugin, reason, message;
};
class GpuLackTest : public GpuJobTest, public ::testing::WithParamInterface<Lack> {};

TEST_P(GpuLackTest, FailsTheJobNamingIt) {
  StartGpus(GetParam().plugin);
  const Json job = RunJob(OnGpus("unlucky", 1), "failed");
  const Json condition = ConditionOf(job, "Prepared");
  EXPECT_EQ(condition["status"], "false");
  EXPECT_EQ(condition["reason"], GetParam().reason);
  EXPECT_THAT(condition["message"].get<std::string>(),
              AllOf(HasSubstr("rank "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Lacks, GpuLackTest,
    ::testing::Values(
        Lack{"nowhere", "DeviceUnavailable", "plug-in libstretto_cuda.so: found none in "},
        Lack{"other_build", "DeviceUnavailable", "found build 'another build', expected '"},
        Lack{"no_nccl", "DeviceUnavailable", "cannot open NCCL"},
        Lack{"small", "InsufficientMemory",
             "memory of this rank's GPU: found 97.7 KiB available, expected at least "}),
    [](const auto& info) { return info.param.plugin; });

}  // namespace
}  // namespace stretto::integration
