#pragma once
#include <memory>
#include <utility>

#include "lathe/program/backend.h"

namespace lathe {

/// For tests: a device that passes everything on to another one.  A test overrides what it needs to change.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> real) : real_(std::move(real)) {}
  const DeviceInfo& info() const override { return real_->info(); }
  Result<Buffer> allocate(size_t bytes) override { return real_->allocate(bytes); }
  std::optional<size_t> free_bytes() const override { return real_->free_bytes(); }
  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    return real_->copy_in(to, offset, from);
  }
  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    return real_->copy_out(to, from, offset);
  }
  ProcessGroup* group() const override { return real_->group(); }
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    return real_->implementations(op);
  }
  std::string way_out(ErrorCode refused) const override { return real_->way_out(refused); }
  MemoryPlan plan(const Program& program, const Selection& selection) const override {
    return real_->plan(program, selection);
  }
  std::string tuning() const override { return real_->tuning(); }
  void adopt_tuning(const std::string& text) override { real_->adopt_tuning(text); }
  size_t prepared_bytes(const Program& p, const Selection& s, const Bindings& b) const override {
    return real_->prepared_bytes(p, s, b);
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan& plan, const Bindings& bindings) override {
    return real_->compile(program, selection, plan, bindings);
  }

 protected:
  const std::shared_ptr<Backend> real_;
};

}  // namespace lathe
