// SPDX-License-Identifier: Apache-2.0

// Following jobs and logs, across failures of the connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// gRPC's reason for a lost connection depends on when it was lost.
std::string WithoutCause(const std::string& text) {
  return std::regex_replace(std::regex_replace(text, std::regex("\\(.*\\)"), "(CAUSE)"),
                            std::regex("(127.0.0.1:[0-9]+): [^;]*; gave"), "$1: CAUSE; gave");
}

TEST_F(CommandsTest, FollowPrintsStepsThenTheSummary) {
  EXPECT_EQ(Run({"job", "submit", file_, "--follow"}), kOk) << err();
  golden_.Add(out(), {"job gpt RUNNING\n", "step 1/3  loss 2.0000", "step 2/3  loss 2.0000",
                      "step 3/3  loss 2.0000", "\njob gpt SUCCEEDED"});
  ExpectMessage({"job gpt", "\n  stretto job curve gpt\n", "\n  stretto job describe gpt\n"});
}

TEST_F(CommandsTest, FollowOnATerminalRewritesOneLine) {
  terminal_.live = true;
  EXPECT_EQ(Run({"job", "watch", "gpt"}), kOk);
  EXPECT_THAT(
      out(),
      HasSubstr("\rstep 2/3  loss 2.0000  200 tokens/s  overlap -  0.5s left\x1b[K\rstep 3/3"));
  EXPECT_THAT(out(), HasSubstr("\r\x1b[Kjob gpt SUCCEEDED"));
}

TEST_F(CommandsTest, WaitPrintsOnlyTheSummary) {
  EXPECT_EQ(Run({"job", "submit", file_, "--wait"}), kOk);
  EXPECT_THAT(out(), StartsWith("job gpt SUCCEEDED after 3 of 3 steps\n"));
  EXPECT_EQ(Run({"job", "submit", file_, "--wait", "-o", "json"}), kOk);
  EXPECT_THAT(out(), StartsWith("{\n  \"name\": \"jobs/gpt\""));
}

TEST_F(CommandsTest, FailedAndCancelledJobsHaveTheirOwnExitCodes) {
  Job job = MakeJob("gpt", Job::FAILED, 1);
  job.mutable_first_failure()->set_rank(1);
  job.mutable_first_failure()->set_signal(9);
  jobs_.watch = [&job](const auto&, grpc::ServerContext*, WatchWriter* writer) {
    Write(writer, job);
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "submit", file_, "--wait"}), kJobFailed);
  golden_.Add(out(), {"FAILED", "rank 1", "signal 9 (Killed)"});
  ExpectMessage({"\n  stretto job logs gpt --rank 1\n"});
  job = MakeJob("gpt", Job::CANCELLED);
  EXPECT_EQ(Run({"job", "watch", "gpt"}), kJobCancelled);
}

// The job trains on after the answer.
TEST_F(CommandsTest, CheckpointWithWaitEndsWithTheAnswer) {
  Job job = MakeJob("gpt", Job::RUNNING, 1);
  v1alpha1::Condition* requested = job.add_conditions();
  requested->set_type("CheckpointRequested");
  const auto answers = [&](const std::string& reason, const std::string& message) {
    jobs_.after_steps.clear();
    jobs_.watch = [=](const auto&, grpc::ServerContext* context, WatchWriter* writer) {
      Job now = job;
      now.mutable_conditions()->rbegin()->set_status(v1alpha1::Condition::TRUE);
      Write(writer, now);
      now.mutable_conditions()->rbegin()->set_status(v1alpha1::Condition::FALSE);
      now.mutable_conditions()->rbegin()->set_reason(reason);
      now.mutable_conditions()->rbegin()->set_message(message);
      Write(writer, now);
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::OK;
    };
  };
  answers("Saved", "step-00000007");
  EXPECT_EQ(Run({"job", "checkpoint", "gpt", "--wait"}), kOk) << err();
  EXPECT_EQ(out(), "step-00000007\n");
  EXPECT_THAT(jobs_.after_steps, testing::ElementsAre(2));  // no step is sent again
  answers("CheckpointFailed", "step 7: no space left on device");
  EXPECT_EQ(Run({"job", "checkpoint", "gpt", "--wait"}), kError);
  EXPECT_EQ(err(), "error: job gpt saved no checkpoint: step 7: no space left on device\n");
}

TEST_F(CommandsTest, WatchInJsonIsOneEventALine) {
  EXPECT_EQ(Run({"job", "watch", "gpt", "-o", "json"}), kOk);
  std::istringstream lines(out());
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, testing::AnyOf(StartsWith("{\"job\":{\"name\":\"jobs/gpt\""),
                                     StartsWith("{\"step\":{\"step\":")));
  }
  EXPECT_EQ(count, 5);
}

TEST_F(CommandsTest, APendingJobSaysWhy) {
  jobs_.watch = [](const auto&, grpc::ServerContext*, WatchWriter* writer) {
    Job job = MakeJob("gpt", Job::PENDING);
    job.add_conditions()->set_reason("NotEnoughSlots");
    job.mutable_conditions(0)->set_message("found 1 free slot, expected 2");
    Write(writer, job);
    Write(writer, job);
    Write(writer, MakeJob("gpt", Job::SUCCEEDED));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "watch", "jobs/gpt"}), kOk);
  EXPECT_THAT(
      out(),
      StartsWith(
          "job gpt PENDING: NotEnoughSlots: found 1 free slot, expected 2\njob gpt SUCCEEDED"));
}

TEST_F(CommandsTest, FollowGoesOnAfterACoordinatorRestart) {
  // The first coordinator dies after step 1 and comes back on the same port, with a step sent
  // twice.
  std::thread restart;
  jobs_.watch = [&](const v1alpha1::WatchJobRequest& request, grpc::ServerContext* context,
                    WatchWriter* writer) {
    Write(writer, MakeJob("gpt", Job::RUNNING, request.after_step()));
    if (request.after_step() == 0) {
      WriteStep(writer, 1);
      restart = std::thread([this] {
        StopServer();
        StartServer();
      });
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    }
    WriteStep(writer, 1);
    WriteStep(writer, 2);
    WriteStep(writer, 3);
    Write(writer, MakeJob("gpt", Job::SUCCEEDED, 3));
    return grpc::Status::OK;
  };
  const ExitCode code = Run({"job", "watch", "gpt"});
  restart.join();
  EXPECT_EQ(code, kOk) << err();
  EXPECT_THAT(jobs_.after_steps, testing::ElementsAre(0, 1));
  EXPECT_THAT(out(), StartsWith("job gpt RUNNING\nstep 1/3"));
  EXPECT_THAT(out(), HasSubstr("\nstep 2/3"));
  EXPECT_EQ(out().find("step 1/3", out().find("step 1/3") + 1), std::string::npos) << out();
  // Each once, whatever the number of tries.
  golden_.Add(WithoutCause(err()),
              {absl::StrCat("127.0.0.1:", port_, " (CAUSE)"), "20.0s", "reconnected"});
}

TEST_F(CommandsTest, FollowGivesUpOnACoordinatorThatStaysAway) {
  give_up_ = absl::Milliseconds(50);
  std::thread stop;
  jobs_.watch = [&](const auto&, grpc::ServerContext* context, WatchWriter* writer) {
    Write(writer, MakeJob("gpt", Job::RUNNING));
    stop = std::thread([this] { StopServer(); });
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(Run({"job", "watch", "gpt"}), kError);
  stop.join();
  golden_.Add(WithoutCause(err()), {"error: ", absl::StrCat("127.0.0.1:", port_), "50.0ms",
                                    "\n  stretto job watch gpt\n"});
}

TEST_F(CommandsTest, CtrlCWhileFollowingDetaches) {
  jobs_.watch = [this](const auto&, grpc::ServerContext* context, WatchWriter* writer) {
    Write(writer, MakeJob("gpt", Job::RUNNING));
    interrupt_.Raise();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(Run({"job", "submit", file_, "--follow"}), kDetached);
  ExpectMessage(
      {"detached: job gpt ", "\n  stretto job watch gpt ", "\n  stretto job cancel gpt "});
}

TEST_F(CommandsTest, ARefusedWatchIsNotTriedAgain) {
  jobs_.watch = [](const auto&, grpc::ServerContext*, WatchWriter*) {
    return Refusal(grpc::NOT_FOUND, "jobs/nope does not exist", "JOB_NOT_FOUND");
  };
  EXPECT_EQ(Run({"job", "watch", "nope"}), kError);
  EXPECT_EQ(err(), "error: jobs/nope does not exist\n");
  EXPECT_EQ(jobs_.after_steps.size(), 1u);
}

void WriteLog(LogWriter* writer, int rank, const std::string& data, int64_t end = 0) {
  v1alpha1::StreamJobLogsResponse response;
  response.mutable_end()->set_rank(rank);
  response.mutable_end()->set_epoch(7);
  response.mutable_end()->set_offset(end);
  response.set_rank(rank);
  response.set_data(data);
  writer->Write(response);
}

TEST_F(CommandsTest, LogsOfAllRanksNameTheRank) {
  jobs_.logs = [](int, grpc::ServerContext*, LogWriter* writer) {
    WriteLog(writer, 0, "one\ntwo\n");
    WriteLog(writer, 1, "three\n");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "logs", "gpt"}), kOk);
  EXPECT_EQ(out(), "[rank 0] one\n[rank 0] two\n[rank 1] three\n");
  EXPECT_FALSE(jobs_.log_request.follow());
  EXPECT_EQ(Run({"job", "logs", "gpt", "--rank", "1"}), kOk);
  EXPECT_TRUE(jobs_.log_request.has_rank());
  EXPECT_EQ(out(), "one\ntwo\nthree\n");
}

TEST_F(CommandsTest, FollowedLogsReconnectWithoutRepeating) {
  jobs_.logs = [](int call, grpc::ServerContext*, LogWriter* writer) {
    if (call == 0) {
      WriteLog(writer, 0, "one\n", 4);
      return grpc::Status(grpc::UNAVAILABLE, "going down");
    }
    WriteLog(writer, 0, "two\n", 8);
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "logs", "gpt", "-f", "--rank", "0"}), kOk);
  EXPECT_TRUE(jobs_.log_request.follow());
  EXPECT_EQ(out(), "one\ntwo\n");
  EXPECT_THAT(err(), HasSubstr("lost the coordinator"));
  ASSERT_EQ(jobs_.log_request.after_size(), 1);
  EXPECT_EQ(jobs_.log_request.after(0).rank(), 0);
  EXPECT_EQ(jobs_.log_request.after(0).epoch(), 7);
  EXPECT_EQ(jobs_.log_request.after(0).offset(), 4);
}

TEST_F(CommandsTest, LogsAreSelectedByTheirNode) {
  jobs_.logs = [](int, grpc::ServerContext*, LogWriter*) { return grpc::Status::OK; };
  EXPECT_EQ(Run({"job", "logs", "gpt", "--tail", "0", "--since", "2026-01-02T03:04:05Z", "--grep",
                 "WARN|ERROR"}),
            kOk);
  const v1alpha1::LogSelection& selection = jobs_.log_request.selection();
  EXPECT_TRUE(selection.has_tail_lines());
  EXPECT_EQ(selection.tail_lines(), 0);
  EXPECT_EQ(selection.since().seconds(), 1'767'323'045);
  EXPECT_EQ(selection.grep(), "WARN|ERROR");
  EXPECT_EQ(Run({"job", "logs", "gpt"}), kOk);
  EXPECT_FALSE(jobs_.log_request.has_selection());
  EXPECT_EQ(Run({"job", "logs", "gpt", "--since", "yesterday"}), kUsage);
  ExpectMessage({"--since", "\"yesterday\"", "1h30m"});
}

TEST_F(CommandsTest, LogsOfAWorkerThatIsAwayAreRefusedWithItsReason) {
  jobs_.logs = [](int, grpc::ServerContext*, LogWriter*) {
    return Refusal(grpc::UNAVAILABLE, "workers/w is not connected", "WORKER_LOST");
  };
  EXPECT_EQ(Run({"job", "logs", "gpt", "-f"}), kError);
  EXPECT_EQ(err(), "error: workers/w is not connected\n");
}

TEST_F(CommandsTest, CurveDrawsWhatARunningJobHasDone) {
  jobs_.watch = [](const auto&, grpc::ServerContext* context, WatchWriter* writer) {
    Write(writer, MakeJob("gpt", Job::RUNNING, 3));
    WriteStep(writer, 1, 4);
    WriteStep(writer, 2, std::nan(""));
    WriteStep(writer, 3, 2);
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(Run({"job", "curve", "gpt", "--height", "4"}), kOk) << err();
  EXPECT_THAT(out(), StartsWith("loss of job gpt\n4 |*"));
  EXPECT_THAT(out(), HasSubstr("step (1 of 3 not finite)"));
  EXPECT_EQ(Run({"job", "curve", "gpt", "-o", "json"}), kOk);
  EXPECT_EQ(out(),
            "{\"step\":1,\"loss\":4}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"loss\":2}\n");
}

}  // namespace
}  // namespace stretto::cli
