// Rows of a table (embeddings), rows of activations (the [CLS] tokens), and the transpose.
#include "lathe/ops/rows.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

void ref_gather(Reference& r) {
  const int64_t cols = r.cols(0);
  for (size_t i = 0; i < r.in[1].size(); ++i)
    for (int64_t c = 0; c < cols; ++c)
      r.out[0][i * static_cast<size_t>(cols) + static_cast<size_t>(c)] =
          r.in[0][static_cast<size_t>(static_cast<int64_t>(r.in[1][i]) * cols + c)];
}

void ref_scatter(Reference& r) {
  const int64_t cols = r.cols(0), padding = r.node.attrs.i("padding");
  for (size_t i = 0; i < r.in[1].size(); ++i) {
    if (static_cast<int64_t>(r.in[1][i]) == padding) continue;
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(static_cast<int64_t>(r.in[1][i]) * cols + c);
      const double dy = r.in[0][i * static_cast<size_t>(cols) + static_cast<size_t>(c)];
      r.out[0][at] += dy;
      r.magnitude[0][at] += std::abs(dy);
    }
  }
}

std::vector<Type> infer_scatter(std::span<const Type> in, const Attrs& attrs) {
  if (in[0].shape.size() != 2 || in[1].shape != Shape{in[0].shape[0]} || in[1].dtype != DType::i32)
    fail(ErrorCode::kShape, "scatter_add_rows: expected dy[n,c] ids[n]:i32, found {} {}", to_string(in[0]),
         to_string(in[1]));
  Type type{DType::f32, {attrs.i("rows"), in[0].shape[1]}};
  if (!dtype_of(attrs.s("dtype"), &type.dtype))
    fail(ErrorCode::kShape, "scatter_add_rows: {} is no dtype", attrs.s("dtype"));
  return {type};
}

std::vector<Value> transposed(const Grad& g, int64_t padding) {
  const Type& x = g.in(0).type();
  return {g.program.emit(
              scatter_add_rows, {g.dout[0], g.in(1)},
              {{"rows", x.shape[0]}, {"dtype", std::string(name_of(x.dtype))}, {"padding", padding}})[0],
          Value{}};
}

Cost cost_of_gather(const Node& node, const Program& program) {
  Cost cost;  // the rows touched, not the whole table
  cost.bytes = 2.0 * static_cast<double>(bytes_of(program.type(node.out[0])));
  return cost;
}
Cost cost_of_scatter(const Node& node, const Program& program) {
  Cost cost;  // rows without an id are written, too
  cost.bytes = static_cast<double>(bytes_of(program.type(node.in[0])) + bytes_of(program.type(node.out[0])));
  return cost;
}

/// So many ids that repeat irregularly, some of them often.
std::vector<int32_t> many_ids(int64_t count, int64_t rows) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(i % 5 == 0 ? 1 : i * i / 7 % rows));
  return ids;
}

std::vector<Case> gather_cases() {
  return {{"one", {{1, 1}, {1}}, {}, {{0}}},
          {"repeats", {{7, 33}, {5}}, {}, {{6, 0, 6, 6, 3}}},
          {"wide", {{12, 768}, {3}}, {}, {{11, 2, 5}}},
          {"large vocabulary", {{119547, 3}, {9}}, {}, {many_ids(9, 119547)}}};
}

}  // namespace

/// y[i] = x[ids[i]].  Ids lie in [0, m): the caller has checked them.
const OpDef gather_rows{
    .name = "gather_rows",
    .signature = "x[m,c] ids[n]:i32 -> y[n,c]:x",
    .gradient = [](const Grad& g) { return transposed(g, -1); },
    .reference = ref_gather,
    .cases = gather_cases,
    .bound = {.ulp = 0},
    .cost = cost_of_gather,
};

/// y[i] = table[ids[i]] in f32, whatever the table is stored in.  `padding` is the row that is not trained,
/// −1: none; it matters only to the gradient.  Source: torch.nn.Embedding and its padding_idx.
const OpDef look_up{
    .name = "look_up",
    .signature = "table[m,c] ids[n]:i32 -> y[n,c]:f32",
    .attrs = {{"padding", int64_t{-1}}},
    .gradient = [](const Grad& g) { return transposed(g, g.node.attrs.i("padding")); },
    .reference = ref_gather,
    .cases = gather_cases,
    .bound = {.ulp = 0},
    .cost = cost_of_gather,
};

/// out[id] = Σ over i with ids[i] = id of dy[i], in ascending i; rows without an id are 0, and row `padding`.
const OpDef scatter_add_rows{
    .name = "scatter_add_rows",
    .signature = "dy[n,c] ids[n]:i32 -> out[@rows,c]",
    .attrs = {{"rows", int64_t{0}}, {"dtype", std::string("f32")}, {"padding", int64_t{-1}}},
    .infer = infer_scatter,
    .gradient = not_differentiable,
    .reference = ref_scatter,
    .cases =
        [] {
          std::vector<Case> all;
          for (const char* dtype : {"f32", "bf16", "f16"}) {
            const std::string d = dtype;
            all.push_back({"one-" + d, {{1, 1}, {1}}, {{"rows", int64_t{1}}, {"dtype", d}}, {{0}}});
            all.push_back(
                {"repeats-" + d, {{6, 33}, {6}}, {{"rows", int64_t{9}}, {"dtype", d}}, {{8, 0, 8, 8, 3, 0}}});
            all.push_back(
                {"wide-" + d, {{3, 768}, {3}}, {{"rows", int64_t{40}}, {"dtype", d}}, {{11, 39, 11}}});
            all.push_back({"large-" + d,
                           {{40, 17}, {40}},
                           {{"rows", int64_t{3000}}, {"dtype", d}},
                           {many_ids(40, 3000)}});
            all.push_back({"few-rows-" + d,
                           {{700, 24}, {700}},
                           {{"rows", int64_t{3}}, {"dtype", d}},
                           {many_ids(700, 2)}});
            all.push_back({"padding-" + d,
                           {{60, 24}, {60}},
                           {{"rows", int64_t{3000}}, {"dtype", d}, {"padding", int64_t{1}}},
                           {many_ids(60, 3000)}});
            all.push_back({"padding, few-rows-" + d,
                           {{700, 24}, {700}},
                           {{"rows", int64_t{3}}, {"dtype", d}, {"padding", int64_t{0}}},
                           {many_ids(700, 2)}});
            all.push_back({"padding alone-" + d,
                           {{5, 17}, {5}},
                           {{"rows", int64_t{2000}}, {"dtype", d}, {"padding", int64_t{1999}}},
                           {{1999, 1999, 1999, 1999, 1999}}});
          }
          for (const int64_t n : {5000, 8192, 9001})
            for (const int64_t padding : {-1, 1})
              all.push_back({std::to_string(n) + (padding < 0 ? "" : ", padding"),
                             {{n, 8}, {n}},
                             {{"rows", int64_t{900}}, {"padding", padding}},
                             {many_ids(n, 800)}});
          all.push_back(
              {"large vocabulary", {{9, 3}, {9}}, {{"rows", int64_t{119547}}}, {many_ids(9, 119547)}});
          return all;
        },
    .bound = {.ulp = 2, .terms = [](const Reference& r) { return static_cast<double>(r.in[1].size()); }},
    .cost = cost_of_scatter,
};

}  // namespace lathe::op
