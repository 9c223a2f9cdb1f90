#pragma once
// Values to text: pure functions, used by every command. All end with a newline unless they say
// "one line".

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/printable.h"  // for whoever prints what a server relays
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Columns two blanks apart, as wide as their widest cell; a heading that starts with '>' is aligned
// to the right. Cells shorter than the heading row are blank.
std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& rows);

// What the ledger's seconds went to: a row per part, a column per phase, and the share of the
// whole; then the overlap ratio. `emulated` labels it "emulated link".
std::string LedgerTable(const v1alpha1::Ledger& ledger, bool emulated);

// Share of communication that was hidden, in [0, 1]; NaN when there was none.
double OverlapRatio(const v1alpha1::Ledger& ledger);

// One line: "97.1 %", or "-" for NaN.
std::string Percent(double ratio);
// One line: seconds with a unit: "41.3s", "12.0ms".
std::string Seconds(double seconds);
// One line: "2.8134"; "-" for NaN.
std::string Loss(double loss);
// One line: "held-out loss 2.8134, perplexity 16.67".
std::string HeldOutText(const v1alpha1::Evaluation& evaluation);
// One line: how long before `now`; "-" when not set.
std::string Age(const google::protobuf::Timestamp& time, absl::Time now);
// One line: "2023-11-14 22:13:20 UTC"; "-" when not set.
std::string TimeText(const google::protobuf::Timestamp& time);

absl::Time ToTime(const google::protobuf::Timestamp& time);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

}  // namespace stretto::cli
