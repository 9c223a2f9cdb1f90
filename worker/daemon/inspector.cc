// SPDX-License-Identifier: Apache-2.0

// One thread takes a request, writes it to a file, starts a trainer with it, waits until the
// trainer ends or its time is up, and reads the trainer's answer from another file.

#include "worker/daemon/inspector.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "worker/daemon/process.h"
#include "worker/daemon/trainer_environment.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

v1::Inspection NotDone(int64_t id, absl::string_view why) {
  v1::Inspection answer;
  answer.set_id(id);
  answer.set_not_done(std::string(why));
  return answer;
}

}  // namespace

Inspector::Inspector(Options options, std::function<void()> wake)
    : options_(std::move(options)),
      wake_(std::move(wake)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

Inspector::~Inspector() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_.get(), &one, sizeof(one));
  changed_.NotifyAll();
  thread_.join();
}

void Inspector::Request(const v1::Inspect& request) {
  {
    const MutexLock lock(mu_);
    if (waiting_.size() < options_.most_waiting) {
      waiting_.push_back(request);
      changed_.NotifyAll();
      return;
    }
  }
  Answer(NotDone(request.id(), "the worker looks at other jobs"));
}

std::optional<v1::Inspection> Inspector::Next() {
  const MutexLock lock(mu_);
  if (answers_.empty()) return std::nullopt;
  v1::Inspection answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

void Inspector::Answer(v1::Inspection answer) {
  {
    const MutexLock lock(mu_);
    answers_.push_back(std::move(answer));
  }
  wake_();
}

void Inspector::Run() {
  while (true) {
    v1::Inspect request;
    {
      const MutexLock lock(mu_);
      changed_.Wait(mu_, [this]() REQUIRES(mu_) { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      request = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Answer(Look(request));
  }
}

v1::Inspection Inspector::Look(const v1::Inspect& request) {
  const std::string task_file = options_.folder + "/task",
                    answer_file = options_.folder + "/answer";
  v1::AttachResponse task = options_.roots;
  task.mutable_assign()->set_job_id(request.job_id());
  *task.mutable_assign()->mutable_spec() = request.spec();
  task.mutable_assign()->set_attempt(1);
  const auto look = [&]() -> absl::StatusOr<v1::Inspection> {
    RETURN_IF_ERROR(MakeFolders(options_.folder));
    RETURN_IF_ERROR(RemoveTree(answer_file));
    RETURN_IF_ERROR(WriteFileAtomic(task_file, task.SerializeAsString()));
    RETURN_IF_ERROR(RunTrainer(task_file, answer_file));
    ASSIGN_OR_RETURN(const std::string bytes,
                     ReadSmallFile(answer_file, limits::kMessageBytes.value));
    v1::Inspection answer;
    if (!answer.ParseFromString(bytes)) return absl::InternalError("its answer is damaged");
    return answer;
  };
  absl::StatusOr<v1::Inspection> answer = look();
  if (!answer.ok()) return NotDone(request.id(), answer.status().message());
  answer->set_id(request.id());
  return *std::move(answer);
}

absl::Status Inspector::RunTrainer(const std::string& task, const std::string& answer) {
  const FileDescriptor output(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!output.valid()) return ErrnoStatus(errno, "open /dev/null");
  ASSIGN_OR_RETURN(const ProcessId trainer,
                   Spawn({.binary = options_.trainer_binary,
                          .args = {"inspect", task, answer},
                          .env = TrainerEnvironment(/*gpu_uuid=*/"", /*address=*/""),
                          .output_fd = output.get(),
                          .rights = options_.rights,
                          .group = "stretto-inspection"}));
  ASSIGN_OR_RETURN(const FileDescriptor watch, WatchProcess(trainer));
  pollfd entries[] = {{.fd = watch.get(), .events = POLLIN, .revents = 0},
                      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  poll(entries, 2, static_cast<int>(absl::ToInt64Milliseconds(options_.limit)));
  const bool ended = (entries[0].revents & POLLIN) != 0;
  if (!ended) SignalGroup(trainer, SIGKILL);
  const ExitStatus status = Reap(watch);
  if (!ended) {
    return absl::DeadlineExceededError(absl::StrCat("the trainer that looked did not end within ",
                                                    absl::FormatDuration(options_.limit)));
  }
  if (status.code == 0 && status.signal == 0) return absl::OkStatus();
  return absl::InternalError(
      status.signal != 0 ? absl::StrCat("the trainer that looked ended by signal ", status.signal)
                         : absl::StrCat("the trainer that looked ended with code ", status.code));
}

}  // namespace stretto::daemon
