// SPDX-License-Identifier: Apache-2.0

// stretto-trainer: one rank of one job, or a look at what a job would find. Started by the daemon
// of its node; not for people.

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <string>

#include "proto/base/log.h"
#include "worker/data/mapping_faults.h"
#include "worker/trainer/inspect/inspect.h"
#include "worker/trainer/rank_process.h"

int main(int argc, char** argv) {
  CLI::App app{"stretto-trainer runs one rank of one job. stretto-worker starts it."};
  stretto::trainer::RankProcessOptions options;
  auto* const rank = app.add_option_group("Rank");
  rank->add_option("--socket", options.socket, "Unix socket of the worker daemon")->required();
  rank->add_option("--job-uid", options.job_uid, "UID of the job")->required();
  rank->add_option("--epoch", options.epoch, "epoch of the attempt, its fencing token")->required();
  rank->add_option("--rank", options.rank, "rank in the job")->required();
  std::string task, answer;
  auto* const inspection = app.add_subcommand("inspect", "look at what a job would find, and end");
  inspection->add_option("TASK", task, "file with an AttachResponse")->required();
  inspection->add_option("ANSWER", answer, "file for the Inspection")->required();
  inspection->preparse_callback([rank](size_t) {
    for (CLI::Option* option : rank->get_options()) option->required(false);
  });
  CLI11_PARSE(app, argc, argv);

  stretto::InitLogging("trainer");
  if (inspection->parsed()) {
    const absl::Status status = stretto::trainer::InspectJobOf(task, answer);
    if (!status.ok()) spdlog::error("cannot inspect: {}", status.ToString());
    return status.ok() ? 0 : 1;
  }
  // One thread of the process handles the signals; they are blocked in all threads.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  stretto::CatchMappingFaults();  // whatever reads data asks for them
  return stretto::trainer::RunRank(options);
}
