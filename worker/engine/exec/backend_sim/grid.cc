// SPDX-License-Identifier: Apache-2.0

// Draws each lane as one line of text. The level of detail (operation, layer, micro-batch, phase)
// is the finest at which at least half of the time in boxes is wide enough for a label; at coarser
// levels, neighbours with the same label merge into one box.

#include "worker/engine/exec/backend_sim/grid.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

constexpr int kReadable = 6;  // columns that a label needs, the box's edge included

struct Box {
  Interval interval;
  std::string label;
};

constexpr int kGap = 2;  // columns of idle time that keep boxes of one label apart

// The level of detail: one box per operation, layer, micro-batch or phase.
enum class Detail : uint8_t { kOp, kLayer, kMicroBatch, kPhase };

std::string WrapLabel(const Op& op, const std::string& inside) {
  if (IsCollective(op.kind)) {
    const OpInfo& info = InfoOf(op.kind);
    const char* label = IsTransfer(op.kind) ? info.name : InfoOf(info.collective).label;
    return absl::StrCat(label, "(", inside, ")");
  }
  if (op.tag.phase == Phase::kRecompute) return absl::StrCat("r(", inside, ")");
  if (op.tag.phase != Phase::kBackward) return inside;
  const bool weight = InfoOf(op.kind).role == OperationRole::kWeightGradient;
  return absl::StrCat(weight ? "w(" : "d(", inside, ")");
}

std::string LabelOf(const Op& op, Detail detail) {
  const std::string slice = op.tag.slice >= 0 ? absl::StrCat(".", op.tag.slice) : "";
  switch (detail) {
    case Detail::kOp:
      return WrapLabel(op, op.tag.name + slice);
    case Detail::kLayer:
      return WrapLabel(op,
                       (op.tag.layer >= 0 ? absl::StrCat("L", op.tag.layer) : op.tag.name) + slice);
    case Detail::kMicroBatch:
      return op.tag.micro_batch >= 0 ? absl::StrCat(NameOf(op.tag.phase), " mb", op.tag.micro_batch)
                                     : NameOf(op.tag.phase);
    case Detail::kPhase:
      return NameOf(op.tag.phase);
  }
  return "";
}

class GridPainter {
 public:
  GridPainter(const Program& program, absl::Span<const Interval> intervals, Interval window,
              int columns)
      : program_(program), intervals_(intervals), window_(window), columns_(columns) {
    STRETTO_CHECK(intervals.size() == program.ops.size());
    STRETTO_CHECK(columns >= 20);
  }

  std::string Run() const {
    if (window_.begin >= window_.end) return "nothing to draw\n";
    const double column = static_cast<double>(window_.end - window_.begin) / columns_;
    std::string text = absl::StrFormat("%.3f ms to %.3f ms, a column is %.3f us\n",
                                       static_cast<double>(window_.begin) * 1e-6,
                                       static_cast<double>(window_.end) * 1e-6, column * 1e-3);
    const Detail detail = ChooseDetail();
    size_t width = 0;
    for (const Lane& lane : program_.lanes) width = std::max(width, lane.name.size());
    for (LaneId lane : program_.lanes.ids()) {
      std::string name = program_.lanes[lane].name;
      name.resize(width, ' ');
      absl::StrAppend(&text, name, " ", Line(lane, detail), "\n");
    }
    return text;
  }

 private:
  int ColumnOf(int64_t time) const {
    const double share = static_cast<double>(time - window_.begin) /
                         static_cast<double>(window_.end - window_.begin);
    return static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns_));
  }

  // Returns the lane's boxes in the window. Neighbours with the same label merge unless the gap
  // between them is visible.
  std::vector<Box> Boxes(LaneId lane, Detail detail) const {
    std::vector<Box> boxes;
    for (OpId id : program_.ops.ids()) {
      const Op& op = program_.ops[id];
      const Interval& interval = intervals_[id.position()];
      if (op.lane != lane || interval.begin >= window_.end || interval.end <= window_.begin ||
          interval.begin == interval.end) {
        continue;
      }
      std::string label = LabelOf(op, detail);
      const bool joins = detail != Detail::kOp && !boxes.empty() && boxes.back().label == label &&
                         ColumnOf(interval.begin) - ColumnOf(boxes.back().interval.end) < kGap;
      if (joins) {
        boxes.back().interval.end = interval.end;
      } else {
        boxes.push_back({interval, std::move(label)});
      }
    }
    return boxes;
  }

  // Whether at least half of the time in boxes can be labelled.
  bool Readable(Detail detail) const {
    int columns = 0, labelled = 0;
    for (LaneId lane : program_.lanes.ids()) {
      for (const Box& box : Boxes(lane, detail)) {
        const int width = ColumnOf(box.interval.end) - ColumnOf(box.interval.begin);
        columns += width;
        labelled += width >= kReadable ? width : 0;
      }
    }
    return 2 * labelled >= columns;
  }

  Detail ChooseDetail() const {
    for (Detail detail : {Detail::kOp, Detail::kLayer, Detail::kMicroBatch}) {
      if (Readable(detail)) return detail;
    }
    return Detail::kPhase;
  }

  std::string Line(LaneId lane, Detail detail) const {
    const std::vector<Box> boxes = Boxes(lane, detail);
    std::string line(columns_, '.');
    for (const Box& box : boxes) {
      const int begin = ColumnOf(box.interval.begin), end = ColumnOf(box.interval.end);
      for (int column = begin; column < end; ++column) {
        const size_t at = column - begin;
        char& c = line[column];
        c = at == 0 ? '|' : at <= box.label.size() ? box.label[at - 1] : ' ';
      }
      // Marks where the lane becomes idle.
      if (end > begin && end < columns_) line[end] = '|';
    }
    return line;
  }

  const Program& program_;
  const absl::Span<const Interval> intervals_;
  const Interval window_;
  const int columns_;
};

}  // namespace

std::string DrawGrid(const Program& program, absl::Span<const Interval> intervals, Interval window,
                     int columns) {
  return GridPainter(program, intervals, window, columns).Run();
}

Interval LayerWindow(const Program& program, absl::Span<const Interval> intervals, int layer,
                     Phase phase) {
  Interval window;
  bool found = false;
  int micro_batch = -1;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    const Interval& interval = intervals[id.position()];
    const bool counts = op.tag.layer == layer && op.tag.phase == phase &&
                        InfoOf(op.kind).role != OperationRole::kWeightGradient &&
                        (!found || op.tag.micro_batch == micro_batch);
    if (!counts) continue;
    if (!found) {
      window = interval;
      micro_batch = op.tag.micro_batch;
    }
    found = true;
    window.begin = std::min(window.begin, interval.begin);
    window.end = std::max(window.end, interval.end);
  }
  return window;
}

std::string PrintLedger(const StepLedger& ledger) {
  std::string text;
  auto line = [&](absl::string_view name, double seconds) {
    const double share = ledger.seconds > 0 ? 100 * seconds / ledger.seconds : 0;
    absl::StrAppendFormat(&text, "%-34s %12.3f ms %6.1f %%\n", name, seconds * 1e3, share);
  };
  for (const LedgerEntry& entry : ledger.entries) {
    std::string name = NameOf(entry.part);
    for (const std::string* word : {&entry.group, &entry.phase}) {
      if (!word->empty()) absl::StrAppend(&name, " ", *word);
    }
    line(name, entry.seconds);
  }
  line("step", ledger.seconds);
  return text;
}

}  // namespace stretto
