#pragma once
#include <span>
#include <vector>

#include "lathe/backends/cpu/blas.h"
#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/packed_weights.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/core/thread_pool.h"
#include "lathe/program/backend.h"

namespace lathe::cpu {

/// What a running node sees: its threads and instruction set, its tensors and its workspace.
struct Call {
  ThreadPool& pool;
  Isa isa;
  const Node& node;
  const Program& program;
  std::vector<std::byte*> in, out;  ///< null for an optional input that is not given
  std::byte* workspace;
  std::vector<int64_t> in_ld = {}, out_ld = {};  ///< MemoryPlan::Place::ld; empty: no gaps
  const void* packed_weight = nullptr;           ///< where packed_use says so
  /// Of adamw and all_gather: the state that they change.  Operand 0 begins at its element `origin`.
  std::shared_ptr<PackedState> parameters = {};
  int64_t origin = 0;
  bool out_is_cold = false;        ///< of out[0]: call_memory.h
  bool workspace_is_cold = false;  ///< CpuImpl::apart
  bool out_is_read = true;         ///< of out[0]; false: it need not be written
  /// Of scatter_add_rows and of the nodes that read its sums: null where all rows must be written.
  std::shared_ptr<WrittenRows> table = {};
  const Blas* blas = nullptr;     ///< of blas_entries
  ProcessGroup* group = nullptr;  ///< of all_reduce, all_gather, gather_ranks; null: this process only

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(in[static_cast<size_t>(i)]);
  }
  template <typename T>
  T* output(int i) const {
    return reinterpret_cast<T*>(out[static_cast<size_t>(i)]);
  }
  const Type& in_type(int i) const { return program.type(node.in[static_cast<size_t>(i)]); }
  const Type& out_type(int i) const { return program.type(node.out[static_cast<size_t>(i)]); }
  /// Elements in the last axis, and the product of the others.
  int64_t cols(int i) const { return in_type(i).shape.back(); }
  int64_t rows(int i) const { return elements(in_type(i)) / cols(i); }
  /// Elements from row to row.
  int64_t ld(int i) const { return ld_of(in_ld, i, in_type(i)); }
  int64_t ld_out(int i) const { return ld_of(out_ld, i, out_type(i)); }
  Rows::Size size(int i) const { return {rows(i), cols(i), ld(i)}; }

  static int64_t ld_of(const std::vector<int64_t>& lds, int i, const Type& type) {
    const int64_t ld = lds.empty() ? 0 : lds[static_cast<size_t>(i)];
    return ld == 0 ? type.shape.back() : ld;
  }
};

/// How a node runs together with the next one, so that threads that finish the first continue with the
/// second.  `takes` says for which pairs, both of one instruction set.  Neither may write what the other one
/// reads or writes.
struct WithNext {
  bool (*takes)(const Node& node, const Node& next);
  void (*run)(const Call& call, const Call& next);
};

/// An implementation on the CPU: its instruction set and the function that runs a node.  The function may
/// throw an error that another process causes.
struct CpuImpl : Impl {
  Isa isa = Isa::kPortable;
  void (*run)(const Call&) = nullptr;
  bool apart = false;                   ///< its outputs and workspace have memory apart: untouched_since
  const WithNext* with_next = nullptr;  ///< null: the node runs by itself
  const Blas* blas = nullptr;           ///< the library that computes it, if one does
};

/// Implementations of one op, best first.
using Implementations = std::vector<CpuImpl>;

/// One entry of a family's table: an op, how to run it, its workspace, and which inputs its outputs may
/// overwrite (Impl::may_overwrite).  `apart`: it writes much other memory, too, which is slow where other
/// threads have just read that memory (CpuImpl::apart).  gaps_in, gaps_out: as in Impl; with_next: as in
/// CpuImpl.  It becomes one CpuImpl per instruction set.
struct Entry {
  const OpDef* op;
  void (*run)(const Call&);
  size_t (*workspace_bytes)(const Node&, const Program&, Isa, int threads) = nullptr;
  bool (*accepts)(const Node&, const Program&) = nullptr;
  std::vector<InPlace> may_overwrite = {};
  bool apart = false;
  uint32_t gaps_in = 0, gaps_out = 0;
  const WithNext* with_next = nullptr;
};

/// The tables, one per family.
std::vector<Entry> elementwise_entries();
std::vector<Entry> product_entries();
std::vector<Entry> blas_entries();  ///< products by a library, for one level only
std::vector<Entry> pooling_entries();
std::vector<Entry> similarity_entries();
std::vector<Entry> row_entries();
std::vector<Entry> attention_entries();
std::vector<Entry> loss_entries();
std::vector<Entry> linear_cross_entropy_entries();
std::vector<Entry> flat_entries();
std::vector<Entry> optimizer_entries();

}  // namespace lathe::cpu
