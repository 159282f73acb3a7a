// Attention of first tokens alone is attention.
#include "lathe/ops/first_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/ops/attention.h"
#include "lathe/ops/linear.h"

namespace lathe {
namespace {

using Tensors = std::vector<std::vector<double>>;

Tensors reference(const OpDef& op, const std::vector<Type>& types, const Tensors& in, const Attrs& attrs) {
  Program program;
  std::vector<Value> values;
  for (size_t i = 0; i < types.size(); ++i)
    values.push_back(program.input("in" + std::to_string(i), types[i]));
  std::vector<Type> out_types;
  Tensors out;
  for (const Value& value : program.emit(op, values, attrs)) {
    out_types.push_back(value.type());
    out.emplace_back(static_cast<size_t>(elements(value.type())));
  }
  Reference r{program.nodes()[0], types, out_types, in, out, out};
  op.reference(r);
  return r.out;
}

// With a bias of the keys, dropout, an empty row and a token of no row; in double.
TEST(FirstAttention, IsAttentionOverTheProductsOfAllTokens) {
  constexpr int64_t kTokens = 14, kHeads = 3, kColumns = 12;
  const std::vector<double> cu{0, 5, 5, 6, 13}, row_ids{7, 2, 9, 4}, rng{42, 9};
  const Type x{DType::f32, {kTokens, kColumns}}, w{DType::f32, {3 * kColumns, kColumns}},
      b{DType::f32, {3 * kColumns}}, qkv{DType::f32, {kTokens, 3 * kColumns}};
  const Type cu_type{DType::i32, {5}}, ids_type{DType::i32, {4}}, rng_type{DType::i32, {2}};
  Tensors drawn;
  double next = 0;
  for (const Type& type : {x, w, b}) {
    drawn.emplace_back(static_cast<size_t>(elements(type)));
    for (double& element : drawn.back()) element = std::sin(next += 1);
  }
  const Attrs attrs{{"heads", kHeads}, {"p", 0.25}, {"site", int64_t{3}}};
  const auto products = reference(op::linear, {x, w, b}, drawn, {});
  const auto all =
      reference(op::attention, {qkv, cu_type, ids_type, rng_type}, {products[0], cu, row_ids, rng}, attrs);
  const auto first = reference(op::first_attention, {x, w, b, cu_type, ids_type, rng_type},
                               {drawn[0], drawn[1], drawn[2], cu, row_ids, rng}, attrs);
  for (size_t row = 0; row < row_ids.size(); ++row)
    for (size_t c = 0; c < kColumns; ++c) {
      const bool empty = cu[row] == cu[row + 1];
      const double wanted = empty ? 0 : all[0][static_cast<size_t>(cu[row]) * kColumns + c];
      EXPECT_NEAR(first[0][row * kColumns + c], wanted, 1e-13) << row << " " << c;
    }
}

}  // namespace
}  // namespace lathe
