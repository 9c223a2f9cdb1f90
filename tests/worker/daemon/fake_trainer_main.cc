// SPDX-License-Identifier: Apache-2.0

// A trainer that trains nothing: attaches, reports steps and ends as the job's data prefix says.
//   steps=N;then=WHAT[;rankR=WHAT]      WHAT is for all ranks, or for rank R alone:
//   complete   RankExit Completed, code 0       code3     exit 3, no RankExit
//   hang       until told to stop               segv      raise SIGSEGV
//   deaf       until SIGKILL                    linger    RankExit Completed, but never exits
//   evil       reports what no coordinator admits, and exits with 3
// SIGUSR1 makes one more step. Every step writes a line to stdout.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "stretto/v1alpha1/trainer.grpc.pb.h"
#include "worker/report/flight_record.h"
#include "worker/report/report_log.h"

namespace {

namespace v1 = stretto::v1alpha1;
using Stream = grpc::ClientReaderWriter<v1::TrainerMessage, v1::DaemonMessage>;

class FakeTrainer {
 public:
  explicit FakeTrainer(std::map<std::string, std::string> flags)
      : flags_(std::move(flags)),
        stub_(v1::TrainerService::NewStub(grpc::CreateChannel(
            "unix:" + flags_.at("--socket"), grpc::InsecureChannelCredentials()))) {
    STRETTO_CHECK(absl::SimpleAtoi(flags_.at("--epoch"), &epoch_));
    STRETTO_CHECK(absl::SimpleAtoi(flags_.at("--rank"), &rank_));
  }

  int Run() {
    v1::AttachRequest request;
    request.set_job_uid(flags_.at("--job-uid"));
    request.set_epoch(epoch_);
    request.set_rank(rank_);
    request.set_pid(::getpid());
    grpc::ClientContext context;
    const grpc::Status status = stub_->Attach(&context, request, &task_);
    if (!status.ok()) {
      std::printf("attach refused: %s\n", status.error_message().c_str());
      return 9;
    }
    for (const std::string& part :
         std::vector<std::string>(absl::StrSplit(task_.assign().spec().data().prefix(), ';'))) {
      const std::vector<std::string> pair = absl::StrSplit(part, '=');
      if (pair.size() == 2) behaviour_[pair[0]] = pair[1];
    }
    std::ofstream(task_.run_folder() + "/program.txt")
        << "17 compute gemm L3.fc2 fwd mb0 s0 in=%9,%w3 out=%12\n"
        << "18 comm.tp all_reduce L3.fc2 fwd mb0 s0 in=%12 out=%12 wait=17\n";
    log_.emplace(*stretto::ReportLog::Open(task_.run_folder() + "/reports.log"));
    flight_.emplace(*stretto::FlightRecorder::Create(task_.run_folder() + "/flight.bin"));
    std::thread([this] { Connect(); }).detach();  // ends with the process
    return Train();
  }

 private:
  int Train() {
    v1::RankReport prepared;
    prepared.mutable_prepared();
    Report(prepared);
    int steps = 0;
    STRETTO_CHECK(absl::SimpleAtoi(behaviour_["steps"], &steps));
    for (int i = 0; i < steps; ++i) Step();
    const std::string own = absl::StrCat("rank", rank_);
    return End(behaviour_.count(own) != 0 ? behaviour_[own] : behaviour_["then"]);
  }

  void Step() {
    const absl::Duration now = stretto::Clock::Real().Monotonic();
    ++step_;
    flight_->SetStep(step_, now);
    flight_->SetPhase(stretto::FlightPhase::kForward, now);
    flight_->SetOperation(stretto::FlightLane::kComm, 18, now);
    std::printf("step %d of rank %d\n", step_, rank_);
    std::fflush(stdout);
    v1::RankReport report;
    report.mutable_step()->set_step(step_);
    report.mutable_step()->set_rank(rank_);
    report.mutable_step()->set_loss(1.0 / step_);
    report.mutable_step()->set_tokens(64);
    report.mutable_step()->set_wall_seconds(0.02);
    Report(report);
  }

  int End(const std::string& what) {
    if (what == "complete") return Exit(0, "Completed");
    if (what == "code3") return 3;
    if (what == "segv") ::raise(SIGSEGV);
    if (what == "evil") return Evil();
    if (what == "linger") Exit(0, "Completed");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    for (int signal = 0; ::sigwait(&set, &signal) == 0;) {
      if (signal == SIGUSR1) {
        Step();
      } else if (what == "hang") {
        return Exit(1, "Cancelled");
      }
    }
    return 8;
  }

  int Evil() {
    v1::RankReport report;
    report.mutable_step()->set_step(++step_);
    report.mutable_step()->set_tokens(INT64_MIN);
    for (int i = 0; i < 10'000; ++i) report.mutable_step()->mutable_ledger()->add_entries();
    Report(report);
    report.Clear();
    report.mutable_exit()->set_exit_code(3);
    report.mutable_exit()->set_reason("Evil\x1b[2J");
    report.mutable_exit()->set_message(std::string(100'000, '\n'));
    Report(report);
    return 3;
  }

  int Exit(int code, const std::string& reason) {
    v1::RankReport report;
    report.mutable_exit()->set_exit_code(code);
    report.mutable_exit()->set_reason(reason);
    report.mutable_exit()->set_step(step_);
    Report(report);
    return code;
  }

  void Report(v1::RankReport report) {
    const std::lock_guard lock(mu_);
    report.set_job_id(task_.assign().job_id());
    report.set_job_uid(flags_.at("--job-uid"));
    report.set_epoch(epoch_);
    report.set_rank(rank_);
    STRETTO_CHECK(log_->Append(&report).ok());
    v1::TrainerMessage message;
    *message.mutable_report() = report;
    if (stream_ == nullptr) {
      unsent_ = message;
    } else if (!stream_->Write(message)) {
      stream_ = nullptr;
    }
  }

  void Connect() {
    while (true) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      std::unique_ptr<Stream> stream = stub_->Reports(&context);
      v1::TrainerMessage hello;
      hello.mutable_hello()->set_job_uid(flags_.at("--job-uid"));
      hello.mutable_hello()->set_epoch(epoch_);
      hello.mutable_hello()->set_rank(rank_);
      stream->Write(hello);
      {
        const std::lock_guard lock(mu_);
        stream_ = stream.get();
        if (unsent_.has_value()) stream->Write(*unsent_);  // as worker/trainer/link/daemon_link.cc
        unsent_.reset();
      }
      v1::DaemonMessage message;
      while (stream->Read(&message)) {
        if (message.has_save()) {
          v1::RankReport report;
          report.mutable_checkpoint()->set_step(step_);
          report.mutable_checkpoint()->set_request(message.save().request());
          Report(report);
        }
        if (!message.has_stop()) continue;
        std::printf("stop requested checkpoint=%d\n", message.stop().checkpoint());
        std::fflush(stdout);
        ::kill(::getpid(), SIGTERM);
      }
      const std::lock_guard lock(mu_);
      stream_ = nullptr;
      if (stream->Finish().error_code() == grpc::StatusCode::ABORTED) std::_Exit(7);
    }
  }

  std::map<std::string, std::string> flags_;
  std::unique_ptr<v1::TrainerService::Stub> stub_;
  int64_t epoch_ = 0;
  int32_t rank_ = 0;
  int step_ = 0;
  v1::AttachResponse task_;
  std::map<std::string, std::string> behaviour_;
  std::optional<stretto::ReportLog> log_;
  std::optional<stretto::FlightRecorder> flight_;
  std::mutex mu_;
  Stream* stream_ = nullptr;
  std::optional<v1::TrainerMessage> unsent_;
};

}  // namespace

int main(int argc, char** argv) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  FakeTrainer trainer(flags);
  std::_Exit(trainer.Run());  // the stream's thread is still there
}
