#include "lathe/io/tensor_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "lathe/core/error.h"
#include "lathe/core/float16.h"

namespace lathe {
namespace {

/// The values as bytes that begin at an odd address.
template <typename T>
class Unaligned {
 public:
  explicit Unaligned(const std::vector<T>& values)
      : bytes_(values.size() * sizeof(T) + 1), count_(values.size()) {
    std::memcpy(bytes_.data() + 1, values.data(), values.size() * sizeof(T));
  }
  TensorView view(DType dtype) const {
    return {dtype, {static_cast<int64_t>(count_)}, std::span<const std::byte>(bytes_).subspan(1)};
  }

 private:
  std::vector<std::byte> bytes_;
  size_t count_;
};

std::vector<float> floats_in(const TensorView& tensor) {
  std::vector<float> out(static_cast<size_t>(elements(tensor.shape)));
  to_f32(tensor, out.data());
  return out;
}

TEST(TensorView, EveryTypeConvertsToFloatFromAnyAddress) {
  const std::vector<float> wanted = {0.f, 1.f, 5.f};
  EXPECT_EQ(floats_in(Unaligned<float>({0, 1, 5}).view(DType::f32)), wanted);
  std::vector<float> room;
  const Unaligned<float> unaligned({0, 1, 5});
  const std::span<const float> converted = f32_of(unaligned.view(DType::f32), room);
  EXPECT_EQ(converted.data(), room.data());
  EXPECT_EQ(room, wanted);
  const TensorView aligned{DType::f32, {3}, std::as_bytes(std::span(wanted))};
  EXPECT_EQ(f32_of(aligned, room).data(), wanted.data());
  EXPECT_EQ(floats_in(Unaligned<double>({0, 1, 5}).view(DType::f64)), wanted);
  EXPECT_EQ(floats_in(Unaligned<int64_t>({0, 1, 5}).view(DType::i64)), wanted);
  EXPECT_EQ(floats_in(Unaligned<int32_t>({0, 1, 5}).view(DType::i32)), wanted);
  EXPECT_EQ(floats_in(Unaligned<uint8_t>({0, 1, 5}).view(DType::u8)), wanted);
  EXPECT_EQ(floats_in(Unaligned<bf16>({to_bf16(0), to_bf16(1), to_bf16(5)}).view(DType::bf16)), wanted);
  EXPECT_EQ(floats_in(Unaligned<f16>({to_f16(0), to_f16(1), to_f16(5)}).view(DType::f16)), wanted);
  EXPECT_EQ(floats_in({DType::f32, {0, 4}, {}}), std::vector<float>());
}

TEST(TensorView, WrongNumberOfBytesIsRefused) {
  float out[2];
  std::vector<std::byte> bytes(7);
  EXPECT_THROW(to_f32({DType::f32, {2}, bytes}, out), Error);
}

TEST(TensorView, FindsTheFirstNonFinite) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(find_non_finite(Unaligned<float>({largest, -largest, 0, -inf, nan}).view(DType::f32)), 3);
  EXPECT_EQ(find_non_finite(Unaligned<float>({0, nan}).view(DType::f32)), 1);
  EXPECT_EQ(find_non_finite(Unaligned<float>({largest, 1}).view(DType::f32)), std::nullopt);
  EXPECT_EQ(find_non_finite(Unaligned<double>({1e300, -INFINITY}).view(DType::f64)), 1);
  EXPECT_EQ(find_non_finite(Unaligned<bf16>({to_bf16(1e38f), to_bf16(nan)}).view(DType::bf16)), 1);
  EXPECT_EQ(find_non_finite(Unaligned<f16>({to_f16(65504), to_f16(inf)}).view(DType::f16)), 1);
  EXPECT_EQ(find_non_finite(Unaligned<int32_t>({-1, 0x7f800000}).view(DType::i32)), std::nullopt);
}

TEST(TensorView, FindsTheFirstNonFiniteOfLongTensors) {
  std::vector<float> values(10000, 1);
  EXPECT_EQ(find_non_finite(Unaligned<float>(values).view(DType::f32)), std::nullopt);
  for (const size_t at : {9999u, 4096u, 4095u, 0u}) {  // the one before stays, after it
    values[at] = NAN;
    EXPECT_EQ(find_non_finite(Unaligned<float>(values).view(DType::f32)), at);
  }
}

TEST(TensorView, FloatsAreTakenWhereTheyLieIfTheyCanBe) {
  const std::vector<float> values = {1, 2, 3, 4};
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(as_f32({DType::f32, {4}, bytes}), values.data());
  EXPECT_EQ(as_f32({DType::f32, {5}, bytes}), nullptr);
  EXPECT_EQ(as_f32({DType::i32, {4}, bytes}), nullptr);
  EXPECT_EQ(as_f32({DType::f32, {3}, bytes.subspan(1, 12)}), nullptr);
}

}  // namespace
}  // namespace lathe
