// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/inspections.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stretto::service {
namespace {

constexpr int64_t kSession = 7;

class InspectionsTest : public ::testing::Test {
 protected:
  int64_t Ask(int64_t session = kSession) {
    return inspections_.Add(session, absl::Seconds(6), [this](const v1alpha1::Inspection& found) {
      answers_.push_back(found.not_done().empty() ? found.facts(0) : found.not_done());
    });
  }
  void Answer(int64_t id, int64_t session = kSession) {
    v1alpha1::Inspection found;
    found.set_id(id);
    found.add_facts("data");
    inspections_.OnAnswer(session, found);
  }

  Inspections inspections_;
  std::vector<std::string> answers_;
};

TEST_F(InspectionsTest, AnAnswerIsForItsQuestionAndComesOnce) {
  const int64_t first = Ask(), second = Ask();
  EXPECT_NE(first, second);
  Answer(second, kSession + 1);  // another worker's
  Answer(99);
  EXPECT_TRUE(answers_.empty());
  Answer(second);
  Answer(second);
  EXPECT_EQ(answers_, std::vector<std::string>({"data"}));
}

TEST_F(InspectionsTest, AWorkerThatDoesNotAnswerIsNotWaitedFor) {
  const int64_t id = Ask();
  inspections_.OnTick(absl::Seconds(6) - absl::Nanoseconds(1));
  EXPECT_TRUE(answers_.empty());
  inspections_.OnTick(absl::Seconds(6));
  EXPECT_EQ(answers_, std::vector<std::string>({"it did not answer"}));
  Answer(id);
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(InspectionsTest, ASessionThatEndsEndsItsQuestions) {
  Ask();
  const int64_t other = Ask(kSession + 1);
  inspections_.OnSessionEnded(kSession);
  EXPECT_EQ(answers_, std::vector<std::string>({"it lost contact meanwhile"}));
  Answer(other, kSession + 1);
  EXPECT_EQ(answers_.back(), "data");
}

TEST_F(InspectionsTest, NobodyWaitsForACoordinatorThatEnds) {
  Ask();
  inspections_.EndAll();
  EXPECT_EQ(answers_, std::vector<std::string>({"the coordinator is shutting down"}));
}

}  // namespace
}  // namespace stretto::service
