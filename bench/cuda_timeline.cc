// When every kernel and fill of a program ran on the GPU, also those within graphs.  A library that the CUDA
// driver loads into a program (CUDA_INJECTION64_PATH); bench/cuda_timeline.py does that and shows the result.
// To the file that LATHE_TIMELINE names: begin and end in ns, stream, blocks, threads of a block, name.
// Source: NVIDIA's CUPTI documentation, "Activity API".
#include <cupti.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#else
using Kernel = CUpti_ActivityKernel9;
#endif
using Fill = CUpti_ActivityMemset4;

constexpr size_t kBufferBytes = size_t{8} << 20;
std::FILE* file = nullptr;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(alignof(std::max_align_t), kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void write(uint64_t begin, uint64_t end, uint32_t stream, long long blocks, long long threads,
           const char* name) {
  std::fprintf(file, "%llu\t%llu\t%u\t%lld\t%lld\t%s\n", static_cast<unsigned long long>(begin),
               static_cast<unsigned long long>(end), stream, blocks, threads, name);
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* k = reinterpret_cast<const Kernel*>(record);
      write(k->start, k->end, k->streamId, 1LL * k->gridX * k->gridY * k->gridZ,
            1LL * k->blockX * k->blockY * k->blockZ, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* f = reinterpret_cast<const Fill*>(record);
      write(f->start, f->end, f->streamId, 0, 0, "fill");
    }
  }
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(1);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed)
    std::fprintf(stderr, "cuda_timeline: the timeline could not be written: is the disk full?\n");
}

}  // namespace

/// Called by the driver when it starts.
extern "C" int InitializeInjection() {
  const char* path = std::getenv("LATHE_TIMELINE");
  file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "cuda_timeline: LATHE_TIMELINE names no file that can be written\n");
    return 0;
  }
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMSET})
    if (const CUptiResult result = cuptiActivityEnable(kind); result != CUPTI_SUCCESS)
      std::fprintf(stderr, "cuda_timeline: CUPTI: status %d\n", result);
  std::atexit(finish);
  return 1;
}
