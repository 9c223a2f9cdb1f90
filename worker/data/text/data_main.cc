// SPDX-License-Identifier: Apache-2.0

// stretto-data: runs `stretto data` as a separate process (see tokenizer.h).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/printable.h"
#include "proto/base/progress_line.h"
#include "proto/base/units.h"
#include "proto/commands/choice.h"
#include "proto/commands/program.h"
#include "proto/commands/ranges.h"
#include "proto/commands/read_commands.h"
#include "worker/data/batch.h"
#include "worker/data/text/conversation.h"
#include "worker/data/text/inspect.h"
#include "worker/data/text/prepare.h"

namespace stretto {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "error: %s\n", Printable(status.message()));
  if (absl::IsAlreadyExists(status)) absl::FPrintF(stderr, "--overwrite replaces it\n");
  return 1;
}

// A tokenizer as command lines name it.
struct TokenizerFlags {
  std::string name, end_of_document;
};

void AddTokenizer(CLI::App* command, TokenizerFlags& flags, const std::string& help) {
  command->add_option("--tokenizer", flags.name, help)->type_name("TOKENIZER");
  command
      ->add_option("--end-of-document", flags.end_of_document,
                   "token that ends each document (default: the one that hf:FOLDER names)")
      ->type_name("TOKEN");
}

// Options of `prepare` that are texts on the command line.
struct PrepareFlags {
  PrepareOptions options;
  bool completions = false;
  std::string chat_format = "plain";
};

int PrepareData(PrepareFlags flags, const TokenizerFlags& named) {
  PrepareOptions& options = flags.options;
  if (flags.completions) options.lines.chat = FindChatFormat(flags.chat_format);
  const auto tokenizer =
      MakeTokenizer(named.name.empty() ? "bytes" : named.name, named.end_of_document);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  std::optional<ProgressLine> line(std::in_place);
  options.progress = [&line](const PrepareProgress& progress) {
    line->Show(progress.bytes, progress.total_bytes, progress.resumed_bytes);
  };
  const auto summary = Prepare(options, **tokenizer);
  line.reset();  // erased before anything else is printed
  if (!summary.ok()) {
    const int code = Fail(summary.status());
    const std::string parts = options.prefix + ".parts";
    if (std::filesystem::exists(parts)) {
      absl::FPrintF(stderr,
                    "the finished parts are kept in %s: the same command continues from there\n",
                    parts);
    }
    return code;
  }
  absl::PrintF("%s.bin: %s tokens, %d documents from %d files (%s of text), vocabulary %d\n",
               options.prefix, FormatCount(static_cast<double>(summary->tokens)),
               summary->documents, summary->files, FormatBytes(summary->bytes),
               (*tokenizer)->info().vocab_size);
  if (flags.completions) {
    absl::PrintF("%s.mask.bin: %s tokens are trained on, %.1f %%\n", options.prefix,
                 FormatCount(static_cast<double>(summary->trained_tokens)),
                 100.0 * static_cast<double>(summary->trained_tokens) /
                     static_cast<double>(summary->tokens));
  }
  if (summary->skipped_binary > 0) {
    absl::FPrintF(stderr, "skipped %d binary files\n", summary->skipped_binary);
  }
  absl::FPrintF(stderr,
                "Next: name it in the job file as `data: {prefix: ...}`, relative to the workers' "
                "data root\n");
  return 0;
}

int InspectData(InspectOptions options, const TokenizerFlags& named) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!named.name.empty()) {
    auto made = MakeTokenizer(named.name, named.end_of_document);
    if (!made.ok()) return Fail(made.status());
    tokenizer = *std::move(made);
    options.tokenizer = tokenizer.get();
  }
  const auto report = InspectDataset(options);
  if (!report.ok()) return Fail(report.status());
  absl::FPrintF(stdout, "%s",
                options.format != OutputFormat::kTable ? *report : Printable(*report));
  return 0;
}

CLI::App* AddPrepare(CLI::App& app, PrepareFlags& flags, TokenizerFlags& tokenizer) {
  PrepareOptions& options = flags.options;
  CLI::App* prepare =
      app.add_subcommand("prepare", "Turn text into a data set (PREFIX.bin and PREFIX.idx)");
  prepare->footer(
      "stretto data prepare books/ --output data/books\n"
      "stretto data prepare a.jsonl -f data/a --tokenizer hf:my-model\n"
      "stretto data prepare chats.jsonl -f data/chats --completions");
  prepare->add_option("PATH", options.inputs, "text files and folders of text files")->required();
  AddOutput(prepare, &options.prefix, "PREFIX", "path of the data set without .bin and .idx")
      ->required();
  AddTokenizer(prepare, tokenizer,
               "tokenizer: bytes (default), sentencepiece:MODEL, or hf:FOLDER with the "
               "tokenizer.json of a byte-level BPE");
  CLI::Option* const key =
      prepare
          ->add_option("--json-key", options.lines.key,
                       "key of the document in each line of *.jsonl and *.ndjson files")
          ->type_name("KEY")
          ->capture_default_str();
  CLI::Option* const completions = prepare->add_flag(
      "--completions", flags.completions,
      "lines have prompt and completion, or messages with role and content; only completions and "
      "what the assistant says are trained on");
  completions->excludes(key);
  CLI::Option* const format =
      prepare->add_option("--chat-format", flags.chat_format, "how messages become text");
  Choice(format, ChatFormats());
  format->capture_default_str()->needs(completions);
  options.threads = std::max<int>(1, std::thread::hardware_concurrency());
  prepare
      ->add_option("--threads", options.threads,
                   "number of threads; it does not change the result (default: one per core)")
      ->check(Integer(1, 1024));
  prepare->add_flag("--overwrite", options.overwrite, "replace an existing data set");
  return prepare;
}

// Options of `batch`, with the names of the job file.
struct BatchFlags {
  BatchOptions options;
  std::vector<std::string> names;
  std::vector<double> weights;
  std::string format = "table";
};

CLI::App* AddBatch(CLI::App& app, BatchFlags& flags) {
  BatchOptions& options = flags.options;
  options.data.vocab_size = std::numeric_limits<int32_t>::max();
  CLI::App* batch = app.add_subcommand("batch", "Show the samples that a training step consumes");
  batch->footer(
      "stretto data batch a --sequence-length 64 --sequences 8 --seed 1 --step 9\n"
      "stretto data batch --help");
  batch->add_option("PREFIX", flags.names, "data.prefix of the job, or the prefixes of its blend")
      ->required();
  batch
      ->add_option("--weights", flags.weights, "weights of the blend, in the order of its prefixes")
      ->delimiter(',')
      ->check(Number(1e-9, 1e9, "a number above 0"));
  batch->add_option("--held-out", options.data.held_out, "data.held_out of the job")
      ->check(Number(0, 0.5))
      ->capture_default_str();
  batch->add_option("--sequence-length", options.data.sequence_length, "model.sequence_length")
      ->required()
      ->check(Integer(1, 1 << 20));
  batch->add_option("--sequences", options.sequences, "global_batch_size of the job")
      ->required()
      ->check(Integer(1, 65536));
  batch->add_option("--seed", options.data.seed, "seed of the job")->required();
  batch->add_option("--step", options.step, "number of the step, from 1")
      ->required()
      ->check(Integer(1, int64_t{1} << 40));
  batch->add_option("--tokens", options.tokens, "number of tokens to show of each sample")
      ->check(Integer(0, INT64_MAX))
      ->capture_default_str();
  AddFormat(batch, &flags.format);
  return batch;
}

int ShowBatch(BatchFlags flags) {
  if (!flags.weights.empty() && flags.weights.size() != flags.names.size()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("--weights: found ", flags.weights.size(),
                                                        ", expected ", flags.names.size(),
                                                        ", one for each data set")));
  }
  flags.weights.resize(flags.names.size(), 1);
  for (size_t i = 0; i < flags.names.size(); ++i) {
    flags.options.data.parts.push_back({flags.names[i], flags.weights[i]});
  }
  flags.options.format = FormatOf(flags.format);
  const auto batch = DescribeBatch(flags.options);
  if (!batch.ok()) return Fail(batch.status());
  absl::FPrintF(stdout, "%s",
                flags.options.format != OutputFormat::kTable ? *batch : Printable(*batch));
  return 0;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  CLI::App app{"Prepare and inspect training data", "data"};
  app.require_subcommand(1);
  app.footer(
      "stretto data prepare books/ --output data/books\n"
      "stretto data inspect data/books");
  stretto::UseHelpText(&app, "stretto");
  stretto::TokenizerFlags tokenizer;
  stretto::PrepareFlags prepare_flags;
  const CLI::App* prepare = stretto::AddPrepare(app, prepare_flags, tokenizer);

  stretto::InspectOptions inspect_options;
  CLI::App* inspect = app.add_subcommand("inspect", "Show the contents of a data set");
  inspect->footer(
      "stretto data inspect data/a --tokenizer hf:my-model\n"
      "stretto data inspect 'llmc:fineweb/train_*.bin' --check");
  inspect
      ->add_option(
          "PREFIX", inspect_options.name,
          "path of the data set without .bin and .idx, or llmc:FILES for token files of llm.c")
      ->required();
  stretto::AddTokenizer(inspect, tokenizer,
                        "tokenizer that the data set was prepared with; shows text as well");
  inspect
      ->add_option("--documents", inspect_options.documents, "maximum number of documents to show")
      ->check(stretto::Integer(0, INT64_MAX))
      ->capture_default_str();
  inspect
      ->add_option("--tokens", inspect_options.tokens,
                   "maximum number of tokens to show of each document")
      ->check(stretto::Integer(0, INT64_MAX))
      ->capture_default_str();
  inspect->add_flag("--check", inspect_options.check, "read and check every token");
  std::string inspect_format = "table";
  stretto::AddFormat(inspect, &inspect_format);

  stretto::BatchFlags batch_flags;
  const CLI::App* batch = stretto::AddBatch(app, batch_flags);
  if (argc == 2 && argv[1] == absl::string_view(stretto::kPrintCommands)) {
    const stretto::CommandInfo data = stretto::ReadCommands(app, "stretto");
    absl::PrintF("%s", stretto::JsonText(stretto::CommandsDocument({data}), false));
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  inspect_options.format = stretto::FormatOf(inspect_format);
  if (*batch) return stretto::ShowBatch(std::move(batch_flags));
  return *prepare ? stretto::PrepareData(std::move(prepare_flags), tokenizer)
                  : stretto::InspectData(inspect_options, tokenizer);
}
