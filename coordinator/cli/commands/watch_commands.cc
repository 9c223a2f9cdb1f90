// The commands that follow a job: watch, logs, curve.
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/commands/job_commands.h"
#include "coordinator/cli/screen/live_line.h"
#include "coordinator/cli/screen/loss_curve.h"
#include "coordinator/cli/screen/progress.h"
#include "coordinator/cli/screen/watch_screen.h"
#include "coordinator/cli/text/names.h"
#include "coordinator/cli/text/print.h"
#include "coordinator/cli/text/print_job.h"
#include "coordinator/cli/yaml/message_text.h"

namespace stretto::cli {
namespace {

// Shows the events of a followed job as they come.
class Watcher {
 public:
  Watcher(const Session& session, bool quiet)
      : session_(session), quiet_(quiet), line_(session.terminal) {}

  FollowHandlers handlers() {
    return {[this](const v1alpha1::Job& job) { OnJob(job); },
            [this](const v1alpha1::StepReport& step) { OnStep(step); },
            [this](const std::string& notice) { line_.Message(notice); }};
  }
  void Finish() { line_.Clear(); }

 private:
  bool table() const { return session_.format == OutputFormat::kTable; }

  void OnJob(const v1alpha1::Job& job) {
    if (quiet_) return;
    if (!table()) {
      v1alpha1::WatchJobResponse event;
      *event.mutable_job() = job;
      PrintEvent(event);
      return;
    }
    tracker_.Add(job);
    std::string news = absl::StrCat("job ", ShortResourceName(job.name()), " ",
                                    StateText(job.state(), session_.terminal.color));
    if (job.state() == v1alpha1::Job::PENDING) {
      const std::string why = WhyText(job);
      if (!why.empty()) absl::StrAppend(&news, ": ", why);
    }
    if (!HasEnded(job.state()) && news != news_) line_.Line(news);
    news_ = news;
  }

  void OnStep(const v1alpha1::StepReport& step) {
    if (quiet_) return;
    if (!table()) {
      v1alpha1::WatchJobResponse event;
      *event.mutable_step() = step;
      PrintEvent(event);
      return;
    }
    tracker_.Add(step);
    if (session_.terminal.live) {
      line_.Rewrite(tracker_.Line());
    } else if (tracker_.IsMilestone()) {
      line_.Line(tracker_.Line());
    }
  }

  // One line of JSON, or one document of YAML.
  void PrintEvent(const v1alpha1::WatchJobResponse& event) {
    session_.terminal.out << (session_.format == OutputFormat::kJson
                                  ? ToJson(event, false)
                                  : absl::StrCat("---\n", ToYaml(event)))
                          << std::flush;
  }

  const Session& session_;
  const bool quiet_;
  LiveLine line_;
  ProgressTracker tracker_;
  std::string news_;
};

absl::StatusOr<FollowResult> Follow(const Session& session, const std::string& name,
                                    FollowStyle style) {
  const bool table = session.format == OutputFormat::kTable;
  if (style == FollowStyle::kScreen && session.terminal.screen && table) {
    WatchScreen screen(session, name);
    return FollowJob(session, name, screen.handlers());
  }
  Watcher watcher(session, style == FollowStyle::kQuiet);
  auto result = FollowJob(session, name, watcher.handlers());
  watcher.Finish();
  return result;
}

ExitCode CodeOf(v1alpha1::Job::State state) {
  return state == v1alpha1::Job::SUCCEEDED ? kOk
         : state == v1alpha1::Job::FAILED  ? kJobFailed
                                           : kJobCancelled;
}

void PrintNext(const Session& session, const v1alpha1::Job& job) {
  const std::string name = ShortResourceName(job.name());
  std::ostream& err = session.terminal.err;
  err << "Next:\n";
  if (job.state() == v1alpha1::Job::FAILED) {
    const std::string rank =
        job.has_first_failure() ? absl::StrCat(" --rank ", job.first_failure().rank()) : "";
    err << "  " << Hint(session, absl::StrCat("job logs ", name, rank)) << "\n";
  } else {
    err << "  " << Hint(session, absl::StrCat("job curve ", name)) << "\n";
  }
  err << "  " << Hint(session, absl::StrCat("job describe ", name)) << "\n";
}

ExitCode Detach(const Session& session, const std::string& name) {
  session.terminal.err << "detached: job " << name << " goes on\n  "
                       << Hint(session, absl::StrCat("job watch ", name))
                       << "   to follow it again\n  "
                       << Hint(session, absl::StrCat("job cancel ", name)) << "  to cancel it\n";
  return kDetached;
}

}  // namespace

ExitCode WatchJob(const Session& session, const std::string& name, FollowStyle style) {
  const std::string id = ShortResourceName(name);
  const bool quiet = style == FollowStyle::kQuiet;
  const auto result = Follow(session, ResourceName("jobs", id), style);
  if (!result.ok()) {
    const ExitCode code = ReportError(session, result.status());
    if (IsTransient(result.status())) {
      session.terminal.err << "The job goes on. Next:\n  "
                           << Hint(session, absl::StrCat("job watch ", id)) << "\n";
    }
    return code;
  }
  if (result->detached) return Detach(session, id);
  if (session.format == OutputFormat::kTable) {
    session.terminal.out << Summary(result->job, session.terminal.color) << std::flush;
    PrintNext(session, result->job);
  } else if (quiet) {
    PrintMessage(session, result->job);
  }
  return CodeOf(result->job.state());
}

ExitCode JobLogs(const Session& session, const std::string& name, int rank, bool follow) {
  const std::string id = ShortResourceName(name);
  const auto sink = [&](int from, const std::string& data) {
    const std::string text = session.terminal.live ? Printable(data) : data;
    if (rank >= 0) {
      session.terminal.out << text << std::flush;
      return;
    }
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    for (const std::string& line : lines)
      session.terminal.out << "[rank " << from << "] " << line << "\n";
    session.terminal.out << std::flush;
  };
  const auto notice = [&](const std::string& text) { session.terminal.err << text << "\n"; };
  const absl::Status status =
      FollowLogs(session, ResourceName("jobs", id), rank, follow, sink, notice);
  if (status.ok()) return kOk;
  if (follow && session.interrupt.raised()) return Detach(session, id);
  return ReportError(session, status);
}

ExitCode JobCurve(const Session& session, const std::string& name, int height) {
  v1alpha1::WatchJobRequest request;
  request.set_name(ResourceName("jobs", name));
  std::vector<CurvePoint> points;
  int64_t steps = -1;  // finished when we asked; the stream goes on, the picture need not
  const absl::Status status =
      session.client.WatchJob(request, [&](const v1alpha1::WatchJobResponse& event) {
        if (event.has_job() && steps < 0) steps = event.job().progress().steps();
        if (event.has_step()) {
          points.push_back({static_cast<double>(event.step().step()), event.step().loss()});
        }
        return steps < 0 || (steps > 0 && (!event.has_step() || event.step().step() < steps));
      });
  if (!status.ok()) return ReportError(session, status);
  std::ostream& out = session.terminal.out;
  if (session.format != OutputFormat::kTable) {
    const bool json = session.format == OutputFormat::kJson;
    for (const CurvePoint& point : points) {
      // NaN is not JSON; null is.
      const std::string loss =
          std::isfinite(point.y) ? absl::StrFormat("%.9g", point.y) : (json ? "null" : ".nan");
      out << (json ? absl::StrFormat("{\"step\":%.0f,\"loss\":%s}\n", point.x, loss)
                   : absl::StrFormat("- {step: %.0f, loss: %s}\n", point.x, loss));
    }
    return kOk;
  }
  const CurveStyle style{
      .width = session.terminal.width, .height = height, .braille = session.terminal.unicode};
  out << "loss of job " << ShortResourceName(name) << "\n";
  for (const std::string& line : DrawCurve(points, "step", style)) out << line << "\n";
  return kOk;
}

}  // namespace stretto::cli
