// SPDX-License-Identifier: Apache-2.0
#include "coordinator/flags/retention_flags.h"

#include "proto/commands/ranges.h"

namespace stretto::coordinator {

void AddRetentionFlags(CLI::App& app, Retention& retention) {
  app.add_option(limits::kEndedJobs.flag, retention.jobs,
                 "number of ended jobs to keep whole; when there are more, those that ended first "
                 "are retired: a short summary of each is kept, and their checkpoints stay on disk")
      ->check(Integer(0, INT64_MAX).description("at least 0"))
      ->capture_default_str();
  app.add_option("--keep-jobs-days", retention.days,
                 "days after which ended jobs are retired, by the wall clock; 0 sets no limit")
      ->check(Number(0, 36500))
      ->capture_default_str();
  app.add_option(limits::kRetiredJobs.flag, retention.retired,
                 "number of retired jobs to keep; when there are more, those that were created "
                 "first are deleted")
      ->check(Integer(0, 1'000'000).description("0 to 1000000"))
      ->capture_default_str();
}

void SetRetention(const Retention& retention, CoreOptions* options) {
  options->keep_jobs = retention.jobs;
  if (retention.days > 0) options->keep_jobs_for = absl::Hours(24 * retention.days);
  options->keep_retired = retention.retired;
}

}  // namespace stretto::coordinator
