// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/explain_command.h"

#include "coordinator/cli/explain/explain.h"
#include "coordinator/cli/explain/explain_text.h"
#include "coordinator/cli/explain/reference.h"

namespace stretto::cli {

ExitCode Explain(const ExplainOptions& options, const Terminal& terminal, OutputFormat format) {
  if (!options.markdown.empty()) {
    terminal.out << (options.markdown == "api" ? ApiReference() : JobSpecReference());
    return kOk;
  }
  const absl::StatusOr<FieldDoc> doc = ExplainField(options.path);
  if (!doc.ok()) {
    terminal.err << "error: " << doc.status().message() << "\n";
    return kUsage;
  }
  terminal.out << (format == OutputFormat::kTable
                       ? ExplainText(*doc, options.recursive, terminal.width)
                       : TextOf(ExplainDocument(*doc, options.recursive), format));
  return kOk;
}

}  // namespace stretto::cli
