#include "lathe/tokenizers/byte_trie.h"

#include "lathe/core/error.h"

namespace lathe {

void ByteTrie::insert(std::string_view text, int32_t id) {
  uint32_t node = kRoot;
  Edge* edge = nullptr;
  for (const char c : text) {
    edge = &insert(node, static_cast<uint8_t>(c));
    node = edge->to;
  }
  edge->id = id;
}

uint32_t ByteTrie::node_of(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char c : text) {
    const Edge* edge = find(node, static_cast<uint8_t>(c));
    if (edge == nullptr) return kNowhere;
    node = edge->to;
  }
  return node;
}

int32_t ByteTrie::id_of(std::string_view text) const {
  if (text.empty()) return -1;
  const uint32_t node = node_of(text.substr(0, text.size() - 1));
  const Edge* edge = node == kNowhere ? nullptr : find(node, static_cast<uint8_t>(text.back()));
  return edge == nullptr ? -1 : edge->id;
}

ByteTrie::Edge& ByteTrie::insert(uint32_t node, uint8_t byte) {
  if (2 * (used_ + 1) > edges_.size()) grow();
  const uint32_t key = node << 8 | byte;
  Edge& edge = edges_[slot(key)];
  if (edge.key == kFree) {
    // Node 2^24 - 1 would make kFree a key.
    if (nodes_ >= (1u << 24) - 1)
      fail(ErrorCode::kInvalidData,
           "vocabulary: its tokens have more than 2^24 different beginnings; no vocabulary that is meant so "
           "has; "
           "fetch the tokenizer files again");
    edge = {key, nodes_++, -1};
    ++used_;
  }
  return edge;
}

void ByteTrie::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[slot(edge.key)] = edge;
  }
}

}  // namespace lathe
