#include "coordinator/cli/data_command.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/print.h"
#include "proto/base/units.h"
#include "worker/trainer/data/prepare.h"
#include "worker/trainer/data/tokenizer.h"

namespace stretto::cli {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view name) {
  if (name == "bytes") return MakeByteTokenizer();
  if (absl::ConsumePrefix(&name, "sentencepiece:") && !name.empty()) {
    return LoadSentencePieceTokenizer(std::string(name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--tokenizer: found \"", name, "\", expected \"bytes\" or \"sentencepiece:MODEL_FILE\""));
}

}  // namespace

ExitCode PrepareData(const DataPrepareOptions& options, Terminal& terminal) {
  const auto tokenizer = MakeTokenizer(options.tokenizer);
  if (!tokenizer.ok()) {
    terminal.err << "error: " << Printable(tokenizer.status().message()) << "\n";
    return kError;
  }
  const auto summary =
      Prepare({.inputs = options.inputs, .prefix = options.prefix, .overwrite = options.overwrite},
              **tokenizer);
  if (!summary.ok()) {
    terminal.err << "error: " << Printable(summary.status().message()) << "\n";
    if (summary.status().code() == absl::StatusCode::kAlreadyExists) {
      terminal.err << "--overwrite replaces it\n";
    }
    return kError;
  }
  terminal.out << options.prefix << ".bin: " << FormatCount(static_cast<double>(summary->tokens))
               << " tokens, " << summary->documents << " documents from " << summary->files
               << " files (" << FormatBytes(summary->bytes) << " of text), vocabulary "
               << (*tokenizer)->info().vocab_size << "\n";
  if (summary->skipped_binary > 0) {
    terminal.err << "left out " << summary->skipped_binary << " binary files\n";
  }
  terminal.err << "Next: in the job file, `data: {prefix: ...}` names it relative to the workers' "
                  "data root\n";
  return kOk;
}

}  // namespace stretto::cli
