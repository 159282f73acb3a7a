// The order of nodes, on programs made of real ops.
#include "lathe/program/hoist.h"

#include <gtest/gtest.h>

#include "lathe/ops/all_reduce.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/ops_of_testing.h"
#include "lathe/ops/optimizers/flat.h"

namespace lathe {
namespace {

TEST(Hoist, NodesMoveBehindTheLastThatTheyDependOnWithTheirViews) {
  Program p;
  const Value x = p.input("x", {DType::f32, {8}});
  const Value a = relu(x), b = tanh(a), c = gelu(b), d = tanh(c);
  const Value ab = p.emit(op::all_reduce, p.emit(op::concat, {a, b}))[0];
  const Value cd = p.emit(op::all_reduce, p.emit(op::concat, {c, d}))[0];
  p.output("y", p.emit(op::concat, {ab, cd})[0]);
  hoist(p, op::all_reduce);
  EXPECT_EQ(ops_of(p), "relu tanh concat all_reduce gelu tanh concat all_reduce concat");
}

TEST(Hoist, TheirOwnOrderStays) {
  Program p;
  const Value x = p.input("x", {DType::f32, {8}});
  const Value a = relu(x), b = tanh(a);
  const Value second = p.emit(op::all_reduce, {b})[0], first = p.emit(op::all_reduce, {a})[0];
  const Value c = gelu(x), sums = add(first, second);
  p.output("y", add(c, sums));
  hoist(p, op::all_reduce);
  EXPECT_EQ(ops_of(p), "relu tanh all_reduce all_reduce gelu add add");
  EXPECT_EQ(p.nodes()[2].in[0], b.id);
}

}  // namespace
}  // namespace lathe
