// SPDX-License-Identifier: Apache-2.0

// The inspector with shell scripts for trainers: $2 is the file of the task, $3 that of the answer.

#include "worker/daemon/inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "proto/base/files.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;
using ::testing::HasSubstr;

class InspectorTest : public ::testing::Test {
 protected:
  Inspector::Options WithTrainer(const std::string& script) {
    const std::string path = dir_.path() + "/trainer.sh";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    ::chmod(path.c_str(), 0700);
    Inspector::Options options{.trainer_binary = path, .folder = dir_.path() + "/inspection"};
    options.roots.set_data_root("/data");
    return options;
  }
  static v1::Inspect Question(int64_t id) {
    v1::Inspect question;
    question.set_id(id);
    question.set_job_id("gpt");
    question.mutable_spec()->set_steps(3);
    return question;
  }
  v1::Inspection Await(Inspector& inspector) {
    std::optional<v1::Inspection> answer = inspector.Next();
    while (!answer.has_value()) {
      MutexLock lock(mu_);
      woken_.Wait(mu_, [this]() REQUIRES(mu_) { return wakes_ > 0; });
      --wakes_;
      lock.Unlock();
      answer = inspector.Next();
    }
    return *answer;
  }
  v1::Inspection Look(Inspector::Options options) {
    Inspector inspector(std::move(options), Wake());
    inspector.Request(Question(5));
    return Await(inspector);
  }
  std::function<void()> Wake() {
    return [this] {
      const MutexLock lock(mu_);
      ++wakes_;
      woken_.NotifyAll();
    };
  }

  TempDir dir_;
  Mutex mu_;
  CondVar woken_;
  int wakes_ GUARDED_BY(mu_) = 0;
};

TEST_F(InspectorTest, ATrainerLooksWithTheRootsOfTheNode) {
  v1::Inspection found;
  found.add_facts("data: 1k tokens");
  ASSERT_TRUE(WriteFileAtomic(dir_.path() + "/found", found.SerializeAsString()).ok());
  const v1::Inspection answer = Look(WithTrainer(
      "cp $2 " + dir_.path() + "/asked; [ $1 = inspect ] && cp " + dir_.path() + "/found $3"));
  EXPECT_EQ(answer.id(), 5);
  EXPECT_EQ(answer.not_done(), "");
  ASSERT_EQ(answer.facts_size(), 1);
  EXPECT_EQ(answer.facts(0), "data: 1k tokens");
  v1::AttachResponse task;
  ASSERT_TRUE(task.ParseFromString(*ReadFile(dir_.path() + "/asked")));
  EXPECT_EQ(task.data_root(), "/data");
  EXPECT_EQ(task.assign().job_id(), "gpt");
  EXPECT_EQ(task.assign().spec().steps(), 3);
}

TEST_F(InspectorTest, ATrainerThatFailsHasNotLooked) {
  EXPECT_EQ(Look(WithTrainer("exit 3")).not_done(), "the trainer that looked ended with code 3");
  EXPECT_EQ(Look(WithTrainer("kill -SEGV $$")).not_done(),
            "the trainer that looked ended by signal 11");
  EXPECT_THAT(Look(WithTrainer("exit 0")).not_done(), HasSubstr("inspection/answer"));
  EXPECT_EQ(Look(WithTrainer("echo no message >$3")).not_done(), "its answer is damaged");
  Inspector::Options missing = WithTrainer("");
  missing.trainer_binary = "/no/such/trainer";
  EXPECT_THAT(Look(std::move(missing)).not_done(), HasSubstr("/no/such/trainer"));
}

TEST_F(InspectorTest, AnAnswerOfAnEarlierLookIsNotTaken) {
  Inspector::Options options = WithTrainer("[ -e $2.seen ] || echo >$3; touch $2.seen");
  Inspector inspector(options, Wake());
  inspector.Request(Question(1));
  EXPECT_EQ(Await(inspector).not_done(), "its answer is damaged");
  inspector.Request(Question(2));
  EXPECT_THAT(Await(inspector).not_done(), HasSubstr("inspection/answer"));
}

TEST_F(InspectorTest, ATrainerThatDoesNotEndIsKilled) {
  Inspector::Options options = WithTrainer("exec sleep 1000");
  options.limit = absl::Milliseconds(50);
  EXPECT_EQ(Look(std::move(options)).not_done(), "the trainer that looked did not end within 50ms");
}

TEST_F(InspectorTest, TooManyAtOnceAreRefused) {
  Inspector::Options options = WithTrainer("exec sleep 1000");
  options.limit = absl::Hours(1);
  options.most_waiting = 1;
  Inspector inspector(options, Wake());
  for (int64_t id = 1; id <= 4; ++id) inspector.Request(Question(id));
  const v1::Inspection answer = Await(inspector);
  EXPECT_EQ(answer.not_done(), "the worker looks at other jobs");
  EXPECT_GT(answer.id(), 1);
  // And its end does not wait for the trainer.
}

}  // namespace
}  // namespace stretto::daemon
