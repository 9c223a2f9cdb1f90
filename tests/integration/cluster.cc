// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/cluster.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "tests/proto/monitoring/http_get.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;

std::string Binary(const std::string& name) { return absl::StrCat(STRETTO_BINARY_DIR, "/", name); }

// Sentences of few words: something a small model learns in a few steps.
std::string SomeText() {
  const char* words[] = {"the", "voice", "enters",   "before", "last",
                         "one", "has",   "finished", "its",    "theme"};
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 8000; ++i)
    absl::StrAppend(&text, words[random() % 10], i % 12 == 11 ? ".\n" : " ");
  return text;
}

// "KEY=VALUE" in a line of words.
std::string Fact(const std::string& line, const std::string& key) {
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::StartsWith(word, key + "=")) return std::string(word.substr(key.size() + 1));
  }
  ADD_FAILURE() << "no " << key << "= in: " << line;
  return "0";
}

std::string LastLines(const std::string& text, size_t count) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::string tail;
  for (size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); ++i) {
    absl::StrAppend(&tail, "    ", lines[i], "\n");
  }
  return tail;
}

// ".../epoch-7/rank-0"; 0 for an empty path.
int EpochIn(const std::string& path) {
  const size_t at = path.rfind("/epoch-");
  int epoch = 0;
  return at == std::string::npos || std::sscanf(path.c_str() + at, "/epoch-%d", &epoch) != 1
             ? 0
             : epoch;
}

}  // namespace

Json Outcome::json() const {
  Json value = Json::parse(out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << "not JSON: " << out << err;
  return value;
}

ClusterTest::ClusterTest() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // trainers of a killed daemon become our children
  unsetenv("STRETTO_COORDINATOR");
  std::string name = (fs::temp_directory_path() / "stretto-it-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  folder_ = name;
  checkpoint_root_ = Path("checkpoints");
  fs::create_directories(Path("data"));
  EXPECT_TRUE(WriteFileAtomic(Path("text.txt"), SomeText()).ok());
  Process prepare(
      {Binary("stretto-data"), "prepare", Path("text.txt"), "--output", Path("data/text")},
      Path("prepare"));
  EXPECT_EQ(prepare.Wait(), 0) << prepare.err();
}

void ClusterTest::KillAll() {
  workers_.clear();
  coordinator_.reset();
  KillChildren();
}

ClusterTest::~ClusterTest() {
  KillAll();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void ClusterTest::TearDown() {
  if (!HasFailure()) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    const bool daemon = entry.path().parent_path() == folder_ && absl::EndsWith(name, ".err") &&
                        absl::StrContains(name, "-log");
    if (!daemon && name != "trainer.log") continue;
    std::cerr << "--- " << entry.path().string() << "\n" << LastLines(ContentOf(entry.path()), 12);
  }
}

// ---- daemons

Arguments ClusterTest::CoordinatorArgv(const Arguments& flags) const {
  Arguments argv = {
      Binary("stretto-coordinator"), "--listen",    listen_ + ":" + grpc_port_, "--metrics-listen",
      "127.0.0.1:" + metrics_port_,  "--state-dir", Path("coordinator")};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

void ClusterTest::StartCoordinator(const Arguments& flags) {
  coordinator_ = std::make_unique<Process>(CoordinatorArgv(flags), Path("coordinator-log"));
  const std::string line = coordinator_->AwaitLine("listening ");
  grpc_port_ = Fact(line, "grpc");
  metrics_port_ = Fact(line, "metrics");
  if (absl::StrContains(line, " page=")) page_port_ = Fact(line, "page");
}

Arguments ClusterTest::WorkerArgv(const std::string& name, int slots,
                                  const Arguments& flags) const {
  Arguments argv = {Binary("stretto-worker"), "--name",      name,         "--slots",
                    absl::StrCat(slots),      "--data-root", Path("data"), "--checkpoint-root",
                    checkpoint_root_};
  const auto is_given = [&flags](const char* flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  if (!is_given("--coordinator")) {
    argv.insert(argv.end(), {"--coordinator", Coordinators()});
  }
  if (!is_given("--state-dir")) argv.insert(argv.end(), {"--state-dir", Path(name)});
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

void ClusterTest::LaunchWorker(const std::string& name, int slots, const Arguments& flags) {
  // Workers of one slot share the machine as `stretto up` does: a core each.
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int core = slots == 1 ? static_cast<int>(workers_.size()) % cores : -1;
  workers_[name] =
      std::make_unique<Process>(WorkerArgv(name, slots, flags), Path("worker-log-" + name), core);
}

void ClusterTest::AwaitWorker(const std::string& name) {
  worker_ports_[name] = Fact(workers_[name]->AwaitLine("ready "), "metrics");
}

void ClusterTest::StartWorker(const std::string& name, int slots, const Arguments& flags) {
  LaunchWorker(name, slots, flags);
  AwaitWorker(name);
}

void ClusterTest::StartCluster() {
  StartCoordinator();
  StartWorker("node-a", 2);
}

Outcome ClusterTest::RunDaemon(const Arguments& argv) {
  Process process(argv, Path(absl::StrCat("command-", ++commands_)));
  const int code = process.Wait();
  return {code, process.out(), process.err()};
}

// ---- the client

std::unique_ptr<Process> ClusterTest::StartStretto(const Arguments& arguments) {
  Arguments argv = {Binary("stretto"), "--coordinator", Coordinators()};
  if (arguments[0] == "up") argv.resize(1);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return std::make_unique<Process>(argv, Path(absl::StrCat("command-", ++commands_)));
}

Outcome ClusterTest::Stretto(const Arguments& arguments) {
  const std::unique_ptr<Process> process = StartStretto(arguments);
  const int code = process->Wait();
  return {code, process->out(), process->err()};
}

std::string ClusterTest::Write(const JobFile& job) {
  const std::string path = Path(job.name + ".yaml");
  const std::string text = absl::StrCat(
      "name: ", job.name, "\nmodel: ", job.model, "\ndata: ",
      absl::StartsWith(job.data, "{") ? job.data : absl::StrCat("{prefix: ", job.data, "}"),
      "\nparallelism: {dp_size: ", job.dp_size,
      job.zero > 0 ? absl::StrCat(", zero: ", job.zero) : "",
      job.stages.empty() ? absl::StrCat(", tp_size: ", job.tp_size, ", pp_size: ", job.pp_size)
                         : absl::StrCat(", stages: ", job.stages),
      job.chunks_per_stage > 1 ? absl::StrCat(", chunks_per_stage: ", job.chunks_per_stage) : "",
      job.wire.empty() ? "" : ", wire: ", job.wire, "}\nschedule: ", job.schedule,
      "\nsteps: ", job.steps, "\nmicro_batch_size: 4\n", job.more);
  EXPECT_TRUE(WriteFileAtomic(path, text).ok());
  return path;
}

Arguments ClusterTest::Submit(const JobFile& job, const Arguments& flags) {
  Arguments arguments = {"job", "submit", Write(job)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

Json ClusterTest::RunJob(const JobFile& job, const std::string& state) {
  Arguments flags = {"--wait", "-o", "json"};
  if (state == "failed") flags.push_back("--no-look");  // the failure is to be the trainers'
  const Outcome submitted = Stretto(Submit(job, flags));
  const Json ended = Job(job.name);
  EXPECT_EQ(ended["state"], state) << submitted.err << ended["conditions"].dump(1);
  EXPECT_EQ(submitted.code, state == "succeeded" ? 0 : state == "failed" ? 3 : 4);
  return ended;
}

Json ClusterTest::Job(const std::string& name) {
  return Stretto({"job", "get", name, "-o", "json"}).json();
}

Json ClusterTest::AwaitJob(const std::string& name, const std::string& what,
                           const std::function<bool(const Json&)>& done) {
  Json job;
  const bool held = Eventually([&] { return done(job = Job(name)); });
  EXPECT_TRUE(held) << "job " << name << " never was " << what << ": " << job.dump(1);
  return job;
}

Json ClusterTest::AwaitState(const std::string& name, const std::string& state) {
  return AwaitJob(name, state, [&](const Json& job) { return job["state"] == state; });
}

Json ClusterTest::AwaitStep(const std::string& name, int step) {
  return AwaitJob(name, absl::StrCat("at step ", step),
                  [&](const Json& job) { return Int(job["progress"]["steps"]) >= step; });
}

std::vector<double> ClusterTest::Losses(const std::string& name) {
  std::vector<double> losses;
  for (const Json& step : Steps(name)) losses.push_back(step["loss"].get<double>());
  return losses;
}

void ClusterTest::RunExample(const std::string& name) {
  const Outcome outcome =
      Stretto({"job", "submit", absl::StrCat(STRETTO_SOURCE_DIR "/deploy/examples/", name, ".yaml"),
               "--wait"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

std::vector<Json> ClusterTest::StepsIn(const std::string& events) {
  std::vector<Json> steps;
  for (const absl::string_view line : absl::StrSplit(events, '\n', absl::SkipEmpty())) {
    const Json event = Json::parse(std::string(line), nullptr, false);
    if (event.is_object() && event.contains("step")) steps.push_back(event["step"]);
  }
  return steps;
}

std::vector<Json> ClusterTest::Steps(const std::string& name) {
  return StepsIn(Stretto({"job", "watch", name, "-o", "json"}).out);
}

std::string ClusterTest::Fetch(const std::string& port, const std::string& path) {
  int number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(port, &number));
  return monitoring::HttpGet(number, path);
}

// ---- folders

std::string ClusterTest::RunFolder(const std::string& job, int rank) const {
  const std::string tail = absl::StrCat("/rank-", rank);
  std::error_code error;
  std::string newest;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    if (!absl::StrContains(path, absl::StrCat("/runs/", job, "-")) || !absl::EndsWith(path, tail))
      continue;
    if (EpochIn(path) >= EpochIn(newest)) newest = path;
  }
  if (!newest.empty()) return newest;
  ADD_FAILURE() << "no run folder of job " << job << " rank " << rank << " in " << folder_;
  return folder_;
}

std::string ClusterTest::ReadRun(const std::string& job, int rank, const std::string& file) const {
  return ContentOf(absl::StrCat(RunFolder(job, rank), "/", file));
}

void ClusterTest::LoseARank(JobFile job, int rank) {
  job.steps = 100000;
  absl::StrAppend(&job.more, kSlow, "checkpoint: {interval_steps: 4}\n");
  ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
  AwaitJob(job.name, "its first checkpoint", [](const Json& job) {
    return job["progress"].value("last_checkpoint", "") == "step-00000004";
  });
  ASSERT_EQ(kill(TrainerPid(job.name, rank), SIGKILL), 0);
  AwaitState(job.name, "failed");
}

pid_t ClusterTest::TrainerPid(const std::string& job, int rank) const {
  int pid = 0;
  const std::string text = ReadRun(job, rank, "pid");
  EXPECT_TRUE(absl::SimpleAtoi(text.substr(0, text.find(' ')), &pid)) << text;
  return pid;
}

int ClusterTest::LoggedStep(const std::string& job, int rank) const {
  const std::string log = ReadRun(job, rank, "trainer.log");
  const size_t at = log.rfind(": step ");
  int step = 0;
  return at == std::string::npos || std::sscanf(log.c_str() + at, ": step %d", &step) != 1 ? 0
                                                                                           : step;
}

}  // namespace stretto::integration
