// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/event_log.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

TEST(EventLogTest, KeepsTheNewestAndCountsRepeats) {
  EventLog log;
  for (int i = 1; i <= 250; ++i) {
    log.Add({.reason = absl::StrCat("R", i)});
  }
  ASSERT_EQ(log.events().size(), EventLog::kKept);
  EXPECT_EQ(log.events().front().number, 151);
  const EventLog before = log;  // shares its events
  log.Add({.reason = "Saved", .message = "step-1"});
  log.Add({.reason = "Saved", .message = "step-2"});
  log.Add({.state = JobState::kRunning, .reason = "Saved", .message = "step-3"});
  EXPECT_EQ(before.events().back().reason, "R250");
  const std::vector<JobEvent>& events = log.events();
  const JobEvent& merged = events[events.size() - 2];
  EXPECT_EQ(merged.count, 2);
  EXPECT_EQ(merged.message, "step-2");
  EXPECT_EQ(merged.number, 252);  // so a client that knows 251 learns of it
  EXPECT_EQ(events.back().count, 1);
}

TEST(EventLogTest, TellsWhatPeopleAskedForAndSurvivesARestart) {
  Scene scene;
  scene.Register("a", 1);
  scene.priority = 3;
  scene.Submit("j", 1);
  scene.Prepare("j");
  for (int step : {5, 10}) {
    scene.Report("j", 0,
                 CheckpointDone{.step = step, .name = absl::StrCat("step-", step), .message = ""});
  }
  scene.Suspend("j");
  scene.Suspend("j");  // changes nothing, and so is no event
  scene.Exit("j", 0, Stopped());
  scene.Resume("j");
  scene.Cancel("j");
  scene.Exit("j", 0, Stopped());
  const std::string events = scene.EventsOf("j");
  EXPECT_EQ(events,
            "PREPARING Created: priority 3, project default\n"
            "PREPARING Placed: 1 rank on a\n"
            "RUNNING Training\n"
            "RUNNING Saved (x2): step-10\n"
            "SUSPENDING SuspendAsked by ann\n"
            "SUSPENDED Suspended: by request, after 10 of 100 steps\n"
            "PREPARING ResumeAsked by ann\n"
            "PREPARING Placed: 1 rank on a\n"
            "CANCELLING CancelAsked by ann\n"
            "CANCELLED Cancelled: cancelled after 10 of 100 steps\n");
  scene.Restart();
  EXPECT_EQ(scene.EventsOf("j"), events);
}

TEST(EventLogTest, EventThatCouldNotBeStoredLeavesNothing) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  const std::string before = scene.EventsOf("j");
  scene.store().FailCommit(1);
  EXPECT_FALSE(scene.Suspend("j").status.ok());
  EXPECT_EQ(scene.EventsOf("j"), before);
}

}  // namespace
}  // namespace stretto::coordinator::testing
