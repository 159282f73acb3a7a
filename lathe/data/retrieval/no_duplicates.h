#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lathe/data/torch_random.h"

namespace lathe {

/// Numbers for the texts of each sample, one for each column: equal texts have equal numbers, in whichever
/// column they stand.  columns: [columns][samples].  Errors: kUsage where columns differ in length.
std::vector<std::vector<int32_t>> text_numbers(std::span<const std::vector<std::string>> columns);

struct NoDuplicatesOptions {
  int batch_size = 8;
  bool drop_last = false;  ///< leaves out batches that are not full
  uint64_t seed = 42;      ///< of the epoch: the Trainer's seed + epoch
};

/// The batches of an epoch, in none of which a text stands in two samples: a sample that has one of the
/// batch's texts waits for a later batch.  Where equal texts leave fewer batches than samples / batch_size,
/// the samples are drawn anew, up to two times, until there are as many (of batches that are full, with
/// drop_last); `repeated` counts these batches.  A sample may hold one text twice.
/// texts: [samples], of each the numbers of its texts (text_numbers).
/// Errors: kUsage for a batch size below 1.
/// Source: NoDuplicatesBatchSampler of sentence-transformers 6, whose order this is.
struct NoDuplicatesBatches {
  std::vector<std::vector<int32_t>> batches;
  int64_t repeated = 0;  ///< of these, at the end
  int64_t missing = 0;   ///< batches that there should be in addition: too few different texts
};
NoDuplicatesBatches no_duplicates_batches(std::span<const std::vector<int32_t>> texts,
                                          const NoDuplicatesOptions& options);

}  // namespace lathe
