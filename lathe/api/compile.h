#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/program/backend.h"

namespace lathe {

struct CompileOptions {
  bool backward = true;  ///< also the gradients of all trainable parameters
  uint64_t seed = 0;     ///< of the initial parameters
};

/// A module and a loss on one device: parameters, program and executable.  Not for several threads at the
/// same time.
class Compiled {
 public:
  /// One forward pass, and the backward pass if it was compiled.  `input`: the elements of the input type,
  /// row-major.  Returns the loss.  Errors: kShape for another number of elements.
  float run(std::span<const float> input);
  /// The same on the input of the run before, which is still on the device.  Errors: kUsage if there was
  /// none.
  float run();

  /// dLoss/dParameter of the last run.  Errors: kUsage before the first run, without `backward`, for a frozen
  /// parameter or a name that is none.
  std::vector<float> gradient(const std::string& name) const;
  /// Content of a parameter.  Errors: kUsage for a name that is none; kShape for another number of elements.
  std::vector<float> parameter(const std::string& name) const;
  void set_parameter(const std::string& name, std::span<const float> values);

  /// The program as the device runs it, for `dump`.
  const Program& program() const { return *program_; }

 private:
  friend Compiled compile(Backend& backend, nn::Module& module, const std::function<Value(Value)>& loss,
                          const Type& input, const CompileOptions& options);
  /// A parameter within the state of its block, which has the name of the block's first parameter.
  struct Place {
    std::string state;
    int64_t offset = 0, elements = 0;
  };
  Compiled() = default;
  const Place& place(const std::string& name) const;

  Backend* backend_ = nullptr;
  std::unique_ptr<Program> program_;
  std::map<std::string, Place> places_;
  Bindings bindings_;
  std::unique_ptr<Executable> executable_;
  Event last_;
  bool has_input_ = false, ran_ = false;
};

/// Traces `loss`, a function of one f32 input that calls the module's layers and gives one number [1], and
/// compiles it.  `backend` must outlive the result; `module` is needed only for the trace.  Dropout is the
/// identity; layers that need a packed batch (attention) cannot be traced so.
///
/// Parameters start as PyTorch makes the same layers after torch.manual_seed(seed): in declared order, those
/// of nn::Linear uniform in ±1/√in, those of nn::Embedding normal but the padding's row, which is 0, those of
/// nn::LayerNorm 1 and 0.  Others, and layers whose options say so, start as declared: kNormal and kTruncated
/// with their standard deviation, 1 where none is named, kTruncated within two of it.  The bias of a layer
/// that is told how to start is 0.
/// Errors: kShape if the loss is not f32 [1] or the input not f32; kUnsupported, kInternal as
/// `select` and `gradients`.
Compiled compile(Backend& backend, nn::Module& module, const std::function<Value(Value)>& loss,
                 const Type& input, const CompileOptions& options = {});

}  // namespace lathe
