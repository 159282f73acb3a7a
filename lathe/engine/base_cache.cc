#include "lathe/engine/base_cache.h"

#include <algorithm>

namespace lathe {

BaseCache::BaseCache(Session& session, const TokenizedDataset& data)
    : session_(session),
      data_(data),
      per_token_(session.model().per_token()),
      version_(session.parameters().frozen_version()),
      known_(static_cast<size_t>(data.size())),
      store_(bytes(session, data)) {}

uint64_t BaseCache::bytes(const Session& session, const TokenizedDataset& data) {
  const int64_t rows = session.model().per_token() ? data.tokens() : data.rows();
  return static_cast<uint64_t>(rows) * session.base_row_bytes();
}

BaseRows BaseCache::rows(const PackedBatch& batch) {
  if (version_ != session_.parameters().frozen_version()) {
    version_ = session_.parameters().frozen_version();
    known_.assign(known_.size(), false);
  }
  missing_.clear();
  for (const int32_t sample : batch.samples)
    if (!known_[static_cast<size_t>(sample)]) missing_.push_back(sample);
  if (!missing_.empty()) compute(missing_);

  gathered_.clear();
  for (const int32_t sample : batch.samples) {
    const auto rows = place(sample);
    gathered_.insert(gathered_.end(), rows.begin(), rows.end());
  }
  if (per_token_) gathered_.resize(static_cast<size_t>(batch.tokens) * session_.base_row_bytes());
  return gathered_;
}

/// The place of a sample's rows.
std::span<std::byte> BaseCache::place(int32_t sample) {
  const int64_t first = per_token_ ? data_.first_token(sample) : data_.first_row(sample);
  const int64_t count = per_token_ ? data_.length(sample) : data_.rows_of(sample);
  const size_t row = session_.base_row_bytes();
  return std::span(store_).subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
}

void BaseCache::compute(std::span<const int32_t> samples) {
  pack_batch(data_, samples, {session_.token_rounding()}, packed_);
  session_.run_base(packed_, computed_);
  auto from = computed_.begin();
  for (const int32_t sample : samples) {
    const auto to = place(sample);
    std::copy_n(from, to.size(), to.begin());
    from += static_cast<long>(to.size());
    known_[static_cast<size_t>(sample)] = true;
  }
}

}  // namespace lathe
