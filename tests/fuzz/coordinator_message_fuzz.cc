// SPDX-License-Identifier: Apache-2.0

// What a coordinator sends to a daemon: whatever it is, folders of ranks are made under the state
// folder alone and are found again, every trainer that was started can be ended, and reports of
// each rank are sent in order up to its exit. An input is a list of messages, each after two bytes
// with its length, lower one first. Processes and threads of the daemon are not there: its state
// machines are, and its folders.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/reporting/dropped_reports.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/session/registration.h"
#include "worker/daemon/session/report_table.h"
#include "worker/daemon/trainers/trainer_table.h"

namespace {

namespace fs = std::filesystem;
using stretto::CheckNumbers;
using stretto::FirstNumber;
using stretto::daemon::AnswersTo;
using stretto::daemon::Assignment;
using stretto::daemon::KeyOf;
using stretto::daemon::Membership;
using stretto::daemon::RankKey;
using stretto::daemon::ReportTable;
using stretto::daemon::RunFolder;
using stretto::daemon::RunFolders;
using stretto::daemon::TrainerTable;
using stretto::v1alpha1::Assign;
using stretto::v1alpha1::CoordinatorMessage;
using stretto::v1alpha1::RankReport;

constexpr absl::Duration kGrace = absl::Seconds(10);
// Beyond it an input only makes more files.
constexpr size_t kMostRanks = 32;

class Node {
 public:
  Node() : folders_(stretto::fuzz::Folder::Get().Path("state")) { fs::remove_all(folders_.root()); }

  void Take(const CoordinatorMessage& message) {
    now_ += absl::Seconds(1);
    switch (message.message_case()) {
      case CoordinatorMessage::kRegistered:
        return Registered(message.registered());
      case CoordinatorMessage::kAssign: {
        membership_ = Noted(membership_, membership_.cluster_id, message.assign().epoch());
        const auto effects = table_.Assign(std::make_shared<const Assign>(message.assign()));
        if (effects.ok()) CarryOut(*effects);
        return StartFree();
      }
      case CoordinatorMessage::kStop:
        CarryOut(table_.Stop(message.stop().job_uid(), message.stop().epoch(), "stopped"));
        return EndDue();
      case CoordinatorMessage::kAck:
        reports_.Acked(KeyOf(message.ack()), message.ack().sequence());
        return;
      case CoordinatorMessage::kSave:
        table_.NoteSave({message.save().job_uid(), message.save().epoch(), 0},
                        message.save().request());
        return;
      case CoordinatorMessage::kLogRequest:
        if (const auto found = folders_.Find(KeyOf(message.log_request())); found.ok())
          ExpectBeneath(*found);
        return;
      case CoordinatorMessage::kInspect:
      case CoordinatorMessage::MESSAGE_NOT_SET:
        return;
    }
  }

  void End() {
    CarryOut(table_.StopAll("the daemon ends"));
    now_ = absl::InfiniteDuration();
    EndDue();
    STRETTO_CHECK(table_.trainers().empty());
    const auto held = reports_.Held();
    for (const auto& rank : held) reports_.Rewind(KeyOf(rank), 0);
    std::map<RankKey, RankReport> sent;  // the last of each
    ReportTable::Missing missing;
    while (true) {
      const ReportTable::Turn turn = reports_.Next(missing);
      if (turn.read.has_value()) {  // there are no logs
        missing[*turn.read] = turn.sequence;
        continue;
      }
      if (!turn.report.has_value()) break;
      RankReport& last = sent[KeyOf(*turn.report)];
      STRETTO_CHECK(CheckNumbers(*turn.report).ok());
      STRETTO_CHECK(FirstNumber(*turn.report) == last.sequence() + 1);
      last = *turn.report;
    }
    for (const auto& rank : held) STRETTO_CHECK(sent[KeyOf(rank)].has_exit());
    for (const auto& run : folders_.Scan()) ExpectBeneath(run.folder);
  }

 private:
  void Registered(const stretto::v1alpha1::Registered& answer) {
    membership_ = Noted(membership_, answer.cluster_id(), 0);
    table_.ForgetWaiting();
    for (const auto& [key, keep, acked] : AnswersTo(reports_.Held(), answer)) {
      if (keep) {
        reports_.Rewind(key, acked);
        reports_.Acked(key, acked);
      } else {
        CarryOut(table_.StopOne(key, "unwanted"));
        reports_.Drop(key);
      }
    }
  }

  void StartFree() {
    for (const Assignment& assign : table_.TakeFree()) {
      for (const auto& slot : assign->ranks()) {
        const RankKey key{assign->job_uid(), assign->epoch(), slot.rank()};
        if (table_.Find(key) != nullptr || started_ == kMostRanks) continue;
        const auto folder = folders_.Create(*assign, slot.rank());
        if (!folder.ok()) continue;
        ExpectBeneath(*folder);
        const auto found = folders_.Find(key);
        STRETTO_CHECK(found.ok());
        ExpectBeneath(*found);
        if (!table_.MayStart(key).ok()) continue;
        if (!reports_.Add(key, assign->job_id(), slot.slot(), folder->reports())) continue;
        table_.Started(key, slot.slot());
        ++started_;
      }
    }
  }

  void CarryOut(const TrainerTable::Effects& effects) {
    for (const RankKey& key : effects.stop) {
      STRETTO_CHECK(table_.Find(key) != nullptr);
      table_.Asked(key, now_, kGrace, /*reached=*/true);
    }
  }

  // Every trainer ends at its first signal.
  void EndDue() {
    for (const TrainerTable::Signal& signal : table_.TakeDue(now_)) {
      if (table_.Find(signal.key) == nullptr) continue;
      RankReport exit;
      exit.mutable_exit()->set_reason("Cancelled");
      if (const auto numbered = reports_.Numbered(signal.key, exit)) {
        STRETTO_CHECK(CheckNumbers(*numbered).ok());
        STRETTO_CHECK(reports_.Own(signal.key, *numbered, /*logged=*/false));
      }
      reports_.End(signal.key, /*stopped=*/true);
      CarryOut(table_.Ended(signal.key, /*failed=*/false));
    }
    StartFree();
  }

  void ExpectBeneath(const RunFolder& folder) const {
    const std::string path = fs::path(folder.path()).lexically_normal().string();
    STRETTO_CHECK(path == folder.path() && absl::StartsWith(path, folders_.root() + "/"));
    STRETTO_CHECK(fs::is_directory(fs::symlink_status(path)));
  }

  RunFolders folders_;
  TrainerTable table_;
  ReportTable reports_{[](const RankReport&) {}};
  Membership membership_;
  absl::Duration now_;
  size_t started_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Node node;
  for (absl::string_view bytes : stretto::fuzz::MessagesOf(stretto::fuzz::TextOf(data, size))) {
    CoordinatorMessage message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) node.Take(message);
  }
  node.End();
  return 0;
}
