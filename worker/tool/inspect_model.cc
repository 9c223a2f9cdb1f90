// SPDX-License-Identifier: Apache-2.0

// Opens the named model, which reads headers and no weights except to verify a checkpoint, and
// prints its fields, its parameter count, its training state and, with --spec, a `model:` section
// for a job file.

#include "worker/tool/inspect_model.h"

#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/model_source.h"
#include "worker/tool/model_name.h"
#include "worker/tool/model_tokenizer.h"
#include "worker/tool/trained_tokens.h"

namespace stretto {
namespace {

// The number of elements of the model itself, without the vocabulary's padding.
int64_t ElementsOf(const Parameter& parameter) {
  std::vector<int64_t> shape = parameter.shape;
  if (parameter.padding_from >= 0) shape[0] = parameter.padding_from;
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t ParameterCount(const ModelSpec& model) {
  int64_t count = 0;
  for (const Parameter& parameter : ParametersOf(model, 1, 0)) count += ElementsOf(parameter);
  return count;
}

std::string Number(double value) { return nlohmann::json(value).dump(); }

// Returns the fields of ModelSpec in job.proto; the note of a checkpoint uses their names.
Document ModelFields(const ModelSpec& model) {
  Document fields = Document::parse(ModelNoteText({.model = model, .dtype = "", .tokenizer = ""}));
  for (const char* key : {"weights", "tokenizer"}) fields.erase(key);
  if (model.rotary_scaling.kind == RotaryScaling::Kind::kNone) fields.erase("rotary_scaling");
  return fields;
}

std::string Plain(const Document& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "{kind: linear, factor: 2.0}"
std::string InlineMap(const Document& map) {
  std::vector<std::string> members;
  for (const auto& member : map.items()) {
    members.push_back(absl::StrCat(member.key(), ": ", Plain(member.value())));
  }
  return absl::StrCat("{", absl::StrJoin(members, ", "), "}");
}

struct Inspected {
  const ModelSource& source;
  std::string tokenizer;               // names of its files
  std::optional<TrainingState> state;  // of a checkpoint
};

std::string Positions(const ModelSpec& model) {
  if (model.architecture.positions == PositionKind::kLearned) {
    return absl::StrCat(model.sequence_length, ", learned");
  }
  std::string text = absl::StrCat(model.sequence_length, ", rotary with base ", model.rotary_base);
  const Document fields = ModelFields(model);
  if (fields.contains("rotary_scaling")) {
    absl::StrAppend(&text, ", scaled: ", InlineMap(fields["rotary_scaling"]));
  }
  return text;
}

std::string TableOf(const Inspected& found, bool tensors) {
  const ModelSpec& model = found.source.model();
  std::string text;
  const auto line = [&](absl::string_view key, const auto&... values) {
    absl::StrAppend(&text, absl::StrFormat("%-12s", key), values..., "\n");
  };
  const int64_t count = ParameterCount(model);
  line("model", found.source.name());
  line("family", model.architecture.name, ", ", model.layers, " layers");
  line("hidden", model.hidden, ", ", model.heads, " heads (", model.key_heads(),
       " of keys and values), MLP ", model.ffn_hidden);
  line("positions", Positions(model));
  line("vocabulary", model.vocab_size, ", padded to ", model.padded_vocab(), ", head ",
       model.head_is_tied() ? "tied to the embedding" : "of its own");
  line("norms", "epsilon ", Number(model.norm_epsilon));
  line("parameters", FormatCount(static_cast<double>(count)), " (", count, ")");
  line("weights", found.source.dtype());
  line("tokenizer", found.tokenizer.empty() ? "none" : found.tokenizer);
  if (found.state) {
    const auto tokens = TokensOf(*found.state, model);
    line("training", "step ", found.state->step, ", ", found.state->consumed_samples, " samples, ",
         tokens ? FormatCount(static_cast<double>(*tokens)) + " tokens, " : "", "seed ",
         found.state->seed, ", TP ", found.state->tp_size);
  }
  if (!tensors) return text;
  absl::StrAppend(&text, "\n");
  for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
    absl::StrAppend(&text,
                    absl::StrFormat("%-36s  %s\n", parameter.name,
                                    absl::StrCat("[", absl::StrJoin(parameter.shape, ","), "]")));
  }
  return text;
}

Document DocumentOf(const Inspected& found, bool tensors) {
  const ModelSpec& model = found.source.model();
  Document document;
  document["name"] = found.source.name();
  document["model"] = ModelFields(model);
  document["padded_vocab"] = model.padded_vocab();
  document["parameters"] = ParameterCount(model);
  document["weights"] = found.source.dtype();
  document["tokenizer_files"] = found.source.tokenizer_files();
  if (found.state) {
    Document& training = document["training"];
    training["step"] = found.state->step;
    training["updates"] = found.state->updates;
    training["samples"] = found.state->consumed_samples;
    if (const auto tokens = TokensOf(*found.state, model)) training["tokens"] = *tokens;
    training["seed"] = found.state->seed;
    training["epoch"] = found.state->epoch;
    training["tp_size"] = found.state->tp_size;
  }
  if (tensors) {
    for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
      document["tensors"].push_back({{"name", parameter.name}, {"shape", parameter.shape}});
    }
  }
  return document;
}

}  // namespace

std::string JobFileModel(const ModelSpec& model, const std::string& initial_weights) {
  std::string text = "model:\n";
  const Document fields = ModelFields(model);
  for (const auto& field : fields.items()) {
    absl::StrAppend(&text, "  ", field.key(), ": ",
                    field.value().is_object() ? InlineMap(field.value()) : Plain(field.value()),
                    "\n");
  }
  if (!initial_weights.empty()) {
    absl::StrAppend(
        &text, "  # relative to the workers' data root\n  initial_weights: ",
        Document(initial_weights).dump(-1, ' ', false, Document::error_handler_t::replace), "\n");
  }
  return text;
}

absl::StatusOr<std::string> InspectModel(const InspectModelOptions& options) {
  ASSIGN_OR_RETURN(const std::string name, ResolveModel(options.name));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSource> source, OpenModel(name));
  const bool checkpoint = NamesCheckpoint(name);
  if (options.spec) return JobFileModel(source->model(), checkpoint ? "" : name);
  Inspected found{*source, "", std::nullopt};
  std::vector<std::string> names;
  for (const std::string& path : source->tokenizer_files()) {
    names.push_back(std::filesystem::path(path).filename().string());
  }
  found.tokenizer = absl::StrJoin(names, ", ");
  if (names.empty()) {
    ASSIGN_OR_RETURN(const bool bytes, TrainedOnBytes(*source));
    if (bytes) found.tokenizer = "bytes";
  }
  if (checkpoint) {
    ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(name));
    found.state = manifest.state;
  }
  return options.format == OutputFormat::kTable
             ? TableOf(found, options.tensors)
             : TextOf(DocumentOf(found, options.tensors), options.format);
}

}  // namespace stretto
