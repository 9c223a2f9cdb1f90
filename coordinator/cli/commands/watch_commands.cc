// SPDX-License-Identifier: Apache-2.0

// `watch` follows a job with a Watcher, which prints its events as lines, or with the full-screen
// view. `logs` prints the logs of the ranks. `curve` collects the losses so far and draws them.

#include "coordinator/cli/commands/watch_commands.h"

#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/client/reconnector.h"
#include "coordinator/cli/screen/live_line.h"
#include "coordinator/cli/screen/loss_curve.h"
#include "coordinator/cli/screen/progress.h"
#include "coordinator/cli/screen/watch_screen.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/printable.h"
#include "proto/document/document.h"

namespace stretto::cli {
namespace {

// Prints the events of a followed job as they arrive.
class Watcher {
 public:
  Watcher(const Invocation& invocation, bool quiet)
      : invocation_(invocation), quiet_(quiet), line_(invocation.terminal) {}

  FollowHandlers handlers() {
    return {[this](const v1alpha1::Job& job) { OnJob(job); },
            [this](const v1alpha1::StepReport& step) { OnStep(step); },
            [this](const std::string& notice) { line_.Message(notice); }};
  }
  void Finish() { line_.Clear(); }

 private:
  bool table() const { return invocation_.format == OutputFormat::kTable; }

  void OnJob(const v1alpha1::Job& job) {
    if (quiet_) return;
    if (!table()) {
      v1alpha1::WatchJobResponse event;
      *event.mutable_job() = job;
      PrintEvent(invocation_, event);
      return;
    }
    tracker_.Add(job);
    std::string news = absl::StrCat("job ", ShortResourceName(job.name()), " ",
                                    StateText(job.state(), invocation_.terminal.color));
    if (job.state() == v1alpha1::Job::PENDING) {
      const std::string why = WhyText(job);
      if (!why.empty()) absl::StrAppend(&news, ": ", why);
    }
    if (!HasEnded(job.state()) && news != news_) line_.Line(news);
    news_ = news;
    for (const v1alpha1::Samples& samples : samples_.NewsOf(job)) {
      for (const std::string& text : SampleLines(samples)) line_.Line(text);
    }
  }

  void OnStep(const v1alpha1::StepReport& step) {
    if (quiet_) return;
    if (!table()) {
      v1alpha1::WatchJobResponse event;
      *event.mutable_step() = step;
      PrintEvent(invocation_, event);
      return;
    }
    tracker_.Add(step);
    if (invocation_.terminal.live) {
      line_.Rewrite(tracker_.Line());
    } else if (tracker_.IsMilestone()) {
      line_.Line(tracker_.Line());
    }
  }

  const Invocation& invocation_;
  const bool quiet_;
  LiveLine line_;
  ProgressTracker tracker_;
  SampleTracker samples_;
  std::string news_;
};

absl::StatusOr<FollowResult> Follow(const Invocation& invocation, const std::string& name,
                                    FollowStyle style) {
  const bool table = invocation.format == OutputFormat::kTable;
  if (style == FollowStyle::kScreen && invocation.terminal.screen && table) {
    WatchScreen screen(invocation, name);
    return FollowJob(invocation, name, screen.handlers());
  }
  Watcher watcher(invocation, style == FollowStyle::kQuiet);
  auto result = FollowJob(invocation, name, watcher.handlers());
  watcher.Finish();
  return result;
}

ExitCode CodeOf(v1alpha1::Job::State state) {
  return state == v1alpha1::Job::SUCCEEDED ? kOk
         : state == v1alpha1::Job::FAILED  ? kJobFailed
                                           : kJobCancelled;
}

void PrintNext(const Invocation& invocation, const v1alpha1::Job& job) {
  const std::string name = ShortResourceName(job.name());
  std::ostream& err = invocation.terminal.err;
  err << "Next:\n";
  if (job.state() == v1alpha1::Job::FAILED) {
    const std::string rank =
        job.has_first_failure() ? absl::StrCat(" --rank ", job.first_failure().rank()) : "";
    err << "  " << Hint(invocation, absl::StrCat("job logs ", name, rank)) << "\n";
  } else {
    err << "  " << Hint(invocation, absl::StrCat("job curve ", name)) << "\n";
  }
  err << "  " << Hint(invocation, absl::StrCat("job describe ", name)) << "\n";
}

ExitCode Detach(const Invocation& invocation, const std::string& name) {
  invocation.terminal.err << "detached: job " << name << " continues\n  "
                          << Hint(invocation, absl::StrCat("job watch ", name))
                          << "   to follow it again\n  "
                          << Hint(invocation, absl::StrCat("job cancel ", name))
                          << "  to cancel it\n";
  return kDetached;
}

}  // namespace

ExitCode WatchJob(const Invocation& invocation, const std::string& name, FollowStyle style) {
  const std::string id = ShortResourceName(name);
  const bool quiet = style == FollowStyle::kQuiet;
  const auto result = Follow(invocation, ResourceName("jobs", id), style);
  if (!result.ok()) {
    const ExitCode code = ReportError(invocation, result.status());
    if (IsTransient(result.status())) {
      invocation.terminal.err << "The job continues. Next:\n  "
                              << Hint(invocation, absl::StrCat("job watch ", id)) << "\n";
    }
    return code;
  }
  if (result->detached) return Detach(invocation, id);
  if (invocation.format == OutputFormat::kTable) {
    invocation.terminal.out << Summary(result->job, invocation.terminal.color) << std::flush;
    PrintNext(invocation, result->job);
  } else if (quiet) {
    PrintMessage(invocation, result->job);
  }
  return CodeOf(result->job.state());
}

ExitCode JobLogs(const Invocation& invocation, const LogOptions& options) {
  const std::string id = ShortResourceName(options.name);
  v1alpha1::StreamJobLogsRequest request;
  request.set_name(ResourceName("jobs", id));
  request.set_follow(options.follow);
  if (options.rank >= 0) request.set_rank(options.rank);
  if (options.tail >= 0) request.mutable_selection()->set_tail_lines(options.tail);
  if (!options.grep.empty()) request.mutable_selection()->set_grep(options.grep);
  if (!options.since.empty()) {
    const absl::StatusOr<absl::Time> since = ParsePast(options.since, absl::Now());
    if (!since.ok()) return ReportError(invocation, since.status());  // the flag has checked it
    *request.mutable_selection()->mutable_since() = ToTimestamp(*since);
  }
  const auto sink = [&](int from, const std::string& data) {
    const std::string text = invocation.terminal.live ? Printable(data) : data;
    if (options.rank >= 0) {
      invocation.terminal.out << text << std::flush;
      return;
    }
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    for (const std::string& line : lines)
      invocation.terminal.out << "[rank " << from << "] " << line << "\n";
    invocation.terminal.out << std::flush;
  };
  const auto notice = [&](const std::string& text) { invocation.terminal.err << text << "\n"; };
  const absl::Status status = FollowLogs(invocation, std::move(request), sink, notice);
  if (status.ok()) return kOk;
  if (options.follow && invocation.interrupt.raised()) return Detach(invocation, id);
  return ReportError(invocation, status);
}

ExitCode JobCurve(const Invocation& invocation, const std::string& name, int height) {
  v1alpha1::WatchJobRequest request;
  request.set_name(ResourceName("jobs", name));
  std::vector<CurvePoint> points, held_out;
  int64_t steps = -1;  // steps finished at the call; the curve ends there, the stream does not
  const absl::Status status =
      invocation.client.WatchJob(request, [&](const v1alpha1::WatchJobResponse& event) {
        if (event.has_job() && steps < 0) steps = event.job().progress().steps();
        if (event.has_step()) {
          points.push_back({static_cast<double>(event.step().step()), event.step().loss()});
        }
        if (event.step().has_evaluation()) {
          held_out.push_back({points.back().x, event.step().evaluation().loss()});
        }
        return steps < 0 || (steps > 0 && (!event.has_step() || event.step().step() < steps));
      });
  if (!status.ok()) return ReportError(invocation, status);
  std::ostream& out = invocation.terminal.out;
  if (invocation.format != OutputFormat::kTable) {
    for (const CurvePoint& point : points) {
      const Document loss = std::isfinite(point.y) ? Document(point.y) : Document(nullptr);
      out << StreamText({{"step", static_cast<int64_t>(point.x)}, {"loss", loss}},
                        invocation.format);
    }
    return kOk;
  }
  const CurveStyle style{
      .width = invocation.terminal.width, .height = height, .braille = invocation.terminal.unicode};
  out << "loss of job " << ShortResourceName(name) << "\n";
  for (const std::string& line : DrawCurve(points, "step", style, held_out)) out << line << "\n";
  return kOk;
}

}  // namespace stretto::cli
