// SPDX-License-Identifier: Apache-2.0

// stretto-trainer: one rank of one job. Started by the daemon of its node; not for people.

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "proto/base/log.h"
#include "worker/trainer/rank_process.h"

int main(int argc, char** argv) {
  CLI::App app{"stretto-trainer runs one rank of one job. stretto-worker starts it."};
  stretto::trainer::RankProcessOptions options;
  app.add_option("--socket", options.socket, "Unix socket of the worker daemon")->required();
  app.add_option("--job-uid", options.job_uid, "UID of the job")->required();
  app.add_option("--epoch", options.epoch, "epoch of the attempt, its fencing token")->required();
  app.add_option("--rank", options.rank, "rank in the job")->required();
  CLI11_PARSE(app, argc, argv);

  stretto::InitLogging("trainer");
  // One thread of the process handles the signals; they are blocked in all threads.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return stretto::trainer::RunRank(options);
}
