// Tables, ledgers and single values as text. Columns are as wide as their widest cell, measured in
// characters and not in bytes.

#include "coordinator/cli/text/print.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;

const char* PartName(Ledger::Part part) {
  switch (part) {
    case Ledger::COMPUTE_HIDING:
      return "compute, hiding";
    case Ledger::COMPUTE_ALONE:
      return "compute alone";
    case Ledger::EXPOSED:
      return "exposed";
    case Ledger::DATA_WAIT:
      return "data wait";
    case Ledger::CHECKPOINT_WAIT:
      return "checkpoint wait";
    case Ledger::IDLE:
      return "idle";
    case Ledger::EVALUATION:
      return "evaluation";
    default:  // from a newer coordinator
      return "unknown";
  }
}

// Display width: bytes that do not continue a UTF-8 sequence.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string Cell(double seconds) { return seconds == 0 ? "-" : absl::StrFormat("%.3f", seconds); }

}  // namespace

std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> names;
  std::vector<bool> right;
  for (const std::string& heading : headings) {
    right.push_back(!heading.empty() && heading[0] == '>');
    names.push_back(right.back() ? heading.substr(1) : heading);
  }
  std::vector<size_t> widths(names.size(), 0);
  const auto measure = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < names.size() && i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  };
  measure(names);
  for (const auto& row : rows) measure(row);

  std::string out;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& cell = i < row.size() ? row[i] : "";
      const std::string blanks(widths[i] - Width(cell), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right[i] ? blanks : "", cell,
                      right[i] ? "" : blanks);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&out, line, "\n");
  };
  add(names);
  for (const auto& row : rows) add(row);
  return out;
}

std::string LedgerTable(const Ledger& ledger, bool emulated) {
  std::vector<std::string> phases;
  std::map<std::pair<int, std::string>, std::map<std::string, double>> parts;
  double sum = 0;
  for (const Ledger::Entry& entry : ledger.entries()) {
    // The group matters where it names what was waited for.
    const std::string group = entry.part() == Ledger::EXPOSED ? entry.group() : "";
    parts[{entry.part(), group}][entry.phase()] += entry.seconds();
    sum += entry.seconds();
    if (!entry.phase().empty() &&
        std::find(phases.begin(), phases.end(), entry.phase()) == phases.end()) {
      phases.push_back(entry.phase());
    }
  }
  const std::vector<std::string> order = {"prepare", "forward", "recompute", "backward",
                                          "optimizer"};
  std::stable_sort(phases.begin(), phases.end(), [&](const auto& a, const auto& b) {
    return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
  });

  std::vector<std::string> headings = {"seconds"};
  for (const std::string& phase : phases) headings.push_back(absl::StrCat(">", Printable(phase)));
  headings.insert(headings.end(), {">other", ">total", ">share"});
  std::vector<std::vector<std::string>> rows;
  for (auto& [key, seconds] : parts) {
    std::string name = PartName(static_cast<Ledger::Part>(key.first));
    if (!key.second.empty()) absl::StrAppend(&name, " ", Printable(key.second));
    std::vector<std::string> row = {name};
    double total = 0;
    for (const std::string& phase : phases) {
      row.push_back(Cell(seconds[phase]));
      total += seconds[phase];
    }
    row.insert(row.end(), {Cell(seconds[""]), Cell(total + seconds[""]),
                           Percent((total + seconds[""]) / sum)});
    rows.push_back(row);
  }
  std::vector<std::string> last(headings.size(), "");
  last.front() = "total";
  last[last.size() - 2] = Cell(sum);
  last.back() = Percent(sum / sum);
  rows.push_back(last);

  std::string out = Table(headings, rows);
  absl::StrAppendFormat(&out, "wall clock %.3f s over %d steps; ", ledger.wall_seconds(),
                        ledger.steps());
  const double overlap = OverlapRatio(ledger);
  if (std::isnan(overlap)) return out + "no communication\n";
  absl::StrAppendFormat(&out, "overlap %s: %.3f of %.3f s of communication hidden%s\n",
                        Percent(overlap), ledger.hidden_seconds(), ledger.communication_seconds(),
                        emulated ? " (emulated link)" : "");
  return out;
}

double OverlapRatio(const Ledger& ledger) {
  if (!(ledger.communication_seconds() > 0)) return std::numeric_limits<double>::quiet_NaN();
  return ledger.hidden_seconds() / ledger.communication_seconds();
}

std::string Percent(double ratio) {
  return std::isfinite(ratio) ? absl::StrFormat("%.1f %%", ratio * 100) : "-";
}

std::string Seconds(double seconds) {
  return std::isfinite(seconds) ? stretto::FormatDuration(absl::Seconds(seconds)) : "-";
}

std::string Loss(double loss) { return std::isnan(loss) ? "-" : absl::StrFormat("%.4f", loss); }

std::string HeldOutText(const v1alpha1::Evaluation& evaluation) {
  return absl::StrFormat("held-out loss %s, perplexity %.4g", Loss(evaluation.loss()),
                         evaluation.perplexity());
}

std::string Age(const google::protobuf::Timestamp& time, absl::Time now) {
  if (time.seconds() == 0) return "-";
  const absl::Duration age = std::max(now - ToTime(time), absl::ZeroDuration());
  if (age < absl::Minutes(2)) return absl::StrCat(absl::ToInt64Seconds(age), "s");
  if (age < absl::Hours(2)) return absl::StrCat(absl::ToInt64Minutes(age), "m");
  if (age < absl::Hours(48)) return absl::StrCat(absl::ToInt64Hours(age), "h");
  return absl::StrCat(absl::ToInt64Hours(age) / 24, "d");
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ToTime(time), absl::UTCTimeZone());
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace stretto::cli
