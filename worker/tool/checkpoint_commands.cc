// SPDX-License-Identifier: Apache-2.0

// Defines the commands with CLI11 and calls the functions that do the work, which check their
// arguments before they open anything large. A failure prints its reason and leaves by
// CLI::RuntimeError. Verify and export show a progress line; an export can be interrupted without
// leaving files.

#include "worker/tool/checkpoint_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "proto/base/printable.h"
#include "proto/base/progress_line.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "proto/commands/choice.h"
#include "proto/commands/ranges.h"
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/exchange/export_folder.h"
#include "worker/exchange/export_model.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/model_source.h"
#include "worker/tool/inspect_model.h"
#include "worker/tool/interrupt.h"
#include "worker/tool/list_checkpoints.h"
#include "worker/tool/model_name.h"
#include "worker/tool/verify_model.h"

namespace stretto {
namespace {

constexpr char kModelHelp[] =
    "folder of a checkpoint, or of a job (uses its newest checkpoint; JOB/best its best); "
    "hf:FOLDER; or llmc:FILE";

// Prints the reason and leaves App::parse.
void Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "error: %s\n", Printable(status.message()));
  if (absl::IsAlreadyExists(status)) absl::FPrintF(stderr, "--overwrite replaces it\n");
  throw CLI::RuntimeError(1);
}

void PrintOrFail(const absl::StatusOr<std::string>& text, OutputFormat format) {
  if (!text.ok()) Fail(text.status());
  absl::FPrintF(stdout, "%s", format == OutputFormat::kTable ? Printable(*text) : *text);
}

void AddList(CLI::App* group) {
  struct Flags {
    std::string folder, root, format = "table";
  };
  CLI::App* command = group->add_subcommand("list", "List the checkpoints of a job");
  command->footer(
      "stretto checkpoint list checkpoints/gpt\n"
      "stretto checkpoint list gpt --root checkpoints -o json");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("FOLDER", flags->folder,
                   "folder of the job's checkpoints; with --root, the job name")
      ->required();
  command->add_option("--root", flags->root, "checkpoint root of the workers")->type_name("DIR");
  AddFormat(command, &flags->format);
  command->callback([flags] {
    const std::string folder =
        flags->root.empty() ? flags->folder : absl::StrCat(flags->root, "/", flags->folder);
    const OutputFormat format = FormatOf(flags->format);
    PrintOrFail(ListCheckpoints(folder, format, absl::Now()), format);
  });
}

void AddInspect(CLI::App* group) {
  CLI::App* command = group->add_subcommand("inspect", "Show the model that weights belong to");
  command->footer(
      "stretto checkpoint inspect checkpoints/gpt\n"
      "stretto checkpoint inspect hf:gpt2 --spec");
  auto options = std::make_shared<InspectModelOptions>();
  command->add_option("MODEL", options->name, kModelHelp)->required();
  command->add_flag("--tensors", options->tensors, "show every tensor");
  const auto format = std::make_shared<std::string>("table");
  CLI::Option* document = AddFormat(command, format.get());
  command
      ->add_flag("--spec", options->spec, "print the `model:` block of a job file for this model")
      ->excludes(document);
  command->callback([options, format] {
    options->format = FormatOf(*format);
    PrintOrFail(InspectModel(*options), options->format);
  });
}

// Returns every checkpoint of a job, or the named model.
absl::StatusOr<std::vector<std::string>> ModelsToVerify(const std::string& name) {
  if (!NamesCheckpoint(name)) return std::vector<std::string>{name};
  std::error_code ignored;
  if (std::filesystem::exists(absl::StrCat(name, "/", kHfConfigName), ignored)) {
    return std::vector<std::string>{absl::StrCat("hf:", name)};
  }
  std::vector<std::string> models;
  if (const auto entries = ListJobFolder(name); entries.ok()) {
    for (const JobEntry& entry : *entries) {
      if (entry.name.kind == FolderName::Kind::kFinal) models.push_back(entry.path);
    }
  }
  if (!models.empty()) {
    std::sort(models.begin(), models.end());
    return models;
  }
  ASSIGN_OR_RETURN(std::string folder, ResolveModel(name));
  return std::vector<std::string>{std::move(folder)};
}

void Verify(const std::string& name) {
  const auto models = ModelsToVerify(name);
  if (!models.ok()) Fail(models.status());
  bool bad = false;
  for (const std::string& model : *models) {
    std::optional<ProgressLine> line(std::in_place);
    const auto verified =
        VerifyModel(model, [&](int64_t bytes, int64_t total) { line->Show(bytes, total); });
    line.reset();
    if (!verified.ok()) Fail(verified.status());
    for (const std::string& what : verified->bad) {
      absl::FPrintF(stderr, "error: %s\n", Printable(what));
    }
    bad = bad || !verified->bad.empty();
    absl::PrintF("%s: %s, %d tensors\n", Printable(model),
                 verified->bad.empty() ? "whole, every value finite" : "bad", verified->tensors);
  }
  if (bad) throw CLI::RuntimeError(1);
}

void AddVerify(CLI::App* group) {
  CLI::App* command = group->add_subcommand(
      "verify", "Read a whole model and report damage, without changing anything");
  command->footer(
      "stretto checkpoint verify checkpoints/gpt\n"
      "stretto checkpoint verify checkpoints/gpt/step-00000100");
  auto name = std::make_shared<std::string>();
  command
      ->add_option(
          "MODEL", *name,
          "folder of a checkpoint, of a job (verifies all its checkpoints) or of a Hugging "
          "Face model; hf:FOLDER; or llmc:FILE")
      ->required();
  command->callback([name] { Verify(*name); });
}

struct ExportFlags {
  std::string model, format, dtype;
  bool optimizer = false, best = false;
  ExportOptions options;
};

// Returns the name of the model to export.
absl::StatusOr<std::string> ModelToExport(const ExportFlags& flags) {
  if (!flags.best) return ResolveModel(flags.model);
  std::error_code ignored;
  if (!NamesCheckpoint(flags.model) || JobOfBest(flags.model).has_value() ||
      std::filesystem::exists(absl::StrCat(flags.model, "/", kManifestName), ignored)) {
    return absl::InvalidArgumentError(absl::StrCat("--best: found ", flags.model,
                                                   ", expected the folder of a job, which has the "
                                                   "best of its checkpoints"));
  }
  return ResolveModel(absl::StrCat(absl::StripSuffix(flags.model, "/"), "/best"));
}

absl::StatusOr<ExportSummary> Export(ExportFlags& flags) {
  // Checks that need no weights come first, because opening a checkpoint reads all of it.
  ASSIGN_OR_RETURN(const std::string name, ModelToExport(flags));
  if (flags.optimizer && !NamesCheckpoint(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--optimizer: found ", name, ", expected a checkpoint, which has its state"));
  }
  RETURN_IF_ERROR(CheckOutput(flags.options.output, flags.options.overwrite));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSource> source, OpenModel(name));
  std::optional<Checkpoint> optimizer;
  if (flags.optimizer) {
    ASSIGN_OR_RETURN(optimizer, Checkpoint::Open(name));
    flags.options.optimizer = &*optimizer;
  }
  const InterruptFlag interrupt;  // until here there is nothing to clean up
  ProgressLine line;
  flags.options.progress = [&](int64_t bytes, int64_t total) { line.Show(bytes, total); };
  flags.options.cancelled = InterruptFlag::raised;
  return flags.format == "hf" ? ExportHf(*source, flags.options)
                              : ExportLlmc(*source, flags.options);
}

bool HasTokenizer(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + "/tokenizer.json", error) ||
         std::filesystem::exists(folder + "/tokenizer.model", error);
}

void RunExport(ExportFlags& flags) {
  if (flags.dtype == "f32") flags.options.dtype = "F32";
  if (flags.dtype == "bf16") flags.options.dtype = "BF16";
  if (flags.dtype == "f16") flags.options.dtype = "F16";
  const absl::StatusOr<ExportSummary> summary = Export(flags);
  if (absl::IsCancelled(summary.status())) {
    absl::FPrintF(stderr, "error: %s\n", Printable(summary.status().message()));
    InterruptFlag::Die();
  }
  if (!summary.ok()) Fail(summary.status());
  absl::PrintF("%s: %d tensors in %s, %s in %d files\n", Printable(flags.options.output),
               summary->tensors, summary->dtype, FormatBytes(summary->bytes), summary->files);
  const std::string name = flags.format == "hf"
                               ? absl::StrCat("hf:", flags.options.output)
                               : absl::StrCat("llmc:", flags.options.output, "/", kLlmcName);
  const bool tokenizer = flags.format == "hf" && HasTokenizer(flags.options.output);
  absl::FPrintF(stderr, "Next: stretto sample %s%s --prompt TEXT\n", Printable(name),
                tokenizer ? "" : " --tokenizer NAME");
}

void AddExport(CLI::App* group) {
  CLI::App* command = group->add_subcommand(
      "export", "Write a model in another format; a failed export leaves nothing behind");
  command->footer(
      "stretto checkpoint export checkpoints/gpt --format hf --output gpt-hf\n"
      "stretto checkpoint export checkpoints/gpt --best --format llmc -f gpt-llmc");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("MODEL", flags->model, kModelHelp)->required();
  Choice(command
             ->add_option("-o,--format", flags->format,
                          "format of the folder: hf is for transformers; llmc has a model.bin for "
                          "llm.c")
             ->required(),
         "hf|llmc");
  AddOutput(command, &flags->options.output, "DIR", "folder to create")->required();
  Choice(command->add_option("--dtype", flags->dtype,
                             "data type of the weights (default: that of the model)"),
         "f32|bf16|f16");
  CLI::Option* const shard_size = command->add_option(
      "--max-shard-size", flags->options.max_shard_bytes,
      "maximum size of the tensors in one file, such as 500MB or 2GB; only with --format hf "
      "(default: 5GB)");
  shard_size->type_name("SIZE");
  shard_size->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))->check(Integer(1, INT64_MAX));
  command->add_flag("--optimizer", flags->optimizer,
                    "also write the state of the optimizer, for checkpoint.resume_from; only for a "
                    "checkpoint and with --format hf");
  command->add_flag("--best", flags->best,
                    "export the checkpoint of the job with the lowest held-out loss, instead of "
                    "the newest");
  command->add_flag("--overwrite", flags->options.overwrite, "replace an existing export");
  command->callback([flags, shard_size] {
    if (flags->format == "llmc" && (flags->optimizer || shard_size->count() > 0)) {
      throw CLI::ValidationError(
          flags->optimizer ? "--optimizer" : "--max-shard-size",
          "found --format llmc, expected hf, the only format that supports it");
    }
    RunExport(*flags);
  });
}

}  // namespace

void AddCheckpointCommands(CLI::App& app) {
  CLI::App* group = app.add_subcommand("checkpoint", "Inspect, verify and export checkpoints");
  group->require_subcommand(1);
  group->footer(
      "stretto checkpoint list checkpoints/gpt\n"
      "stretto checkpoint export checkpoints/gpt --format hf --output gpt-hf");
  AddList(group);
  AddInspect(group);
  AddVerify(group);
  AddExport(group);
}

}  // namespace stretto
