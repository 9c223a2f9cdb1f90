// SPDX-License-Identifier: Apache-2.0

// Rank 0 chooses a checkpoint and names each candidate to its peers. All ranks then look at its
// manifest and headers, and their verdicts together decide whether it is taken or passed over. Its
// contents are verified when they are loaded, each file by one rank, so that no byte is read twice;
// where that finds damage, the choice is made again without it. The run's own checkpoints come
// before what the job resumes from. A model in the format of Hugging Face is opened by every rank
// for itself.

#include "worker/trainer/saved_state.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "proto/spec/job/resume_name.h"
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/fence.h"
#include "worker/checkpoint/project.h"
#include "worker/checkpoint/verifying_reader.h"
#include "worker/engine/layout/layout.h"
#include "worker/exchange/checkpoint_source.h"
#include "worker/exchange/model_note.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/agreement/work_together.h"
#include "worker/trainer/exported_state.h"
#include "worker/trainer/settings_file.h"

namespace stretto::trainer {
namespace {

constexpr absl::string_view kResumeFrom = "checkpoint.resume_from";

absl::Status Refused(absl::string_view what, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", why));
}

// Tells the watchers of this rank and its log how far the reading of files has come.
class Progress {
 public:
  explicit Progress(std::function<void()> alive) : alive_(std::move(alive)) {}

  void Add(int64_t bytes) {
    bytes_ += bytes;
    const absl::Duration now = Clock::Real().Monotonic();
    if (now < next_) return;
    if (alive_) alive_();
    if (next_ > absl::ZeroDuration())
      spdlog::info("read and verified {} so far", FormatBytes(bytes_));
    next_ = now + kInterval;
  }

 private:
  static constexpr absl::Duration kInterval = absl::Seconds(5);

  const std::function<void()> alive_;
  int64_t bytes_ = 0;
  absl::Duration next_ = absl::ZeroDuration();  // monotonic
};

class CheckpointState final : public SavedState {
 public:
  // The rank verifies the share of `control.rank()`.
  static absl::StatusOr<std::unique_ptr<SavedState>> Open(Checkpoint checkpoint,
                                                          const Communicator& control,
                                                          const std::function<void()>& alive) {
    auto state = std::unique_ptr<CheckpointState>(new CheckpointState(std::move(checkpoint)));
    const auto add = [progress = std::make_shared<Progress>(alive)](int64_t bytes) {
      progress->Add(bytes);
    };
    ASSIGN_OR_RETURN(state->reader_, VerifyingReader::Open(state->checkpoint_, control.rank(),
                                                           control.size(), add));
    return state;
  }

  const std::string& name() const override { return checkpoint_.folder(); }
  const TrainingState& state() const override { return checkpoint_.manifest().state; }

  std::string PlaceOf(const Parameter& parameter, Slot slot) const override {
    return reader_->PlaceOf(NameOfState(parameter, slot), parameter.starts, parameter.extents);
  }

  absl::Status Check(const Parameter& parameter, Slot slot) const override {
    const std::string tensor = NameOfState(parameter, slot);
    const TensorRecord* saved = checkpoint_.Find(tensor);
    if (saved != nullptr && saved->shape == parameter.shape) return absl::OkStatus();
    const std::string found =
        saved == nullptr ? "none" : absl::StrCat("shape [", absl::StrJoin(saved->shape, ","), "]");
    return absl::FailedPreconditionError(absl::StrCat(name(), ": tensor ", tensor, ": found ",
                                                      found, ", expected shape [",
                                                      absl::StrJoin(parameter.shape, ","), "]"));
  }

  absl::Status Read(const Parameter& parameter, Slot slot, float* values) override {
    return reader_->Read(NameOfState(parameter, slot), "F32", parameter.starts, parameter.extents,
                         values);
  }

  absl::Status Finish() override { return reader_->Finish(); }

  absl::StatusOr<spec::Settings> settings() const override {
    if (checkpoint_.manifest().FindAttachment(kSettingsName) == nullptr) return spec::Settings();
    const std::string path = absl::StrCat(name(), "/", kSettingsName);
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    return ParseSettings(text, path);
  }

  absl::StatusOr<Origin> origin() const override {
    Origin origin;
    for (const FileRecord& file : checkpoint_.manifest().attachments) {
      const std::string path = absl::StrCat(name(), "/", file.name);
      if (file.name == kModelNoteName) {
        ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
        ASSIGN_OR_RETURN(const ModelNote note, ParseModelNote(text, path));
        origin.dtype = note.dtype;
        origin.tokenizer = note.tokenizer;
      } else if (file.name != kSettingsName && file.name != kProjectName) {
        origin.tokenizer_files.push_back(path);
      }
    }
    return origin;
  }

 private:
  explicit CheckpointState(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  const Checkpoint checkpoint_;
  std::optional<VerifyingReader> reader_;  // set by Open
};

// Returns the first error of any rank. Called by all of them.
absl::Status VerdictOf(Communicator& control, const absl::Status& mine) {
  const std::string text = absl::StrCat(static_cast<int>(mine.code()), " ", mine.message());
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts, ExchangeText(control, text));
  for (const std::string& verdict : verdicts) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(verdict, absl::MaxSplits(' ', 1));
    int code = 0;
    if (!absl::SimpleAtoi(parts.first, &code)) return absl::InternalError(verdict);
    if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), parts.second);
  }
  return absl::OkStatus();
}

// Every rank looks at manifest, sizes, headers, its share of the attachments, and the project.
// Returns the verdict of all ranks. Called by all of them.
absl::Status CheckTogether(const std::string& folder, const std::string& project,
                           Communicator& control) {
  absl::Status mine;
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    const absl::StatusOr<Checkpoint> opened = Checkpoint::OpenHeaders(folder);
    mine = opened.status();
    if (mine.ok()) mine = opened->CheckAttachments(control.rank(), control.size());
    if (mine.ok()) mine = CheckProject(folder, opened->manifest(), project);
    return absl::OkStatus();
  }));
  return VerdictOf(control, mine);
}

constexpr char kCheck = '?';  // precedes a folder that all ranks are to check

using Find = std::function<absl::StatusOr<FoundCheckpoint>(const CheckFolder&)>;

// Rank 0 chooses by `find`, because a checkpoint may appear in the meantime and all ranks must read
// the same. The others check what it names until it names its choice. Returns the folder. `what` is
// looked for, in errors, of `project` or, if that is empty, of any.
absl::StatusOr<std::string> Choose(absl::string_view what, const Find& find,
                                   const std::string& project, Communicator& control,
                                   const DamagedStates& damaged) {
  std::string choice;
  if (control.rank() != 0) {
    while (true) {
      ASSIGN_OR_RETURN(choice, BroadcastText(control, "", 0));
      if (choice.empty() || choice[0] != kCheck) break;
      CheckTogether(choice.substr(1), project, control)
          .IgnoreError();  // rank 0 has the same verdict
    }
  } else {
    const auto check = [&](const std::string& folder) -> absl::Status {
      if (const auto known = damaged.find(folder); known != damaged.end()) return known->second;
      RETURN_IF_ERROR(
          BroadcastText(control, absl::StrCat(std::string(1, kCheck), folder), 0).status());
      return CheckTogether(folder, project, control);
    };
    const absl::StatusOr<FoundCheckpoint> found = find(check);
    if (found.ok()) {
      for (const std::string& bad : found->bad) spdlog::warn("checkpoint passed over: {}", bad);
    }
    const auto folder = found.ok() ? absl::StatusOr<std::string>(found->folder) : found.status();
    ASSIGN_OR_RETURN(choice, BroadcastText(control, PackText(folder), 0));
  }
  absl::string_view folder = choice;
  if (!absl::ConsumePrefix(&folder, "+")) return Refused(what, folder.substr(1));
  return std::string(folder);
}

// Returns the project whose checkpoints the config may resume from, beside those of none. That it
// may has been decided where the job was created. Empty: any.
std::string ProjectToResume(const JobConfig& config) {
  const auto name = spec::ResumeNameOf(config.spec.checkpoint().resume_from());
  return name.has_value() && !name->project.empty() ? name->project : config.spec.queue().project();
}

// Returns the folder to continue from; empty for a fresh start.
absl::StatusOr<std::string> FindFolder(const JobConfig& config, Communicator& control,
                                       const DamagedStates& damaged) {
  const std::string project = ProjectToResume(config);
  if (!config.resume_exact) {
    const auto find = [&](const CheckFolder& check) {
      return FindNewestOfProject(config.resume_folder, project, check);
    };
    return Choose(kResumeFrom, find, project, control, damaged);
  }
  std::string folder = config.resume_folder;
  if (JobOfBest(folder).has_value()) {
    const auto find = [&](const CheckFolder&) -> absl::StatusOr<FoundCheckpoint> {
      ASSIGN_OR_RETURN(std::string best, CheckpointFolderOf(config.resume_folder, project));
      return FoundCheckpoint{.folder = std::move(best), .manifest = {}, .bad = {}};
    };
    ASSIGN_OR_RETURN(folder, Choose(kResumeFrom, find, project, control, damaged));
  }
  // One that is named has nothing older to fall back to.
  if (const auto known = damaged.find(folder); known != damaged.end()) return known->second;
  const absl::Status status = CheckTogether(folder, project, control);
  if (absl::IsNotFound(status)) return Refused(kResumeFrom, status.message());
  RETURN_IF_ERROR(status);
  return folder;
}

// Whether the state was written by a run whose numbers are this one's, whatever its layout.
bool IsSameRun(const JobConfig& config, const TrainingState& state) {
  return state.spec_hash == config.spec_hash ||
         (!state.math_hash.empty() && state.math_hash == config.math_hash);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SavedState>> FindSavedState(const JobConfig& config,
                                                           Communicator& control,
                                                           const std::function<void()>& alive,
                                                           const DamagedStates& damaged) {
  std::string folder;
  if (!config.checkpoint_disabled && config.attempt > 1) {
    // A checkpoint without a uid is this job's only if the coordinator knows of one.
    Attempt self = AttemptOf(config);
    if (config.saved_step == 0) self.epoch = Epoch(0);
    const auto find = [&](const CheckFolder& check) {
      // Before the choice, so that trainers of an earlier attempt that nobody could reach save
      // nothing newer behind it.
      const absl::Status fenced = RaiseFence(config.checkpoint_folder, AttemptOf(config));
      if (!fenced.ok()) spdlog::warn("earlier attempts may still save: {}", fenced.ToString());
      return FindOwnNewestValid(config.checkpoint_folder, self, check);
    };
    ASSIGN_OR_RETURN(folder,
                     Choose("the job's own checkpoints", find, /*project=*/"", control, damaged));
  }
  if (folder.empty() && config.saved_step > 0) {
    return Refused(
        config.checkpoint_folder,
        absl::StrCat("found no checkpoint of this job, expected that of step ", config.saved_step,
                     ", which an earlier attempt has saved: is the "
                     "folder the same on all workers?"));
  }
  // A model has nothing older to fall back to.
  if (const auto known = damaged.find(config.resume_model);
      folder.empty() && known != damaged.end()) {
    return known->second;
  }
  if (folder.empty() && !config.resume_model.empty()) {
    absl::StatusOr<std::unique_ptr<SavedState>> exported = OpenExportedState(config);
    // DataLoss means damage; every other error means that this folder cannot be resumed from.
    if (exported.ok() || absl::IsDataLoss(exported.status())) return exported;
    return Refused(kResumeFrom, exported.status().message());
  }
  if (folder.empty() && !config.resume_folder.empty()) {
    ASSIGN_OR_RETURN(folder, FindFolder(config, control, damaged));
  }
  if (folder.empty()) return nullptr;
  absl::StatusOr<Checkpoint> opened = Checkpoint::OpenHeaders(folder);
  if (absl::IsNotFound(opened.status())) return Refused(folder, opened.status().message());
  ASSIGN_OR_RETURN(Checkpoint checkpoint, std::move(opened));
  return CheckpointState::Open(std::move(checkpoint), control, alive);
}

absl::Status SavedState::Check(const Parameter&, Slot) const { return absl::OkStatus(); }

absl::StatusOr<spec::Settings> SavedState::settings() const { return spec::Settings(); }

std::string SavedState::PlaceOf(const Parameter&, Slot) const { return ""; }

absl::Status SavedState::Finish() { return absl::OkStatus(); }

absl::Status CheckSettings(const JobConfig& config, const SavedState& saved) {
  if (IsSameRun(config, saved.state())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const spec::Settings settings, saved.settings());
  if (settings.empty()) return absl::OkStatus();
  const std::vector<spec::Difference> differences =
      spec::DifferencesOf(settings, spec::SettingsOf(config.spec));
  if (differences.empty()) return absl::OkStatus();
  return Refused(saved.name(), absl::StrCat(spec::TextOf(differences), ", as the job says"));
}

absl::Status CheckTokenizer(const JobConfig& config, const std::string& tokenizer_hash,
                            const SavedState& saved) {
  ResumeExpectation expected;
  if (!config.allow_other_tokenizer) expected.tokenizer_hash = tokenizer_hash;
  return CheckResumable(saved.name(), saved.state(), expected);
}

absl::StatusOr<TrainState> Resume(const JobConfig& config, const std::string& tokenizer_hash,
                                  SavedState& saved, RankEngine& engine) {
  const TrainingState& state = saved.state();
  const bool exact = state.spec_hash == config.spec_hash;
  const bool same_run = IsSameRun(config, state);
  ResumeExpectation expected{
      .spec_hash = "", .tokenizer_hash = "", .padded_vocab = config.engine.model.padded_vocab()};
  RETURN_IF_ERROR(CheckSettings(config, saved));
  RETURN_IF_ERROR(CheckTokenizer(config, tokenizer_hash, saved));
  // Compare the hash last: of a release that kept no settings, earlier checks can often name the
  // field that differs.
  if (state.math_hash.empty() && !exact) expected.tp_size = TpSizeOf(config.engine, 0);
  RETURN_IF_ERROR(CheckResumable(saved.name(), state, expected));
  // In the order of the model, so that all ranks name the same tensor.
  for (const Parameter& parameter : engine.parameters()) {
    for (Slot slot : kSlots) RETURN_IF_ERROR(saved.Check(parameter, slot));
  }
  RETURN_IF_ERROR(engine.SetState(
      [&](const Parameter& box, Slot slot, float* values) { return saved.Read(box, slot, values); },
      [&](const Parameter& box, Slot slot) { return saved.PlaceOf(box, slot); }));
  RETURN_IF_ERROR(saved.Finish());
  if (!same_run) {
    expected.spec_hash = state.math_hash.empty() ? config.spec_hash : "";
    expected.math_hash = state.math_hash.empty() ? "" : config.math_hash;
    RETURN_IF_ERROR(CheckResumable(saved.name(), state, expected));
  }
  spdlog::info("resumed folder={} step={}{}", saved.name(), state.step,
               exact ? "" : ", written under another layout: training rounds differently");
  return TrainState{
      .step = state.step,
      .updates = state.updates,
      .consumed_samples = state.consumed_samples,
      .exact = exact,
      .held_out = state.held_out,
      .parent = ParentState{.job_uid = state.job_uid, .epoch = state.epoch, .step = state.step}};
}

absl::StatusOr<bool> AllLoaded(const SavedState* saved, const absl::Status& mine,
                               Communicator& control, DamagedStates* damaged) {
  const absl::Status verdict = VerdictOf(control, mine);
  if (saved != nullptr && absl::IsDataLoss(verdict)) {
    damaged->insert_or_assign(saved->name(), verdict);
    return false;
  }
  RETURN_IF_ERROR(mine);
  // The rank that failed says why.
  if (!verdict.ok()) return absl::UnavailableError(absl::StrCat("a peer: ", verdict.message()));
  return true;
}

absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const JobConfig& config,
                                                      const std::string& tokenizer_prefix,
                                                      const ModelSource* weights,
                                                      const SavedState* saved) {
  Origin origin;
  if (weights != nullptr) origin = OriginOf(*weights, config.data.root);
  if (saved != nullptr) {
    ASSIGN_OR_RETURN(origin, saved->origin());
  }
  ASSIGN_OR_RETURN(auto attachments,
                   AttachmentsOf(config.engine.model, origin, tokenizer_prefix, config.data.root));
  attachments.push_back({kSettingsName, SettingsText(spec::SettingsOf(config.spec))});
  const std::string& project = config.spec.queue().project();
  if (!project.empty()) attachments.push_back({kProjectName, ProjectText(project)});
  return attachments;
}

}  // namespace stretto::trainer
