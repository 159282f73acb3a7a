#include "lathe/nn/module.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"

namespace lathe::nn {
namespace {

TEST(Inputs, WhoAsksFirstMakesTheInputAndOthersGetTheSame) {
  Program program;
  Inputs inputs(program, 32, 4);
  EXPECT_FALSE(inputs.find("labels"));
  const Value labels = inputs.row("labels", DType::f32, 3);
  EXPECT_EQ(labels.type(), (Type{DType::f32, {4, 3}}));
  EXPECT_EQ(inputs.row("labels", DType::f32, 3), labels);
  EXPECT_EQ(inputs.find("labels"), labels);
  EXPECT_EQ(inputs.token("input_ids").type(), (Type{DType::i32, {32}}));
  EXPECT_EQ(inputs.bounds().type(), (Type{DType::i32, {5}}));
  EXPECT_EQ(inputs.rng().type(), (Type{DType::i32, {2}}));
  EXPECT_EQ(program.values().size(), 4u);
}

TEST(Inputs, OfOneNameHasOneType) {
  Program program;
  Inputs inputs(program, 32, 4);
  inputs.token("labels");
  try {
    inputs.row("labels");
    ADD_FAILURE() << "an input of two types";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_STREQ(error.what(), "the input labels is i32[32] and i32[4]");
  }
}

}  // namespace
}  // namespace lathe::nn
