// SPDX-License-Identifier: Apache-2.0

// `stretto checkpoint`, the program, as a user types it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_messages.h"
#include "tests/same_document.h"
#include "tests/worker/made_model.h"
#include "tests/worker/test_files.h"
#include "tests/worker/tool/run_program.h"
#include "worker/exchange/export_model.h"
#include "worker/tool/inspect_model.h"
#include "worker/tool/list_checkpoints.h"
#include "worker/tool/trained_tokens.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

int64_t CountIn(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

void SetTime(const std::string& path, absl::Time time) {
  const timespec at = absl::ToTimespec(time);
  const timespec times[2] = {at, at};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

class CheckpointCommandTest : public testing::Test {
 protected:
  CheckpointCommandTest() { golden_.Hide(folder_.path(), "FOLDER"); }

  std::string Step(int64_t step) {
    return WriteMadeCheckpoint(folder_ / "job", MadeSource(SmallLlama()), {.step = step});
  }
  std::string Model() {  // hf:FOLDER
    const auto summary = ExportHf(MadeSource(SmallGpt()), {.output = folder_ / "model"});
    EXPECT_TRUE(summary.ok()) << summary.status();
    return "hf:" + (folder_ / "model");
  }
  pid_t StartExport(const std::string& model) {
    const std::string out = folder_ / "out";
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(SIGHUP, SIG_DFL);  // whoever runs the tests may ignore it
      ::execl(kProgram, kProgram, "checkpoint", "export", model.c_str(), "--format", "hf",
              "--output", out.c_str(), nullptr);
      ::_exit(127);
    }
    return pid;
  }
  TestFolder folder_;
  GoldenMessages golden_{"stretto-model"};
};

TEST_F(CheckpointCommandTest, ListShowsWhatLiesInAJobsFolder) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  for (const int64_t step : {5, 10, 20}) {
    SetTime(Step(step) + "/manifest.json", now - absl::Minutes(200 - 9 * step));
  }
  const std::string job = folder_ / "job";
  fs::rename(job + "/step-00000005", job + "/step-00000005.bad-1");
  fs::create_directory(job + "/step-00000030.tmp-2");
  SetTime(job + "/step-00000030.tmp-2", now - absl::Seconds(5));
  Spill(job + "/notes.txt", "not ours");
  EXPECT_EQ(*ListCheckpoints(job, OutputFormat::kTable, now),
            "NAME                      SIZE     AGE    SAMPLES   TOKENS   TP  HELD-OUT  STATE\n"
            "step-00000005.bad-1  398.8 KiB   2h35m         40      640    2         -  failed its "
            "checks, put aside\n"
            "step-00000010        398.8 KiB   1h50m         80     1.3k    2         -  whole\n"
            "step-00000020        398.8 KiB  20m00s        160     2.6k    2         -  whole\n"
            "step-00000030.tmp-2        0 B    5.0s          -        -    -         -  being "
            "written, or left by a crash\n");
  // A file that has lost its end, and a manifest that is none.
  fs::resize_file(job + "/step-00000010/rank-00001.safetensors", 100);
  Spill(job + "/step-00000020/manifest.json", "{");
  const auto list = nlohmann::json::parse(*ListCheckpoints(job, OutputFormat::kJson, now));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0]["written"], "2023-11-14T19:38:20Z");
  EXPECT_EQ(list[1]["step"], 10);
  EXPECT_EQ(list[1]["whole"], false);
  EXPECT_THAT(list[1]["problem"].get<std::string>(),
              AllOf(HasSubstr("rank-00001.safetensors"), HasSubstr("found 100 bytes")));
  EXPECT_THAT(list[2]["problem"].get<std::string>(), HasSubstr("step-00000020/manifest.json"));
  EXPECT_FALSE(list[2].contains("tp_size"));
  EXPECT_TRUE(fs::exists(job + "/step-00000020"));  // looked at, and left alone
}

TEST_F(CheckpointCommandTest, ListTakesAFolderOrARootAndAName) {
  Step(10);
  const Ran by_folder = RunCheckpoint("list " + (folder_ / "job"));
  EXPECT_EQ(by_folder.code, 0);
  EXPECT_THAT(by_folder.output, HasSubstr("step-00000010"));
  const Ran by_name = RunCheckpoint("list --root " + folder_.path() + " job");
  EXPECT_EQ(by_name.code, 0);
  EXPECT_THAT(by_name.output, HasSubstr("step-00000010"));
  const Ran none = RunCheckpoint("list " + folder_.path());
  EXPECT_EQ(none.code, 1);
  golden_.Add(none.output, {"error: " + folder_.path(), "step-NNNNNNNN"});
  const Ran absent = RunCheckpoint("list " + (folder_ / "absent"));
  EXPECT_EQ(absent.code, 1);
  golden_.Add(absent.output, {"error: ", "absent: No such file"});
}

TEST_F(CheckpointCommandTest, JsonAndYamlAreOneDocument) {
  const std::string folder = Step(10), job = folder_ / "job";
  Step(20);
  Spill(job + "/step-00000020/manifest.json", "{");
  for (const std::string& command : {"list " + job, "inspect --tensors " + folder}) {
    ExpectSameDocument(RunCheckpoint(command + " -o yaml").output,
                       RunCheckpoint(command + " -o json").output);
  }
}

TEST_F(CheckpointCommandTest, InspectSaysWhichModelItIs) {
  const std::string folder = Step(20);
  EXPECT_EQ(RunCheckpoint("inspect " + (folder_ / "job")).output,
            "model       " + folder +
                "\n"
                "family      llama, 2 layers\n"
                "hidden      32, 4 heads (2 of keys and values), MLP 48\n"
                "positions   16, rotary with base 10000\n"
                "vocabulary  200, padded to 256, head of its own\n"
                "norms       epsilon 1e-05\n"
                "parameters  28.3k (28320)\n"
                "weights     F32\n"
                "tokenizer   none\n"
                "training    step 20, 160 samples, 2.6k tokens, seed 7, TP 2\n");
  const auto json =
      nlohmann::json::parse(RunCheckpoint("inspect -o json --tensors " + folder).output);
  EXPECT_EQ(json["model"]["kv_heads"], 2);
  EXPECT_EQ(json["training"]["tokens"], 2560);
  EXPECT_EQ(json["tensors"][0]["name"], "embedding.token.weight");
  EXPECT_EQ(json["tensors"][0]["shape"], nlohmann::json({256, 32}));
  EXPECT_THAT(RunCheckpoint("inspect --tensors " + Model()).output,
              AllOf(HasSubstr("positions   16, learned\n"), HasSubstr("head tied to the embedding"),
                    HasSubstr("layers.1.mlp.fc1.weight               [96,24]\n")));
}

TEST_F(CheckpointCommandTest, SpecIsTheModelBlockOfAJobFile) {
  ModelSpec model = SmallLlama();
  model.tied_head = true;
  model.rotary_scaling = {.kind = RotaryScaling::Kind::kLinear, .factor = 2};
  EXPECT_EQ(JobFileModel(model, "hf:my model"),
            "model:\n"
            "  family: llama\n"
            "  layers: 2\n"
            "  hidden: 32\n"
            "  heads: 4\n"
            "  kv_heads: 2\n"
            "  ffn_hidden: 48\n"
            "  sequence_length: 16\n"
            "  vocab_size: 200\n"
            "  norm_epsilon: 1e-05\n"
            "  tied_head: true\n"
            "  rotary_base: 10000\n"
            "  rotary_scaling: {kind: linear, factor: 2.0}\n"
            "  # relative to the workers' data root\n"
            "  initial_weights: \"hf:my model\"\n");
  EXPECT_THAT(RunCheckpoint("inspect --spec " + Model()).output,
              AllOf(testing::StartsWith("model:\n  family: gpt\n"), Not(HasSubstr("rotary")),
                    testing::EndsWith("  initial_weights: \"hf:" + (folder_ / "model") + "\"\n")));
  EXPECT_THAT(RunCheckpoint("inspect --spec " + Step(5)).output, Not(HasSubstr("initial_weights")));
}

TEST_F(CheckpointCommandTest, VerifyNamesAllThatIsBadAndChangesNothing) {
  const std::string first = Step(10), second = Step(20);
  const Ran whole = RunCheckpoint("verify " + (folder_ / "job"));
  EXPECT_EQ(whole.code, 0) << whole.output;
  golden_.Add(whole.output, {first + ": whole", "45 tensors\n" + second + ": whole"});
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
    std::string content = Slurp(first + "/" + name);
    content.back() ^= 1;
    Spill(first + "/" + name, content);
  }
  Spill(first + "/model.json", "{}");
  const Ran bad = RunCheckpoint("verify " + (folder_ / "job"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.output,
              AllOf(HasSubstr("error: " + first + "/rank-00000.safetensors: crc32c: found"),
                    HasSubstr("error: " + first + "/rank-00001.safetensors: crc32c: found"),
                    HasSubstr("error: " + first + "/model.json: size: found 2"),
                    HasSubstr(first + ": bad, 45 tensors\n"), HasSubstr(second + ": whole")));
  EXPECT_EQ(CountIn(folder_ / "job"), 2);
  Spill(second + "/manifest.json", "{}");
  EXPECT_THAT(
      RunCheckpoint("verify " + second).output,
      AllOf(HasSubstr("error: " + second + "/manifest.json"), HasSubstr(": bad, 0 tensors")));
  const Ran absent = RunCheckpoint("verify " + (folder_ / "absent"));
  EXPECT_EQ(absent.code, 1);
  golden_.Add(absent.output, {"error: ", "absent: No such file"});
}

TEST_F(CheckpointCommandTest, VerifyFindsValuesThatAreNotFinite) {
  MadeSource source(SmallGpt());
  source.made_huge = "layers.1.mlp.fc2.weight";
  source.huge = -INFINITY;
  ASSERT_TRUE(ExportHf(source, {.output = folder_ / "hf"}).ok());
  ASSERT_TRUE(ExportLlmc(source, {.output = folder_ / "llmc"}).ok());
  const Ran hf = RunCheckpoint("verify " + (folder_ / "hf"));  // a folder with a config.json
  EXPECT_EQ(hf.code, 1);
  golden_.Add(hf.output, {"tensor transformer.h.1.mlp.c_proj.weight: found 1 ", "-inf"});
  const Ran llmc = RunCheckpoint("verify llmc:" + (folder_ / "llmc/model.bin"));
  EXPECT_EQ(llmc.code, 1);
  golden_.Add(llmc.output, {"tensor fcprojw.1: found 1 ", "-inf"});
  fs::resize_file(folder_ / "hf/model.safetensors", 1000);
  EXPECT_THAT(RunCheckpoint("verify hf:" + (folder_ / "hf")).output,
              HasSubstr("error: " + (folder_ / "hf/model.safetensors")));
}

TEST_F(CheckpointCommandTest, VerifyReadsAnExportedOptimizer) {
  const std::string path = folder_ / "out/stretto-optimizer.safetensors";
  const Ran exported = RunCheckpoint(
      absl::StrCat("export ", Step(20), " --format hf --optimizer --output ", folder_ / "out"));
  ASSERT_EQ(exported.code, 0) << exported.output;
  const std::string good = Slurp(path);
  const auto verify = [&] { return RunCheckpoint("verify hf:" + (folder_ / "out")); };
  const Ran whole = verify();
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_THAT(whole.output, HasSubstr("every value finite, 51 tensors\n"));
  const auto bad = [&](const std::string& content, const std::string& says) {
    Spill(path, content);
    const Ran ran = verify();
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, HasSubstr("error: " + path + ": " + says));
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string content = good;
    return content.replace(content.find(from), from.size(), to);
  };
  bad(good.substr(0, good.size() - 4) + std::string("\0\0\x80\x7f", 4), "tensor ");
  bad(good.substr(0, 1000), "");
  bad(replaced("\"final_norm.weight.m\"", "\"final_norm.weight.x\""),
      "tensor final_norm.weight.m: found none, expected F32 [32]");
  bad(replaced("stretto.training_state", "stretto.training_stale"),
      "metadata stretto.training_state: found none");
  bad(replaced("\\\"consumed_samples", "\\\"consumed_simples"), "");
}

TEST_F(CheckpointCommandTest, NamesThatAreNoUtf8AndCountsTooGreatDoNotEndIt) {
  const std::string folder = Step(20), odd = folder_ / "odd\xff";
  Spill(folder + "/manifest.json", "{");
  fs::rename(folder_ / "job", odd);
  const Ran list = RunCheckpoint("list -o json " + odd);
  EXPECT_EQ(list.code, 0) << list.output;
  EXPECT_THAT(list.output, HasSubstr("odd\xef\xbf\xbd/step-00000020/manifest.json"));
  const std::string model = Model(), odd_model = folder_ / "model\xff";
  fs::rename(folder_ / "model", odd_model);
  for (const char* flag : {" -o json", " --spec"}) {
    const Ran inspect = RunCheckpoint("inspect hf:" + odd_model + flag);
    EXPECT_EQ(inspect.code, 0) << inspect.output;
    EXPECT_THAT(inspect.output, HasSubstr("/model\xef\xbf\xbd\""));
  }
  TrainingState state;
  state.consumed_samples = int64_t{1} << 59;
  EXPECT_EQ(TokensOf(state, SmallLlama()), std::nullopt);
  state.consumed_samples = 160;
  EXPECT_EQ(TokensOf(state, SmallLlama()), 2560);
}

TEST_F(CheckpointCommandTest, ExportTakesTheNewestOfAJobWithItsOptimizer) {
  Step(10);
  Step(20);
  const Ran ran = RunCheckpoint(absl::StrCat(
      "export ", folder_ / "job", " --format hf --optimizer --output ", folder_ / "out"));
  EXPECT_EQ(ran.code, 0) << ran.output;
  golden_.Add(ran.output, {"out: 21 tensors", "F32", "1 files", "stretto sample hf:"});
  const auto state = SafetensorsReader::Open(folder_ / "out/stretto-optimizer.safetensors");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(ParseTrainingState(state->header().metadata.at(kTrainingStateKey), "")->step, 20);
  const Ran rounded =
      RunCheckpoint(absl::StrCat("export ", folder_ / "job", " --format hf --dtype bf16 --output ",
                                 folder_ / "bf16", " --max-shard-size 30kB"));
  EXPECT_THAT(rounded.output, HasSubstr("21 tensors in BF16, "));
  EXPECT_TRUE(fs::exists(folder_ / "bf16/model.safetensors.index.json"));
}

TEST_F(CheckpointCommandTest, WrongInputIsNamed) {
  const std::string model = Model(), out = folder_ / "out";
  const auto run = [&](const std::string& arguments, int code) {
    const Ran ran = RunCheckpoint(arguments);
    EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.output;
    return ran.output;
  };
  // What the message carries, whatever its words.
  const auto fails = [&](const std::string& arguments, int code,
                         const std::vector<std::string>& facts) {
    golden_.Add(run(arguments, code), facts);
  };
  fails("export " + model + " --output " + out, 2, {"--format"});
  fails("export " + model + " --format gguf --output " + out, 2, {"--format", "gguf", "hf, llmc"});
  fails("export " + model + " --format hf --output " + out + " --max-shard-size many", 2,
        {"--max-shard-size", "many"});
  fails("export " + model + " --format hf --output " + out + " --dtype i4", 2,
        {"--dtype", "i4", "f32, bf16, f16"});
  fails("export " + model + " --format hf --optimizer --output " + out, 1,
        {"error: --optimizer: found hf:", "checkpoint"});
  fails("export " + model + " --format llmc --optimizer --output " + out, 2,
        {"--optimizer: found --format llmc", "hf"});
  fails("export " + model + " --format llmc --max-shard-size 1GB --output " + out, 2,
        {"--max-shard-size: found --format llmc", "hf"});
  fails("export hf:/no/model --format hf --output " + (folder_ / "model"), 1,
        {"error: ", "/model", "--overwrite"});  // before the model is opened
  fails("export hf:/no/model --format hf --output " + (folder_ / "no/out"), 1,
        {"error: " + (folder_ / "no") + ": ", folder_ / "no/out"});
  fails("export hf:/no/model --format hf --output " + out, 1, {"error: ", "/no/model"});
  EXPECT_THAT(run("export " + model + " --format hf --output /proc/out", 1),
              HasSubstr("/proc/out.tmp-"));
  fails("inspect " + (folder_ / "model"), 1, {"error: ", "/model", "hf:"});
  fails("inspect " + model + " --spec -o json", 2, {"--format", "--spec"});
  fails("fly", 2, {"subcommand"});
  EXPECT_EQ(CountIn(folder_.path()), 1);
}

TEST_F(CheckpointCommandTest, AModelIsReplacedByItsOwnExport) {
  const std::string model = Model();
  const Ran ran = RunCheckpoint(
      "export " + model + " --format hf --dtype bf16 --overwrite --output " + (folder_ / "model"));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(CountIn(folder_.path()), 1);
  const auto read = OpenModel(model);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->dtype(), "BF16");
}

TEST_F(CheckpointCommandTest, HelpNamesCommandsAndFlags) {
  const Ran group = RunCheckpoint("--help");
  EXPECT_EQ(group.code, 0);
  for (const char* word : {"list", "inspect", "verify", "export", "Examples:"}) {
    EXPECT_THAT(group.output, HasSubstr(word));
  }
  EXPECT_THAT(RunCheckpoint("export --help").output,
              AllOf(HasSubstr("--max-shard-size"), HasSubstr("--optimizer"),
                    HasSubstr("-f, --output DIR")));
}

TEST_F(CheckpointCommandTest, AFullDiskLeavesNothing) {
  const std::string model = Model(), disk = folder_ / "disk";
  fs::create_directory(disk);
  // A file system of its own, smaller than the model, in a namespace that ends with the shell.
  const Ran probe = RunShell("unshare -rm true");
  if (probe.code != 0) GTEST_SKIP() << "no small disk: " << probe.output;
  for (const char* format : {"hf", "llmc"}) {
    const Ran ran = RunShell(
        absl::StrCat("unshare -rm sh -c 'mount -t tmpfs -o size=64k tmpfs ", disk, " || exit 3; ",
                     kProgram, " checkpoint export ", model, " --format ", format, " --output ",
                     disk, "/out; code=$?; echo left: $(ls -A ", disk, "); exit $code'"));
    if (ran.code == 3) GTEST_SKIP() << "no small disk: " << ran.output;
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, AllOf(HasSubstr("error: write "), HasSubstr("No space left on device"),
                                  testing::EndsWith("left:\n")));
  }
}

// A model of 300 MB whose largest tensor has 4 MB, on disk.
class LargeExportTest : public CheckpointCommandTest {
 protected:
  static ModelSpec Large() {
    return {.architecture = ArchitectureOf(Family::kLlama),
            .layers = 25,
            .hidden = 512,
            .heads = 8,
            .kv_heads = 8,
            .ffn_hidden = 1360,
            .sequence_length = 64,
            .vocab_size = 2048};
  }
  void SetUp() override {
    const auto summary = ExportHf(MadeSource(Large()), {.output = folder_ / "large"});
    ASSERT_TRUE(summary.ok()) << summary.status();
    ASSERT_GT(summary->bytes, 300'000'000);
  }
  pid_t StartLarge() { return StartExport("hf:" + (folder_ / "large")); }
};

TEST_F(LargeExportTest, StreamsWithinTwoTensorsAnd200Megabytes) {
  int status = 0;
  rusage usage = {};
  ASSERT_GT(::wait4(StartLarge(), &status, 0, &usage), 0);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const int64_t largest = int64_t{2048} * 512 * 4;
  EXPECT_LT(usage.ru_maxrss * 1024, 2 * largest + 200'000'000);
  EXPECT_EQ(fs::file_size(folder_ / "out/model.safetensors"),
            fs::file_size(folder_ / "large/model.safetensors"));
}

TEST_F(LargeExportTest, CtrlCEndsItAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGHUP}) {
    const pid_t pid = StartLarge();
    const std::string temporary = absl::StrCat(folder_ / "out", ".tmp-", pid);
    int status = 0;
    while (!fs::exists(temporary) && ::waitpid(pid, &status, WNOHANG) == 0) {
      std::this_thread::yield();
    }
    ASSERT_EQ(::kill(pid, signal), 0);
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(CountIn(folder_.path()), 1);  // the model it was to export
  }
}

TEST_F(CheckpointCommandTest, CtrlCEndsItWhileTheModelIsOpened) {
  // A lease holds whoever opens the file, and says so with SIGIO.
  sigset_t leased;
  sigemptyset(&leased);
  sigaddset(&leased, SIGIO);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &leased, nullptr), 0);
  const std::string folder = Step(20), path = folder + "/rank-00000.safetensors";
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  const pid_t pid = StartExport(folder);
  const timespec patience = {.tv_sec = 40, .tv_nsec = 0};
  EXPECT_EQ(::sigtimedwait(&leased, nullptr, &patience), SIGIO);
  ASSERT_EQ(::kill(pid, SIGINT), 0);
  ASSERT_EQ(::fcntl(file.get(), F_SETLEASE, F_UNLCK), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_EQ(CountIn(folder_.path()), 1);
}

}  // namespace
}  // namespace stretto
