// stretto-data: what `stretto data` runs. A process of its own, see tokenizer.h.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/units.h"
#include "worker/trainer/data/text/prepare.h"

namespace stretto {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view name) {
  if (name == "bytes") return MakeByteTokenizer();
  if (absl::ConsumePrefix(&name, "sentencepiece:") && !name.empty()) {
    return LoadSentencePieceTokenizer(std::string(name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--tokenizer: found \"", name, "\", expected \"bytes\" or \"sentencepiece:MODEL_FILE\""));
}

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "error: %s\n", status.message());
  if (absl::IsAlreadyExists(status)) absl::FPrintF(stderr, "--overwrite replaces it\n");
  return 1;
}

int PrepareData(const PrepareOptions& options, const std::string& tokenizer_name) {
  const auto tokenizer = MakeTokenizer(tokenizer_name);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  const auto summary = Prepare(options, **tokenizer);
  if (!summary.ok()) return Fail(summary.status());
  absl::PrintF("%s.bin: %s tokens, %d documents from %d files (%s of text), vocabulary %d\n",
               options.prefix, FormatCount(static_cast<double>(summary->tokens)),
               summary->documents, summary->files, FormatBytes(summary->bytes),
               (*tokenizer)->info().vocab_size);
  if (summary->skipped_binary > 0) {
    absl::FPrintF(stderr, "left out %d binary files\n", summary->skipped_binary);
  }
  absl::FPrintF(
      stderr,
      "Next: in the job file, `data: {prefix: ...}` names it relative to the workers' data root\n");
  return 0;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  CLI::App app{"Prepare training data", "stretto data"};
  app.require_subcommand(1);
  stretto::PrepareOptions options;
  std::string tokenizer = "bytes";
  CLI::App* prepare =
      app.add_subcommand("prepare", "Turn text into a data set (PREFIX.bin, PREFIX.idx)");
  prepare->add_option("PATH", options.inputs, "text files, or folders of them")->required();
  prepare->add_option("-o,--output", options.prefix, "PREFIX")->required();
  prepare->add_option("--tokenizer", tokenizer, "bytes, or sentencepiece:MODEL")
      ->capture_default_str();
  prepare->add_flag("--overwrite", options.overwrite, "replace a data set that is there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return stretto::PrepareData(options, tokenizer);
}
