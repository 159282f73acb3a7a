#include "lathe/backends/mlx/ranks.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <cstring>

namespace lathe::mlx {
namespace {

class SumPrimitive : public mx::Primitive {
 public:
  SumPrimitive(Ranks& ranks, DType wire) : Primitive(ranks.stream), ranks_(ranks), wire_(wire) {}

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
  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    fail(ErrorCode::kInternal, "mlx: a sum among ranks on a GPU stream");
  }
  const char* name() const override { return "LatheSumAmongRanks"; }

 private:
  Ranks& ranks_;
  const DType wire_;
};

}  // namespace

mx::array sum_among(Ranks& ranks, const mx::array& x, DType wire) {
  mx::array mine = mx::contiguous(x, false, ranks.stream);
  if (ranks.last) mine = mx::depends({mine}, {*ranks.last})[0];
  ranks.last = mx::array(x.shape(), mx::float32, std::make_shared<SumPrimitive>(ranks, wire), {mine});
  return *ranks.last;
}

}  // namespace lathe::mlx
