#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lathe {

/// Strings and their ids, as a trie over bytes whose edges lie in one hash table.  Immutable once built: for
/// any thread.
class ByteTrie {
 public:
  /// From a node by a byte.
  struct Edge {
    uint32_t key = kFree;  ///< the node << 8 | the byte
    uint32_t to = 0;
    int32_t id = -1;  ///< of the string that ends at `to`; -1: none does
  };
  static constexpr uint32_t kRoot = 0, kNowhere = ~uint32_t{0};

  /// text: not empty.  Of equal texts the last id counts.  Errors: kInvalidData if 2^24 nodes are reached.
  void insert(std::string_view text, int32_t id);
  /// Null if no string continues like this.
  const Edge* find(uint32_t node, uint8_t byte) const {
    const uint32_t key = node << 8 | byte;
    const Edge& edge = edges_[slot(key)];
    return edge.key == key ? &edge : nullptr;
  }
  /// The node that text leads to; kNowhere if no string begins with text.
  uint32_t node_of(std::string_view text) const;
  /// The id of text; -1 if it is none of the strings.
  int32_t id_of(std::string_view text) const;

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};

  size_t slot(uint32_t key) const {
    size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & (edges_.size() - 1);
    while (edges_[at].key != key && edges_[at].key != kFree) at = (at + 1) & (edges_.size() - 1);
    return at;
  }
  Edge& insert(uint32_t node, uint8_t byte);
  void grow();

  std::vector<Edge> edges_ = std::vector<Edge>(1024);  // open addressing, a power of two, at most half full
  size_t used_ = 0;
  uint32_t nodes_ = 1;
};

}  // namespace lathe
