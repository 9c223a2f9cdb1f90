// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product.h"

#include "kernels/cpu/thread_buffers.h"
#include "proto/base/check.h"

namespace stretto::cpu {

namespace {

using dnnl::memory;

dnnl_exec_arg_t Argument(int name, const memory& memory) { return {name, memory.get()}; }

void SetData(const memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data));
}

dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const memory::desc& x,
                                      const memory::desc& w, const memory::desc* bias,
                                      const memory::desc& y, bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0f);
    attributes.set_post_ops(post_ops);
  }
  return {bias ? dnnl::matmul::desc(x, w, *bias, y) : dnnl::matmul::desc(x, w, y), attributes,
          engine};
}

}  // namespace

memory::desc Dense(int64_t rows, int64_t columns, DType dtype, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return memory::desc({rows, columns}, TypeOf(dtype), strides);
}

Product::Product(const dnnl::engine& engine, const memory::desc& x, const memory::desc& w,
                 const memory::desc* bias, const memory::desc& y, bool accumulate)
    : descriptor_(Describe(engine, x, w, bias, y, accumulate)),
      primitive_(descriptor_),
      x_(descriptor_.src_desc(), engine, nullptr),
      w_(descriptor_.weights_desc(), engine, nullptr),
      bias_(bias ? *bias : memory::desc(), engine, nullptr),
      y_(descriptor_.dst_desc(), engine, nullptr),
      scratchpad_(descriptor_.scratchpad_desc(), engine, nullptr),
      scratchpad_bytes_(descriptor_.scratchpad_desc().get_size()),
      arguments_{Argument(DNNL_ARG_SRC, x_), Argument(DNNL_ARG_WEIGHTS, w_),
                 Argument(DNNL_ARG_DST, y_), Argument(DNNL_ARG_SCRATCHPAD, scratchpad_),
                 Argument(DNNL_ARG_BIAS, bias_)},
      argument_count_(bias ? 5 : 4) {}

void Product::SetWeight(const void* w, const void* bias) {
  SetData(w_, w);
  if (argument_count_ == 5) SetData(bias_, bias);
}

void Product::Run(const dnnl::stream& stream, const void* x, void* y) {
  SetData(x_, x);
  SetData(y_, y);
  SetData(scratchpad_, ThreadBuffer(Buffer::kScratchpad, scratchpad_bytes_));
  STRETTO_CHECK(dnnl_primitive_execute(primitive_.get(), stream.get(), argument_count_,
                                       arguments_.data()) == dnnl_success);
}

Conversion::Conversion(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to)
    : primitive_({engine, from, engine, to}),
      from_(from, engine, nullptr),
      to_(to, engine, nullptr),
      bytes_(to.get_size()),
      arguments_{Argument(DNNL_ARG_FROM, from_), Argument(DNNL_ARG_TO, to_)} {}

void Conversion::Run(const dnnl::stream& stream, const void* from, void* to) {
  SetData(from_, from);
  SetData(to_, to);
  STRETTO_CHECK(dnnl_primitive_execute(primitive_.get(), stream.get(), 2, arguments_.data()) ==
                dnnl_success);
}

}  // namespace stretto::cpu
