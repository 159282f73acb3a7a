#include "lathe/backends/mlx/ranks.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <cstring>
#include <numeric>

namespace lathe::mlx {
namespace {

/// An exchange, on the host.
class ExchangePrimitive : public mx::Primitive {
 public:
  explicit ExchangePrimitive(Ranks& ranks) : Primitive(ranks.stream), ranks_(ranks) {}
  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    fail(ErrorCode::kInternal, "mlx: an exchange among ranks on a GPU stream");
  }

 protected:
  Ranks& ranks_;
};

class SumPrimitive : public ExchangePrimitive {
 public:
  SumPrimitive(Ranks& ranks, DType wire) : ExchangePrimitive(ranks), wire_(wire) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const mx::array& x = inputs[0];
    outputs[0].set_data(mx::allocator::malloc(x.nbytes()));
    const std::span<float> sum(outputs[0].data<float>(), x.size());
    // MLX keeps the arrays until what is dispatched has run.  Nothing may be thrown on its thread.
    mx::cpu::get_command_encoder(stream()).dispatch(
        [&ranks = ranks_, from = x.data<float>(), sum, wire = wire_] {
          std::memcpy(sum.data(), from, sum.size_bytes());
          if (ranks.failure.ok()) ranks.failure = ranks.group->sum(sum, wire);
        });
  }
  const char* name() const override { return "LatheSumAmongRanks"; }

 private:
  const DType wire_;
};

class GatherPrimitive : public ExchangePrimitive {
 public:
  GatherPrimitive(Ranks& ranks, Shape counts) : ExchangePrimitive(ranks), counts_(std::move(counts)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const mx::array& own = inputs[0];
    outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    const std::span<float> all(outputs[0].data<float>(), outputs[0].size());
    mx::cpu::get_command_encoder(stream()).dispatch([&ranks = ranks_, from = own.data<float>(),
                                                     bytes = own.nbytes(), all, counts = counts_] {
      const auto begin = std::accumulate(counts.begin(), counts.begin() + ranks.group->rank(), int64_t{0});
      std::memcpy(all.data() + begin, from, bytes);
      if (ranks.failure.ok()) ranks.failure = ranks.group->gather_parts(all, counts);
    });
  }
  const char* name() const override { return "LatheGatherAmongRanks"; }

 private:
  const Shape counts_;
};

/// Puts `mine` on the ranks' stream, after the previous exchange.
mx::array next(Ranks& ranks, const mx::array& x) {
  mx::array mine = mx::contiguous(x, false, ranks.stream);
  if (ranks.last) mine = mx::depends({mine}, {*ranks.last})[0];
  return mine;
}

}  // namespace

mx::array sum_among(Ranks& ranks, const mx::array& x, DType wire) {
  ranks.last =
      mx::array(x.shape(), mx::float32, std::make_shared<SumPrimitive>(ranks, wire), {next(ranks, x)});
  return *ranks.last;
}

mx::array gather_among(Ranks& ranks, const mx::array& own, const Shape& counts) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  ranks.last = mx::array({static_cast<int>(total)}, mx::float32,
                         std::make_shared<GatherPrimitive>(ranks, counts), {next(ranks, own)});
  return *ranks.last;
}

}  // namespace lathe::mlx
