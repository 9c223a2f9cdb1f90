// One rule per kind of operation, in terms of named operands: their counts, types, rows and
// columns. The first expectation that fails names the operation, the operand, what was found and
// what was expected.

#include "worker/engine/program/verify_shapes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/ops.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// The operands of one operation by the names of the table, with shape expectations over them.
class Operands {
 public:
  Operands(const Program& program, int index)
      : program_(program),
        index_(index),
        op_(program.ops.at(static_cast<size_t>(index))),
        info_(InfoOf(op_.kind)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Counts(op_.in, info_.inputs, "inputs"));
    RETURN_IF_ERROR(Counts(op_.out, info_.outputs, "outputs"));
    if (op_.attributes.size() != info_.attributes.size()) {
      return Error(absl::StrCat(op_.attributes.size(), " attributes"),
                   absl::StrCat(info_.attributes.size()));
    }
    RETURN_IF_ERROR(InPlace());
    return Shapes();
  }

 private:
  absl::Status Error(absl::string_view found, absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat("operation ", PrintOp(program_, index_),
                                                   ": found ", found, ", expected ", expected));
  }

  static bool Optional(absl::string_view name) { return name.back() == '?'; }
  static absl::string_view Bare(absl::string_view name) {
    if (name.front() == '=') name.remove_prefix(1);
    if (name.back() == '?') name.remove_suffix(1);
    return name;
  }

  absl::Status Counts(const std::vector<int>& ids, const std::vector<const char*>& names,
                      absl::string_view what) const {
    const size_t least = static_cast<size_t>(
        std::count_if(names.begin(), names.end(), [](const char* n) { return !Optional(n); }));
    for (int id : ids) {
      if (id < 0 || id >= static_cast<int>(program_.buffers.size())) {
        return Error(absl::StrCat("buffer %", id), "a declared buffer");
      }
    }
    if (ids.size() >= least && ids.size() <= names.size()) return absl::OkStatus();
    return Error(absl::StrCat(ids.size(), " ", what), absl::StrJoin(names, ", "));
  }

  absl::Status InPlace() const {
    for (size_t i = 0; i < info_.inputs.size(); ++i) {
      if (info_.inputs[i][0] != '=') continue;
      for (size_t o = 0; o < info_.outputs.size(); ++o) {
        if (Bare(info_.outputs[o]) == Bare(info_.inputs[i]) && op_.in[i] != op_.out[o]) {
          return Error(
              absl::StrCat("%", op_.in[i], " and %", op_.out[o], " as ", Bare(info_.inputs[i])),
              "one buffer, read and written");
        }
      }
    }
    return absl::OkStatus();
  }

  // The operand called `name`; null when absent.
  const Buffer* Get(absl::string_view name) const {
    for (size_t i = 0; i < op_.in.size(); ++i) {
      if (Bare(info_.inputs[i]) == name) return &program_.buffers[static_cast<size_t>(op_.in[i])];
    }
    for (size_t i = 0; i < op_.out.size(); ++i) {
      if (Bare(info_.outputs[i]) == name) return &program_.buffers[static_cast<size_t>(op_.out[i])];
    }
    return nullptr;
  }
  int64_t Columns(absl::string_view name) const { return Get(name)->shape.back(); }
  int64_t Rows(absl::string_view name) const {
    const Buffer* buffer = Get(name);
    return buffer->shape.back() == 0 ? 0 : buffer->count() / buffer->shape.back();
  }

  // The operand, where present, has this many rows and columns and this type.
  absl::Status Is(absl::string_view name, int64_t rows, int64_t columns, DType dtype) const {
    const Buffer* buffer = Get(name);
    if (buffer == nullptr) return absl::OkStatus();
    if (Rows(name) == rows && Columns(name) == columns && buffer->dtype == dtype) {
      return absl::OkStatus();
    }
    return Error(absl::StrCat(name, " ", NameOf(buffer->dtype), " [",
                              absl::StrJoin(buffer->shape, ","), "]"),
                 absl::StrCat(NameOf(dtype), " of ", rows, " rows x ", columns, " columns"));
  }
  // Exactly `count` elements in any shape.
  absl::Status Counted(absl::string_view name, int64_t count, DType dtype) const {
    const Buffer* buffer = Get(name);
    if (buffer == nullptr || (buffer->count() == count && buffer->dtype == dtype)) {
      return absl::OkStatus();
    }
    return Error(
        absl::StrCat(name, " ", NameOf(buffer->dtype), " of ", buffer->count(), " elements"),
        absl::StrCat(NameOf(dtype), " of ", count));
  }

  absl::Status Gemms() const {
    if (op_.kind == OpKind::kGemm) {
      const DType t = Get("x")->dtype;
      RETURN_IF_ERROR(Is("w", Columns("y"), Columns("x"), t));
      RETURN_IF_ERROR(Counted("bias", Columns("y"), t));
      return Is("y", Rows("x"), Rows("w"), t);
    }
    if (op_.kind == OpKind::kGemmDgrad) {
      const DType t = Get("dy")->dtype;
      RETURN_IF_ERROR(Is("w", Columns("dy"), Columns("w"), t));
      const int64_t end = op_.attributes[0] + Columns("dx");
      if (end > Columns("w")) {
        return Error(absl::StrCat("columns up to ", end), absl::StrCat("at most ", Columns("w")));
      }
      return Is("dx", Rows("dy"), Columns("dx"), t);
    }
    RETURN_IF_ERROR(Is("x", Rows("dy"), Columns("x"), Get("dy")->dtype));
    return Is("dw", Columns("dy"), Columns("x"), DType::kF32);
  }

  absl::Status Embeddings() const {
    switch (op_.kind) {
      case OpKind::kEmbed:
        RETURN_IF_ERROR(Is("table", Rows("table"), Columns("y"), Get("y")->dtype));
        return Counted("tokens", Rows("y"), DType::kI32);
      case OpKind::kEmbedGrad:
        RETURN_IF_ERROR(Is("dtable", Rows("dtable"), Columns("dx"), DType::kF32));
        return Counted("tokens", Rows("dx"), DType::kI32);
      case OpKind::kAddPosition:
        RETURN_IF_ERROR(Is("position", Rows("position"), Columns("x"), Get("x")->dtype));
        return absl::OkStatus();
      default:
        return Is("dposition", Rows("dposition"), Columns("dx"), DType::kF32);
    }
  }

  absl::Status WholeSequences(absl::string_view name, int64_t sequence) const {
    if (sequence > 0 && Rows(name) % sequence == 0) return absl::OkStatus();
    return Error(absl::StrCat(Rows(name), " rows"), absl::StrCat("a multiple of ", sequence));
  }

  // n rows of h columns, plain or in column pieces one after the other.
  absl::Status IsMaybeBlocked(absl::string_view name, int64_t n, int64_t h, DType dtype) const {
    const Buffer* buffer = Get(name);
    if (buffer == nullptr || buffer->shape.size() != 3) return Is(name, n, h, dtype);
    const std::vector<int64_t>& shape = buffer->shape;
    if (shape[0] * shape[2] == h && shape[1] == n && buffer->dtype == dtype)
      return absl::OkStatus();
    return Error(
        absl::StrCat(name, " ", NameOf(buffer->dtype), " [", absl::StrJoin(shape, ","), "]"),
        absl::StrCat(NameOf(dtype), " of ", n, " rows x ", h, " columns in pieces"));
  }

  absl::Status Norms() const {
    if (op_.kind == OpKind::kLayerNorm || op_.kind == OpKind::kRmsNorm) {
      const double epsilon = RealOf(op_.attributes[0]);
      if (!(epsilon >= 0 && epsilon <= 1))
        return Error(absl::StrCat("epsilon ", epsilon), "0 (the default) or at most 1");
    }
    const DType t = Get("x")->dtype;
    const int64_t n = Rows("x"), h = Columns("x");
    RETURN_IF_ERROR(Is("stats", n, 2, DType::kF32));
    RETURN_IF_ERROR(Counted("rstd", n, DType::kF32));
    RETURN_IF_ERROR(Counted("w", h, t));
    RETURN_IF_ERROR(Counted("b", h, t));
    RETURN_IF_ERROR(Counted("dw", h, DType::kF32));
    RETURN_IF_ERROR(Counted("db", h, DType::kF32));
    RETURN_IF_ERROR(IsMaybeBlocked("dy", n, h, t));
    for (const char* name : {"y", "dx", "residual"}) RETURN_IF_ERROR(Is(name, n, h, t));
    return absl::OkStatus();
  }

  absl::Status Residuals() const {
    const DType t = Get("x")->dtype;
    const int64_t n = Rows("x"), h = Columns("x");
    RETURN_IF_ERROR(Counted("bias", h, t));
    RETURN_IF_ERROR(Counted("keys", kKeyCount, DType::kI32));
    if (op_.kind == OpKind::kBiasResidual) RETURN_IF_ERROR(IsMaybeBlocked("r", n, h, t));
    return Is("y", n, h, t);
  }

  absl::Status SwiGlus() const {
    const DType t = Get("u")->dtype;
    const int64_t n = Rows("u"), f = Columns("u") / 2;
    RETURN_IF_ERROR(Is("u", n, 2 * f, t));
    RETURN_IF_ERROR(Is("du", n, 2 * f, t));
    RETURN_IF_ERROR(Is("a", n, f, t));
    return Is("da", n, f, t);
  }

  absl::Status RotaryScalings() const {
    const auto kind = static_cast<RotaryScaling::Kind>(op_.attributes[7]);
    if (kind == RotaryScaling::Kind::kNone) return absl::OkStatus();
    if (op_.attributes[7] > static_cast<int64_t>(RotaryScaling::Kind::kLlama3))
      return Error(absl::StrCat("scaling ", op_.attributes[7]), "0 (none), 1 (linear), 2 (llama3)");
    const double factor = RealOf(op_.attributes[8]);
    if (!(factor >= 1)) return Error(absl::StrCat("factor ", factor), "at least 1");
    if (kind == RotaryScaling::Kind::kLinear) return absl::OkStatus();
    const double low = RealOf(op_.attributes[9]), high = RealOf(op_.attributes[10]);
    if (!(low > 0 && high > low))
      return Error(absl::StrCat("low ", low, " and high ", high), "0 < low < high");
    if (op_.attributes[11] >= 1) return absl::OkStatus();
    return Error(absl::StrCat("original ", op_.attributes[11]), "at least 1");
  }

  absl::Status Attentions() const {
    if (op_.kind == OpKind::kRotary) RETURN_IF_ERROR(RotaryScalings());
    const AttentionShape shape = {.sequence_length = op_.attributes[0],
                                  .heads = op_.attributes[1],
                                  .kv_heads = op_.attributes[2],
                                  .head_dim = op_.attributes[3],
                                  .first_head = op_.attributes[4]};
    if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
      return Error(absl::StrCat("kv_heads ", shape.kv_heads),
                   absl::StrCat("a divisor of heads ", shape.heads));
    }
    const DType t = Get("qkv")->dtype;
    const int64_t n = Rows("qkv");
    RETURN_IF_ERROR(WholeSequences("qkv", shape.sequence_length));
    RETURN_IF_ERROR(Is("qkv", n, shape.qkv_columns(), t));
    RETURN_IF_ERROR(Is("dqkv", n, shape.qkv_columns(), t));
    RETURN_IF_ERROR(Is("context", n, shape.context_columns(), t));
    RETURN_IF_ERROR(Is("dcontext", n, shape.context_columns(), t));
    RETURN_IF_ERROR(Counted("keys", kKeyCount, DType::kI32));
    RETURN_IF_ERROR(Counted("scratch", AttentionScratch(shape, n), DType::kF32));
    return Is("lse", n, shape.heads, DType::kF32);
  }

  absl::Status Collectives() const {
    const Lane& lane = program_.lanes[static_cast<size_t>(op_.lane)];
    if (lane.group < 0) return Error(lane.name, "a lane with a group");
    if (!op_.attributes.empty() && op_.attributes[0] > static_cast<int64_t>(DType::kBF16))
      return Error(absl::StrCat("wire type ", op_.attributes[0]), "0 (as the buffer) or 1 (bf16)");
    const CollectiveInfo& collective = InfoOf(info_.collective);
    if (collective.in_place) return absl::OkStatus();
    const int64_t ranks =
        static_cast<int64_t>(program_.groups[static_cast<size_t>(lane.group)].ranks.size());
    const Buffer* whole = Get(collective.in_parts ? "x" : "y");
    if (whole->count() % ranks != 0) {
      return Error(absl::StrCat(whole->count(), " elements"),
                   absl::StrCat("a multiple of ", ranks));
    }
    const bool both = collective.in_parts && collective.out_parts;
    return Counted(collective.in_parts ? "y" : "x", whole->count() / (both ? 1 : ranks),
                   whole->dtype);
  }

  absl::Status CrossEntropies() const {
    const Buffer* rows = op_.kind == OpKind::kCrossEntropyLoss ? Get("loss") : Get("max");
    const int64_t n = rows->count();
    RETURN_IF_ERROR(Counted("max", n, DType::kF32));
    RETURN_IF_ERROR(Counted("loss", n, DType::kF32));
    RETURN_IF_ERROR(Counted("targets", n, DType::kI32));
    RETURN_IF_ERROR(Counted("scalars", kScalarCount, DType::kF32));
    if (const Buffer* logits = Get("logits"); logits != nullptr) {
      RETURN_IF_ERROR(Is("logits", n, Columns("logits"), logits->dtype));
    }
    return Is("sums", n, 2, DType::kF32);
  }

  absl::Status ElementWise(std::initializer_list<const char*> names) const {
    const Buffer* first = Get(*names.begin());
    for (const char* name : names) {
      RETURN_IF_ERROR(Is(name, Rows(*names.begin()), first->shape.back(), first->dtype));
    }
    return absl::OkStatus();
  }

  absl::Status Sums(absl::string_view name) const {
    RETURN_IF_ERROR(Counted(name, Get(name)->count(), DType::kF32));
    return Counted("out", 1, DType::kF32);
  }

  absl::Status Optimizers() const {
    RETURN_IF_ERROR(Counted("scalars", kScalarCount, DType::kF32));
    RETURN_IF_ERROR(Counted("state", kClipStateCount, DType::kF32));
    if (op_.kind == OpKind::kClip) return Counted("sum_squares", 1, DType::kF32);
    const int64_t n = Get("grad")->count();
    for (const char* name : {"grad", "master", "m", "v"})
      RETURN_IF_ERROR(Counted(name, n, DType::kF32));
    if (const Buffer* weight = Get("weight"); weight != nullptr)
      return Counted("weight", n, weight->dtype);
    return absl::OkStatus();
  }

  absl::Status Shapes() const {
    switch (op_.kind) {
      case OpKind::kGemm:
      case OpKind::kGemmDgrad:
      case OpKind::kGemmWgrad:
        return Gemms();
      case OpKind::kBiasGrad:
        return Counted("db", Columns("dy"), DType::kF32);
      case OpKind::kEmbed:
      case OpKind::kEmbedGrad:
      case OpKind::kAddPosition:
      case OpKind::kPositionGrad:
        return Embeddings();
      case OpKind::kLayerNorm:
      case OpKind::kLayerNormDgrad:
      case OpKind::kLayerNormWgrad:
      case OpKind::kRmsNorm:
      case OpKind::kRmsNormDgrad:
      case OpKind::kRmsNormWgrad:
        return Norms();
      case OpKind::kBiasResidual:
      case OpKind::kDropout:
        return Residuals();
      case OpKind::kGelu:
        return ElementWise({"u", "a"});
      case OpKind::kGeluGrad:
        return ElementWise({"u", "da", "du"});
      case OpKind::kSwiGlu:
      case OpKind::kSwiGluGrad:
        return SwiGlus();
      case OpKind::kRotary:
      case OpKind::kAttention:
      case OpKind::kAttentionGrad:
        return Attentions();
      case OpKind::kCrossEntropyMax:
      case OpKind::kCrossEntropySum:
      case OpKind::kCrossEntropyLoss:
      case OpKind::kCrossEntropyGrad:
        return CrossEntropies();
      case OpKind::kSumSquares:
        return Sums("x");
      case OpKind::kSum:
        return Sums("parts");
      case OpKind::kClip:
      case OpKind::kAdamW:
        return Optimizers();
      case OpKind::kAllReduce:
      case OpKind::kAllReduceMax:
      case OpKind::kReduceScatter:
      case OpKind::kAllGather:
        return Collectives();
      case OpKind::kZero:
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const int index_;
  const Op& op_;
  const OpInfo& info_;
};

}  // namespace

absl::Status VerifyOperands(const Program& program, int op) { return Operands(program, op).Run(); }

}  // namespace stretto
