// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cluster of real processes in a temporary folder: a coordinator, workers, and the client as
// people run it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process.h"
#include "tests/integration/values.h"

namespace stretto::integration {

using Arguments = std::vector<std::string>;

// What a command left behind.
struct Outcome {
  int code = -1;
  std::string out, err;
  Json json() const;  // of stdout; fails the test when it is none
};

// A job file: gpt-tiny, two ranks, domino_row, unless said otherwise.
struct JobFile {
  std::string name;
  int steps = 10;
  std::string model = "{preset: gpt-tiny}";
  std::string data = "text";  // its prefix, or all of it: "{...}"
  int tp_size = 2;
  int dp_size = 1;
  int zero = 0;
  int pp_size = 1;
  int chunks_per_stage = 1;
  std::string stages = "";  // a list, in place of tp_size and pp_size
  std::string wire = "";    // as precision
  std::string schedule = "{name: domino_row, parameters: {slices: 2}}";
  std::string more = "";  // whole lines
};
// Slows a job down without burning CPU: some 26 collectives of a step take 2 * 2 ms each, or more.
inline constexpr char kSlow[] =
    "emulated_link: {gigabits_per_second: 100, latency_microseconds: 2000}\n";

// For ranks of a block on several nodes.
inline constexpr char kSplit[] = "placement: {split_blocks: true}\n";

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest();
  ~ClusterTest() override;

  // ---- daemons. Flags beyond the usual ones; a second start is on the same state and ports.
  void StartCoordinator(const Arguments& flags = {});
  // The address of the coordinator, or those of several.
  virtual std::string Coordinators() const { return "127.0.0.1:" + grpc_port_; }
  void StartWorker(const std::string& name, int slots, const Arguments& flags = {});
  // The two halves of it.
  void LaunchWorker(const std::string& name, int slots, const Arguments& flags = {});
  void AwaitWorker(const std::string& name);
  // A cluster with one worker of two slots.
  void StartCluster();
  // Every process of the cluster.
  void KillAll();
  Process& coordinator() { return *coordinator_; }
  Process& worker(const std::string& name) { return *workers_.at(name); }
  // Exit code and output of a program that ends by itself, such as a daemon that must not come up.
  Outcome RunDaemon(const Arguments& argv);
  Arguments CoordinatorArgv(const Arguments& flags) const;
  Arguments WorkerArgv(const std::string& name, int slots, const Arguments& flags) const;

  // ---- the client
  Outcome Stretto(const Arguments& arguments);
  std::unique_ptr<Process> StartStretto(const Arguments& arguments);
  std::string Write(const JobFile& job);  // the path of its file
  Arguments Submit(const JobFile& job, const Arguments& flags);
  // Submits and waits for the end; fails the test when it is not as expected.
  Json RunJob(const JobFile& job, const std::string& state = "succeeded");
  Json Job(const std::string& name);
  // Until `done` holds; fails the test at the deadline.
  Json AwaitJob(const std::string& name, const std::string& what,
                const std::function<bool(const Json&)>& done);
  Json AwaitState(const std::string& name, const std::string& state);
  Json AwaitStep(const std::string& name, int step);
  // Runs the job slowly, kills the trainer of `rank` once the checkpoint of step 4 is there, which
  // is then what is left, and waits until the job has failed.
  void LoseARank(JobFile job, int rank);
  // Step reports of `job watch`, or of what `submit --follow -o json` wrote.
  std::vector<Json> Steps(const std::string& name);
  std::vector<double> Losses(const std::string& name);
  // Trains the job file of deploy/examples, whose job has its name.
  void RunExample(const std::string& name);
  static std::vector<Json> StepsIn(const std::string& events);
  // The labels and values of a /metrics page.
  std::string Metrics(const std::string& port) { return Fetch(port, "/metrics"); }
  // The whole answer of a daemon's HTTP port.
  std::string Fetch(const std::string& port, const std::string& path);

  // ---- folders
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string CheckpointFolder(const std::string& name) const {
    return checkpoint_root_ + "/" + name;
  }
  // Of a rank's newest attempt, on any worker.
  std::string RunFolder(const std::string& job, int rank) const;
  std::string ReadRun(const std::string& job, int rank, const std::string& file) const;
  pid_t TrainerPid(const std::string& job, int rank) const;
  // The newest step in its log.
  int LoggedStep(const std::string& job, int rank) const;

  void TearDown() override;  // shows the logs of a test that failed

  std::string folder_;
  std::string checkpoint_root_;
  std::string listen_ = "127.0.0.1";  // of the coordinator
  std::string grpc_port_ = "0", metrics_port_ = "0";
  std::string page_port_ = "0";                      // with --page-listen
  std::map<std::string, std::string> worker_ports_;  // of their metrics

 private:
  std::map<std::string, std::unique_ptr<Process>> workers_;
  std::unique_ptr<Process> coordinator_;
  int commands_ = 0;
};

}  // namespace stretto::integration
