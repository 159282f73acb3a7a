#include "lathe/backends/cuda/products.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/graph.h"
#include "lathe/backends/cuda/kernels/rows/column_sums.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/own_products.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"

namespace lathe::cuda {
namespace {

/// NVIDIA's advice for Hopper is 32 MiB; steps of BERT-base are as fast with this, and every product's
/// workspace counts in the plan of memory.
constexpr size_t kMostWorkspace = size_t{8} << 20;
constexpr int kCandidates = 32;
constexpr size_t kTimedRuns = 6;
constexpr int kTurns = 3;  ///< of so many runs each, or of one where that takes long
constexpr float kLongMs = 1;
constexpr float kHopeless = 1.1f;  ///< times the best one so far
/// Of the library's: of f32, what it names first is often not the fastest.
int candidates(const Product& p) { return p.type == DType::f32 ? kCandidates : kCandidates / 4; }

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ErrorCode::kInternal, "cuda: cuBLASLt: {}: status {}", doing, static_cast<int>(status));
}

/// An address for what is never run.
float* anywhere() { return reinterpret_cast<float*>(uintptr_t{256}); }

/// The largest power of two up to 256 that divides the address.
uint32_t alignment_of(const void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// The library writes sums in vectors and asks for no alignment.
bool sums_on_vectors(const Product& p) { return alignment_of(p.a_sums) >= 16; }

}  // namespace

/// A product's description for the library, which sees row-major matrices as their transposes:
/// Cᵀ = B'ᵀ · A'ᵀ.
struct Products::Plan {
  explicit Plan(const CublasLt& l) : library(l) {}
  ~Plan() {
    if (matmul != nullptr) library.MatmulDescDestroy(matmul);
    for (cublasLtMatrixLayout_t layout : {b, a, c})
      if (layout != nullptr) library.MatrixLayoutDestroy(layout);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const CublasLt& library;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t b = nullptr, a = nullptr, c = nullptr;
  int kernel = kLibrary;
  size_t workspace_bytes = 0;
  Algorithm algorithm{};
  float ms = INFINITY;  // of the chosen algorithm
};

Products::Products(const CublasLt& library, bool tf32, bool own)
    : library_(library), tf32_(tf32), ways_(own ? own_ways() : 0) {
  multiprocessors_ = current_gpu().multiProcessorCount;
  check(library_.Create(&handle_), "opening the library");
  cuda::check(cudaMalloc(reinterpret_cast<void**>(&counters_), kTimedRuns * kCounterBytes), "allocating");
}
Products::~Products() {
  cudaFree(counters_);
  library_.Destroy(handle_);
}

bool Products::accepts(const Product& p) {
  if (p.e4m3) return p.k % 16 == 0 && p.n % 16 == 0;
  const auto whole = [](int64_t count, DType type) {
    return count * static_cast<int64_t>(size_of(type)) % 16 == 0;
  };
  return whole(p.a_ld(), p.type) && whole(p.b_transposed ? p.k : p.n, p.type) && whole(p.c_ld(), p.c_type);
}

/// cuBLASLt takes scales by row on no other GPU.  Source: its documentation, "Scaling factors".
bool Products::has_e4m3() {
  int device = 0, major = 0, minor = 0;
  cuda::check(cudaGetDevice(&device), "asking for the GPU");
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "asking for the GPU");
  cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
              "asking for the GPU");
  return major == 9 && minor == 0;
}

size_t Products::workspace_bytes(const Product& p) {
  const size_t partial = static_cast<size_t>(p.m * p.n) * sizeof(float) * 16;  // up to 16 parts of the sums
  const size_t sums = p.a_transposed ? column_sums_workspace_bytes(p.k, p.m) : 0;
  return std::max(std::min(kMostWorkspace, partial), sums);
}

Products::Key Products::key_of(const Product& p) const {
  const auto flag = [](bool set, int bit) { return int64_t{set} << bit; };
  const int64_t flags = flag(p.a_transposed, 0) | flag(p.b_transposed, 1) | flag(p.bias != nullptr, 2) |
                        flag(p.addend != nullptr, 3) | flag(p.a_sums != nullptr, 4) |
                        flag(tf32_ && p.type == DType::f32, 5) | flag(p.e4m3, 6) |
                        flag(p.gelu != nullptr, 7) | flag(!p.c_is_read, 8) | flag(!sums_on_vectors(p), 9) |
                        flag(p.a_padded, 10) | flag(p.c_padded, 11);
  const int64_t alignment = alignment_of(p.a) << 20 | alignment_of(p.b) << 10 | alignment_of(p.c);
  return {p.m, p.n, p.k, int64_t(p.type), int64_t(p.c_type), flags, alignment, alignment_of(p.addend)};
}

/// The number of tokens, which is m or, of a weight's gradient, k, rounded up to one of four per octave.
Products::Key Products::kind_of(const Key& key) {
  Key kind = key;
  const bool a_transposed = (key[5] & 1) != 0;
  int64_t& tokens = kind[a_transposed ? 2 : 0];
  int64_t step = 1;
  while (step * 8 <= tokens) step *= 2;
  tokens = round_up(tokens, step);
  return kind;
}

/// A product of this kind, on addresses that only have their alignments.
Product Products::example_of(const Key& kind) {
  const auto [m, n, k, type, c_type, flags, alignments, addend] = kind;
  const auto flag = [set = flags](int bit) { return (set >> bit & 1) != 0; };
  const auto address = [](int64_t alignment) { return reinterpret_cast<float*>(alignment); };
  Product p{m, n, k, DType(type), flag(6), DType(c_type), flag(0), flag(1)};
  p.a = address(alignments >> 20), p.b = address(alignments >> 10 & 0x3ff), p.c = address(alignments & 0x3ff);
  if (p.e4m3) p.a_scales = p.b_scales = anywhere();
  if (flag(2)) p.bias = anywhere();
  if (flag(3)) p.addend = address(addend);
  if (flag(4)) p.a_sums = flag(9) ? address(sizeof(float)) : anywhere();
  if (flag(7)) p.gelu = anywhere();
  p.c_is_read = !flag(8);
  p.a_padded = flag(10), p.c_padded = flag(11);
  return p;
}

std::unique_ptr<Products::Plan> Products::describe(const Product& p, int kernel) const {
  auto plan = std::make_unique<Plan>(library_);
  plan->kernel = kernel;
  if (kernel >= kOwn) return plan;
  plan->workspace_bytes = workspace_bytes(p);
  const cublasComputeType_t compute =
      p.type == DType::f32 && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(library_.MatmulDescCreate(&plan->matmul, compute, CUDA_R_32F), "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(library_.MatmulDescSetAttribute(plan->matmul, attribute, &value, sizeof(value)),
          "describing a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (p.a_sums != nullptr && kernel == kLibrary) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  if (p.e4m3) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
    point_at(*plan, p);  // the library looks for algorithms by them
  }
  const cudaDataType_t operands = p.e4m3 ? CUDA_R_8F_E4M3 : type_of(p.type);
  const auto layout = [&](cublasLtMatrixLayout_t* to, cudaDataType_t type, int64_t rows, int64_t cols,
                          int64_t ld) {
    check(library_.MatrixLayoutCreate(to, type, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), ld),
          "describing a matrix");
  };
  const int64_t b_cols = p.b_transposed ? p.k : p.n;
  layout(&plan->b, operands, p.b_transposed ? p.n : p.k, b_cols, b_cols);
  layout(&plan->a, operands, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, p.a_ld());
  layout(&plan->c, type_of(p.c_type), p.m, p.n, p.c_ld());
  return plan;
}

/// Tells the library about the vectors that come with A, B and C.
void Products::point_at(const Plan& plan, const Product& p) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* vector) {
    if (vector != nullptr)
      check(library_.MatmulDescSetAttribute(plan.matmul, attribute, &vector, sizeof(vector)),
            "describing a product");
  };
  const bool sums_apart = plan.kernel == kLibraryAndSums;
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias != nullptr ? p.bias : sums_apart ? nullptr : p.a_sums);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_scales);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_scales);
}

cublasStatus_t Products::run(const Plan& plan, const Algorithm& algorithm, cudaStream_t stream,
                             const Product& p, const Scratch& scratch) const {
  if (plan.kernel >= kOwn) {
    const auto [kernel, way] = own_product(plan.kernel - kOwn);
    return status_of(kernel->launch(stream, p, way), kernel->name).ok() ? CUBLAS_STATUS_SUCCESS
                                                                        : CUBLAS_STATUS_EXECUTION_FAILED;
  }
  point_at(plan, p);
  const float one = 1, beta = p.addend != nullptr ? 1.0f : 0.0f;
  const void* addend = p.addend != nullptr ? p.addend : p.c;
  const bool counts_alone = scratch.counter != nullptr && algorithm.workspaceSize <= kCounterBytes;
  const cublasStatus_t status =
      library_.Matmul(handle_, plan.matmul, &one, p.b, plan.b, p.a, plan.a, &beta, addend, plan.c, p.c,
                      plan.c, &algorithm.algo, counts_alone ? scratch.counter : scratch.workspace,
                      counts_alone ? kCounterBytes : plan.workspace_bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (plan.kernel == kLibraryAndSums) column_sums(stream, p.type, p.k, p.m, p.a, p.a_sums, scratch.workspace);
  if (p.gelu != nullptr) gelu(stream, p.c_type, p.m * p.n, p.c, p.gelu);
  return status;
}

void Products::choose(Plan& plan, cudaStream_t stream, const Product& p, void* workspace) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(library_.MatmulPreferenceCreate(&preference), "asking for algorithms");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    library_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(plan.workspace_bytes));
  // Parts of sums are added in f32 and in order, never in the type of the result.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.addend != nullptr ? p.addend : p.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c));
  cublasLtMatmulHeuristicResult_t found[kCandidates];
  int count = 0;
  library_.MatmulAlgoGetHeuristic(handle_, plan.matmul, plan.b, plan.a, plan.c, plan.c, preference,
                                  candidates(p), found, &count);
  library_.MatmulPreferenceDestroy(preference);
  for (int i = 0; i < count; ++i) time(plan, found[i], stream, p, workspace);
}

/// Takes the algorithm if it is faster than the plan's.  Timed as a graph, as it will run: plain launches
/// take longer than products of few rows.  One that takes long is not held up by its launch, and is given up
/// as soon as it is seen to be the slower one.
void Products::time(Plan& plan, const Algorithm& algorithm, cudaStream_t stream, const Product& p,
                    void* workspace) const {
  const Mark begin(true), end(true);
  const auto take = [&](float ms) {
    if (ms < plan.ms) plan.ms = ms, plan.algorithm = algorithm;
  };
  const auto timed = [&](auto&& work) {
    cuda::check(cudaEventRecord(begin, stream), "timing a product");
    work();
    cuda::check(cudaEventRecord(end, stream), "timing a product");
    cuda::check(cudaEventSynchronize(end), "timing a product");
    float ms = 0;
    cuda::check(cudaEventElapsedTime(&ms, begin, end), "timing a product");
    return ms;
  };
  const auto once = [&] { return run(plan, algorithm, stream, p, {workspace}); };
  if (once() != CUBLAS_STATUS_SUCCESS) return;
  float ms = timed(once);
  if (ms > kLongMs) ms = std::min(ms, timed(once));  // the host may have been held up in between
  if (ms > kLongMs) {
    for (int turn = 2; turn < kTurns && ms * kTimedRuns < kHopeless * plan.ms; ++turn)
      ms = std::min(ms, timed(once));
    return take(ms * kTimedRuns);
  }
  const auto runs = [&] {
    for (size_t r = 0; r < kTimedRuns; ++r)
      (void)run(plan, algorithm, stream, p, {workspace, counters_ + r * kCounterBytes});
  };
  const Graph graph(stream, runs, {counters_, kTimedRuns * kCounterBytes});
  const auto launch = [&] { cuda::check(cudaGraphLaunch(graph, stream), "timing a product"); };
  launch();
  for (int turn = 0; turn < kTurns; ++turn) take(timed(launch));
}

/// Gradients of weights run at the same time as other nodes: a kernel that leaves these multiprocessors may
/// take longer.  How many the library's kernels hold is not known.  The weights are those under which whole
/// steps were shortest.
float Products::cost(const Plan& plan, const Product& p) const {
  const float held = p.type == DType::f32 ? 1 : 4;
  float weight = 1, share = 1;
  if (plan.kernel >= kOwn) {
    const auto [kernel, way] = own_product(plan.kernel - kOwn);
    weight = kernel->weight;
    if (kernel->blocks != nullptr)
      share =
          std::min(static_cast<float>(kernel->blocks(p, way)) / static_cast<float>(multiprocessors_), 1.0f);
  }
  return plan.ms * weight * (p.a_transposed ? 1 + held * share : 1);
}

/// The plan of a choice made before; null if it does not serve this product.
std::unique_ptr<Products::Plan> Products::adopted(const Choice& choice, const Product& p) const {
  auto plan = describe(p, choice.kernel);
  Algorithm& own = plan->algorithm;
  const bool works = plan->kernel >= kOwn
                         ? own_accepts(p, plan->kernel - kOwn)
                         : library_.MatmulAlgoCheck(handle_, plan->matmul, plan->b, plan->a, plan->c, plan->c,
                                                    &choice.algo, &own) == CUBLAS_STATUS_SUCCESS &&
                               own.workspaceSize <= plan->workspace_bytes;
  own.algo = choice.algo;
  return works ? std::move(plan) : nullptr;
}

void Products::prepare(cudaStream_t stream, const Product& p, void* workspace) {
  const std::lock_guard lock(mutex_);
  const Key key = key_of(p), kind = kind_of(key);
  auto& known = plans_[key];
  if (known != nullptr) return;
  if (const auto choice = choices_.find(kind); choice != choices_.end())
    if ((known = adopted(choice->second, p)) != nullptr) return;
  std::unique_ptr<Plan> best;
  for (int kernel = kLibrary; kernel < kOwn + ways_; ++kernel) {
    if (kernel == kLibraryAndSums && p.a_sums == nullptr) continue;
    if (kernel == kLibrary && !sums_on_vectors(p)) continue;
    if (kernel >= kOwn && !own_accepts(p, kernel - kOwn)) continue;
    std::unique_ptr<Plan> plan = describe(p, kernel);
    if (kernel < kOwn)
      choose(*plan, stream, p, workspace);
    else
      time(*plan, {}, stream, p, workspace);
    if (best == nullptr || cost(*plan, p) < cost(*best, p)) best = std::move(plan);
  }
  if (std::isinf(best->ms))
    fail(ErrorCode::kInternal, "cuda: cuBLASLt has no algorithm for a product {} x {} x {} of {}", p.m, p.n,
         p.k, p.e4m3 ? "e4m3" : name_of(p.type));
  choices_[kind] = {best->algorithm.algo, best->kernel};
  ++timed_;
  known = std::move(best);
}

void Products::launch(cudaStream_t stream, const Product& p, void* workspace, std::byte* counter) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key_of(p));
  if (found == plans_.end()) fail(ErrorCode::kInternal, "cuda: a product was not prepared");
  const Plan& plan = *found->second;
  check(run(plan, plan.algorithm, stream, p, {workspace, counter}), "a product");
}

/// Captures launches into graphs that are thrown away, so no memory is touched.  Launches that cannot be
/// captured, and choices of another program, are skipped.
void Products::load_kernels(const std::stop_token& stop) const {
  std::map<Key, Choice> choices;
  {
    const std::lock_guard lock(mutex_);
    choices = choices_;
  }
  const Stream stream;
  for (const auto& [kind, choice] : choices) {
    if (stop.stop_requested()) return;
    if (choice.kernel >= kOwn) continue;
    const Product p = example_of(kind);
    const auto plan = adopted(choice, p);
    if (plan == nullptr) continue;
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "loading kernels");
    (void)run(*plan, plan->algorithm, stream, p, {anywhere()});
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
}

// ---- choices as text
// ------------------------------------------------------------------------------------------

std::string Products::header() const {
  return fmt::format("cublaslt {} {}, {} ways of own kernels", library_.GetVersion(), current_gpu().name,
                     ways_);
}

std::string Products::choices() const {
  const std::lock_guard lock(mutex_);
  std::string text = header() + "\n";
  for (const auto& [kind, choice] : choices_) {
    for (const int64_t number : kind) text += fmt::format("{} ", number);
    text += std::to_string(choice.kernel);
    for (const uint64_t word : choice.algo.data) text += fmt::format(" {:x}", word);
    text += "\n";
  }
  return text;
}

void Products::adopt(const std::string& choices) {
  std::istringstream lines(choices);
  std::string line;
  if (!std::getline(lines, line) || line != header()) return;
  std::map<Key, Choice> found;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Key kind{};
    Choice choice;
    for (int64_t& number : kind) words >> number;
    words >> choice.kernel >> std::hex;
    for (uint64_t& word : choice.algo.data) words >> word;
    if (words.fail() || choice.kernel < kLibrary)
      fail(ErrorCode::kInvalidData, "choices of cuBLASLt's algorithms: found \"{}\", expected 17 numbers",
           line);
    found[kind] = choice;
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [kind, choice] : found) choices_[kind] = choice;
  plans_.clear();
}

}  // namespace lathe::cuda
