// SPDX-License-Identifier: Apache-2.0

// Submitting, listing and showing; flags, errors and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "coordinator/cli/client/client.h"
#include "coordinator/cli/commands/submit_command.h"
#include "proto/spec/job/normalize.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CommandsTest, EventsOfAJobAreListedAndFollowed) {
  v1alpha1::JobEvent event;
  event.set_number(1);
  event.mutable_time()->set_seconds(1'700'000'000);
  event.set_state(Job::PENDING);
  event.set_reason("Created");
  event.set_caller("spiffe://x/user/ann");
  event.set_message("priority 5, project speech\nforged");
  event.set_count(1);
  jobs_.events.push_back(event);
  event.set_number(4);
  event.set_state(Job::RUNNING);
  event.set_reason("Saved");
  event.set_caller("");
  event.set_message("step-00000010");
  event.set_count(3);
  jobs_.events.push_back(event);
  EXPECT_EQ(Run({"job", "events", "gpt"}), kOk);
  EXPECT_THAT(out(),
              HasSubstr("2023-11-14 22:13:20 UTC  PENDING  Created     spiffe://x/user/ann"));
  EXPECT_THAT(out(), HasSubstr("RUNNING  Saved (x3)  -"));
  EXPECT_EQ(Run({"job", "events", "gpt", "-o", "json"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\"Saved\""));
  EXPECT_EQ(Run({"job", "events", "gpt", "--follow"}), kOk);  // each once, though asked for often
  EXPECT_EQ(out().find("Created"), out().rfind("Created"));
  EXPECT_EQ(Run({"job", "events", "other"}), kError);
  ExpectMessage({"jobs/other"});
}

TEST_F(CommandsTest, ListShowsTheQueueWhereAJobSaysMoreThanTheDefault) {
  jobs_.jobs = {MakeJob("gpt", Job::PENDING), MakeJob("bert", Job::PENDING)};
  EXPECT_EQ(Run({"job", "list"}), kOk);
  EXPECT_THAT(out(), Not(HasSubstr("PRIORITY")));
  jobs_.jobs[1].mutable_spec()->mutable_queue()->set_priority(-7);
  jobs_.jobs[1].mutable_spec()->mutable_queue()->set_project("speech");
  EXPECT_EQ(Run({"job", "list", "--project", "speech"}), kOk);
  EXPECT_EQ(jobs_.list_request.project(), "speech");
  EXPECT_THAT(out(), HasSubstr("PRIORITY  PROJECT"));
  EXPECT_THAT(out(), HasSubstr("      -7  speech"));
  EXPECT_EQ(Run({"job", "describe", "bert"}), kOk);
  EXPECT_THAT(out(), HasSubstr("priority -7, project speech"));
}

TEST_F(CommandsTest, SubmitSendsTheSpecAndSaysWhatIsNext) {
  EXPECT_EQ(Run({"job", "submit", file_}), kOk) << err();
  EXPECT_EQ(jobs_.create_request.job_id(), "gpt");
  EXPECT_EQ(jobs_.create_request.job().spec().parallelism().tp_size(), 3);
  EXPECT_EQ(jobs_.create_request.request_id().size(), 32u);
  EXPECT_EQ(out(), "");
  ExpectMessage({"job gpt ", "Next:\n  stretto job watch gpt\n  stretto job describe gpt\n"});
}

TEST_F(CommandsTest, SubmitFlagsOverrideNameAndRequestId) {
  EXPECT_EQ(Run({"job", "submit", file_, "--name", "other", "--request-id", "r1", "-o", "json"}),
            kOk);
  EXPECT_EQ(jobs_.create_request.job_id(), "other");
  EXPECT_EQ(jobs_.create_request.request_id(), "r1");
  EXPECT_THAT(out(), HasSubstr("\"name\": \"jobs/other\""));
}

TEST_F(CommandsTest, SubmitLooksBeforeItCreates) {
  EXPECT_EQ(Run({"job", "submit", file_}), kOk) << err();
  EXPECT_EQ(jobs_.looks, 1);
  EXPECT_FALSE(jobs_.create_request.validate_only());
  EXPECT_EQ(Run({"job", "submit", file_, "--no-look"}), kOk) << err();
  EXPECT_EQ(jobs_.looks, 1);

  jobs_.create = [](Job*) {
    return Refusal(grpc::INVALID_ARGUMENT, "one field", "INVALID_FIELD",
                   {{"spec.steps", "worker a: found no data"}});
  };
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  EXPECT_TRUE(jobs_.create_request.validate_only());  // and nothing was created
  EXPECT_THAT(err(), HasSubstr("spec.steps: worker a: found no data\n"));
}

TEST_F(CommandsTest, SubmitReportsWhatNoWorkerCouldCheck) {
  jobs_.create = [this](Job* job) {
    if (jobs_.create_request.validate_only()) {
      auto* condition = job->add_conditions();
      condition->set_type("Inspected");
      condition->set_status(v1alpha1::Condition::UNKNOWN);
      condition->set_message("no worker is connected");
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "submit", file_}), kOk);
  ExpectMessage(
      {"not checked: data, weights and checkpoints", "no worker is connected", "job gpt created"});
}

TEST_F(CommandsTest, ARepeatedSubmitOfAJobThatExistsIsNotJudgedByALook) {
  jobs_.create = [this](Job* job) {
    return jobs_.create_request.validate_only()
               ? Refusal(grpc::ALREADY_EXISTS, job->name() + " exists", "JOB_ALREADY_EXISTS")
               : grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "submit", file_, "--request-id", "r1"}), kOk) << err();
}

TEST_F(CommandsTest, SubmitSetsFieldsOverTheFile) {
  EXPECT_EQ(Run({"job", "submit", file_, "--set", "parallelism.tp_size=4", "--set", "labels.a=b",
                 "--set", "name=other"}),
            kOk);
  EXPECT_EQ(jobs_.create_request.job_id(), "other");
  EXPECT_EQ(jobs_.create_request.job().spec().parallelism().tp_size(), 4);
  EXPECT_EQ(jobs_.create_request.job().spec().labels().at("a"), "b");
  EXPECT_EQ(Run({"job", "submit", file_, "--set", "name=other", "--name", "third"}), kOk);
  EXPECT_EQ(jobs_.create_request.job_id(), "third");
  EXPECT_EQ(Run({"job", "submit", file_, "--set", "stepz=4"}), kError);
  ExpectMessage({"error: --set: ", "\"stepz\"", "did you mean \"steps\"?"});
  jobs_.create = [](Job*) {
    return Refusal(grpc::INVALID_ARGUMENT, "one field", "INVALID_FIELD",
                   {{"spec.parallelism.tp_size", "found 4, expected a divisor of heads 6"}});
  };
  EXPECT_EQ(Run({"job", "submit", file_, "--set", "parallelism.tp_size=4"}), kError);
  EXPECT_THAT(err(),
              StartsWith("error: --set parallelism.tp_size: spec.parallelism.tp_size: found 4"));
}

TEST_F(CommandsTest, CloneSubmitsTheSpecOfAJobUnderTheNextFreeName) {
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED, 3)};
  *jobs_.jobs[0].mutable_spec() = spec::Normalize(jobs_.jobs[0].spec());
  EXPECT_EQ(Run({"job", "clone", "gpt", "--set", "steps=9"}), kOk) << err();
  EXPECT_EQ(jobs_.create_request.job_id(), "gpt-2");
  EXPECT_EQ(jobs_.create_request.job().spec().steps(), 9);
  EXPECT_FALSE(jobs_.create_request.job().spec().optimizer().has_decay_steps());
  ExpectMessage({"job gpt-2 created", "stretto job watch gpt-2"});
  const auto taken = [](Job* job) {
    return job->name() == "jobs/gpt-4"
               ? grpc::Status::OK
               : Refusal(grpc::ALREADY_EXISTS, job->name() + " exists", "JOB_ALREADY_EXISTS");
  };
  jobs_.create = taken;
  EXPECT_EQ(Run({"job", "clone", "gpt"}), kOk);
  EXPECT_EQ(jobs_.create_request.job_id(), "gpt-4");
  EXPECT_EQ(Run({"job", "clone", "gpt", "--name", "gpt-3"}), kError);  // no other name than this
  ExpectMessage({"error: ", "jobs/gpt-3"});
  EXPECT_EQ(Run({"job", "clone", "nope"}), kError);
  ExpectMessage({"error: ", "jobs/nope"});
  EXPECT_EQ(Run({"job", "clone", "gpt", "--set", "steps=x"}), kError);
  ExpectMessage({"error: --set: steps: ", "\"x\""});
}

TEST(NextNameTest, CountsAndStaysAName) {
  EXPECT_EQ(NextName("gpt"), "gpt-2");
  EXPECT_EQ(NextName("gpt-9"), "gpt-10");
  EXPECT_EQ(NextName("gpt-x"), "gpt-x-2");
  EXPECT_EQ(NextName("gpt-99999999999"), "gpt-99999999999-2");
  EXPECT_EQ(NextName(std::string(63, 'a')), std::string(61, 'a') + "-2");
}

TEST_F(CommandsTest, RefusedFieldsAreShownWithTheirLine) {
  jobs_.create = [](Job*) {
    return Refusal(grpc::INVALID_ARGUMENT, "two fields", "INVALID_FIELD",
                   {{"spec.micro_batch_size", "found 0, expected at least 1"},
                    {"spec.parallelism.tp_size", "found 3, expected a divisor of heads 4"}});
  };
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  EXPECT_EQ(err(), "error: " + file_ + ": spec.micro_batch_size: found 0, expected at least 1\n" +
                       "error: " + file_ +
                       ":3:12: spec.parallelism.tp_size: found 3, expected a divisor of heads 4\n");
}

TEST_F(CommandsTest, AFileThatDoesNotParseIsNotSent) {
  std::ofstream(file_) << "name: gpt\nstepz: 3\n";
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  ExpectMessage({"error: " + file_ + ":2:1: ", "\"stepz\"", "\"steps\""});
  EXPECT_EQ(jobs_.create_request.job_id(), "");
}

TEST_F(CommandsTest, AFileWithoutNameOrAMissingFileIsAnError) {
  std::ofstream(file_) << "steps: 3\n";
  EXPECT_EQ(Run({"job", "submit", file_}), kError);
  ExpectMessage({"error: " + file_ + ": ", "name", "--name"});
  EXPECT_EQ(Run({"job", "submit", dir_ + "/none.yaml"}), kError);
  ExpectMessage({"error: ", dir_ + "/none.yaml"});
}

TEST_F(CommandsTest, ListCollectsPagesUpToTheLimit) {
  jobs_.jobs = {MakeJob("c", Job::RUNNING), MakeJob("b", Job::SUCCEEDED),
                MakeJob("a", Job::FAILED)};
  EXPECT_EQ(Run({"job", "list"}), kOk);
  EXPECT_THAT(out(),
              testing::ContainsRegex("NAME +STATE.*\nc +RUNNING.*\nb +SUCCEEDED.*\na +FAILED.*\n"));
  EXPECT_EQ(Run({"job", "list", "--limit", "2", "-o", "yaml"}), kOk);
  EXPECT_THAT(out(), AllOf(HasSubstr("name: jobs/b"), Not(HasSubstr("name: jobs/a"))));
  jobs_.jobs.clear();
  EXPECT_EQ(Run({"job", "list"}), kOk);
  EXPECT_EQ(out(), "");
  ExpectMessage({"Next:\n  stretto job submit JOB.yaml --follow\n"});
}

TEST_F(CommandsTest, ListAsksForStatesAndLabels) {
  jobs_.jobs = {MakeJob("gpt", Job::RUNNING)};
  EXPECT_EQ(Run({"job", "list", "--state", "running,PENDING", "--state", "failed", "--label",
                 "team=speech,sweep", "--label", "empty="}),
            kOk);
  EXPECT_THAT(jobs_.list_request.states(),
              testing::ElementsAre(Job::RUNNING, Job::PENDING, Job::FAILED));
  ASSERT_EQ(jobs_.list_request.labels_size(), 3);
  EXPECT_EQ(jobs_.list_request.labels(0).key(), "team");
  EXPECT_EQ(jobs_.list_request.labels(0).value(), "speech");
  EXPECT_FALSE(jobs_.list_request.labels(1).has_value());
  EXPECT_TRUE(jobs_.list_request.labels(2).has_value());
  EXPECT_EQ(Run({"job", "list", "--state", "runing"}), kUsage);
  ExpectMessage({"--state", "\"runing\"", "did you mean \"running\"?"});
  jobs_.jobs.clear();
  EXPECT_EQ(Run({"job", "list", "--label", "team"}), kOk);
  ExpectMessage({"no such jobs", "stretto job list"});
}

TEST_F(CommandsTest, RetiredJobsAreListedApartAndHaveNoSpecToClone) {
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED)};
  jobs_.jobs[0].mutable_retire_time()->set_seconds(1'800'000'000);
  EXPECT_EQ(Run({"job", "list", "--retired"}), kOk);
  EXPECT_TRUE(jobs_.list_request.retired());
  EXPECT_EQ(Run({"job", "list", "--retired", "--label", "team"}), kUsage);
  ExpectMessage({"--retired", "--label"});
  EXPECT_EQ(Run({"job", "clone", "gpt"}), kError);
  ExpectMessage({"job gpt", "found a retired job"});
  EXPECT_EQ(Run({"job", "describe", "gpt"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\nRetired:"));
}

TEST_F(CommandsTest, AWatchedListPrintsEachJobWhoseStateChanges) {
  jobs_.jobs = {MakeJob("gpt", Job::PENDING)};
  jobs_.jobs[0].set_uid("first");
  int calls = 0;
  jobs_.listed = [&] {  // a job is one page
    if (++calls == 3) jobs_.jobs[0].set_state(Job::RUNNING);
    if (calls == 4) jobs_.jobs[0].set_uid("second");
    if (calls == 6) interrupt_.Raise();
  };
  EXPECT_EQ(Run({"job", "list", "--watch"}), kOk);
  EXPECT_THAT(out(), testing::MatchesRegex("NAME +STATE[^\n]*\ngpt +PENDING[^\n]*\ngpt +RUNNING"
                                           "[^\n]*\ngpt +RUNNING[^\n]*\n"));
  EXPECT_EQ(err(), "");
}

TEST_F(CommandsTest, AWatchedListGivesEveryChangeAsOneLineOfJson) {
  jobs_.jobs = {MakeJob("gpt", Job::PENDING)};
  int calls = 0;
  jobs_.listed = [&] {
    if (++calls == 3) interrupt_.Raise();
  };
  EXPECT_EQ(Run({"job", "list", "-w", "-o", "json"}), kOk);
  EXPECT_THAT(out(), StartsWith("{\"name\":\"jobs/gpt\""));
  EXPECT_EQ(out().find('\n'), out().size() - 1);
}

TEST_F(CommandsTest, TopAsksForJobsThatHaveNotEndedAndForWorkers) {
  jobs_.jobs = {MakeJob("gpt", Job::RUNNING, 2)};
  EXPECT_EQ(Run({"top"}), kOk) << err();  // no terminal, so once
  EXPECT_THAT(out(), HasSubstr("Workers  1 ready\n"));
  EXPECT_THAT(out(), testing::ContainsRegex("gpt +RUNNING +2/3"));
  EXPECT_THAT(out(), HasSubstr("worker-1"));
  EXPECT_EQ(jobs_.list_request.states_size(), 1);
  EXPECT_EQ(jobs_.list_request.states(0), Job::PENDING);
  EXPECT_EQ(Run({"top", "--once", "-o", "json"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\"exposed_share\": null"));
  StopServer();
  EXPECT_EQ(Run({"top"}), kError);
  ExpectMessage({"error: cannot reach the coordinator at "});
}

TEST_F(CommandsTest, GetAndDescribeShowOneJob) {
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED, 3)};
  EXPECT_EQ(Run({"job", "get", "gpt", "-o", "json"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\"state\": \"succeeded\""));
  EXPECT_EQ(Run({"job", "get", "gpt"}), kOk);
  EXPECT_THAT(out(), HasSubstr("gpt   SUCCEEDED"));
  EXPECT_EQ(Run({"job", "describe", "jobs/gpt"}), kOk);
  EXPECT_THAT(out(), StartsWith("Name:        gpt\n"));
  EXPECT_EQ(Run({"job", "get", "nope"}), kError);
  EXPECT_EQ(err(), "error: jobs/nope does not exist\n");
}

TEST_F(CommandsTest, AnUnknownNameHasItsNearest) {
  jobs_.jobs = {MakeJob("perl-gpt", Job::RUNNING)};
  for (const char* command : {"get", "describe", "clone"}) {
    EXPECT_EQ(Run({"job", command, "prel-gpt"}), kError);
    EXPECT_EQ(err(), "error: jobs/prel-gpt does not exist; did you mean \"perl-gpt\"?\n");
  }
  EXPECT_EQ(Run({"job", "get", "other"}), kError);
  EXPECT_EQ(err(), "error: jobs/other does not exist\n");
  EXPECT_EQ(Run({"worker", "get", "worker1"}), kError);
  EXPECT_EQ(err(), "error: workers/worker1 is unknown; did you mean \"worker-1\"?\n");
  EXPECT_EQ(Run({"job", "ls"}), kUsage);
  ExpectMessage({"\"ls\"", "did you mean \"list\"?"});
}

TEST_F(CommandsTest, NumbersHaveTheirRangeInWords) {
  EXPECT_EQ(Run({"job", "list", "--limit", "-3"}), kUsage);
  ExpectMessage({"--limit: ", "found -3", "at least 0"});
  EXPECT_EQ(Run({"job", "list", "--limit", "many"}), kUsage);
  ExpectMessage({"--limit: ", "found many", "an integer"});
  EXPECT_EQ(Run({"job", "list", "--limit", "99999999999"}), kUsage);
  ExpectMessage({"--limit: ", "found 99999999999", "at most 2147483647"});
  EXPECT_EQ(Run({"job", "timeline", "gpt", "--step", "0"}), kUsage);
  ExpectMessage({"--step: ", "found 0", "at least 1"});
}

TEST_F(CommandsTest, AnAddressIsCheckedBeforeItIsUsed) {
  for (const char* address : {"lab", "lab:", ":7070", "lab:70700", "lab:0", "a:1,b"}) {
    EXPECT_EQ(Run({"job", "list", "--coordinator", address}), kUsage) << address;
    EXPECT_THAT(err(), StartsWith("error: --coordinator: found \"")) << address;
  }
  EXPECT_EQ(Run({"config", "view", "--coordinator", "lab"}), kUsage);  // it needs none
  ExpectMessage({"error: --coordinator: ", "\"lab\"", "HOST:PORT"});
  variables_["STRETTO_COORDINATOR"] = "lab";
  EXPECT_EQ(Run({"job", "list"}), kError);
  ExpectMessage({"error: STRETTO_COORDINATOR: ", "\"lab\"", "HOST:PORT"});
}

TEST_F(CommandsTest, ColorsAreOffWithNoColor) {
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED)};
  terminal_.color = true;
  EXPECT_EQ(Run({"job", "describe", "gpt"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\x1b[32m"));
  variables_["NO_COLOR"] = "1";
  EXPECT_EQ(Run({"job", "describe", "gpt"}), kOk);
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
  variables_["NO_COLOR"] = "";
  terminal_.color = true;
  EXPECT_EQ(Run({"job", "describe", "gpt", "--no-color"}), kOk);
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
}

TEST_F(CommandsTest, CancelReportsTheNewStateOrTheRefusal) {
  EXPECT_EQ(Run({"job", "cancel", "gpt"}), kOk);
  ExpectMessage({"job gpt ", "CANCELLING"});
  EXPECT_EQ(Run({"job", "cancel", "done"}), kError);
  EXPECT_EQ(err(), "error: jobs/done: found SUCCEEDED, expected a job that has not ended\n");
}

TEST_F(CommandsTest, CheckpointReportsThatItIsUnderWayOrTheRefusal) {
  EXPECT_EQ(Run({"job", "checkpoint", "gpt"}), kOk);
  EXPECT_EQ(err(), "job gpt saves a checkpoint after this step and continues\n");
  EXPECT_EQ(Run({"job", "checkpoint", "waiting"}), kError);
  EXPECT_EQ(err(), "error: jobs/waiting: found PENDING, expected a job that is RUNNING\n");
}

TEST_F(CommandsTest, SuspendAndResumeReportTheNewState) {
  EXPECT_EQ(Run({"job", "suspend", "gpt"}), kOk);
  EXPECT_EQ(err(), "job gpt is SUSPENDING\n");
  EXPECT_EQ(Run({"job", "resume", "gpt", "--steps", "9"}), kOk);
  EXPECT_EQ(jobs_.resume_request.steps(), 9);
  EXPECT_EQ(Run({"job", "resume", "gpt", "--steps", "0"}), kUsage);
  EXPECT_EQ(Run({"job", "resume", "gpt"}), kOk);
  EXPECT_FALSE(jobs_.resume_request.has_steps());
  EXPECT_EQ(err(), "job gpt is PENDING\n");
}

TEST_F(CommandsTest, CordonedWorkerIsListedWithTheReason) {
  EXPECT_EQ(Run({"worker", "cordon", "worker-1", "--reason", "new memory"}), kOk);
  EXPECT_EQ(err(), "worker worker-1 is cordoned: new memory\n  runs gpt\n");
  EXPECT_EQ(Run({"worker", "list"}), kOk);
  EXPECT_EQ(out(),
            "NAME      STATE  HOST  SLOTS  FREE  FAULTY  HEARTBEAT  JOBS  CORDON\n"
            "worker-1  READY  box       2     1       1          -  gpt   new memory\n");
  EXPECT_EQ(Run({"worker", "drain", "worker-1", "--reason", "fan"}), kOk);
  EXPECT_EQ(err(), "worker worker-1 is cordoned: fan, drained\n  runs gpt\n");
  EXPECT_EQ(Run({"worker", "uncordon", "worker-1"}), kOk);
  EXPECT_EQ(err(), "worker worker-1 takes work again\n");
}

TEST_F(CommandsTest, DeleteSaysThatCheckpointsStayOrReportsTheRefusal) {
  EXPECT_EQ(Run({"job", "delete", "gpt"}), kOk);
  ExpectMessage({"job gpt ", "deleted", "checkpoints stay"});
  EXPECT_EQ(Run({"job", "delete", "running"}), kError);
  EXPECT_EQ(err(), "error: jobs/running: found RUNNING, expected a job that has ended\n");
}

TEST_F(CommandsTest, ForgetNamesTheWorkerOrReportsTheRefusal) {
  EXPECT_EQ(Run({"worker", "forget", "worker-1"}), kOk);
  ExpectMessage({"worker worker-1 ", "forgotten"});
  EXPECT_EQ(Run({"worker", "forget", "ready"}), kError);
  EXPECT_EQ(err(), "error: workers/ready: found READY, expected a LOST worker\n");
}

TEST_F(CommandsTest, WorkersAreListedAndShown) {
  EXPECT_EQ(Run({"worker", "list"}), kOk);
  EXPECT_EQ(out(),
            "NAME      STATE  HOST  SLOTS  FREE  FAULTY  HEARTBEAT  JOBS\n"
            "worker-1  READY  box       2     1       1          -  gpt\n");
  EXPECT_EQ(Run({"worker", "get", "worker-1"}), kOk);
  EXPECT_THAT(out(), HasSubstr("Slots:       2, 1 free\n"));
  EXPECT_THAT(out(), HasSubstr("H200 (GPU 0): Xid 79"));
  EXPECT_EQ(Run({"worker", "get", "w"}), kError);
  EXPECT_EQ(err(), "error: workers/w is unknown\n");
}

TEST_F(CommandsTest, AnUnreachableCoordinatorIsNamed) {
  StopServer();
  EXPECT_EQ(Run({"job", "list"}), kError);
  ExpectMessage({"error: ", absl::StrCat("127.0.0.1:", port_, ": Connection refused\n"),
                 "stretto up", "--coordinator", "STRETTO_COORDINATOR"});
  EXPECT_EQ(Run({"job", "submit", file_, "--request-id", "r7"}), kError);
  EXPECT_THAT(err(), AllOf(HasSubstr("Connection refused"), Not(HasSubstr("--request-id"))));
  EXPECT_EQ(Run({"job", "submit", file_, "--request-id", "r7", "--no-look"}), kError);
  ExpectMessage({"Connection refused", "--request-id r7 "});
}

TEST_F(CommandsTest, TheCoordinatorFlagWinsOverTheVariableAndIsPartOfHints) {
  variables_["STRETTO_COORDINATOR"] = "127.0.0.1:1";
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  EXPECT_EQ(Run({"job", "submit", file_, "--coordinator", address}), kOk) << err();
  EXPECT_THAT(err(), HasSubstr("stretto job watch gpt --coordinator " + address + "\n"));
  EXPECT_EQ(Run({"job", "list"}), kError);
  EXPECT_THAT(err(), HasSubstr("127.0.0.1:1: "));
}

TEST_F(CommandsTest, UsageErrorsAreTwoAndHelpIsZero) {
  EXPECT_EQ(Run({"job", "lst"}), kUsage);
  ExpectMessage({"error: ", "\"lst\"", "\"list\"", "--help"});
  EXPECT_EQ(Run({"fly"}), kUsage);
  ExpectMessage({"error: ", "\"fly\"", "up, job, top, worker", "--help"});
  EXPECT_EQ(Run({"job", "get"}), kUsage);
  ExpectMessage({"error: ", "JOB", "--help"});
  EXPECT_EQ(Run({"job", "list", "-o", "xml"}), kUsage);
  ExpectMessage({"error: ", "--format", "xml", "table, json, yaml", "--help"});
  EXPECT_EQ(Run({"job", "submit", file_, "--follow", "--wait"}), kUsage);
  ExpectMessage({"error: ", "--follow", "--wait", "--help"});
  EXPECT_EQ(Run({"up", "--workers", "0"}), kUsage);
  ExpectMessage({"error: ", "--workers", "0", "--help"});
  EXPECT_EQ(out(), "");
  EXPECT_EQ(Run({"--no-color", "data", "prepare", "x"}), kUsage);
  ExpectMessage({"error: ", "`data`", "`stretto data ...`"});
  EXPECT_EQ(Run({"--no-color", "checkpoint", "list"}), kUsage);
  ExpectMessage({"error: ", "`checkpoint`", "`stretto checkpoint ...`"});
  EXPECT_EQ(Run({"--help"}), kOk);
  EXPECT_THAT(out(), HasSubstr(kExitCodeHelp));
  EXPECT_EQ(Run({"job", "submit", "--help"}), kOk);
  EXPECT_THAT(out(), HasSubstr("--dry-run"));
}

TEST_F(CommandsTest, EveryKindOfCallHasADeadline) {
  EXPECT_EQ(Run({"job", "submit", file_, "--follow"}), kOk);
  // gRPC rounds deadlines up a little on the wire.
  const auto now = std::chrono::system_clock::now() + std::chrono::seconds(5);
  EXPECT_LE(jobs_.call_deadline, now + absl::ToChronoSeconds(Client::kCallDeadline));
  EXPECT_LE(jobs_.stream_deadline, now + absl::ToChronoSeconds(Client::kStreamDeadline));
}

TEST_F(CommandsTest, VersionNamesPresets) {
  EXPECT_EQ(Run({"version"}), kOk);
  EXPECT_THAT(out(), AllOf(StartsWith("stretto "), HasSubstr("gpt-10m")));
  EXPECT_EQ(Run({"version", "-o", "json"}), kOk);
  EXPECT_THAT(out(), AllOf(StartsWith("{\n  \"version\": \""), EndsWith("]\n}\n")));
}

}  // namespace
}  // namespace stretto::cli
