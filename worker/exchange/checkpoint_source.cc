// SPDX-License-Identifier: Apache-2.0

// Reads the model note of a checkpoint, opens the checkpoint, which verifies all files, and checks
// that the master weights of every parameter are there with their shapes. Reads forward boxes to
// the checkpoint. A job's folder is resolved to its newest checkpoint by the manifests alone.

#include "worker/exchange/checkpoint_source.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/lineage.h"
#include "worker/checkpoint/project.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/parameter_table.h"

namespace stretto {
namespace {

constexpr int64_t kMaxNoteBytes = 1 << 20;
constexpr char kMasterDtype[] = "F32";

class CheckpointSource final : public ModelSource {
 public:
  CheckpointSource(std::string name, ModelNote note, Checkpoint checkpoint)
      : name_(std::move(name)),
        note_(std::move(note)),
        table_(note_.model),
        checkpoint_(std::move(checkpoint)) {}

  const std::string& name() const override { return name_; }
  const ModelSpec& model() const override { return note_.model; }
  const std::string& dtype() const override { return note_.dtype; }

  absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& extents, float* out) const override {
    RETURN_IF_ERROR(table_.Find(name_, parameter, starts, extents).status());
    return checkpoint_.Read(parameter, kMasterDtype, starts, extents, out);
  }

  std::vector<std::string> tokenizer_files() const override {
    if (note_.tokenizer != "files") return {};
    std::vector<std::string> found;
    for (const char* name : kTokenizerFiles) {
      std::error_code ignored;
      if (checkpoint_.manifest().FindAttachment(name) == nullptr) continue;
      found.push_back(std::filesystem::absolute(checkpoint_.folder(), ignored) / name);
    }
    return found;
  }

  // Checks that all master weights of the model are there.
  absl::Status CheckTensors() const {
    for (const auto& [name, parameter] : table_.parameters()) {
      const TensorRecord* tensor = checkpoint_.Find(name);
      if (tensor != nullptr && tensor->dtype == kMasterDtype && tensor->shape == parameter.shape) {
        continue;
      }
      const std::string found =
          tensor == nullptr ? "none" : absl::StrCat(tensor->dtype, " ", ShapeText(tensor->shape));
      return absl::InvalidArgumentError(absl::StrCat(
          checkpoint_.folder(), ": tensor ", name, ": found ", found, ", expected ", kMasterDtype,
          " ", ShapeText(parameter.shape), " as ", kModelNoteName, " says"));
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const ModelNote note_;
  const ParameterTable table_;
  const Checkpoint checkpoint_;
};

}  // namespace

absl::StatusOr<std::string> CheckpointFolderOf(const std::string& folder,
                                               const std::string& project) {
  std::error_code ignored;
  if (std::filesystem::exists(absl::StrCat(folder, "/", kManifestName), ignored)) return folder;
  const std::optional<std::string> of_best = JobOfBest(folder);
  const std::string& job = of_best.has_value() ? *of_best : folder;
  ASSIGN_OR_RETURN(const std::vector<JobEntry> entries, ListJobFolder(job));
  std::vector<StoredCheckpoint> stored;
  for (const JobEntry& entry : entries) {
    if (entry.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(entry.path);
    if (!manifest.ok()) {
      return absl::Status(
          manifest.status().code(),
          absl::StrCat(job, ": which checkpoint is the ", of_best.has_value() ? "best" : "newest",
                       " cannot be told: ", manifest.status().message(), "; name one"));
    }
    stored.push_back({entry, *std::move(manifest)});
  }
  RETURN_IF_ERROR(KeepProject(job, project, &stored));
  RETURN_IF_ERROR(KeepOneRun(job, &stored));
  if (of_best.has_value() && !stored.empty()) {
    const StoredCheckpoint* const best = BestOf(stored);
    if (best != nullptr) return best->folder.path;
    return absl::NotFoundError(
        absl::StrCat(folder,
                     ": found no checkpoint with a held-out loss, expected one of a job "
                     "that evaluates: name a checkpoint"));
  }
  if (!stored.empty()) return stored.front().folder.path;
  return absl::NotFoundError(absl::StrCat(
      job, ": found no checkpoint, expected a checkpoint's folder or that of a job with some"));
}

absl::StatusOr<std::unique_ptr<ModelSource>> OpenCheckpoint(const std::string& name,
                                                            const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string chosen, CheckpointFolderOf(folder));
  const std::string path = absl::StrCat(chosen, "/", kModelNoteName);
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxNoteBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     ": found no such file, expected it to say which model the checkpoint is "
                     "of; releases that wrote none cannot be read as a model"));
  }
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(ModelNote note, ParseModelNote(*text, path));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(chosen));
  auto source = std::make_unique<CheckpointSource>(name, std::move(note), std::move(checkpoint));
  RETURN_IF_ERROR(source->CheckTensors());
  return source;
}

}  // namespace stretto
